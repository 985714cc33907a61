/**
 * Fetches a robots.txt as it is: any status, up to 500 KiB, five redirects over hosts, too. What it
 * means is the master's to say. The fetcher lends its dispatcher, so that sockets and the guard of
 * addresses are the same as for pages. Source: RFC 9309, sections 2.3.1 and 2.5.
 */
import { limits } from '../../shared/protocol.ts';
import { canonicalUrl } from '../../shared/url.ts';
import { CodingError, codingsOf, fieldOf, fieldsOf, type Headers } from './content.ts';
import { type Controller, unwanted } from './exchange.ts';
import { Inflater } from './inflate.ts';
import type { OddOrigins } from './odd-origins.ts';
import {
  type FailedOutcome,
  type Failure,
  type Follow,
  failureOf,
  inflatingError,
  retryAfterMs,
} from './outcome.ts';
import { isRedirect } from './redirects.ts';

export type RobotsFile = {
  /** Of the last hop. */
  readonly status: number;
  readonly body: Uint8Array;
  readonly cacheControl?: string;
  readonly retryAfterMs?: number;
};
export type RobotsOutcome = ({ ok: true } & RobotsFile) | FailedOutcome;

/** Begins a request; what comes of it goes to the handler. */
export type Dispatch = (handler: RobotsExchange) => void;
/** Runs one exchange over a connection to `url`. */
export type AskRobots = (
  url: URL,
  exchange: (dispatch: Dispatch) => Promise<RobotsHop>,
) => Promise<RobotsHop>;
export type RobotsWays = {
  readonly ask: AskRobots;
  /** On a connection of its own, where a 421 is to be asked again. */
  readonly askApart?: AskRobots;
  /** By a client that puts the head of the answer right. */
  readonly askLenient: AskRobots;
};

export type RobotsOptions = {
  readonly timeoutMs: number;
  /** Of each hop: its answer has to begin by then. */
  readonly answerMs: number;
  readonly signal: AbortSignal;
  /** A request leaves; its answer begins. */
  readonly onStart: (() => void) | undefined;
  readonly onAnswer: (() => void) | undefined;
  readonly follow: Follow;
  /** Asked leniently. */
  readonly oddOrigins: OddOrigins;
};

const redirectsMax = 5;

/** Fetches `url`. Failures are values; rejects only when `signal` fires. */
export async function fetchRobots(
  url: string,
  { ask, askApart, askLenient }: RobotsWays,
  options: RobotsOptions,
): Promise<RobotsOutcome> {
  const { oddOrigins } = options;
  let giveUpAt = performance.now() + options.timeoutMs;
  let target = new URL(url);
  /** The way that the same URL is asked for once more. */
  let otherWay: AskRobots | undefined;
  for (let hops = 0; ; ) {
    const way = otherWay ?? (oddOrigins.has(target.origin) ? askLenient : ask);
    const timeoutMs = giveUpAt - performance.now();
    const answer = await way(target, (dispatch) => hop(dispatch, { ...options, timeoutMs }));
    const isUnreadable = !answer.ok && answer.isUnreadable === true && way === ask;
    if (isUnreadable) oddOrigins.add(target.origin);
    const isMisdirected = answer.ok && answer.status === 421 && way === ask;
    otherWay = isUnreadable ? askLenient : isMisdirected ? askApart : undefined;
    let next = target;
    if (otherWay === undefined) {
      if (!answer.ok) {
        const { error, isFinal } = answer;
        return { ok: false, error, ...(isFinal && { isFinal }) };
      }
      const { location, ...file } = answer;
      const moved = location && resolve(location, target);
      if (!moved || hops >= redirectsMax) return file;
      next = moved;
      hops++;
    }
    const askedAt = performance.now();
    const turn = await options.follow(next.href);
    options.signal.throwIfAborted();
    // The wait for its turn does not count.
    giveUpAt += performance.now() - askedAt;
    if (turn !== 'go') {
      const host = next === target ? 'its host' : 'the host that it is redirected to';
      const message = `robots.txt: ${host} must not be asked now`;
      return { ok: false, error: { kind: 'redirects', message } };
    }
    target = next;
  }
}

export type RobotsHop = ({ ok: true; location?: string } & RobotsFile) | ({ ok: false } & Failure);

function hop(
  dispatch: Dispatch,
  { timeoutMs, answerMs, signal, onStart, onAnswer }: RobotsOptions,
): Promise<RobotsHop> {
  return new Promise((settle, reject) => {
    signal.throwIfAborted();
    let timer: NodeJS.Timeout | undefined;
    const expireIn = (ms: number) => {
      clearTimeout(timer);
      timer = setTimeout(() => exchange.expire(), Math.max(ms, 1));
    };
    const onAbort = (): void => {
      clearTimeout(timer);
      exchange.cancel();
      reject(signal.reason);
    };
    const exchange = new RobotsExchange(
      (answer) => {
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        settle(answer);
      },
      { onStart, onAnswer: answered },
    );
    function answered(): void {
      if (answerMs < timeoutMs) expireIn(timeoutMs - answerMs);
      onAnswer?.();
    }
    expireIn(Math.min(timeoutMs, answerMs));
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      dispatch(exchange);
    } catch (error) {
      exchange.fail(error);
    }
  });
}

