/**
 * One request and its plain answer, read as the bytes come: the controller of its handler. An
 * answer that turns out not to be plain is read by undici from where its reading stopped. The plain
 * connection makes it.
 *
 *     head ─▶ body: so many bytes | chunks | to the end of the connection ─▶ over
 *       └────────────┴── not plain ─▶ undici's
 */
import type { Asked, Controller, Handler } from './connection.ts';
import type { Headers } from './content.ts';
import { gaveUpWaiting, isCutOff, requestTimeout, StaleError } from './outcome.ts';
import { PlainChunks } from './plain-chunks.ts';
import { mayBecomePlain, type PlainHead, plainHeadBytesMax, readPlainHead } from './plain-head.ts';

type AnswerEvents = {
  readonly onAbort: (answer: PlainAnswer, reason: Error) => void;
  readonly onResume: () => void;
};

const none: Buffer = Buffer.alloc(0);
const emptyLine = '\r\n\r\n';
/** A head that comes in more pieces is undici's. */
const headReadsMax = 8;

export class PlainAnswer implements Controller {
  readonly asked: Asked;
  readonly #handler: Handler;
  readonly #events: AnswerEvents;
  #head: PlainHead | undefined;
  #headReads = 0;
  /** As it came, while undici may have to read it. */
  #headBytes = none;
  /** Bytes that are not yet read. */
  #rest = none;
  /** Missing bytes of the body. */
  #left = 0;
  #chunks: PlainChunks | undefined;
  #isReused = false;
  #isReading = false;
  #isEnded = false;
  /** undici's controller, once undici reads the answer. */
  #library: Controller | undefined;
  aborted = false;
  paused = false;
  reason: Error | null = null;

  constructor(asked: Asked, handler: Handler, events: AnswerEvents) {
    this.asked = asked;
    this.#handler = handler;
    this.#events = events;
  }

  /** How long the connection may wait for its next request, in ms. Undefined: it ends. */
  get keptMs(): number | undefined {
    return this.#head?.keptMs;
  }

  /** Bytes after its end. */
  get hasRest(): boolean {
    return this.#rest.length > 0;
  }

  /** The request is about to leave. `isReused`: its connection has carried another answer. */
  start(isReused: boolean): void {
    this.#isReused = isReused;
    this.#handler.onRequestStart?.(this, undefined);
  }

