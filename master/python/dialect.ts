/**
 * One connection of a `multiprocessing.managers` client, from its first request to its end.
 *
 *     first --accept_connection--> object --end--> closed
 *       |                                            ^
 *       +---any other server function: one reply-----+
 *
 * Requests are served one after the other. Nobody is closed for being silent: a client keeps the
 * dead socket for as long as its thread lives. Source: BASEMANAGER, chapter 3.
 */
import type { Connection } from '../../shared/connection.ts';
import { CommandError } from '../../shared/errors.ts';
import { limits } from '../../shared/protocol.ts';
import type { Services } from '../services.ts';
import { bind, type PyRequest, readRequest } from './arguments.ts';
import { printable } from './pickle-text.ts';
import type { Caller, Proxied } from './proxied.ts';
import {
  quoted,
  type ReplyProtocol,
  refused,
  returned,
  TracebackError,
  unpicklable,
} from './replies.ts';
import { PickleError, type PyValue } from './values.ts';

/** Requests that a client may send before it has read the answers: none does, but one may. */
const pipelineMax = 64;
const pipelineBytesMax = 32 << 20;

/** True for the first payload of a client of this dialect: a pickle of protocol 0x80 0..5. */
export function isPickle(payload: Buffer): boolean {
  return payload.length > 1 && payload[0] === 0x80 && (payload[1] ?? 0xff) <= 5;
}

export class PythonCaller implements Caller {
  readonly peer: string;
  readonly protocol: ReplyProtocol;
  readonly #services: Services;
  readonly #connection: Connection;
  readonly #gone = new AbortController();
  readonly #waiting: Buffer[] = [];
  #waitingBytes = 0;
  readonly #used = new Set<Proxied>();
  #name = '?';
  #state: 'first' | 'object' | 'closed' = 'first';
  #isServing = false;

  constructor(connection: Connection, services: Services, first: Buffer) {
    this.#connection = connection;
    this.#services = services;
    this.peer = connection.peer;
    this.protocol = (first[1] ?? 3) <= 2 ? 2 : 3;
    connection.endDeadline();
  }

  get name(): string {
    return this.#name;
  }

  /** Bytes of requests that are not answered. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  get signal(): AbortSignal {
    return this.#gone.signal;
  }

  returned(value: PyValue): Buffer {
    return returned(value, this.protocol);
  }

  receive(payload: Buffer): void {
    this.#waiting.push(payload);
    this.#waitingBytes += payload.length;
    if (this.#waiting.length > pipelineMax || this.#waitingBytes > pipelineBytesMax) {
      this.#connection.pause();
    }
    if (!this.#isServing) void this.#serveAll();
  }

  /** The last word to a client that broke the framing. */
  broken(message: string): void {
    this.#connection.sendPayload(unpicklable(message, this.protocol));
  }

  ended(): void {
    const wasObject = this.#state === 'object';
    this.#state = 'closed';
    this.#waiting.length = 0;
    this.#waitingBytes = 0;
    this.#gone.abort();
    if (wasObject) this.#services.managed.left(this, this.#used);
  }

  async #serveAll(): Promise<void> {
    this.#isServing = true;
    for (let payload = this.#waiting.shift(); payload; payload = this.#waiting.shift()) {
      const reply = await this.#serve(payload);
      this.#waitingBytes -= payload.length;
      if (this.#connection.state === 'closed') break;
      if (reply !== undefined) this.#connection.sendPayload(reply);
      if (reply === undefined || this.#state === 'first') {
        this.#connection.close();
        break;
      }
      if (this.#connection.unsentBytes > limits.untakenBytesMax) await this.#connection.drained();
      if (this.#waiting.length === 0) this.#connection.resume();
    }
    this.#isServing = false;
  }

  async #serve(payload: Buffer): Promise<Buffer | undefined> {
    try {
      const request = readRequest(payload);
      if (this.#state === 'first') return this.#first(request);
      return await this.#call(request);
    } catch (error) {
      return this.#refuse(error);
    }
  }

  #first(request: PyRequest): Buffer {
    if (request.method !== 'accept_connection') {
      return this.returned(this.#services.managed.serve(this, request));
    }
    const [name] = bind('accept_connection', [['name']], request);
    this.#name = typeof name === 'string' ? printable(name) : '?';
    this.#state = 'object';
    this.#services.managed.joined(this);
    return this.returned(null);
  }

  #call(request: PyRequest) {
    for (const object of this.#used) object.nextRequest(this);
    const object = this.#services.managed.object(request.ident);
    const { method } = request;
    const known = object.methods.get(method);
    if (known !== undefined) {
      this.#used.add(object);
      return known(this, request);
    }
    if (method === '__repr__' || method === '__str__') {
      return this.returned(`<Orbweaver queue ${object.describe()}>`);
    }
    const names = [...object.methods.keys()].join(', ');
    throw new TracebackError(
      'AttributeError',
      `method ${quoted(method)} of ${quoted(object.ident)} is not exposed; there are ${names}`,
    );
  }

  /** The one place that decides how a client learns of what failed. */
  #refuse(error: unknown): Buffer | undefined {
    if (error instanceof PickleError) {
      this.#services.onRefusedPickle(this.peer, error);
      return unpicklable(error.message, this.protocol);
    }
    if (error instanceof CommandError) return refused(error, this.protocol);
    this.#services.onFault(error);
    return undefined;
  }
}