/** One request and its answer, as undici's dispatcher calls it back; settles once. */
export class RobotsExchange {
  readonly #settleWith: (hop: RobotsHop) => void;
  readonly #events: Pick<RobotsOptions, 'onStart' | 'onAnswer'>;
  readonly #chunks: Uint8Array[] = [];
  #bytes = 0;
  #state: 'waiting' | 'reading' | 'settled' = 'waiting';
  #controller: Controller | undefined;
  #answer: Omit<Extract<RobotsHop, { ok: true }>, 'body'> | undefined;
  #inflater: Inflater | undefined;

  constructor(
    settle: (hop: RobotsHop) => void,
    events: Pick<RobotsOptions, 'onStart' | 'onAnswer'>,
  ) {
    this.#settleWith = settle;
    this.#events = events;
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    if (this.#state === 'settled') controller.abort(unwanted);
    else this.#events.onStart?.();
  }

  onResponseStart(_controller: Controller, status: number, headers: Headers): void {
    if (this.#state !== 'waiting' || status < 200) return;
    this.#state = 'reading';
    this.#events.onAnswer?.();
    const cacheControl = fieldsOf(headers, 'cache-control').join(', ').slice(0, 1024);
    const waitMs = retryAfterMs(fieldOf(headers, 'retry-after'), Date.now());
    const location = isRedirect(status) ? fieldOf(headers, 'location') : undefined;
    this.#answer = {
      ok: true,
      status,
      ...(cacheControl === '' ? {} : { cacheControl }),
      ...(waitMs === undefined ? {} : { retryAfterMs: waitMs }),
      ...(location === undefined ? {} : { location }),
    };
    const codings = codingsOf(headers);
    if (codings === undefined) this.fail(new CodingError('more than two content codings'));
    else if (codings === 'unknown' || codings.length > 0) {
      this.#inflater = new Inflater(codings, {
        data: (chunk) => this.#take(chunk),
        end: () => this.#end(),
        error: (error) => this.fail(inflatingError(error, this.#bytes)),
        drain: () => this.#controller?.resume(),
      });
    }
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    if (this.#state !== 'reading') return;
    if (this.#inflater === undefined) this.#take(chunk);
    else if (!this.#inflater.write(chunk)) this.#controller?.pause();
  }

  onResponseEnd(): void {
    this.#controller = undefined;
    if (this.#state !== 'reading') return;
    if (this.#inflater === undefined) this.#end();
    else this.#inflater.end();
  }

  onResponseError(_controller: Controller, error: Error): void {
    this.#controller = undefined;
    this.fail(error);
  }

  expire(): void {
    this.#settle({ ok: false, error: { kind: 'timeout', message: 'took too long' } });
  }

  /** Nobody waits for it any more; it does not settle. */
  cancel(): void {
    this.#state = 'settled';
    this.#close();
  }

  fail(error: unknown): void {
    this.#settle({ ok: false, ...failureOf(error, this.#state !== 'waiting') });
  }

  #take(chunk: Uint8Array): void {
    if (this.#state !== 'reading') return;
    const room = limits.robotsBytesMax - this.#bytes;
    this.#chunks.push(Buffer.from(chunk.subarray(0, room)));
    this.#bytes += Math.min(chunk.length, room);
    if (chunk.length > room) this.#end('cut');
  }

  #end(how: 'whole' | 'cut' = 'whole'): void {
    if (this.#answer === undefined) return;
    const read = Buffer.concat(this.#chunks);
    // Half a path would be another rule.
    const lastEnd = Math.max(read.lastIndexOf(0x0a), read.lastIndexOf(0x0d));
    const body = how === 'cut' ? read.subarray(0, lastEnd + 1) : read;
    this.#settle({ ...this.#answer, body });
  }

  #settle(hop: RobotsHop): void {
    if (this.#state === 'settled') return;
    this.#state = 'settled';
    this.#close();
    this.#settleWith(hop);
  }

  #close(): void {
    this.#inflater?.close();
    // If the body is still coming, the connection cannot be used again anyway.
    this.#controller?.abort(unwanted);
    this.#controller = undefined;
  }
}

function resolve(location: string, base: URL): URL | undefined {
  return URL.canParse(location, base.href) ? canonicalUrl(new URL(location, base).href) : undefined;
}
