/**
 * The open work of one crawl: the only place where it is counted. A crawl has ended when all four
 * counts are zero; nothing else decides that.
 *
 *     offer --> offered --committed--> waiting --leased--> (waiting and leased) --ended--> gone
 *                                                                  |
 *                                              its record --> unwritten --written--> gone
 *
 * A count that would fall below zero is a fault of the master, which ends it: a crawl that ends
 * early loses pages, and one that never ends is worse than a restart.
 */
import assert from 'node:assert/strict';

export class OpenWork {
  #offered = 0;
  #waiting: number;
  #leased = 0;
  #unwritten = 0;

  /** `waiting`: tasks that an earlier master left in the store. */
  constructor(waiting = 0) {
    this.#waiting = waiting;
  }

  /** Entries of the filter queue that are not on the disk yet: offers, reports, failures. */
  get offered(): number {
    return this.#offered;
  }

  /** Tasks in the store, the leased ones included. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Tasks at slaves, a robots.txt included. */
  get leased(): number {
    return this.#leased;
  }

  /** Rows of the result queue that a sink has not written. */
  get unwritten(): number {
    return this.#unwritten;
  }

  /** True: nothing is left to fetch, and no work under way could add something. */
  get isFetched(): boolean {
    return this.#waiting === 0 && !this.isUnderWay;
  }

  /** True: some work is at a slave or on its way to the disk. */
  get isUnderWay(): boolean {
    return this.#offered > 0 || this.#leased > 0;
  }

  offer(): void {
    this.#offered++;
  }

  /** An offer is on the disk, or had no effect. */
  settle(): void {
    this.#offered = less(this.#offered, 1);
  }

  admit(): void {
    this.#waiting++;
  }

  /** A task has left the store. */
  end(): void {
    this.#waiting = less(this.#waiting, 1);
  }

  lease(): void {
    this.#leased++;
  }

  /** A lease has ended, for any reason. */
  unlease(): void {
    this.#leased = less(this.#leased, 1);
  }

  /** Rows have entered the result queue. */
  record(rows: number): void {
    this.#unwritten += rows;
  }

  /** Rows have left the result queue. */
  written(rows: number): void {
    this.#unwritten = less(this.#unwritten, rows);
  }

  /** All tasks of the crawl were erased. */
  drop(): void {
    this.#waiting = 0;
  }
}

function less(count: number, by: number): number {
  assert.ok(count >= by, 'open work is counted below zero');
  return count - by;
}
