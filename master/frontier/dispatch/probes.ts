/**
 * Tasks that describe a host, robots.txt and sitemaps, whose turn came while no holder had room for
 * them. They are not leased, and hold their host like a fetch under way; the pages of their hosts
 * wait for them. Owned by the dispatcher. Pure: time is an argument.
 */
import { kindOf } from '../kinds/kinds.ts';
import type { Host } from '../politeness/host.ts';
import type { Politeness } from '../politeness/politeness.ts';
import type { Task } from '../tasks/tasks.ts';

/** `isTimed`: its group has a delay, so no other request starts there before it. */
export type Probe = { readonly host: Host; readonly task: Task; readonly isTimed: boolean };

const countMax = 1_024;

export class Probes {
  readonly #politeness: Politeness;
  #waiting: Probe[] = [];

  constructor(politeness: Politeness) {
    this.#politeness = politeness;
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  get isFull(): boolean {
    return this.#waiting.length >= countMax;
  }

  /** Parks a task that politeness has just returned. */
  park(taken: Pick<Probe, 'host' | 'task'>, now: number): void {
    const { group } = taken.host;
    const isTimed = group.delayMs > 0;
    if (isTimed) this.#politeness.starting(group, now);
    this.#waiting.push({ ...taken, isTimed });
  }

  /** Returns the one that has waited longest; it stays. */
  first(now: number): Probe | undefined {
    for (let [probe] = this.#waiting; probe !== undefined; [probe] = this.#waiting) {
      if (probe.task.state === 'leased') return probe;
      // A report of an older lease has arrived.
      this.shift();
      this.#leaveHost(probe, now);
    }
    return undefined;
  }

  /** Removes the first one, which a holder takes. */
  shift(): void {
    this.#waiting.shift();
  }

  /** Drops those of a crawl; another crawl may ask for a robots.txt. */
  cancel(crawlId: number, now: number): void {
    const isOf = ({ task }: Probe) => task.queue.crawl === crawlId;
    const cancelled = this.#waiting.filter(isOf);
    this.#waiting = this.#waiting.filter((probe) => !isOf(probe));
    for (const probe of cancelled) {
      const { task } = probe;
      if (kindOf(task).owner === 'host' && task.state === 'leased') task.queue.release(task, task);
      this.#leaveHost(probe, now);
    }
  }

  /** Those that are wanted wait again in their queues. */
  takeBack(isWanted: (of: Pick<Probe, 'host' | 'task'>) => boolean, now: number): void {
    const taken = this.#waiting.filter(isWanted);
    this.#waiting = this.#waiting.filter((probe) => !isWanted(probe));
    for (const probe of taken) {
      const { task } = probe;
      if (task.state === 'leased') task.queue.release(task, task);
      this.#leaveHost(probe, now);
    }
  }

  #leaveHost({ host, isTimed }: Probe, now: number): void {
    if (isTimed) this.#politeness.started(host.group, true, now);
    this.#politeness.vacate(host.group, now);
    this.#politeness.ended(host, now);
  }
}
