/**
 * A robots.txt: reported unchanged, with any status; the master interprets it. It may be redirected
 * to other hosts. Source: PROTOCOL.md [T-17]; RFC 9309, 2.3.1 and 2.5.
 */
import { isPageStatus, limits } from '../../shared/protocol.ts';
import { fieldsOf, type Headers } from '../fetch/content.ts';
import type { BodyReader } from '../fetch/fetch-plan.ts';
import { type Fetched, failedOutcome } from '../fetch/fetched.ts';
import { type FailedOutcome, retryAfterMs } from '../fetch/outcome.ts';
import { statement } from '../statements.ts';
import type { Kind } from './kind.ts';

type RobotsFile = {
  readonly ok: true;
  /** Of the last hop. */
  readonly status: number;
  /** Of a success, else empty. */
  readonly body: Uint8Array;
  readonly cacheControl?: string;
  readonly retryAfterMs?: number;
};

const cacheControlChars = 1_024;
const noBody = new Uint8Array(0);
const mustWait: FailedOutcome = {
  ok: false,
  error: { kind: 'redirects', message: 'robots.txt: the next host must not be asked now' },
  // It is no answer: to be told of one, the master would take it for a file that is missing.
  isPutOff: true,
};

export const robots: Kind<Uint8Array, RobotsFile> = {
  // All pages of its host wait for it.
  isUrgent: true,
  plan: {
    accept: 'text/plain,*/*;q=0.5',
    isPlain: true,
    // A lease of a robots.txt lasts twice as long.
    timeoutMsMax: 30_000,
    redirectsMax: 5,
    followsAnywhere: true,
    needsWhole: true,
    open: ({ status }) => (isPageStatus(status) ? new RobotsReader() : undefined),
  },
  outcome: (fetched) => {
    switch (fetched.kind) {
      case 'body':
        return fileOf(fetched, fetched.body);
      case 'answer':
      case 'unchanged':
      case 'stuck':
        return fileOf(fetched, noBody);
      case 'left':
      case 'put-off':
        return mustWait;
      case 'failed':
        return failedOutcome(fetched.failure);
      default:
        return fetched satisfies never;
    }
  },
  statements: ({ task, lease }, { ok: _, ...file }) => [
    statement('task.robots', { task, lease, ...file }, file.body.length),
  ],
};

function fileOf(
  { result, headers }: Extract<Fetched<unknown>, { headers: Headers }>,
  body: Uint8Array,
): RobotsFile {
  const cacheControl = fieldsOf(headers, 'cache-control').join(', ').slice(0, cacheControlChars);
  const waitMs = retryAfterMs(headers, Date.now());
  return {
    ok: true,
    status: result.status,
    body,
    ...(cacheControl === '' ? {} : { cacheControl }),
    ...(waitMs === undefined ? {} : { retryAfterMs: waitMs }),
  };
}

/** Keeps the first 500 KiB unchanged; of a longer file the whole lines. */
class RobotsReader implements BodyReader<Uint8Array> {
  readonly #chunks: Uint8Array[] = [];
  #bytes = 0;
  #isCut = false;

  get bytes(): number {
    return this.#bytes;
  }

  write(chunk: Uint8Array): 'more' | 'enough' {
    const room = limits.robotsBytesMax - this.#bytes;
    this.#isCut = chunk.length > room;
    this.#chunks.push(Buffer.from(chunk.subarray(0, room)));
    this.#bytes += Math.min(chunk.length, room);
    return this.#isCut ? 'enough' : 'more';
  }

  end(): Uint8Array {
    const read = Buffer.concat(this.#chunks);
    if (!this.#isCut) return read;
    // Half a path would be another rule.
    return read.subarray(0, Math.max(read.lastIndexOf(0x0a), read.lastIndexOf(0x0d)) + 1);
  }
}
