/**
 * Abilities that some crawls need and not every slave has: evaluate rules, send what is to be
 * archived, log in, find articles, send requests with a body. A crawl waits while no slave can do
 * what it needs.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Crawls } from '../crawl/crawls.ts';
import { needs, needsOf } from '../crawl/needs.ts';
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

  /** A holder came, left, or said what it can do: tasks of crawls with an archive or a login wait
   *  for one that can do that. */
  noteHolders(): void {
    const crawls = this.#crawls;
    const { abilities } = this.#holders;
    if (isDeepStrictEqual(crawls.server.abilities, abilities)) return;
    crawls.server.abilities = abilities;
    for (const crawl of crawls.demanding) if (crawl.isOpen) crawls.queues.wake(crawl);
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

  /** The abilities that its crawl needs of a slave, see `needs`. */
  needsOf(task: Task): number {
    if (this.#crawls.demanding.size === 0) return needs.nothing;
    const crawl = this.#crawls.of(task);
    return crawl === undefined ? needs.nothing : needsOf(crawl.spec.fetch);
  }
}

/** The holders that take it. */
export function takersOf(task: Task): Takers {
  return hasRequest(task) ? 'requests' : kindOf(task).takers;
}
