/**
 * What a crawl has in the table `unsorted`, in memory: 32 bytes a task, in 8,192 *bins* by the first
 * bits of the host's hash. Hashes are uniform, so that a bin has few and is searched in order.
 *
 *     (not in it) --land--> resting --leave--> leaving --gone--> (not in it)
 *                on the disk      a commit takes it away      on the disk
 *
 * A leaving task stays until its commit is on the disk: only then is it no longer in the table.
 */
import { hostBytes } from '../../store/records.ts';
import { taskKeyBytes } from '../../store/task-keys.ts';

/** The first bits of a hash say the bin. */
const binBits = 13;
const binsCount = 2 ** binBits;
/** Numbers of a task: both halves of its host's hash, its rank, its number; negative: it leaves. */
const width = 4;
const leaving = (seq: number) => -1 - seq;
const seqAt = taskKeyBytes - 6;

export class UnsortedIndex {
  readonly #crawl: number;
  readonly #bins: number[][] = Array.from({ length: binsCount }, () => []);
  /** Tasks that rest; those and the ones that leave. */
  #count = 0;
  #size = 0;
  /** Tasks that are on the way to the disk. */
  coming = 0;
  /** The bin that `leaveBin` looks at next. */
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
    const high = keys.readUInt32BE(at + 4);
    const [low, rank] = [keys.readUInt32BE(at + 8), keys.readUInt32BE(at + 12)];
    this.#bins[binOf(high)]?.push(high, low, rank, keys.readUIntBE(at + seqAt, 6));
    this.#count++;
    this.#size++;
  }

  /** A commit takes the task of this key in `tasks` away. False: it is not here, or leaves already. */
  leave(key: Buffer): boolean {
    const seq = key.readUIntBE(seqAt, 6);
    const bin = this.#bins[binOf(key.readUInt32BE(4))] ?? [];
    const at = placeOf(bin, seq);
    if (at < 0) return false;
    bin[at] = leaving(seq);
    this.#count--;
    return true;
  }

  /** That commit is on the disk; the key is at this place. */
  gone(keys: Buffer, keyAt = 0): void {
    const bin = this.#bins[binOf(keys.readUInt32BE(keyAt + 4))] ?? [];
    const at = placeOf(bin, leaving(keys.readUIntBE(keyAt + seqAt, 6)));
    if (at < 0) return;
    // The last one takes its place.
    const last = bin.length - width;
    for (let i = 0; i < width; i++) bin[at - width + 1 + i] = bin[last + i] ?? 0;
    bin.length = last;
    this.#size--;
  }

  /** Keys of the tasks of a host, in order; those that leave are among them. */
  keysOf(host: Buffer): Buffer[] {
    const [high, low] = [host.readUInt32BE(0), host.readUInt32BE(4)];
    const bin = this.#bins[binOf(high)] ?? [];
    const keys: Buffer[] = [];
    for (let i = 0; i < bin.length; i += width) {
      if (bin[i] === high && bin[i + 1] === low) keys.push(this.#keyAt(bin, i));
    }
    return keys.length > 1 ? keys.sort((a, b) => a.compare(b)) : keys;
  }

  /** Keys of the tasks of the first host whose hash is not below `from`; [] if there is none. */
  firstHost(from: Buffer): Buffer[] {
    const [fromHigh, fromLow] = [from.readUInt32BE(0), from.readUInt32BE(4)];
    for (let number = binOf(fromHigh); number < binsCount; number++) {
      const bin = this.#bins[number] ?? [];
      let [high, low] = [Number.POSITIVE_INFINITY, 0];
      for (let i = 0; i < bin.length; i += width) {
        const [a = 0, b = 0] = [bin[i], bin[i + 1]];
        const isBefore = a < fromHigh || (a === fromHigh && b < fromLow);
        if (!isBefore && (a < high || (a === high && b < low))) [high, low] = [a, b];
      }
      if (high !== Number.POSITIVE_INFINITY) return this.keysOf(hostOf(high, low));
    }
    return [];
  }

  /** A commit takes away all that rest in the next bin. Returns their keys; [] if none rests. */
  leaveBin(): Buffer[] {
    for (let looked = 0; looked < binsCount && this.#count > 0; looked++) {
      const bin = this.#bins[this.#at] ?? [];
      this.#at = (this.#at + 1) % binsCount;
      const keys: Buffer[] = [];
      for (let i = 0; i < bin.length; i += width) {
        const seq = bin[i + 3] ?? 0;
        if (seq < 0) continue;
        keys.push(this.#keyAt(bin, i));
        bin[i + 3] = leaving(seq);
      }
      this.#count -= keys.length;
      if (keys.length > 0) return keys;
    }
    return [];
  }

  #keyAt(bin: readonly number[], at: number): Buffer {
    const key = Buffer.allocUnsafe(taskKeyBytes);
    const seq = bin[at + 3] ?? 0;
    key.writeUInt32BE(this.#crawl, 0);
    for (let i = 0; i < 3; i++) key.writeUInt32BE(bin[at + i] ?? 0, 4 + 4 * i);
    key.writeUIntBE(seq < 0 ? leaving(seq) : seq, seqAt, 6);
    return key;
  }
}

/** The place of a number in its bin; -1: it is not there. The number alone says the task. */
function placeOf(bin: readonly number[], seq: number): number {
  for (let i = width - 1; i < bin.length; i += width) if (bin[i] === seq) return i;
  return -1;
}

function binOf(high: number): number {
  return high >>> (32 - binBits);
}

function hostOf(high: number, low: number): Buffer {
  const host = Buffer.allocUnsafe(hostBytes);
  host.writeUInt32BE(high, 0);
  host.writeUInt32BE(low, 4);
  return host;
}
