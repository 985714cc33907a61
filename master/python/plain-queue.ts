/**
 * A user queue as Python's `queue.Queue`: any values, durable, shared with Node programs.
 *
 * The connection holds an item from `get` until its next request, which shows that the reply has
 * arrived, or until its orderly end. If it dies before, the item goes back to the head of the
 * queue. A `put` is answered before its commit unless the `PutPolicy` says so.
 */
import { decodeExactValue } from '../../shared/frame.ts';
import { limits } from '../../shared/protocol.ts';
import type { Item, TakenItem } from '../queues/queue-items.ts';
import type { UserQueue } from '../queues/user-queue.ts';
import { bind, type Parameter, type PyRequest, waitMsOf } from './arguments.ts';
import { decodeItem, encodeItem, isItemPickle, rawItem, returnOfItem } from './pickle/item.ts';
import { fromPlain } from './pickle/plain.ts';
import { PickleError, type PyValue } from './pickle/values.ts';
import type { PutPolicy } from './ports.ts';
import type { Answer, Caller, Method, Proxied } from './proxied.ts';
import { emptyError, fullError, valueError } from './replies.ts';

const getParameters = [
  ['block', true],
  ['timeout', null],
] as const;

export class PlainQueue implements Proxied {
  readonly ident: string;
  readonly methods: ReadonlyMap<string, Method>;
  readonly #queue: UserQueue;
  readonly #puts: PutPolicy;
  readonly #master: { readonly isDraining: boolean };
  /** The last item of a connection; undefined when it is done. */
  readonly #given = new Map<Caller, Item | undefined>();
  /** The puts that wait for room: each ends by a call. */
  readonly #puttings = new Map<Caller, () => void>();

  constructor(queue: UserQueue, puts: PutPolicy, master: { readonly isDraining: boolean }) {
    this.ident = queue.name;
    this.#queue = queue;
    this.#puts = puts;
    this.#master = master;
    this.methods = new Map<string, Method>([
      ['empty', (caller, request) => this.#look('empty', caller, request, this.#isEmpty)],
      ['full', (caller, request) => this.#look('full', caller, request, queue.isFull)],
      ['get', (caller, request) => this.#get(caller, request)],
      ['get_nowait', (caller, request) => this.#getNow(caller, request)],
      ['put', (caller, request) => this.#put(caller, request)],
      ['put_nowait', (caller, request) => this.#putNow(caller, request)],
      ['qsize', (caller, request) => this.#look('qsize', caller, request, queue.size)],
    ]);
  }

  nextRequest(caller: Caller): void {
    const item = this.#given.get(caller);
    if (item === undefined) return;
    this.#given.set(caller, undefined);
    this.#queue.finish(item);
  }

  giveUp(caller: Caller): boolean {
    const stop = this.#puttings.get(caller);
    stop?.();
    return stop !== undefined || this.#queue.endWait(caller);
  }

  heldBytes(caller: Caller): number {
    return this.#given.get(caller)?.value?.length ?? 0;
  }

  gone(caller: Caller, isOrderly: boolean): void {
    if (isOrderly) this.nextRequest(caller);
    const item = this.#given.get(caller);
    this.#given.delete(caller);
    this.#queue.removeHolder(caller);
    if (item !== undefined) this.#queue.giveBack([item]);
  }

  describe(): string {
    return `${this.ident}: ${this.#queue.size} items`;
  }

  get #isEmpty(): boolean {
    return this.#queue.size === 0;
  }

  #look(name: string, caller: Caller, request: PyRequest, value: PyValue): Buffer {
    bind(name, [], request);
    return caller.returned(value);
  }

  #get(caller: Caller, request: PyRequest): Answer {
    const [block = null, timeout = null] = bind('get', getParameters, request);
    return this.#take(caller, waitMsOf(block, timeout));
  }

  #getNow(caller: Caller, request: PyRequest): Answer {
    bind('get_nowait', [], request);
    return this.#take(caller, 0);
  }

  #take(caller: Caller, waitMs: number): Answer {
    const item = this.#queue.take();
    if (item !== undefined) return this.#give(caller, item);
    return waitMs > 0 ? this.#takeWithin(caller, waitMs) : this.#nothing();
  }

  async #takeWithin(caller: Caller, waitMs: number): Promise<Buffer | undefined> {
    const item = await this.#queue.takeWithin(caller, waitMs);
    if (item === undefined) return this.#nothing();
    if (!caller.signal.aborted) return this.#give(caller, item);
    this.#queue.giveBack([item]);
    return undefined;
  }

  #give(caller: Caller, item: TakenItem): Buffer {
    this.#given.set(caller, item);
    const reply = replyOf(item.value, caller);
    this.#queue.rest([item]);
    return reply;
  }

