/**
 * The end of a fetch, as the fetcher reports it. Each kind of task interprets it; `outcomeOf` is
 * the interpretation of most kinds, except for the body.
 */
import type { FetchErrorBody, Result } from '../../shared/requests.ts';
import type { Headers } from './content.ts';
import {
  type FailedOutcome,
  type Failure,
  type FetchOutcome,
  isTemporary,
  retryAfterMs,
  statusError,
} from './outcome.ts';

type Answered = { readonly result: Result; readonly headers: Headers };

export type Fetched<Body> =
  | ({ readonly kind: 'body'; readonly body: Body } & Answered)
  /** Its body was not read. */
  | ({ readonly kind: 'answer' } & Answered)
  /** 304 to the validators that were sent. */
  | ({ readonly kind: 'unchanged' } & Answered)
  /** A redirect that is not followed. Its target, canonical, is a link like any other. */
  | ({ readonly kind: 'left'; readonly target: string } & Answered)
  /** A redirect that cannot be followed, and the reason. */
  | ({ readonly kind: 'stuck'; readonly message: string } & Answered)
  /** The next request must not be made for a while. */
  | { readonly kind: 'put-off' }
  /** No answer: `result` has status 0, and the requested URL. */
  | { readonly kind: 'failed'; readonly result: Result; readonly failure: Failure };

const noLinks = new Uint8Array(0);
const putOff: FailedOutcome = {
  ok: false,
  error: { kind: 'redirects', message: 'the host must not be asked for a while' },
  isPutOff: true,
};

/** Returns the outcome of a URL, without its body: a definite answer is reported, with an error if
 *  it is not a success; a temporary one is a failure. */
export function outcomeOf(fetched: Fetched<unknown>): FetchOutcome {
  switch (fetched.kind) {
    case 'body':
    case 'answer':
      return answerOutcome(fetched);
    case 'unchanged':
      return definite(fetched.result);
    case 'left': {
      const { result, target } = fetched;
      const links = Buffer.from(target, 'latin1');
      return { ok: true, result: { ...result, redirectedTo: target }, images: [], links };
    }
    case 'stuck':
      return definite(fetched.result, { kind: 'redirects', message: fetched.message });
    case 'put-off':
      return putOff;
    case 'failed': {
      const { result, failure } = fetched;
      if (failure.error.kind === 'blocked') return definite(result, failure.error);
      return failedOutcome(failure);
    }
    default:
      return fetched satisfies never;
  }
}

export function failedOutcome({ error, isFinal }: Failure): FailedOutcome {
  return { ok: false, error, ...(isFinal && { isFinal }) };
}

function answerOutcome({ result, headers }: Answered): FetchOutcome {
  const { status } = result;
  const error = status >= 300 ? statusError(status) : undefined;
  if (error === undefined || !isTemporary(status)) return definite(result, error);
  const waitMs = retryAfterMs(headers, Date.now());
  return waitMs === undefined ? { ok: false, error } : { ok: false, error, retryAfterMs: waitMs };
}

function definite(result: Result, error?: FetchErrorBody): FetchOutcome {
  return {
    ok: true,
    result: error === undefined ? result : { ...result, error },
    images: [],
    links: noLinks,
  };
}
