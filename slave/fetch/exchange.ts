/**
 * One request and its answer, as undici's dispatcher calls it back. It settles just once: a body,
 * an answer without one, a redirect, or a failure. A body without a reader is read to its end only
 * if it is small, to keep the connection.
 *
 * waiting ─headers─▶ reading (─end─▶ ending) | draining ─end, limit, error, deadline─▶ settled
 *      └──────────────error, deadline, cancel──────────────────────────────▶ settled
 *
 * At the last attempt a body that is cut off, or has not ended by the deadline, counts as far as it
 * came.
 *
 * With a record for the archive, an answer whose body is not yet whole there is `recording` before
 * it is settled: the rest is read for the record alone.
 */
import { type FetchSpec, productToken, type RobotsDirective } from '../../shared/crawl.ts';
import type { BodySeat } from '../body-room.ts';
import { addHeaderDirectives, listed } from '../extract/robots-directives.ts';
import {
  CodingError,
  codingsOf,
  contentTypeOf,
  fieldOf,
  fieldsOf,
  type Headers,
  type Validators,
  validatorsOf,
} from './content.ts';
import type { BodyReader, FetchPlan } from './fetch-plan.ts';
import { Inflater } from './inflate.ts';
import { type Failure, failureOf, inflatingError, isCutOff, StaleError } from './outcome.ts';
import type { ExchangeRecord } from './recording.ts';
import { isRedirect } from './redirects.ts';

export type Answer = {
  status: number;
  headers: Headers;
  type?: string;
  bytes: number;
  directives?: RobotsDirective[];
  /** The connection, the time of the fetch, or the compressed data ended before the body did. */
  incomplete?: true;
} & Validators;
export type Hop<Body> =
  | ({ kind: 'body'; body: Body } & Answer)
  | ({ kind: 'answer' } & Answer)
  | ({ kind: 'redirect'; location: string } & Answer)
  | ({ kind: 'failed' } & Failure);
type Unread = Exclude<Hop<never>, { kind: 'body' | 'failed' }>;

/** The part of undici's controller that is used; the types of the library stay in `clients`. */
type Controller = { abort(reason: Error): void; pause(): void; resume(): void };

const drainBytesMax = 64 << 10;
const shortBody: Failure = {
  error: { kind: 'protocol', message: 'body shorter than its content-length' },
};
const unfinished: Failure = {
  error: { kind: 'protocol', message: 'body ends inside its compressed data' },
};
const tooSlow: Failure = { error: { kind: 'timeout', message: 'took too long' } };
// One object for all: its stack is not used, and a new one costs microseconds.
const unwanted = new Error('no longer wanted');

type ExchangeOptions<Body> = {
  /** Canonical URL of this hop. */
  url: string;
  spec: FetchSpec;
  plan: FetchPlan<Body>;
  /** Takes a Set-Cookie header, of any answer. */
  takeCookie(header: string): void;
  settle(hop: Hop<Body>): void;
  /** A body that does not end is kept as far as it came. */
  keepsIncomplete?: boolean | undefined;
  /** The request leaves. */
  onStart?: (() => void) | undefined;
  /** Its answer begins. */
  onAnswer?: (() => void) | undefined;
  /** The answer is known, and nobody needs its body. */
  onUnread?: (() => void) | undefined;
  /** Takes the exchange as it is, for the archive. */
  record?: ExchangeRecord | undefined;
  /** Its room for what is kept of the body. */
  seat?: Pick<BodySeat, 'took'> | undefined;
  /** It pauses for want of that room; the function is called when it goes on. */
  onHeld?: (() => () => void) | undefined;
};

export class Exchange<Body> {
  readonly #options: ExchangeOptions<Body>;
  #state: 'waiting' | 'reading' | 'ending' | 'draining' | 'recording' | 'settled' = 'waiting';
  #controller: Controller | undefined;
  /** Known while draining. */
  #answer: Unread | undefined;
  #status = 0;
  #headers: Headers = {};
  #type: string | undefined;
  #validators: Validators = {};
  #reader: BodyReader<Body> | undefined;
  #inflater: Inflater | undefined;
  /** Content-Length, if present. */
  #length: string | undefined;
  /** The error that it would have failed with: the body is not complete, and is kept. */
  #cutOff: Failure | undefined;
  /** Known while recording. */
  #settled: Hop<Body> | undefined;
  /** It pauses, because the reader or the inflater wants it, and for want of room. */
  #isPaused = false;
  #isHeld = false;