  #nothing(): undefined {
    // Not Empty: a worker would believe that its work is done.
    if (this.#master.isDraining) return undefined;
    throw emptyError();
  }

  #put(caller: Caller, request: PyRequest): Answer {
    const [item = null, block = null, timeout = null] = bind(
      'put',
      putParametersOf(request),
      request,
    );
    // As in Python, which checks the timeout only where a put can wait.
    return this.#add(caller, item, this.#queue.isBounded ? waitMsOf(block, timeout) : 0);
  }

  #putNow(caller: Caller, request: PyRequest): Answer {
    const [first] = putParametersOf(request);
    const [item = null] = bind('put_nowait', [first], request);
    return this.#add(caller, item, 0);
  }

  #add(caller: Caller, item: PyValue, waitMs: number): Answer {
    if (this.#master.isDraining) return undefined;
    const bytes = encodeItem(item);
    if (bytes.length > limits.pythonItemBytesMax) {
      const megabytes = limits.pythonItemBytesMax >> 20;
      throw valueError(`a queue item must be at most ${megabytes} MiB as a pickle`);
    }
    if (this.#queue.isFull) return this.#addWithin(caller, bytes, waitMs);
    this.#queue.add(bytes);
    return this.#isLate ? this.#afterCommit(caller) : caller.returned(null);
  }

  async #addWithin(caller: Caller, bytes: Buffer, waitMs: number): Promise<Buffer | undefined> {
    const putting = new AbortController();
    const stop = () => putting.abort();
    this.#puttings.set(caller, stop);
    // Of each signal that AbortSignal.any makes, Node 20 keeps a trace with the caller's.
    caller.signal.addEventListener('abort', stop);
    if (caller.signal.aborted) stop();
    const isPut = await this.#queue.addWithin(bytes, waitMs, putting.signal);
    caller.signal.removeEventListener('abort', stop);
    this.#puttings.delete(caller);
    if (!isPut && this.#master.isDraining) return undefined;
    if (!isPut) throw fullError();
    return this.#isLate ? await this.#afterCommit(caller) : caller.returned(null);
  }

  /** True: the answer to a put waits for its commit. */
  get #isLate(): boolean {
    return this.#puts.isDurable || this.#queue.isBehind;
  }

  async #afterCommit(caller: Caller): Promise<Buffer> {
    await this.#queue.committed();
    return caller.returned(null);
  }
}

/** `multiprocessing.Queue` names the parameter `obj`, `queue.Queue` names it `item`; servers use
 *  both. */
function putParametersOf({ kwds }: PyRequest): readonly [Parameter, ...Parameter[]] {
  return [[kwds.has('item') ? 'item' : 'obj'], ...getParameters];
}

/** Returns the reply with an item: its stored bytes, if the client can read them. */
function replyOf(bytes: Uint8Array, caller: Caller): Buffer {
  if (!isItemPickle(bytes)) return caller.returned(fromNode(rawItem(bytes)));
  return caller.protocol === 3 ? returnOfItem(bytes) : caller.returned(decodeItem(bytes));
}

/** Returns the value of a Node program's item; an item that is not msgpack is returned as bytes. */
function fromNode(bytes: Uint8Array): PyValue {
  try {
    return fromPlain(decodeExactValue(bytes));
  } catch (error) {
    if (error instanceof PickleError || error instanceof Error) return bytes;
    throw error;
  }
}
