/** Tasks that wait for a slot, in their order. */

import type { TaskPush } from '../shared/protocol.ts';
import type { FailedOutcome } from './fetch/outcome.ts';
import { isUrgent } from './kinds/kinds.ts';

export class WaitingTasks {
  #tasks: TaskPush[] = [];

  get first(): TaskPush | undefined {
    return this.#tasks[0];
  }

  [Symbol.iterator](): IterableIterator<TaskPush> {
    return this.#tasks.values();
  }

  /** Behind the others; what is urgent goes before them. */
  add(tasks: readonly TaskPush[]): void {
    const urgent = tasks.filter(isUrgent);
    if (urgent.length > 0) this.#tasks = [...urgent, ...this.#tasks];
    this.#tasks.push(...tasks.filter((task) => !isUrgent(task)));
  }

  addFirst(task: TaskPush): void {
    this.#tasks.unshift(task);
  }

  takeFirst(): void {
    this.#tasks.shift();
  }

  /** Takes all. */
  clear(): TaskPush[] {
    const all = this.#tasks;
    this.#tasks = [];
    return all;
  }

  /** Takes those of these leases: the master wants them back. */
  recall(leases: ReadonlySet<number>): TaskPush[] {
    const recalled = this.#tasks.filter(({ lease }) => leases.has(lease));
    this.cancel(leases);
    return recalled;
  }

  cancel(leases: ReadonlySet<number>): void {
    this.#tasks = this.#tasks.filter(({ lease }) => !leases.has(lease));
  }

  /** Takes what would be asked of the host of this task, whose answer asks for a pause: the master
   *  knows when it may be asked again. A 503 alone may be of the one page. */
  takeRefused({ url }: TaskPush, { error, retryAfterMs }: FailedOutcome): TaskPush[] {
    const status = error.kind === 'status' ? Number.parseInt(error.message, 10) : 0;
    if (status !== 429 && !(status === 503 && retryAfterMs !== undefined)) return [];
    const { origin } = new URL(url);
    const isRefused = (task: TaskPush) =>
      task.train === undefined &&
      task.url.startsWith(origin) &&
      new URL(task.url).origin === origin;
    const refused = this.#tasks.filter(isRefused);
    if (refused.length > 0) this.#tasks = this.#tasks.filter((task) => !isRefused(task));
    return refused;
  }
}
