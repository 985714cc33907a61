/** One request of a fetch, with its deadlines; the fetcher makes one for each URL and way. */
import { AwakeTimer, awakeMs } from '../../shared/awake.ts';
import type { FetchSpec, TaskRequest } from '../../shared/crawl.ts';
import type { BodySeat } from '../body-room.ts';
import { type Client, send } from './clients.ts';
import { Exchange, type Hop } from './exchange.ts';
import type { FetchPlan } from './fetch-plan.ts';
import type { Recording } from './recording.ts';

type HopOptions<Body> = {
  readonly plan: FetchPlan<Body>;
  readonly spec: FetchSpec;
  readonly signal: AbortSignal;
  /** Time until it is given up, in ms. */
  readonly leftMs: number;
  /** Time until an answer must begin, in ms. */
  readonly answerMs: number;
  /** Alternating names and values. */
  readonly headers: string[];
  /** Undefined: a GET. */
  readonly request: TaskRequest | undefined;
  readonly takeCookie: (header: string) => void;
  readonly keepsIncomplete: boolean;
  readonly onStart: (() => void) | undefined;
  readonly onAnswer: (() => void) | undefined;
  readonly recording: Recording | undefined;
  readonly seat: Pick<BodySeat, 'took'> | undefined;
  /** The answer was not read for so long, for want of room. */
  readonly onHeldFor: (ms: number) => void;
};

/** How long the end of a body that nobody needs may take, to keep its connection. Browsers follow a
 *  redirect at its head, and some hosts never end such an answer. */
const unreadMsMax = 1_000;

/** Rejects only with an AbortError when `signal` fires. */
export function hopTo<Body>(
  client: Client,
  url: URL,
  options: HopOptions<Body>,
): Promise<Hop<Body>> {
  const { plan, spec, signal, leftMs, answerMs, headers, takeCookie } = options;
  const { keepsIncomplete, onStart, request } = options;
  let endsAt = awakeMs() + leftMs;
  let isSettled = false;
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(abortError(signal));
      return;
    }
    const exchange = new Exchange({
      url: url.href,
      spec,
      plan,
      takeCookie,
      settle,
      keepsIncomplete,
      onStart,
      record: options.recording?.begin(request?.method ?? 'GET', url, headers),
      onAnswer: () => {
        if (answerMs < leftMs) expireIn(leftMs - answerMs);
        options.onAnswer?.();
      },
      seat: options.seat,
      onHeld: () => {
        const heldAt = awakeMs();
        timer?.clear();
        return () => {
          const heldMs = awakeMs() - heldAt;
          endsAt += heldMs;
          options.onHeldFor(heldMs);
          if (!isSettled) expireIn(endsAt - awakeMs());
        };
      },
      onUnread: () => expireIn(Math.min(unreadMsMax, endsAt - awakeMs())),
    });
    let timer: AwakeTimer | undefined;
    const expireIn = (ms: number) => {
      timer?.clear();
      timer = new AwakeTimer(() => exchange.expire(), Math.max(ms, 1));
    };
    expireIn(Math.min(leftMs, answerMs));
    const onAbort = (): void => {
      exchange.cancel();
      settled();
      reject(abortError(signal));
    };
    function settled(): void {
      isSettled = true;
      timer?.clear();
      signal.removeEventListener('abort', onAbort);
    }
    function settle(hop: Hop<Body>): void {
      settled();
      resolve(hop);
    }
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      send(client, { url, headers, request }, exchange, leftMs);
    } catch (error) {
      exchange.fail(error);
    }
  });
}

function abortError(signal: AbortSignal): unknown {
  const reason: unknown = signal.reason;
  const isOwn = reason instanceof Error && reason.name === 'AbortError';
  return isOwn ? reason : new DOMException('The fetch was aborted', 'AbortError');
}
