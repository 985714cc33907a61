/**
 * The pages and sitemaps that first led to URLs. A task keeps the number of the task that led to
 * it; a row for each task that led to any has its URL, so that a new URL costs six bytes and a
 * share of one row. Rows stay as long as their crawl, because its buried URLs may be tried again.
 */
import { sourceKey } from '../../store/records.ts';
import type { Change, Store } from '../../store/store.ts';
import type { Task } from '../tasks/tasks.ts';

/** URLs in memory: tasks of one page follow each other. */
const cachedMax = 4_096;

export class Sources {
  readonly #store: Store;
  readonly #cached = new Map<string, string>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** Returns the URL of what led to a task; undefined: it is a seed. */
  urlOf({ queue, from }: Pick<Task, 'queue' | 'from'>): string | undefined {
    if (from === undefined) return undefined;
    const name = `${queue.crawl} ${from}`;
    const known = this.#cached.get(name);
    if (known !== undefined) return known;
    const url = this.#store.get('sources', sourceKey(queue.crawl, from))?.toString('latin1');
    if (url === undefined) return undefined;
    if (this.#cached.size >= cachedMax) this.#cached.clear();
    this.#cached.set(name, url);
    return url;
  }
}

/** Keeps the URL of a task that led to others. */
export function sourceChange(crawl: number, seq: number, url: string): Change {
  return { table: 'sources', key: sourceKey(crawl, seq), value: Buffer.from(url, 'latin1') };
}
