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
  #files: Probe[] = [];

  constructor(politeness: Politeness) {
    this.#politeness = politeness;
  }

  get isEmpty(): boolean {
    return this.#files.length === 0;
  }

  get isFull(): boolean {
    return this.#files.length >= countMax;
  }

  /** Parks a task that politeness has just returned. */
  park(taken: Pick<Probe, 'host' | 'task'>, now: number): void {
    const { group } = taken.host;
    const isTimed = group.delayMs > 0;
    if (isTimed) this.#politeness.starting(group, now);
    this.#files.push({ ...taken, isTimed });
  }

  /** Returns the one that has waited longest; it stays. */
  first(now: number): Probe | undefined {
    for (let [file] = this.#files; file !== undefined; [file] = this.#files) {
      if (file.task.state === 'leased') return file;
      // A report of an older lease has arrived.
      this.shift();
      this.#leaveHost(file, now);
    }
    return undefined;
  }

  /** Removes the first one, which a holder takes. */
  shift(): void {
    this.#files.shift();
  }

  /** Drops those of a crawl; another crawl may ask for a robots.txt. */
  cancel(crawlId: number, now: number): void {
    const isOf = ({ task }: Probe) => task.queue.crawl === crawlId;
    const cancelled = this.#files.filter(isOf);
    this.#files = this.#files.filter((file) => !isOf(file));
    for (const file of cancelled) {
      const { task } = file;
      if (kindOf(task).owner === 'host' && task.state === 'leased') task.queue.release(task, task);
      this.#leaveHost(file, now);
    }
  }

  #leaveHost({ host, isTimed }: Probe, now: number): void {
    if (isTimed) this.#politeness.started(host.group, true, now);
    this.#politeness.vacate(host.group, now);
    this.#politeness.ended(host, now);
  }
}
