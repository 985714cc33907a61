/**
 * Fetches one URL to its end: redirects inside the origin, decompression, extraction while the
 * body arrives, one deadline over all. Every hop passes the address guard; what it refuses is a
 * definite answer of kind `blocked`. The worker calls it.
 */
import type { FetchSpec } from '../../shared/crawl.ts';
import type { FetchErrorBody, Result } from '../../shared/requests.ts';
import { AddressCache } from '../../shared/resolver.ts';
import { basicAuth } from './basic-auth.ts';
import { type Client, type ClientKind, Clients, send } from './clients.ts';
import { acceptedCodings, type Validators } from './content.ts';
import { CookieJar } from './cookies.ts';
import { type Answer, Exchange, type Hop } from './exchange.ts';
import { OddOrigins } from './odd-origins.ts';
import {
  type FailedOutcome,
  type FetchOutcome,
  type Follow,
  isTemporary,
  retryAfterMs,
  type SitemapOutcome,
  statusError,
  type Turn,
} from './outcome.ts';
import { type Page, pageReading } from './page.ts';
import type { ProxyServer } from './proxies.ts';
import type { Reading } from './reading.ts';
import { RedirectChain } from './redirects.ts';
import { type AskRobots, fetchRobots, type RobotsOutcome } from './robots-file.ts';
import { emptySitemap, sitemapReading } from './sitemap-body.ts';
import { askByWays, type Way } from './ways.ts';

const noLinks = new Uint8Array(0);
/** A lease of a robots.txt lasts twice as long. */
const robotsMsMax = 30_000;

type HopOptions<Body> = {
  readonly spec: FetchSpec;
  readonly signal: AbortSignal;
  readonly leftMs: number;
  /** Names and values in turn. */
  readonly headers: string[];
  readonly takeCookie: (header: string) => void;
  readonly onStart: (() => void) | undefined;
  readonly onAnswer: (() => void) | undefined;
  /** An answer has to begin by then. */
  readonly answerMs: number;
  readonly keepsIncomplete: boolean | undefined;
  readonly reading: Reading<Body>;
};

type AskOptions<Body> = {
  readonly reading: Reading<Body>;
  readonly spec: FetchSpec;
  readonly signal: AbortSignal;
  readonly context: FetchContext;
  readonly cookies: CookieJar;
  /** Of an earlier answer of this very URL. */
  readonly validators: Validators | undefined;
  /** The first answer has to begin by then. */
  readonly answerMs: number;
  /** Until the deadline of the whole fetch. */
  readonly leftMs: () => number;
  readonly turnOf: Follow;
};

/** What a fetch came to: a body, or what is said without one. */
type Ending<Body> =
  | { kind: 'body'; result: Result; body: Body }
  | { kind: 'over'; outcome: FetchOutcome };

/** What a fetch has beside its spec. */
export type FetchContext = {
  /** Its host was named by the operator: it may be told who asks. */
  readonly open?: boolean | undefined;
  /** Private blocks where the master found that host: it may be at these, too. */
  readonly blocks?: readonly string[] | undefined;
  /** The cookies of its visitor; else of this fetch alone. */
  readonly cookies?: CookieJar | undefined;
  /** Default: the spec's first. */
  readonly userAgent?: string | undefined;
  /** Of an earlier answer of the URL: 304 is then an answer, not an error. */
  readonly validators?: Validators | undefined;
  /** Whose they are, if it is not the URL itself. */
  readonly validatedUrl?: string | undefined;
  /** Go through this one; default: directly. */
  readonly proxy?: ProxyServer | undefined;
  /** Called when a request leaves, that of a redirect included. */
  readonly onStart?: (() => void) | undefined;
  /** Called when an answer begins, that of a redirect included. */
  readonly onAnswer?: (() => void) | undefined;
  /** Nobody knows whether the host answers: it has to begin within the time of a connection. */
  readonly isFirst?: boolean | undefined;
  /** Asked before a redirect is followed, and before a URL is asked for once more; without it all
   *  are. */
  readonly follow?: Follow | undefined;
  /** There will be no further attempt: what came of a body that was cut off is kept. */
  readonly last?: boolean | undefined;
};

/** What all ways to fetch take. `url`: absolute http or https. */
export type FetchRequest = [
  url: string,
  spec: FetchSpec,
  signal: AbortSignal,
  context?: FetchContext,
];

export class PageFetcher {
  readonly #clients: Clients;
  readonly #oddOrigins = new OddOrigins();

