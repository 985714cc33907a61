/**
 * The tasks of a crawl in the table `unsorted`, in memory: 24 bytes a task, chained in 65,536
 * *bins* by the first bits of the host's hash. Hashes are uniform, so that a bin has few.
 *
 *     (not in it) --land--> resting --leave--> leaving --gone--> (not in it)
 *                on the disk      a commit takes it away      on the disk
 *
 * A leaving task stays until its commit is on the disk: only then is it no longer in the table.
 */
import { hostBytes } from '../../store/records.ts';
import { taskKeyBytes } from '../../store/task-keys.ts';

/** The first bits of a hash say the bin. */
const binBits = 16;
const binsCount = 2 ** binBits;
/** Where things are in a task's key. */
const [hostAt, rankAt, seqAt] = [4, 4 + hostBytes, 8 + hostBytes];
/** Numbers of a slot: both halves of the host's hash, the rank, both parts of the task's number,
 *  the next slot of the bin. All slots are in one piece of memory, which no collection copies. */
const [low, rank, seqHigh, seqLow, next, width] = [1, 2, 3, 4, 5, 6];
/** In the upper part of a number, which has 16 bits. */
const isLeaving = 1 << 16;
const none = -1;
const slotsMin = 1_024;

export class UnsortedIndex {
  readonly #crawl: number;
  /** The first slot of each bin. */
  readonly #first = new Int32Array(binsCount).fill(none);
  #slots = new Int32Array(slotsMin * width);
  /** Slots that were in use once, and the first of those that were given back. */
  #used = 0;
  #free = none;
  /** Tasks that rest; those and the ones that leave. */
  #count = 0;
  #size = 0;
  /** Tasks that are on the way to the disk. */
  coming = 0;
  /** The bin that `leaveSome` looks at next. */
  #at = 0;

  constructor(crawl: number) {
    this.#crawl = crawl;
  }

  /** Tasks that rest. */
  get count(): number {
    return this.#count;
  }

  /** True: no task is in the table, or on the way to it. */
  get isEmpty(): boolean {
    return this.#size === 0 && this.coming === 0;
  }

  /** The task of the key at this place has reached the disk. */
  land(keys: Buffer, at: number): void {
    const slot = this.#take();
    const slots = this.#slots;
    const high = keys.readInt32BE(at + hostAt);
    const bin = binOf(high);
    slots[slot] = high;
    slots[slot + low] = keys.readInt32BE(at + hostAt + 4);
    slots[slot + rank] = keys.readInt32BE(at + rankAt);
    slots[slot + seqHigh] = keys.readUInt16BE(at + seqAt);
    slots[slot + seqLow] = keys.readInt32BE(at + seqAt + 2);
    slots[slot + next] = this.#firstOf(bin);
    this.#first[bin] = slot;
    this.#count++;
    this.#size++;
  }

  /** A commit takes the task of this key in `tasks` away. False: it is not here, or leaves
   *  already. */
  leave(key: Buffer): boolean {
    const high = key.readUInt16BE(seqAt);
    const { slot } = this.#find(key, 0, high);
    if (slot === none) return false;
    this.#slots[slot + seqHigh] = high | isLeaving;
    this.#count--;
    return true;
  }

  /** That commit is on the disk; the key is at this place. */
  gone(keys: Buffer, at = 0): void {
    const { slot, before } = this.#find(keys, at, keys.readUInt16BE(at + seqAt) | isLeaving);
    if (slot === none) return;
    const after = this.#number(slot + next);
    if (before === none) this.#first[binOf(this.#number(slot))] = after;
    else this.#slots[before + next] = after;
    this.#slots[slot + next] = this.#free;
    this.#free = slot;
    this.#size--;
  }

