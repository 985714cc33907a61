/**
 * One connection of a `multiprocessing.managers` client, from its first request to its end.
 *
 *     first --accept_connection--> object --end--> closed
 *       |                                            ^
 *       +---any other server function: one reply-----+
 *
 * Requests are served one after the other, at once if no wait is needed. A request that comes while
 * a call waits takes the place of that call, which gets no reply [Y-20]. Silence does not close a
 * connection: a client keeps a dead socket for as long as its thread lives.
 * Source: PROTOCOL.md, "The Python dialect"; CPython Lib/multiprocessing/managers.py.
 */
import type { Connection } from '../../shared/connection.ts';
import { CommandError, type OrbError } from '../../shared/errors.ts';
import { overlong } from '../../shared/frame.ts';
import { limits } from '../../shared/protocol.ts';
import type { MemoryWatch } from '../machine/memory-watch.ts';
import { bind, type PyRequest } from './arguments.ts';
import type { Manager } from './manager.ts';
import { printable } from './pickle/text.ts';
import { PickleError, type PyValue, WeightError } from './pickle/values.ts';
import type { Answer, Caller, Proxied, Use } from './proxied.ts';
import {
  quoted,
  type ReplyProtocol,
  refused,
  returned,
  TracebackError,
  unpicklable,
  valueError,
} from './replies.ts';
import { RequestReader } from './request-reader.ts';

/** Requests that a client may send before it reads the replies; stock clients send one. */
const pipelineMax = 64;
const pipelineBytesMax = 32 << 20;
/** A program has a few proxies; one that keeps making more is recognised by its first ones. */
const identsMax = 64;
const overlongError = valueError(
  'a request must be at most 32 MiB, and a queue item at most 16 MiB, as a pickle',
);

/** True for the first payload of a client of this dialect: a pickle of protocol 0x80 0..5. */
export function isPickle(payload: Buffer): boolean {
  return payload.length > 1 && payload[0] === 0x80 && (payload[1] ?? 0xff) <= 5;
}

/** The parts of the master that a connection uses. */
type CallerPorts = {
  readonly manager: Manager;
  readonly memory: MemoryWatch;
  readonly events: {
    /** A pickle contains something that is not allowed: it had no effect, and the connection goes
     *  on. */
    refusedPickle(error: OrbError): void;
  };
  /** `fail`: a fault of ours while serving a request: the master cannot go on. */
  readonly master: { fail(error: unknown): void };
};

export class PythonCaller implements Caller {
  readonly peer: string;
  readonly protocol: ReplyProtocol;
  readonly #ports: CallerPorts;
  readonly #connection: Connection;
  readonly #gone = new AbortController();
  readonly #requests = new RequestReader();
  readonly #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #servingBytes = 0;
  readonly idents = new Set<string>();
  readonly #used = new Map<Proxied, Use>();
  #name = '?';
  #state: 'first' | 'object' | 'closed' = 'first';
  #isServing = false;
  /** The client left the call that is served: Ctrl-C, or a signal handler that raised. */
  #isGivenUp = false;
  #repliedAt = 0;
  /** The shortest time from a reply to the next request: the round trip of the network. */
  #wayMs = Number.POSITIVE_INFINITY;
  #thoughtMs = 0;

  constructor(connection: Connection, ports: CallerPorts, first: Buffer) {
    this.#connection = connection;
    this.#ports = ports;
    this.peer = connection.peer;
    this.protocol = (first[1] ?? 3) <= 2 ? 2 : 3;
    connection.endDeadline();
    // A client has one connection for all that a thread does, and never makes it again. [Y-19]
    connection.passOverlong();
  }

  get name(): string {
    return this.#name;
  }