  /** `connections`: sockets per origin at once, ≥ 1. `addresses`: a cache over another resolver. */
  constructor(options: { connections: number; addresses?: AddressCache }) {
    const { connections, addresses = new AddressCache() } = options;
    const onLenient = (origin: string, isOdd: boolean) => this.#oddOrigins.answered(origin, isOdd);
    this.#clients = new Clients({ connections, addresses, onLenient });
  }

  /** Fetch a page. Network failures and statuses are values; rejects only with an AbortError when
   *  `signal` fires, at once. */
  async fetch(...request: FetchRequest): Promise<FetchOutcome> {
    const ending = await this.#follow(pageReading, request);
    return ending.kind === 'body' ? pageOutcome(ending.result, ending.body) : ending.outcome;
  }

  /** The same for a sitemap, of any type. Where it leads out of the origin, `redirectedTo` says. */
  async fetchSitemap(...request: FetchRequest): Promise<SitemapOutcome> {
    const ending = await this.#follow(sitemapReading, request);
    if (ending.kind === 'body') {
      const { result, body: sitemap } = ending;
      const isCut = sitemap.cut || result.incomplete;
      return { ok: true, result: isCut ? { ...result, cut: true } : result, sitemap };
    }
    const { outcome } = ending;
    return outcome.ok ? { ok: true, result: outcome.result, sitemap: emptySitemap } : outcome;
  }

