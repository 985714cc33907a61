/**
 * What some crawls need of slaves, and not every slave can do: evaluate rules, send what is to be
 * archived, send requests with a body. A crawl waits while no slave can do what it needs.
 */
import type { Crawls } from '../crawl/crawls.ts';
import { kindOf } from '../kinds/kinds.ts';
import { hasRequest } from '../tasks/task-requests.ts';
import type { Task } from '../tasks/tasks.ts';
import type { Holders, Takers } from './holders.ts';

export class Abilities {
  readonly #crawls: Crawls;
  readonly #holders: Holders;

  constructor(crawls: Crawls, holders: Holders) {
    this.#crawls = crawls;
    this.#holders = holders;
  }

  /** A holder came, left, or said what it can do: tasks of crawls that are archived wait for one
   *  that can send what is. */
  noteHolders(): void {
    const crawls = this.#crawls;
    const { hasArchivers } = this.#holders;
    if (crawls.server.hasArchivers === hasArchivers) return;
    crawls.server.hasArchivers = hasArchivers;
    for (const crawl of crawls.archived) if (crawl.isOpen) crawls.queues.wake(crawl);
  }

  /** Crawls with items wait while no slave evaluates rules. While one runs, slaves that do not get
   *  no pages. [T-80] */
  match(): void {
    const { ruled, queues } = this.#crawls;
    if (ruled.size === 0 && !this.#holders.pagesNeedRules) return;
    const { knowRules } = this.#holders;
    let isAny = false;
    for (const crawl of ruled) {
      isAny ||= crawl.isRunning;
      if (crawl.awaitsRules === !knowRules) continue;
      crawl.awaitRules(!knowRules);
      queues.wake(crawl);
    }
    this.#holders.pagesNeedRules = isAny && knowRules;
  }

  /** What it fetches is to be archived. */
  isArchived(task: Task): boolean {
    return this.#crawls.archived.size > 0 && this.#crawls.of(task)?.isArchived === true;
  }
}

/** The holders that take it. */
export function takersOf(task: Task): Takers {
  return hasRequest(task) ? 'requests' : kindOf(task).takers;
}