  constructor(options: ExchangeOptions<Body>) {
    this.#options = options;
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    if (this.#state === 'settled') controller.abort(unwanted);
    else {
      this.#options.record?.started();
      this.#options.onStart?.();
    }
  }

  onResponseStart(_: Controller, status: number, headers: Headers, statusText?: string): void {
    if (this.#state !== 'waiting' || status < 200) return;
    this.#options.record?.answered(status, headers, statusText);
    this.#options.onAnswer?.();
    this.#headers = headers;
    this.#length = fieldOf(headers, 'content-length');
    for (const header of fieldsOf(headers, 'set-cookie')) this.#options.takeCookie(header);
    if (status === 200 || status === 203 || status === 304) {
      this.#validators = validatorsOf(fieldOf(headers, 'etag'), fieldOf(headers, 'last-modified'));
    }
    const { essence, charset } = contentTypeOf(headers);
    this.#status = status;
    const { url, spec, plan } = this.#options;
    this.#reader = plan.open({
      url,
      status,
      essence,
      header: (name) => fieldsOf(headers, name),
      spec,
      charset,
      sniff: essence === undefined,
      onRoom: () => this.#resume(),
      onEnough: () => this.#settleBody(),
    });
    if (this.#reader !== undefined) {
      this.#type = essence ?? plan.type;
      this.#read(headers);
      return;
    }
    const directives = this.#directives(headers);
    const answer: Answer = {
      status,
      headers,
      bytes: 0,
      ...(essence !== undefined && { type: essence }),
      ...(directives !== undefined && { directives }),
      ...this.#validators,
    };
    const location = fieldOf(headers, 'location');
    this.#drain(
      location !== undefined && isRedirect(status)
        ? { kind: 'redirect', location, ...answer }
        : { kind: 'answer', ...answer },
    );
    if (Number(this.#length ?? 0) > drainBytesMax) this.#settleAnswer();
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    const { record, plan } = this.#options;
    const isKept = plan.keepsBody === true && this.#state === 'reading';
    const copies = Number(record?.isOpen === true) + Number(isKept);
    record?.data(chunk);
    if (copies > 0) this.#keep(copies * chunk.length);
    if (this.#state === 'recording') {
      if (record?.isOpen !== true) this.#settleRecorded();
    } else if (this.#state === 'draining' && this.#answer !== undefined) {
      this.#answer.bytes += chunk.length;
      if (this.#answer.bytes > drainBytesMax) this.#settleAnswer();
    } else if (this.#state === 'reading') {
      if (this.#inflater === undefined) this.#take(chunk);
      else if (!this.#inflater.write(chunk)) this.#pause();
    }
  }

  onResponseEnd(): void {
    // The connection is free again: there is nothing left to abort.
    this.#controller = undefined;
    this.#options.record?.ended('whole');
    if (this.#state === 'recording') this.#settleRecorded();
    else if (this.#state === 'draining') this.#settleAnswer();
    else if (this.#state !== 'reading') return;
    else if (this.#inflater === undefined) this.#settleBody();
    else this.#inflater.end();
  }

  onResponseError(_controller: Controller, error: Error): void {
    this.#controller = undefined;
    this.#options.record?.ended('disconnect');
    if (this.#cutOff !== undefined) return;
    if (this.#state !== 'reading' || !isCutOff(error)) this.fail(error);
    else this.#cut(this.#cutOffFailure(error));
  }

  /** The deadline has passed. */
  expire(): void {
    this.#options.record?.ended('time');
    if (this.#state === 'recording') this.#settleRecorded();
    else if (this.#state === 'draining') this.#settleAnswer();
    else if (this.#state === 'reading' && this.#controller !== undefined) {
      // Its error, if the abort makes one, comes after the cut.
      const controller = this.#controller;
      this.#controller = undefined;
      this.#cut(tooSlow);
      controller.abort(unwanted);
    } else this.#settle({ kind: 'failed', ...tooSlow });
  }

  /** Cancels the request; `settle` is not called. */
  cancel(): void {
    this.#end();
  }

  fail(error: unknown): void {
    // It may be the answer to another request.
    if (error instanceof StaleError) this.#disown();
    // The answer was complete before its body failed.
    if (this.#state === 'recording') this.#settleRecorded();
    else if (this.#state === 'draining') this.#settleAnswer();
    else this.#settle({ kind: 'failed', ...failureOf(error, this.#state !== 'waiting') });
  }

  #disown(): void {
    this.#options.record?.drop();
    if (this.#state === 'draining' || this.#state === 'recording') this.#state = 'reading';
  }

  /** No more of the body comes. If it is kept, the received part counts as the whole. */
  #cut(failure: Failure): void {
    if (!this.#options.keepsIncomplete) {
      this.#settle({ kind: 'failed', ...failure });
      return;
    }
    this.#cutOff = failure;
    if (this.#inflater === undefined) this.#settleBody();
    else this.#inflater.end();
  }

  #cutOffFailure(error: unknown): Failure {
    const failure = failureOf(error, true);
    if (failure.isStale || this.#length === undefined) return failure;
    return failure.error.message === 'connection closed' ? shortBody : failure;
  }

  #read(headers: Headers): void {
    const codings = codingsOf(headers);
    if (codings === undefined) {
      this.fail(new CodingError('more than two content codings'));
      return;
    }
    this.#state = 'reading';
    if (codings !== 'unknown' && codings.length === 0) return;
    this.#inflater = new Inflater(codings, {
      data: (chunk) => this.#take(chunk),
      end: (isCut) => (isCut ? this.#endInflating() : this.#settleBody()),
      error: (error) => this.#failInflating(error),
      drain: () => this.#resume(),
    });
  }

  /** The answer came as its head says; its writer did not end what it compressed. */
  #endInflating(): void {
    if (this.#options.keepsIncomplete === true) this.#cutOff ??= unfinished;
    if (this.#cutOff !== undefined) this.#settleBody();
    else this.#settle({ kind: 'failed', ...unfinished });
  }

  #failInflating(error: Error): void {
    if (this.#cutOff !== undefined) this.#settleBody();
    else this.fail(inflatingError(error, this.#reader?.bytes ?? 0));
  }

  /** The directives of an answer that is not a page. */
  #directives(headers: Headers): RobotsDirective[] | undefined {
    const fields = fieldsOf(headers, 'x-robots-tag');
    if (fields.length === 0) return undefined;
    const found = new Set<RobotsDirective>();
    const token = productToken(this.#options.spec.userAgent).toLowerCase();
    for (const field of fields) addHeaderDirectives(found, field, token);
    return listed(found);
  }

  #take(chunk: Uint8Array): void {
    const verdict = this.#reader?.write(chunk);
    if (verdict === 'enough') this.#settleBody();
    else if (verdict === 'wait') this.#pause();
    else if (verdict === 'not-html') this.#settleUntyped();
  }

  #settleBody(): void {
    if (this.#state !== 'reading' || this.#reader === undefined) return;
    if (this.#cutOff !== undefined && this.#reader.bytes === 0) {
      this.#settle({ kind: 'failed', ...this.#cutOff });
      return;
    }
    const body = this.#reader.end();
    if (body === undefined) {
      this.#settleUntyped();
    } else if (body instanceof Promise) {
      this.#state = 'ending';
      body.then(
        (done) => this.#settleRead(done),
        (error: unknown) => this.fail(error),
      );
    } else {
      this.#settleRead(body);
    }
  }

  #settleRead(body: Body): void {
    const type = this.#type === undefined ? {} : { type: this.#type };
    const bytes = this.#reader?.bytes ?? 0;
    // With validators, a later crawl would take the part for the whole.
    const rest = this.#cutOff === undefined ? this.#validators : ({ incomplete: true } as const);
    const answer = { status: this.#status, headers: this.#headers, ...type, bytes, ...rest };
    this.#settle({ kind: 'body', ...answer, body });
  }

  /** A body without Content-Type that does not look like HTML. */
  #settleUntyped(): void {
    const bytes = this.#reader?.bytes ?? 0;
    this.#inflater?.close();
    this.#inflater = undefined;
    const validators = this.#cutOff === undefined ? this.#validators : {};
    const answer = { status: this.#status, headers: this.#headers, bytes, ...validators };
    this.#drain({ kind: 'answer', ...answer });
    if (this.#controller === undefined || bytes > drainBytesMax) this.#settleAnswer();
    else this.#resume();
  }

  #drain(answer: Unread): void {
    this.#state = 'draining';
    this.#answer = answer;
    // The archive wants what is no redirect as a whole.
    const { record, onUnread } = this.#options;
    if (answer.kind === 'redirect' || record?.isOpen !== true) onUnread?.();
  }

  #settleAnswer(): void {
    if (this.#answer !== undefined) this.#settle(this.#answer);
  }

  #settle(hop: Hop<Body>): void {
    if (this.#state === 'settled' || this.#state === 'recording') return;
    if (this.#options.record?.isOpen === true && this.#recordsRest(hop)) return;
    this.#end();
    this.#options.settle(hop);
  }

  /** The archive wants the rest of the body, as far as its limit goes. */
  #recordsRest(hop: Hop<Body>): boolean {
    if (hop.kind === 'failed' || this.#controller === undefined) return false;
    this.#state = 'recording';
    this.#settled = hop;
    this.#inflater?.close();
    this.#inflater = undefined;
    this.#resume();
    return true;
  }

  /** So much more of the body is kept. */
  #keep(bytes: number): void {
    const { seat, onHeld } = this.#options;
    const room = seat?.took(bytes);
    if (room === undefined) return;
    this.#isHeld = true;
    this.#controller?.pause();
    const goOn = onHeld?.();
    void room.then(() => {
      this.#isHeld = false;
      goOn?.();
      if (!this.#isPaused) this.#controller?.resume();
    });
  }

  #pause(): void {
    this.#isPaused = true;
    this.#controller?.pause();
  }

  #resume(): void {
    this.#isPaused = false;
    if (!this.#isHeld) this.#controller?.resume();
  }

  #settleRecorded(): void {
    const hop = this.#settled;
    if (hop === undefined) return;
    this.#end();
    this.#options.settle(hop);
  }

  #end(): void {
    this.#state = 'settled';
    this.#inflater?.close();
    this.#reader?.close?.();
    // If the body is still coming, the connection cannot be used again anyway.
    this.#controller?.abort(unwanted);
    this.#controller = undefined;
  }
}