  async #follow<Body>(
    reading: Reading<Body>,
    [url, spec, signal, context = {}]: FetchRequest,
  ): Promise<Ending<Body>> {
    const { cookies = new CookieJar(), proxy, validatedUrl = url, follow = freely } = context;
    // Without the time that requests wait for their turns.
    let started = performance.now();
    const turnOf: Follow = async (to) => {
      const askedAt = performance.now();
      const turn = await follow(to);
      signal.throwIfAborted();
      started += performance.now() - askedAt;
      return turn;
    };
    // What comes after the first answer has the time of the whole fetch.
    let answerMs = context.isFirst ? spec.connectTimeoutMs : Number.POSITIVE_INFINITY;
    const chain = new RedirectChain(url, spec.redirectsMax);
    const answer = (hop: Answer): Result => ({
      finalUrl: chain.url,
      status: hop.status,
      ...(hop.type !== undefined && { type: hop.type }),
      ...(hop.directives !== undefined && { directives: hop.directives }),
      bytes: hop.bytes,
      ms: Math.round((performance.now() - started) * 10) / 10,
      ...(hop.etag !== undefined && { etag: hop.etag }),
      ...(hop.lastModified !== undefined && { lastModified: hop.lastModified }),
      ...(hop.incomplete && { incomplete: true }),
    });
    for (;;) {
      const { target } = chain;
      const validators = chain.url === validatedUrl ? context.validators : undefined;
      const asked = await this.#ask(target, {
        ...{ reading, spec, signal, context, cookies, validators, answerMs, turnOf },
        leftMs: () => started + spec.timeoutMs - performance.now(),
      });
      answerMs = Number.POSITIVE_INFINITY;
      if (asked === 'later') return over(putOff);
      const { hop, cookie } = asked;
      if (hop.kind === 'failed') judgeSilence(proxy, hop.error);
      else {
        const refusal = proxy && judgeProxy(proxy, hop.status);
        if (refusal !== undefined) return over({ ok: false, error: refusal });
      }
      switch (hop.kind) {
        case 'failed':
          if (hop.error.kind === 'blocked')
            return over(definite(answer({ status: 0, bytes: 0 }), hop.error));
          return over({ ok: false, error: hop.error, ...(hop.isFinal && { isFinal: true }) });
        case 'body':
          return { kind: 'body', result: answer(hop), body: hop.body };
        case 'answer':
          if (hop.status === 304 && validators) return over(definite(answer(hop), undefined));
          return over(answerOutcome(answer(hop), hop.retryAfter));
        case 'redirect': {
          const redirected = answer(hop);
          const step = chain.next(hop.location, cookie, (to) => cookies.header(to, Date.now()));
          if (step.kind === 'end')
            return over(definite(redirected, { kind: 'redirects', message: step.message }));
          if (step.kind === 'leave') return over(leftBy(redirected, step.target));
          const turn = await turnOf(chain.url);
          if (turn === 'later') return over(putOff);
          if (turn === 'leave') return over(leftBy(redirected, chain.url));
          break;
        }
        default:
          return hop satisfies never;
      }
    }
  }

  /** Asks for one URL by the ways that its host takes. `later`: it must not be asked for a while. */
  #ask<Body>(target: URL, options: AskOptions<Body>): ReturnType<typeof askByWays<Body>> {
    const { reading, spec, signal, context, cookies, validators, leftMs, turnOf } = options;
    // One that is asked by another way has answered.
    let { answerMs } = options;
    const { open = false, userAgent = spec.userAgent, blocks, proxy, last } = context;
    const { onStart, onAnswer } = context;
    const { allowPrivate: allow, http2, connectTimeoutMs: connectMs } = spec;
    const kind: ClientKind = { allow, blocks, proxy, http2, connectMs };
    const { accept } = reading;
    const takeCookie = (header: string) => cookies.take(header, target, Date.now());
    const ask = ({ isLenient, isApart, cookie }: Way): Promise<Hop<Body>> => {
      const said = { spec, open, userAgent, accept, cookie, validators };
      const hop = {
        ...{ spec, signal, leftMs: leftMs(), headers: requestHeaders(target, said), takeCookie },
        ...{ onStart, onAnswer, answerMs, reading, keepsIncomplete: last },
      };
      answerMs = Number.POSITIVE_INFINITY;
      if (isApart) return this.#clients.apart(kind, (client) => hopTo(client, target, hop));
      return hopTo(this.#clients.of({ ...kind, isLenient }), target, hop);
    };
    const isLenient = this.#oddOrigins.has(target.origin);
    const way = { isLenient, isApart: false, cookie: cookies.header(target, Date.now()) };
    return askByWays(way, {
      ask,
      turn: () => turnOf(target.href),
      sharesConnections: http2,
      onUnreadable: () => this.#oddOrigins.add(target.origin),
      onCookiesRefused: () => cookies.refuseSiblings(target),
    });
  }

  /** Fetch a robots.txt; rejects as `fetch` does, and keeps to the same addresses. */
  async fetchRobots(...[url, spec, signal, context = {}]: FetchRequest): Promise<RobotsOutcome> {
    const { blocks, proxy, onStart, onAnswer, follow = freely } = context;
    const own = new URL(url).origin;
    const { http2, connectTimeoutMs: connectMs, allowPrivate: allow } = spec;
    const timeoutMs = Math.min(spec.timeoutMs, robotsMsMax);
    const answerMs = context.isFirst ? connectMs : timeoutMs;
    const headers = ['user-agent', spec.userAgent, 'accept', 'text/plain,*/*;q=0.5'];
    const kindOf = (target: URL): ClientKind => {
      // Only the seed's own host is where the seed is.
      const isOwn = target.origin === own;
      return { allow, blocks: isOwn ? blocks : undefined, proxy, http2, connectMs };
    };
    const ask: AskRobots = (target, exchange) =>
      exchange((handler) => {
        send(this.#clients.of(kindOf(target)), target, headers, handler, timeoutMs);
      });
    const askApart: AskRobots = (target, exchange) =>
      this.#clients.apart(kindOf(target), (client) =>
        exchange((handler) => send(client, target, headers, handler, timeoutMs)),
      );
    const askLenient: AskRobots = (target, exchange) =>
      exchange((handler) => {
        const client = this.#clients.of({ ...kindOf(target), isLenient: true });
        send(client, target, headers, handler, timeoutMs);
      });
    const ways = { ask, askLenient, ...(http2 && { askApart }) };
    const patience = { timeoutMs, answerMs };
    const events = { onStart, onAnswer, follow };
    const options = { ...patience, ...events, signal, oddOrigins: this.#oddOrigins };
    const outcome = await fetchRobots(url, ways, options);
    if (!outcome.ok) judgeSilence(proxy, outcome.error);
    const refusal = outcome.ok && proxy ? judgeProxy(proxy, outcome.status) : undefined;
    return refusal === undefined ? outcome : { ok: false, error: refusal };
  }

  /** Ends all fetches that are still running with a failure, and the sockets. */
  close(): Promise<void> {
    return this.#clients.close();
  }
}

/** One request; rejects only with an AbortError when `signal` fires. */
function hopTo<Body>(client: Client, url: URL, options: HopOptions<Body>): Promise<Hop<Body>> {
  const { spec, signal, leftMs, answerMs, headers, takeCookie, onStart } = options;
  const { reading, keepsIncomplete } = options;
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(abortError(signal));
      return;
    }
    const exchange = new Exchange({
      url: url.href,
      spec,
      reading,
      takeCookie,
      settle,
      keepsIncomplete,
      onStart,
      onAnswer: () => {
        if (answerMs < leftMs) expireIn(leftMs - answerMs);
        options.onAnswer?.();
      },
    });
    let timer: NodeJS.Timeout | undefined;
    const expireIn = (ms: number) => {
      clearTimeout(timer);
      timer = setTimeout(() => exchange.expire(), Math.max(ms, 1));
    };
    expireIn(Math.min(leftMs, answerMs));
    const onAbort = (): void => {
      exchange.cancel();
      settled();
      reject(abortError(signal));
    };
    function settled(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    }
    function settle(hop: Hop<Body>): void {
      settled();
      resolve(hop);
    }
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      send(client, url, headers, exchange, leftMs);
    } catch (error) {
      exchange.fail(error);
    }
  });
}

