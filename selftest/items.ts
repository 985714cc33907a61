/**
 * Puts items into a user queue and takes them out, through the proxy, and keeps a ledger:
 * acknowledged items must arrive, and items that are done must not come again.
 *
 *     put --acknowledged--> owed --got--> held --done, acknowledged--> settled
 *                             ^             |
 *                             +--released---+ at once or later
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type MasterClient, parseAddress } from '../shared/client.ts';
import { CommandError, ConnectionError } from '../shared/errors.ts';
import { decodeValue } from '../shared/frame.ts';
import type { Violation } from './exact.ts';

const queue = 'selftest';
const everyMs = 50;
const againMs = 100;
const takeMax = 16;
const waitMs = 1_000;
/** How long items are held at most, how often they may return, and the longest delay of one. */
const holdMs = 30_000;
const attempts = 1_000;
const delayMsMax = 2_000;

export class Items {
  /** Acknowledged, and not done yet. */
  readonly #owed = new Set<number>();
  /** All items seen; an unacknowledged put may arrive, too. */
  readonly #seen = new Set<number>();
  /** The master was asked to delete them. */
  readonly #done = new Set<number>();
  readonly #settled = new Set<number>();
  readonly #violations: Violation[] = [];
  readonly #address: () => string;
  readonly #authkey: () => Buffer;
  #lastPut = 0;
  #isOver = false;
  #acknowledged = 0;

  constructor(address: () => string, authkey: () => Buffer) {
    this.#address = address;
    this.#authkey = authkey;
  }

  /** Items whose put was acknowledged. */
  get count(): number {
    return this.#acknowledged;
  }

  /** Puts until `signal`. */
  async put(signal: AbortSignal): Promise<void> {
    await this.#work(
      'putter',
      () => signal.aborted,
      async (master) => {
        // A number is used once, even if its put fails, so that duplicates are recognised.
        const number = ++this.#lastPut;
        await master.queue(queue).put(number);
        this.#acknowledged++;
        if (!this.#done.has(number)) this.#owed.add(number);
        await sleep(everyMs);
      },
    );
  }

  /** Takes until `finish`. */
  async take(): Promise<void> {
    await this.#work(
      'taker',
      () => this.#isOver,
      async (master) => {
        const how = { count: takeMax, waitMs, holdMs, attempts };
        const { items } = await master.request('queue.get', { queue, ...how });
        const got = items.map(({ id, value }) => ({ id, number: Number(decodeValue(value)) }));
        // Each third is given back the first time.
        const back = got.filter(({ number }) => number % 3 === 0 && !this.#seen.has(number));
        const done = got.filter((item) => !back.includes(item));
        for (const { number } of got) this.#got(number);
        if (back.length > 0) {
          const delayMs = (back[0]?.number ?? 0) % delayMsMax;
          const ids = back.map(({ id }) => id);
          await master.request('queue.release', { queue, items: ids, delayMs });
        }
        if (done.length === 0) return;
        for (const { number } of done) {
          this.#done.add(number);
          this.#owed.delete(number);
        }
        await master.request('queue.done', { queue, items: done.map(({ id }) => id) });
        for (const { number } of done) this.#settled.add(number);
      },
    );
  }

  /** After the last put: waits for owed items, until `deadlineMs` of `performance.now()`, and
   *  returns the violations. */
  async finish(deadlineMs: number): Promise<Violation[]> {
    while (this.#owed.size > 0 && performance.now() < deadlineMs) await sleep(everyMs);
    this.#isOver = true;
    const lost = [...this.#owed].map(
      (number): Violation => ({
        kind: 'lost',
        what: `item ${number} of the queue ${queue}`,
      }),
    );
    return [...this.#violations, ...lost];
  }

  #got(number: number): void {
    const isOurs = Number.isInteger(number) && number >= 1 && number <= this.#lastPut;
    if (!isOurs) this.#violations.push({ kind: 'wrong', what: `item ${number} was never put` });
    if (this.#settled.has(number)) {
      this.#violations.push({ kind: 'duplicated', what: `item ${number} came after it was done` });
    }
    this.#seen.add(number);
  }

  /** Repeats the work, on a new connection whenever one is lost. */
  async #work(
    name: string,
    isOver: () => boolean,
    act: (master: MasterClient) => Promise<void>,
  ): Promise<void> {
    let master: MasterClient | undefined;
    while (!isOver()) {
      try {
        master ??= await connect({
          host: '127.0.0.1',
          port: parseAddress(this.#address()).port,
          name,
          authkey: this.#authkey(),
          timeoutMs: 5_000,
        });
        await act(master);
      } catch (error) {
        // A master that is stopping, or a connection that ended: try again.
        if (!(error instanceof ConnectionError || error instanceof CommandError)) throw error;
        const old = master;
        master = undefined;
        void old?.close();
        await sleep(againMs);
      }
    }
    await master?.close();
  }
}
