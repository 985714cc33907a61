/**
 * A named queue of a master, as programs use it. A plain `get` delivers a value at most once: it
 * has left the queue before the program has it. With `ack` it is delivered at least once: it
 * returns unless the program says `done`, also when the program is killed.
 */
import { CommandError } from './errors.ts';
import { decodeExactValue, encodeValue } from './frame.ts';
import { limits } from './protocol.ts';
import type { Replies } from './replies.ts';
import type { Said } from './requests.ts';

type QueueVerb = 'queue.put' | 'queue.get' | 'queue.done' | 'queue.release' | 'queue.size';

/** The connection: `MasterClient`. */
type QueueMaster = {
  readonly hello: { readonly frameBytesMax: number };
  request<V extends QueueVerb>(
    verb: V,
    body: Omit<Said[V], 'verb' | 'id'>,
    withinMs?: number,
  ): Promise<Replies[V]>;
};

/** Waits between the attempts of a put to a full queue, in ms: the first, and the longest. */
const fullFirstMs = 20;
const fullMaxMs = 500;
/** Waiting puts that are tried at once. */
const fullWidthMax = 64;

/** Overhead of a msgpack item, and of the rest of a `queue.put`, at most. */
const itemHeadBytes = 5;
const requestHeadBytes = 256;

/** A value that returns to its queue unless it is done. */
export class QueueItem {
  readonly value: unknown;
  /** How often it has returned before, if `attempts` was given each time. */
  readonly attempts: number;
  readonly #end: (verb: 'queue.done' | 'queue.release', delayMs?: number) => Promise<unknown>;

  constructor(
    value: unknown,
    attempts: number,
    end: (verb: 'queue.done' | 'queue.release', delayMs?: number) => Promise<unknown>,
  ) {
    this.value = value;
    this.attempts = attempts;
    this.#end = end;
  }

  /** Deletes it. Resolves when that is on the master's disk. */
  async done(): Promise<void> {
    await this.#end('queue.done');
  }

  /** Gives it back, to be delivered again, `delayMs` later if that is given. */
  async release(options: { readonly delayMs?: number } = {}): Promise<void> {
    await this.#end('queue.release', options.delayMs ?? 0);
  }
}

type GetOptions = {
  /** How long to wait for a value. Default 0: do not wait; Infinity: no limit. */
  readonly timeoutMs?: number;
};
type AckOptions = GetOptions & {
  readonly ack: true;
  /** An item that is not done by then returns. Default: when the connection ends. */
  readonly holdMs?: number;
  /** An item that has returned so often goes to the dead letters. Default: never. */
  readonly attempts?: number;
};
type PutBody = Omit<Said['queue.put'], 'verb' | 'id'>;
type WaitingPut = {
  readonly body: PutBody;
  readonly resolve: (size: number) => void;
  readonly reject: (error: unknown) => void;
};
type CountOptions = { readonly count: number };
type AnyOptions = GetOptions &
  Partial<Omit<AckOptions, 'ack'>> & {
    readonly ack?: boolean;
    readonly count?: number;
  };

/** A named queue on the master: durable, first in first out, shared by all its users. */
export class SharedQueue {
  readonly name: string;
  readonly #master: QueueMaster;
  /** The queue was full for these. */
  readonly #waitingPuts: WaitingPut[] = [];
  #isAsking = false;

  constructor(master: QueueMaster, name: string) {
    this.name = name;
    this.#master = master;
  }