  /** Keys of the tasks of a host, in order; those that leave are among them. */
  keysOf(host: Buffer): Buffer[] {
    const [ofHigh, ofLow] = [host.readInt32BE(0), host.readInt32BE(4)];
    const keys: Buffer[] = [];
    for (let slot = this.#firstOf(binOf(ofHigh)); slot !== none; slot = this.#number(slot + next)) {
      const isOfHost = this.#number(slot) === ofHigh && this.#number(slot + low) === ofLow;
      if (isOfHost) keys.push(this.#keyAt(slot));
    }
    return keys.length > 1 ? keys.sort((a, b) => a.compare(b)) : keys;
  }

  /** Keys of the tasks of the first host whose hash is not below `from`; [] if there is none. */
  firstHost(from: Buffer): Buffer[] {
    for (let bin = binOf(from.readInt32BE(0)); bin < binsCount; bin++) {
      let first: Buffer | undefined;
      for (let slot = this.#firstOf(bin); slot !== none; slot = this.#number(slot + next)) {
        const host = this.#hostAt(slot);
        if (host.compare(from) < 0) continue;
        if (first === undefined || host.compare(first) < 0) first = host;
      }
      if (first !== undefined) return this.keysOf(first);
    }
    return [];
  }

  /** A commit takes away all that rest in the next bins, at least so many. Returns their keys;
   *  fewer if no more rest. */
  leaveSome(count: number): Buffer[] {
    const keys: Buffer[] = [];
    for (let looked = 0; looked < binsCount && keys.length < count; looked++) {
      for (let slot = this.#firstOf(this.#at); slot !== none; slot = this.#number(slot + next)) {
        const high = this.#number(slot + seqHigh);
        if ((high & isLeaving) !== 0) continue;
        keys.push(this.#keyAt(slot));
        this.#slots[slot + seqHigh] = high | isLeaving;
      }
      this.#at = (this.#at + 1) % binsCount;
    }
    this.#count -= keys.length;
    return keys;
  }

  /** Returns the slot of the task of the key at this place, and that before it; its number alone
   *  says the task. `high`: the upper part of that, which says whether it leaves. */
  #find(keys: Buffer, at: number, high: number): { slot: number; before: number } {
    const lower = keys.readInt32BE(at + seqAt + 2);
    let before = none;
    let slot = this.#firstOf(binOf(keys.readInt32BE(at + hostAt)));
    for (; slot !== none; before = slot, slot = this.#number(slot + next)) {
      const isIt = this.#number(slot + seqLow) === lower && this.#number(slot + seqHigh) === high;
      if (isIt) break;
    }
    return { slot, before };
  }

  /** Returns a slot that is not in use. */
  #take(): number {
    const free = this.#free;
    if (free !== none) {
      this.#free = this.#number(free + next);
      return free;
    }
    const slot = this.#used++ * width;
    if (slot === this.#slots.length) {
      const more = new Int32Array(Math.ceil(this.#used * 1.5) * width);
      more.set(this.#slots);
      this.#slots = more;
    }
    return slot;
  }

  #firstOf(bin: number): number {
    return this.#first[bin] ?? none;
  }

  #number(at: number): number {
    return this.#slots[at] ?? none;
  }

  #hostAt(slot: number): Buffer {
    const host = Buffer.allocUnsafe(hostBytes);
    host.writeInt32BE(this.#number(slot), 0);
    host.writeInt32BE(this.#number(slot + low), 4);
    return host;
  }

  #keyAt(slot: number): Buffer {
    const key = Buffer.allocUnsafe(taskKeyBytes);
    key.writeUInt32BE(this.#crawl, 0);
    key.writeInt32BE(this.#number(slot), hostAt);
    key.writeInt32BE(this.#number(slot + low), hostAt + 4);
    key.writeInt32BE(this.#number(slot + rank), rankAt);
    key.writeUInt16BE(this.#number(slot + seqHigh) & 0xffff, seqAt);
    key.writeInt32BE(this.#number(slot + seqLow), seqAt + 2);
    return key;
  }
}

function binOf(high: number): number {
  return high >>> (32 - binBits);
}
