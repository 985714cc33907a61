/**
 * Tasks that tell of a host, robots.txt and sitemaps, whose turn came while nobody had room who
 * takes them. They are leased to nobody, and hold their host as a fetch under way would; the pages
 * of their hosts wait for them. Owned by the dispatcher. Pure: time is an argument.
 */
import { kindOf } from '../kinds/kinds.ts';
import type { Host } from '../politeness/host.ts';
import type { Politeness } from '../politeness/politeness.ts';
import type { Task } from '../tasks/tasks.ts';

/** `isTimed`: its group has a delay, and nobody else begins there until it has begun. */
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

  /** A task that the politeness has just given. */
  park(taken: Pick<Probe, 'host' | 'task'>, now: number): void {
    const { group } = taken.host;
    const isTimed = group.delayMs > 0;
    if (isTimed) this.#politeness.starting(group, now);
    this.#files.push({ ...taken, isTimed });
  }

  /** The one that waits longest; it stays. */
  first(now: number): Probe | undefined {
    for (let [file] = this.#files; file !== undefined; [file] = this.#files) {
      if (file.task.state === 'leased') return file;
      // A report of an older lease has come.
      this.shift();
      this.#leaveHost(file, now);
    }
    return undefined;
  }

  /** Somebody takes it. */
  shift(): void {
    this.#files.shift();
  }

  /** Those of a crawl are not wanted any more; another crawl may ask for a robots.txt. */
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
