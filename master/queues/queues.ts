/**
 * The user queues by name, and their part of each commit, which queues supply that have changed
 * since the last one.
 */
import { CommandError } from '../../shared/errors.ts';
import type { GroupCommit, Part } from '../store/group-commit.ts';
import { afterPrefix, parseItemKey } from '../store/records.ts';
import type { Store } from '../store/store.ts';
import { ItemBudget } from './item-budget.ts';
import { queuesWithDelayed } from './item-notes.ts';
import { type ItemHolder, UserQueue } from './user-queue.ts';

const queuesMax = 10_000;

/** The queue of the dead letters of a queue: a name has 64 characters at most. */
function deadLettersOf(name: string): string {
  return `${name.slice(0, 59)}.dead`;
}

export class UserQueues {
  readonly #store: Store;
  readonly #commits: GroupCommit;
  readonly #queues = new Map<string, UserQueue>();
  readonly #changed = new Set<UserQueue>();
  readonly #budget: ItemBudget;
  readonly #maxima: ReadonlyMap<string, number>;

  /** `bytesMax`: see `ItemBudget`. `maxima`: maximum number of items of a queue; default: no
   *  maximum. */
  constructor(
    store: Store,
    commits: GroupCommit,
    options: { readonly bytesMax: number; readonly maxima?: ReadonlyMap<string, number> },
  ) {
    this.#store = store;
    this.#commits = commits;
    this.#budget = new ItemBudget(options.bytesMax);
    this.#maxima = options.maxima ?? new Map<string, number>();
    commits.addGatherer(() => this.#gather());
    this.#load();
  }

  /** Returns the queue of that name; the first use creates it. */
  queue(name: string): UserQueue {
    let queue = this.#queues.get(name);
    if (queue === undefined) {
      if (this.#queues.size >= queuesMax) {
        throw new CommandError('E_LIMIT', `there are ${queuesMax} queues already`);
      }
      queue = new UserQueue(name, {
        store: this.#store,
        budget: this.#budget,
        countMax: this.#maxima.get(name) ?? Number.POSITIVE_INFINITY,
        onChanged: (changed) => {
          this.#changed.add(changed);
          this.#commits.request();
        },
        onDead: async (from, value) => {
          await this.queue(deadLettersOf(from.name)).put([value]);
        },
      });
      this.#queues.set(name, queue);
    }
    return queue;
  }

  /** Returns the queue of that name, if it has been used. */
  find(name: string): UserQueue | undefined {
    return this.#queues.get(name);
  }

  /** Returns the bytes of memory of the items that a session holds. */
  heldBytes(holder: ItemHolder): number {
    return this.#budget.memoryOf(holder);
  }

  /** The session ended: the items that it held wait again. */
  removeHolder(holder: ItemHolder): void {
    for (const queue of this.#queues.values()) queue.removeHolder(holder);
  }

  /** Answers all waiting requests with no item. */
  close(): void {
    for (const queue of this.#queues.values()) queue.close();
  }

  #gather(): Part | undefined {
    if (this.#changed.size === 0) return undefined;
    const changed = [...this.#changed];
    // A queue with more for the next commit registers again.
    this.#changed.clear();
    const parts = changed.map((queue) => queue.gather());
    return {
      changes: parts.length === 1 ? (parts[0]?.changes ?? []) : parts.flatMap((p) => p.changes),
      done: (tookMs) => {
        for (const part of parts) part.done(tookMs);
      },
    };
  }

  #load(): void {
    const delayed = new Set(queuesWithDelayed(this.#store));
    let from: Buffer = Buffer.from([0]);
    const to = Buffer.alloc(64, 0xff);
    while (true) {
      const [row] = this.#store.range('items', { from, to, limit: 1 });
      if (row === undefined) break;
      const { queue } = parseItemKey(row.key);
      delayed.delete(queue);
      this.queue(queue).load();
      from = afterPrefix(Buffer.from(`${queue}\0`, 'latin1'));
    }
    for (const name of delayed) this.queue(name).load();
  }
}