  abort(reason: Error): void {
    if (this.aborted || this.#isEnded) return;
    this.aborted = true;
    this.reason = reason;
    if (this.#library === undefined) this.#events.onAbort(this, reason);
    else this.#library.abort(reason);
  }

  pause(): void {
    this.paused = true;
    this.#library?.pause();
  }

  resume(): void {
    if (!this.paused) return;
    this.paused = false;
    if (this.#library !== undefined) this.#library.resume();
    else if (!this.#isReading) this.#events.onResume();
  }

  /** Takes the bytes that are not yet read away. */
  takeRest(): Buffer {
    const rest = this.#rest;
    this.#rest = none;
    return rest;
  }

  /** Reads on. `wait`: for more bytes, or until it is resumed; or it was aborted. */
  read(bytes: Buffer): 'wait' | 'over' | 'odd' {
    this.#isReading = true;
    try {
      return this.#read(bytes);
    } finally {
      this.#isReading = false;
    }
  }

  #read(bytes: Buffer): 'wait' | 'over' | 'odd' {
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    if (this.#head === undefined) {
      const isRead = this.#readHead();
      if (isRead !== 'body') return isRead;
    }
    while (!this.paused && !this.#isEnded) {
      if (this.#chunks === undefined && this.#left === 0) return 'over';
      if (this.#rest.length === 0) return 'wait';
      if (this.#chunks !== undefined) {
        const step = this.#chunks.read(this.#rest);
        this.#rest = this.#rest.subarray(step.used);
        if (step.data !== undefined) this.#handler.onResponseData?.(this, step.data);
        if (step.state === 'over' || step.state === 'odd') return step.state;
        if (step.state === 'more') return 'wait';
        continue;
      }
      const data = this.#rest.subarray(0, this.#left);
      this.#rest = this.#rest.subarray(data.length);
      this.#left -= data.length;
      this.#handler.onResponseData?.(this, data);
    }
    return 'wait';
  }

  /** It is complete. */
  end(trailers: Headers = {}): void {
    this.#isEnded = true;
    try {
      this.#handler.onResponseEnd?.(this, trailers);
    } catch (error) {
      this.#handler.onResponseError?.(this, error instanceof Error ? error : closed());
    }
  }

  fail(error: Error): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#handler.onResponseError?.(this, error);
  }

  /** Its connection has ended, with or without an error. */
  endWithConnection(error: Error | undefined): void {
    const cause = error ?? closed();
    if (this.#isReused && this.#head === undefined && this.#rest.length === 0 && isCutOff(cause)) {
      this.fail(new StaleError(cause));
      return;
    }
    const fault = this.#faultAtEnd(error, cause);
    if (fault === undefined) this.end();
    else this.fail(fault);
  }

  /** Undefined: the end of the connection is that of the body. */
  #faultAtEnd(error: Error | undefined, cause: Error): Error | undefined {
    const isExpected = this.#head !== undefined && this.#head.keptMs === undefined;
    if (!isExpected) return cause;
    const isReset = error !== undefined && 'code' in error && error.code === 'ECONNRESET';
    if (error !== undefined && !isReset) return error;
    if (this.#head?.length !== 'connection') return this.#chunks === undefined ? short() : closed();
    // A reset is no end, though undici takes it for one. Source: RFC 9112, 8.
    return error;
  }

  /** Gives it to undici: the bytes and the handler with which that goes on. */
  handOver(): { bytes: Buffer; handler: Handler } {
    if (this.#head === undefined) return { bytes: this.#rest, handler: this.#handed(false, 0) };
    // A chunk that has only its end is the shortest beginning of what is left.
    const lead = this.#chunks?.isAfterData ? '1\r\n-' : '';
    const bytes = Buffer.concat([this.#headBytes, Buffer.from(lead), this.#rest]);
    return { bytes, handler: this.#handed(true, lead === '' ? 0 : 1) };
  }

  #readHead(): 'wait' | 'odd' | 'body' {
    const bytes = this.#rest;
    const end = bytes.indexOf(emptyLine);
    if (end < 0) {
      const isShort = bytes.length < plainHeadBytesMax && ++this.#headReads < headReadsMax;
      return isShort && mayBecomePlain(bytes.toString('latin1')) ? 'wait' : 'odd';
    }
    const head =
      end < plainHeadBytesMax ? readPlainHead(bytes.toString('latin1', 0, end)) : undefined;
    if (head === undefined) return 'odd';
    if (this.#isReused && head.status === requestTimeout) throw gaveUpWaiting();
    this.#head = head;
    const bodyAt = end + emptyLine.length;
    this.#rest = bytes.subarray(bodyAt);
    if (head.length === 'chunked') {
      this.#chunks = new PlainChunks();
      this.#headBytes = bytes.subarray(0, bodyAt);
    } else this.#left = head.length === 'connection' ? Number.POSITIVE_INFINITY : head.length;
    this.#handler.onResponseStart?.(this, head.status, head.headers, head.statusText);
    return 'body';
  }

  /** The bytes from undici, without those that it gave before. */
  #handed(isStarted: boolean, skipped: number): Handler {
    const handler = this.#handler;
    let left = skipped;
    return {
      onRequestStart: (library) => {
        this.#library = library;
        if (this.aborted) library.abort(this.reason ?? closed());
        else if (this.paused) library.pause();
      },
      onResponseStart: (library, status, headers, text) => {
        if (this.#isReused && status === requestTimeout) library.abort(gaveUpWaiting());
        else if (!isStarted) handler.onResponseStart?.(this, status, headers, text);
      },
      onResponseData: (_, data) => {
        const told = data.subarray(left);
        left -= data.length - told.length;
        if (told.length > 0) handler.onResponseData?.(this, told);
      },
      onResponseEnd: (_, trailers) => this.end(trailers),
      onResponseError: (_, error) => this.fail(error),
    };
  }
}

/** The error that undici has for the end of a connection. */
function closed(): Error {
  return Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' });
}

function short(): Error {
  const code = 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH';
  return Object.assign(new Error('body shorter than its content-length'), { code });
}