  /** The queue of the items that returned too often. */
  get dead(): SharedQueue {
    return new SharedQueue(this.#master, `${this.name.slice(0, 59)}.dead`);
  }

  /** Appends values (anything that msgpack holds, at most 1 MiB each) in order. Waits while the
   *  queue is full. Resolves with the queue's size when they are on the master's disk. Values
   *  beyond one frame are sent in several; if the connection ends between them, the first ones are
   *  in the queue. */
  put(...values: unknown[]): Promise<number> {
    return this.#put(values, {});
  }

  /** As `put`, but the values are in the queue after `delayMs`, 30 days at most. */
  putLater(delayMs: number, ...values: unknown[]): Promise<number> {
    return this.#put(values, { delayMs });
  }

  async #put(values: readonly unknown[], how: { delayMs?: number }): Promise<number> {
    const items = values.map(encodeValue);
    if (items.some((item) => item.length > limits.queueItemBytesMax)) {
      throw new CommandError('E_BAD_REQUEST', 'a queue item must be at most 1 MiB');
    }
    let size: number | undefined;
    for (const batch of batchesOf(items, this.#master.hello.frameBytesMax)) {
      const body = { queue: this.name, items: batch, ...how };
      size = await this.#putWithRoom(body);
    }
    return size ?? (await this.size());
  }

  async #putWithRoom(body: PutBody): Promise<number> {
    const size = this.#waitingPuts.length === 0 ? await this.#tryPut(body) : undefined;
    if (size !== undefined) return size;
    return new Promise((resolve, reject) => {
      this.#waitingPuts.push({ body, resolve, reject });
      if (!this.#isAsking) void this.#askForRoom();
    });
  }

  /** Tries the waiting puts, the oldest first: more at once while there is room for all of them,
   *  for each reply takes the time of a commit. */
  async #askForRoom(): Promise<void> {
    this.#isAsking = true;
    let waitMs = fullFirstMs;
    let width = 1;
    while (this.#waitingPuts.length > 0) {
      const tried = this.#waitingPuts.splice(0, width);
      const sizes = await Promise.all(tried.map((put) => this.#tryWaiting(put)));
      const left = tried.filter((_, index) => sizes[index] === 'full');
      this.#waitingPuts.unshift(...left);
      const hadRoom = left.length < tried.length;
      width = left.length === 0 ? Math.min(width * 2, fullWidthMax) : Math.max(1, width >> 1);
      waitMs = hadRoom ? fullFirstMs : Math.min(waitMs * 2, fullMaxMs);
      if (left.length > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    }
    this.#isAsking = false;
  }

  async #tryWaiting({ body, resolve, reject }: WaitingPut): Promise<'full' | 'over'> {
    try {
      const size = await this.#tryPut(body);
      if (size === undefined) return 'full';
      resolve(size);
    } catch (error) {
      reject(error);
    }
    return 'over';
  }

  /** The queue's size, or undefined if it is full. */
  async #tryPut(body: PutBody): Promise<number | undefined> {
    try {
      return (await this.#master.request('queue.put', body)).size;
    } catch (error) {
      if (error instanceof CommandError && error.code === 'E_QUEUE_FULL') return undefined;
      throw error;
    }
  }

  /** Returns the oldest value, or undefined if none came within `timeoutMs`. The master deletes the
   *  value when this promise has resolved; if the connection dies earlier, the value returns to the
   *  queue. With `count` a list of up to so many values, which is empty if none came. With `ack`
   *  items instead of values: see `QueueItem`. */
  get(options: AckOptions & CountOptions): Promise<QueueItem[]>;
  get(options: AckOptions): Promise<QueueItem | undefined>;
  get(options: GetOptions & CountOptions): Promise<unknown[]>;
  get(options?: GetOptions): Promise<unknown>;
  async get(options: AnyOptions = {}): Promise<unknown> {
    const { ack = false, count, timeoutMs = 0, holdMs, attempts } = options;
    // A text, as of a variable of the environment, would be joined to the time: no wait at all.
    if (typeof timeoutMs !== 'number' || Number.isNaN(timeoutMs)) {
      throw new CommandError('E_BAD_REQUEST', 'timeoutMs must be a number of ms');
    }
    const deadline = performance.now() + timeoutMs;
    const hold = {
      ...(ack && holdMs !== undefined && { holdMs }),
      ...(ack && attempts !== undefined && { attempts }),
    };
    while (true) {
      const leftMs = Math.max(0, Math.ceil(deadline - performance.now()));
      const waitMs = Math.min(limits.waitMsMax, leftMs);
      const body = { queue: this.name, count: count ?? 1, waitMs, ...hold };
      const { items } = await this.#master.request('queue.get', body);
      if (items.length > 0) {
        const taken = ack ? items.map((item) => this.#item(item)) : await this.#values(items);
        return count === undefined ? taken[0] : taken;
      }
      if (performance.now() >= deadline) return count === undefined ? undefined : [];
    }
  }

  /** Number of values that wait. */
  async size(): Promise<number> {
    return (await this.#master.request('queue.size', { queue: this.name })).size;
  }

  async #values(items: Replies['queue.get']['items']): Promise<unknown[]> {
    const ids = items.map(({ id }) => id);
    await this.#master.request('queue.done', { queue: this.name, items: ids });
    return items.map(({ value }) => decodeExactValue(value));
  }

  #item({ id, value, attempts = 0 }: Replies['queue.get']['items'][number]): QueueItem {
    const body = { queue: this.name, items: [id] };
    return new QueueItem(decodeExactValue(value), attempts, (verb, delayMs) =>
      verb === 'queue.done'
        ? this.#master.request(verb, body)
        : this.#master.request(verb, { ...body, ...(delayMs !== 0 && { delayMs }) }),
    );
  }
}

/** Splits items into batches that fit into one request each. */
function* batchesOf(items: readonly Uint8Array[], frameBytesMax: number): Generator<Uint8Array[]> {
  let batch: Uint8Array[] = [];
  let bytes = 0;
  for (const item of items) {
    const itemBytes = item.length + itemHeadBytes;
    if (
      batch.length === limits.queueItemsMax ||
      (batch.length > 0 && bytes + itemBytes > frameBytesMax - requestHeadBytes)
    ) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(item);
    bytes += itemBytes;
  }
  if (batch.length > 0) yield batch;
}
