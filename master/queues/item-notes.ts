/**
 * The record of items besides their values, in `meta`, for queues whose users ask for it:
 *
 *     queue-attempts/ | queue | 0 | seq u48             -> how often it has returned
 *     queue-delayed/ | queue | 0 | due u48 | delay u32 | number u48
 *                                                       -> value, and how often it has returned
 *
 * A delayed item is not in its queue until it is due. It enters as a new item, in the commit that
 * deletes its row here. Its time is that of the wall clock, in ms: a clock that was set back
 * between two masters adds the delay once more, at most. A version without these leaves the rows.
 */
import { decodeValue, encodeValue } from '../../shared/frame.ts';
import { Heap } from '../machine/heap.ts';
import { afterPrefix } from '../store/records.ts';
import { batches, type Change, type Store } from '../store/store.ts';
import type { ItemBudget } from './item-budget.ts';

/** `due`, `delayMs` and `number` are those of its row; `dueAt` is its time for this master. */
type Delayed = {
  readonly dueAt: number;
  readonly due: number;
  readonly delayMs: number;
  readonly number: number;
  heapIndex: number;
};
/** Due: to be appended. */
type Due = { readonly value: Uint8Array; readonly attempts: number; readonly key: Buffer };

const attemptsPrefix = 'queue-attempts/';
const delayedPrefix = 'queue-delayed/';

export class ItemNotes {
  readonly #store: Store;
  readonly #budget: ItemBudget;
  readonly #attemptsOf: Buffer;
  readonly #delayedOf: Buffer;
  readonly #attempts = new Map<number, number>();
  /** By due time; those that are due at the same time in the order in which they came. */
  readonly #delayed = new Heap<Delayed>((a, b) =>
    a.dueAt === b.dueAt ? a.number < b.number : a.dueAt < b.dueAt,
  );
  #lastNumber = 0;
  #changes: Change[] = [];

  constructor(name: string, store: Store, budget: ItemBudget) {
    this.#store = store;
    this.#budget = budget;
    this.#attemptsOf = Buffer.from(`${attemptsPrefix}${name}\0`, 'latin1');
    this.#delayedOf = Buffer.from(`${delayedPrefix}${name}\0`, 'latin1');
  }

  /** Reads what an earlier master left. `lastId`: of the items in the store. The note of a later
   *  one was flushed without it, before a crash; its number goes to another item.
   *  `now`: Unix time. */
  load(lastId: number, now: number): void {
    for (const rows of batches(this.#store, 'meta', within(this.#attemptsOf), 256)) {
      for (const { key, value } of rows) {
        const id = key.readUIntBE(key.length - 6, 6);
        if (id <= lastId) this.#attempts.set(id, decodeValue(value) as number);
        else this.#changes.push({ table: 'meta', key, value: undefined });
      }
    }
    for (let from = this.#delayedOf, after = false; ; after = true) {
      const range = { from, after, to: afterPrefix(this.#delayedOf), limit: 256 };
      const keys = this.#store.keys('meta', range);
      for (const key of keys) {
        const number = key.readUIntBE(key.length - 6, 6);
        const delayMs = key.readUIntBE(key.length - 10, 4);
        const due = key.readUIntBE(key.length - 16, 6);
        const dueAt = Math.min(due, now + delayMs);
        this.#delayed.set({ dueAt, due, delayMs, number, heapIndex: -1 });
        this.#lastNumber = Math.max(this.#lastNumber, number);
      }
      this.#budget.delayedCount += keys.length;
      const last = keys.at(-1);
      if (last === undefined) break;
      from = last;
    }
  }

  get delayedCount(): number {
    return this.#delayed.size;
  }

  /** When the next delayed item is due, in Unix time; undefined: there is none. */
  get nextDueAt(): number | undefined {
    return this.#delayed.peek()?.dueAt;
  }

  attemptsOf(id: number): number {
    return this.#attempts.get(id) ?? 0;
  }

  setAttempts(id: number, attempts: number): void {
    if (attempts === this.attemptsOf(id)) return;
    if (attempts === 0) this.#attempts.delete(id);
    else this.#attempts.set(id, attempts);
    const key = Buffer.alloc(this.#attemptsOf.length + 6);
    this.#attemptsOf.copy(key);
    key.writeUIntBE(id, this.#attemptsOf.length, 6);
    const value = attempts === 0 ? undefined : encodeValue(attempts);
    this.#changes.push({ table: 'meta', key, value });
  }

  /** Keeps a value until it is due. `now`: Unix time. */
  delay(value: Uint8Array, attempts: number, delayMs: number, now: number): void {
    const dueAt = Math.round(now) + delayMs;
    const delayed = { dueAt, due: dueAt, delayMs, number: ++this.#lastNumber, heapIndex: -1 };
    const key = this.#keyOf(delayed);
    this.#changes.push({ table: 'meta', key, value: encodeValue([value, attempts]) });
    this.#delayed.set(delayed);
    this.#budget.delayedCount++;
  }

  #keyOf({ due, delayMs, number }: Delayed): Buffer {
    const { length } = this.#delayedOf;
    const key = Buffer.alloc(length + 16);
    this.#delayedOf.copy(key);
    key.writeUIntBE(due, length, 6);
    key.writeUIntBE(delayMs, length + 6, 4);
    key.writeUIntBE(number, length + 10, 6);
    return key;
  }

  /** Takes up to `countMax` items that are due. Their rows stay until `forget`. */
  due(now: number, countMax: number): Due[] {
    const found: Due[] = [];
    while (found.length < countMax) {
      const delayed = this.#delayed.peek();
      if (delayed === undefined || delayed.dueAt > now) break;
      const key = this.#keyOf(delayed);
      const row = this.#store.get('meta', key);
      // Its commit is under way: it enters a moment later.
      if (row === undefined) break;
      const [value, attempts] = decodeValue(row) as [Uint8Array, number];
      found.push({ value, attempts, key });
      this.#delayed.pop();
    }
    this.#budget.delayedCount -= found.length;
    return found;
  }

  /** The item has entered its queue. */
  forget(key: Buffer): void {
    this.#changes.push({ table: 'meta', key, value: undefined });
  }

  /** Returns the changes for the next commit. */
  gather(): Change[] {
    const changes = this.#changes;
    this.#changes = [];
    return changes;
  }
}

/** The queues that have delayed items. */
export function queuesWithDelayed(store: Store): string[] {
  const found: string[] = [];
  let from: Buffer = Buffer.from(delayedPrefix, 'latin1');
  const to = afterPrefix(from);
  while (true) {
    const [key] = store.keys('meta', { from, to, limit: 1 });
    if (key === undefined) return found;
    const name = key.toString('latin1', delayedPrefix.length, key.indexOf(0));
    found.push(name);
    from = afterPrefix(Buffer.from(`${delayedPrefix}${name}\0`, 'latin1'));
  }
}

function within(prefix: Buffer) {
  return { from: prefix, to: afterPrefix(prefix) };
}