const freely = (): Promise<Turn> => Promise.resolve('go');

const putOff: FailedOutcome = {
  ok: false,
  error: { kind: 'redirects', message: 'the host must not be asked for a while' },
  isPutOff: true,
};

/** A redirect that is not followed: its target is a link. */
function leftBy(result: Result, target: string): FetchOutcome {
  return {
    ok: true,
    result: { ...result, redirectedTo: target },
    images: [],
    links: Buffer.from(target, 'latin1'),
  };
}

/** Names and values in turn. `open`: the host of a seed, which may be told who asks. */
function requestHeaders(
  url: URL,
  options: {
    spec: FetchSpec;
    open: boolean;
    userAgent: string;
    accept: string;
    /** Value of the Cookie header. */
    cookie: string;
    validators: Validators | undefined;
  },
): string[] {
  const { spec, open, userAgent, accept, cookie, validators } = options;
  const headers = ['user-agent', userAgent, 'accept-encoding', acceptedCodings];
  const hasUser = url.username !== '' || url.password !== '';
  if (hasUser) headers.push('authorization', basicAuth(url));
  let accepts = false;
  for (const [name, value] of spec.headers) {
    const isAuthorization = /^authorization$/i.test(name);
    if (isAuthorization && (hasUser || !open)) continue;
    accepts ||= /^accept$/i.test(name);
    headers.push(name, value);
  }
  if (!accepts) headers.push('accept', accept);
  if (cookie !== '') headers.push('cookie', cookie);
  if (validators?.etag) headers.push('if-none-match', validators.etag);
  if (validators?.lastModified) headers.push('if-modified-since', validators.lastModified);
  return headers;
}

/** What an answer says of the proxy that it came through: undefined, or why it did not pass on what
 *  was asked. */
function judgeProxy(proxy: ProxyServer, status: number): FetchErrorBody | undefined {
  if (status !== 407) {
    proxy.worked();
    return undefined;
  }
  const message = 'the proxy wants other credentials';
  proxy.failed(message, performance.now());
  return { kind: 'proxy', message };
}

/** A host that never answers may be the fault of the proxy between; it counts as a refusal. */
function judgeSilence(proxy: ProxyServer | undefined, { kind }: FetchErrorBody): void {
  if (kind === 'timeout') proxy?.refused('no host answers through the proxy', performance.now());
}

function over<Body>(outcome: FetchOutcome): Ending<Body> {
  return { kind: 'over', outcome };
}

function pageOutcome(result: Result, page: Page): FetchOutcome {
  const { title, images, imagesCut, dataImages, links, linksCut } = page.extract;
  const { directives, nofollowed, refresh, canonical } = page.extract;
  return {
    ok: true,
    result: {
      ...result,
      charset: page.charset,
      ...(title !== undefined && { title }),
      ...(page.cut && { cut: true }),
      ...(linksCut > 0 && { linksCut }),
      ...(imagesCut > 0 && { imagesCut }),
      ...(dataImages > 0 && { dataImages }),
      ...(directives !== undefined && { directives }),
      ...(nofollowed > 0 && { nofollowed }),
      ...(refresh !== undefined && { refresh }),
      ...(canonical !== undefined && { canonical }),
    },
    images,
    links,
  };
}

function answerOutcome(result: Result, retryAfter: string | undefined): FetchOutcome {
  const { status } = result;
  if (isTemporary(status)) {
    const waitMs = retryAfterMs(retryAfter, Date.now());
    const error = statusError(status);
    return waitMs === undefined ? { ok: false, error } : { ok: false, error, retryAfterMs: waitMs };
  }
  return definite(result, status >= 300 ? statusError(status) : undefined);
}

function definite(result: Result, error: FetchErrorBody | undefined): FetchOutcome {
  return {
    ok: true,
    result: error === undefined ? result : { ...result, error },
    images: [],
    links: noLinks,
  };
}

function abortError(signal: AbortSignal): unknown {
  const reason: unknown = signal.reason;
  const isOwn = reason instanceof Error && reason.name === 'AbortError';
  return isOwn ? reason : new DOMException('The fetch was aborted', 'AbortError');
}
