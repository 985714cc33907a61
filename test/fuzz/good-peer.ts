/**
 * A well-behaved slave and client on the master that is fuzzed: it holds leases, uses a queue and a
 * crawl of its own, and finds out at once if anything of these changes. It also measures how long a
 * ping takes: the delay of the master's event loop as others feel it.
 */
import assert from 'node:assert/strict';
import type { RawPeer } from '../support/raw-peer.ts';
import { pushed, report, type Task } from '../support/raw-slave.ts';
import { type Status, statusOf, type Target } from '../support/target.ts';

const tasksHeld = 3;

export class GoodPeer {
  /** Times of single pings, in ms. */
  readonly pings: number[] = [];
  readonly #peer: RawPeer;
  readonly #crawl: string;
  readonly #queue: string;
  readonly #tasks: readonly Task[];
  readonly #before: unknown;
  #isOver = false;
  #running: Promise<void> = Promise.resolve();

  /** To be called before any other slave is there. */
  static async begin(target: Target): Promise<GoodPeer> {
    const peer = await target.join('slave', 'good');
    const seeds = Array.from({ length: tasksHeld }, (_, i) => target.seed(`${i}`));
    // On a live master its leases last 21 minutes by this. [T-50]
    const crawl = await target.crawl(peer, seeds, { fetch: { timeoutMs: 600_000 } });
    await peer.must('task.credit', { count: tasksHeld, slots: tasksHeld * 4 });
    const tasks: Task[] = [];
    while (tasks.length < tasksHeld) tasks.push(...(await pushed(peer)));
    await peer.must('task.credit', { count: 0 });
    const good = new GoodPeer(peer, crawl, target.name(), tasks, await standing(peer, crawl));
    good.#running = good.#run();
    return good;
  }

  private constructor(
    peer: RawPeer,
    crawl: string,
    queue: string,
    tasks: readonly Task[],
    before: unknown,
  ) {
    this.#peer = peer;
    this.#crawl = crawl;
    // A queue's name begins with a letter.
    this.#queue = `q${queue}`;
    this.#tasks = tasks;
    this.#before = before;
  }

  /** Rejects when something of it was changed by others. */
  get running(): Promise<void> {
    return this.#running;
  }

  /** Ends its tasks, which must still be its own. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#running;
    for (const task of this.#tasks) {
      assert.equal((await report(this.#peer, task))['state'], 'done');
    }
    const { pages, waiting } = await statusOf(this.#peer, this.#crawl);
    assert.deepEqual({ pages, waiting }, { pages: tasksHeld, waiting: 0 });
    await this.#peer.close();
  }

  /** Ends what mutants have begun. */
  async cancelOthers(target: Target): Promise<void> {
    const peer = await target.join();
    const { crawls } = (await peer.must('crawl.list')) as unknown as Status;
    for (const { name, state } of crawls) {
      if (name !== this.#crawl && state !== 'cancelled') {
        // A mutant may have removed it since.
        await peer.request('crawl.cancel', { crawl: name });
      }
    }
    await peer.close();
  }

  async #run(): Promise<void> {
    const peer = this.#peer;
    const queue = this.#queue;
    for (let n = 0; !this.#isOver; n++) {
      const began = performance.now();
      await peer.must('ping');
      this.pings.push(performance.now() - began);
      if (n % 8 > 0) {
        await new Promise((resolve) => setTimeout(resolve, 5));
        continue;
      }
      const item = Buffer.from([n & 0xff, n >> 8]);
      await peer.must('queue.put', { queue, items: [item] });
      const { items } = (await peer.must('queue.get', { queue })) as unknown as Items;
      assert.deepEqual(
        items.map(({ value }) => value),
        [item],
      );
      await peer.must('queue.done', { queue, items: items.map(({ id }) => id) });
      const leases = this.#tasks.map(({ lease }) => lease);
      assert.deepEqual((await peer.must('task.extend', { leases }))['lost'], []);
      if (n % 64 === 0) assert.deepEqual(await standing(peer, this.#crawl), this.#before);
    }
  }
}

/** Its status, without the rates, which change by themselves. */
async function standing(peer: RawPeer, crawl: string): Promise<unknown> {
  const { rates: _, ...status } = await statusOf(peer, crawl);
  return status;
}

type Items = { readonly items: readonly { id: number; value: Buffer }[] };