  /** Bytes of unanswered requests, and of items that it holds. */
  get heldBytes(): number {
    let bytes = this.#waitingBytes + this.#servingBytes;
    for (const object of this.#used.keys()) bytes += object.heldBytes(this);
    return bytes;
  }

  get thoughtMs(): number {
    return this.#thoughtMs;
  }

  get signal(): AbortSignal {
    return this.#gone.signal;
  }

  returned(value: PyValue): Buffer {
    return returned(value, this.protocol);
  }

  receive(payload: Buffer): void {
    const goneMs = performance.now() - this.#repliedAt;
    this.#wayMs = Math.min(this.#wayMs, goneMs);
    this.#thoughtMs = goneMs - this.#wayMs;
    if (!this.#isServing) {
      this.#serve(payload);
      return;
    }
    // A client reads a reply for each request, so it would take this one for that to the next.
    if ([...this.#used.keys()].some((object) => object.giveUp(this))) this.#isGivenUp = true;
    this.#waiting.push(payload);
    this.#waitingBytes += payload.length;
    if (this.#waiting.length > pipelineMax || this.#waitingBytes > pipelineBytesMax) {
      this.#connection.pause();
    }
  }

  /** Sends a last message to a client that broke the framing. */
  broken(message: string): void {
    this.#connection.sendFrame(unpicklable(message, this.protocol));
  }

  ended(): void {
    const wasObject = this.#state === 'object';
    this.#state = 'closed';
    this.#waiting.length = 0;
    this.#waitingBytes = 0;
    this.#gone.abort();
    if (wasObject) this.#ports.manager.left(this, this.#used);
  }

  /** Serves a request. It answers at once where it can, without a promise. */
  #serve(payload: Buffer): void {
    const answer = this.#answer(payload);
    if (!(answer instanceof Promise)) {
      this.#reply(answer);
      return;
    }
    this.#isServing = true;
    this.#servingBytes = payload.length;
    void answer
      .catch((error: unknown) => this.#refuse(error))
      .then((reply) => {
        const isRead = !this.#isGivenUp || reply === undefined;
        this.#isServing = false;
        this.#isGivenUp = false;
        this.#servingBytes = 0;
        if (isRead) this.#reply(reply);
        this.#serveWaiting();
      });
  }

  #serveWaiting(): void {
    while (!this.#isServing && this.#connection.state !== 'closed') {
      const payload = this.#waiting.shift();
      if (payload === undefined) {
        this.#connection.resume();
        return;
      }
      this.#waitingBytes -= payload.length;
      this.#serve(payload);
    }
  }

  #reply(reply: Buffer | undefined): void {
    if (this.#connection.state === 'closed') return;
    if (reply !== undefined) this.#connection.sendFrame(reply);
    this.#repliedAt = performance.now();
    if (reply === undefined || this.#state === 'first') this.#connection.close();
    else if (this.#connection.unsentBytes > limits.untakenBytesMax) void this.#untilTaken();
  }

  async #untilTaken(): Promise<void> {
    this.#isServing = true;
    await this.#connection.drained();
    this.#isServing = false;
    this.#serveWaiting();
  }

  #answer(payload: Buffer): Answer {
    if (payload === overlong) return this.#refuse(overlongError);
    let request: PyRequest;
    try {
      request = this.#requests.read(payload);
    } catch (error) {
      return error instanceof WeightError ? this.#answerHeavy(payload) : this.#refuse(error);
    }
    try {
      return this.#answerTo(request);
    } catch (error) {
      return this.#refuse(error);
    }
  }

  #answerTo(request: PyRequest): Answer {
    return this.#state === 'first' ? this.#first(request) : this.#call(request);
  }

  async #answerHeavy(payload: Buffer): Promise<Buffer | undefined> {
    const { manager, memory } = this.#ports;
    memory.look();
    const request = await manager.heavy.read(payload, this.signal);
    if (request === undefined || this.signal.aborted) return undefined;
    return this.#answerTo(request);
  }

  #first(request: PyRequest): Buffer {
    if (request.method !== 'accept_connection') {
      return this.returned(this.#ports.manager.serve(this, request));
    }
    const [name] = bind('accept_connection', [['name']], request);
    this.#name = typeof name === 'string' ? printable(name) : '?';
    this.#state = 'object';
    this.#ports.manager.joined(this);
    return this.returned(null);
  }

  #call(request: PyRequest): Answer {
    this.#ports.manager.heard(this);
    for (const object of this.#used.keys()) object.nextRequest(this);
    const object = this.#ports.manager.object(request.ident);
    const { method } = request;
    const known = object.methods.get(method);
    if (known !== undefined) {
      if (!this.idents.has(request.ident as string)) this.#use(object, request.ident);
      return known(this, request);
    }
    if (method === '__repr__' || method === '__str__') {
      return this.returned(`<Orbweaver queue ${object.describe()}>`);
    }
    const names = [...object.methods.keys()].join(', ');
    throw new TracebackError(
      'AttributeError',
      `method ${quoted(method)} of ${quoted(object.ident)} is not exposed; known: ${names}`,
    );
  }

  #use(object: Proxied, ident: PyValue): void {
    const use = this.#used.get(object) ?? { idents: new Set(), isPerCall: false };
    this.#used.set(object, use);
    for (const dropped of this.#ports.manager.droppedOf(this, use.idents)) {
      use.isPerCall = true;
      use.idents.delete(dropped);
      this.idents.delete(dropped);
    }
    if (typeof ident !== 'string' || this.idents.size >= identsMax) return;
    use.idents.add(ident);
    this.idents.add(ident);
    this.#ports.manager.named(this);
  }

  /** The one place that decides how a client learns of a failure. */
  #refuse(error: unknown): Buffer | undefined {
    if (error instanceof PickleError) {
      this.#ports.events.refusedPickle(error);
      return unpicklable(error.message, this.protocol);
    }
    if (error instanceof CommandError) return refused(error, this.protocol);
    this.#ports.master.fail(error);
    return undefined;
  }
}
