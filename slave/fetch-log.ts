/**
 * The slave's debug lines: what each fetch did. Made only for `--log-level debug`; without it
 * nothing is listened to, and no text is built.
 */
import type { Logger } from '../shared/log.ts';
import type { TaskPush } from '../shared/protocol.ts';
import { sentChannel } from './fetch/connection.ts';
import type { FetchOutcome } from './fetch/outcome.ts';

const lineFeed = 10;
/** URLs whose connection is remembered: those under way, and some of other clients. */
const urlsMax = 4_096;

export class FetchLog {
  readonly #log: Logger;
  readonly #sockets = new WeakSet<object>();
  /** Whether the last request of a URL went over a connection that had served another. */
  readonly #reused = new Map<string, boolean>();
  readonly #onSent = (message: unknown) => this.#sent(message);

  private constructor(log: Logger) {
    this.#log = log;
    sentChannel.subscribe(this.#onSent);
  }

  /** Undefined: the level of the log is higher. */
  static of(log: Logger): FetchLog | undefined {
    return log.isLevelEnabled('debug') ? new FetchLog(log) : undefined;
  }

  /** A fetch has ended. `ms`: from its begin, waits for turns included. */
  ended({ url, attempt, kind }: TaskPush, outcome: unknown, ms: number): void {
    const isReused = this.#reused.get(url);
    this.#reused.delete(url);
    const fields = {
      url,
      ...(kind !== undefined && { kind }),
      ...fieldsOf(outcome as Partial<FetchOutcome>),
      ms: Math.round(ms),
      attempt,
      ...(isReused !== undefined && { connection: isReused ? 'reused' : 'new' }),
    };
    this.#log.debug(fields, 'fetched');
  }

  aborted({ url, attempt }: TaskPush, ms: number): void {
    this.#reused.delete(url);
    this.#log.debug({ url, attempt, ms: Math.round(ms) }, 'fetch cancelled');
  }

  close(): void {
    sentChannel.unsubscribe(this.#onSent);
  }

  #sent(message: unknown): void {
    const { request, socket } = message as {
      readonly request?: { readonly origin?: unknown; readonly path?: unknown };
      readonly socket?: object;
    };
    if (request === undefined || socket === undefined) return;
    const isReused = this.#sockets.has(socket);
    const url = `${request.origin}${request.path}`;
    // A connection that undici was given tells it again.
    if (isReused && this.#reused.has(url)) return;
    this.#sockets.add(socket);
    if (this.#reused.size >= urlsMax) this.#reused.clear();
    this.#reused.set(url, isReused);
  }
}

function fieldsOf(outcome: Partial<FetchOutcome>): Record<string, unknown> {
  const { error } = outcome as { error?: { kind: string; message: string } };
  if (error !== undefined) return { error: `${error.kind}: ${error.message}` };
  const { result, images, links } = outcome as Partial<Extract<FetchOutcome, { ok: true }>>;
  const failure = result?.error;
  return {
    ...(result !== undefined && { status: result.status, bytes: result.bytes }),
    ...(failure !== undefined && { error: `${failure.kind}: ${failure.message}` }),
    ...(links !== undefined && { links: countOf(links) }),
    ...(images !== undefined && { images: images.length }),
  };
}

/** URLs that are separated by line feeds. */
function countOf(links: Uint8Array): number {
  if (links.length === 0) return 0;
  let count = links.at(-1) === lineFeed ? 0 : 1;
  for (const byte of links) if (byte === lineFeed) count++;
  return count;
}
