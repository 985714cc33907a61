/**
 * Which fetches hold a slot. A slot stands for work: an answer that is read, a page that is parsed.
 * Waiting costs little, so a fetch holds none while it waits
 *
 *     as a trial      from its start: its host may not answer                    PROTOCOL.md [T-51]
 *     for long        a second after its request has left: its slot is lent to another fetch, so
 *                     that hosts that answer late do not keep those waiting that answer at once
 *
 * and takes one when the answer begins, even if all are taken by then.
 */
import type { TaskPush } from '../shared/protocol.ts';
import { trialsOf } from './credit.ts';

/** So long a request may wait for its answer before its slot is lent. */
const patienceMs = 1_000;
const lookEveryMs = 250;
/** Slots that may be lent, for each one, and in all: what the master takes is bounded. */
const lentPerSlot = 16;
const lentMax = 1_024;

/** The sockets that a slave wants: all its fetches, with and without a slot, may be of one host.
 *  A proxy has no more than one for each slot. */
export function socketsOf(slots: number): { connections: number; byProxy: number } {
  return { connections: slots + lentOf(slots) + trialsOf(slots), byProxy: slots };
}

function lentOf(slots: number): number {
  return Math.min(slots * lentPerSlot, lentMax);
}

export class Slots {
  readonly #count: number;
  readonly #onLent: (count: number) => void;
  /** Trials without an answer so far. */
  readonly #trials = new Set<TaskPush>();
  /** Others without one, with the time when their request left, the oldest first. */
  readonly #waiting = new Map<TaskPush, number>();
  readonly #lent = new Set<TaskPush>();
  #timer: NodeJS.Timeout | undefined;

  /** `onLent`: another number of slots is lent. */
  constructor(count: number, onLent: (count: number) => void) {
    this.#count = count;
    this.#onLent = onLent;
  }

  /** Is one free, with this number of fetches under way? */
  isFree(fetching: number): boolean {
    return fetching - this.#trials.size - this.#lent.size < this.#count;
  }

  /** Trials that hold none, of hosts that may never answer. */
  get trials(): TaskPush[] {
    return [...this.#trials].filter(({ late }) => late !== true);
  }

  /** A fetch begins. */
  begins(task: TaskPush): void {
    if (task.trial !== undefined) this.#trials.add(task);
  }

  /** Its request leaves, also that of a redirect, which may lead to another unknown host. `isLent`:
   *  its slot may be lent. */
  asks(task: TaskPush, isLent: boolean): void {
    this.begins(task);
    if (task.trial !== undefined || !isLent) return;
    this.#take(task);
    this.#waiting.set(task, performance.now());
    this.#timer ??= setInterval(() => this.#look(), lookEveryMs).unref();
  }

  /** An answer begins, or the fetch has ended. */
  answered(task: TaskPush): void {
    this.#trials.delete(task);
    this.#take(task);
  }

  #take(task: TaskPush): void {
    this.#waiting.delete(task);
    if (this.#lent.delete(task)) this.#onLent(this.#lent.size);
  }

  #look(): void {
    if (this.#waiting.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    const before = performance.now() - patienceMs;
    const lent = this.#lent.size;
    for (const [task, since] of this.#waiting) {
      if (since > before || this.#lent.size >= lentOf(this.#count)) break;
      this.#waiting.delete(task);
      this.#lent.add(task);
    }
    if (this.#lent.size > lent) this.#onLent(this.#lent.size);
  }
}
