/**
 * Pages that a crawl took over from an earlier one, so that unchanged ones are not fetched again. A
 * table of its own holds the earlier record of each task. Its validators go to the slave with the
 * task; if the answer is 304, the rest makes the line that a fetch would have made. The record
 * leaves the store with its task. A crawl that took over nothing does not read the table.
 */
import type { EarlierPage, Result } from '../../../shared/requests.ts';
import { decodeEarlier } from '../../store/records.ts';
import type { Store } from '../../store/store.ts';
import type { Crawl } from '../crawl/crawl.ts';
import { keyOf, type Task } from '../tasks/tasks.ts';
import type { Report } from './entry.ts';

/** A report as it is written: with what was known before, if it is unchanged. */
export type PageFound = {
  readonly result: Result;
  readonly images: Report['images'];
  /** Undefined: they are to be counted. */
  readonly linkCount?: number;
};

export class EarlierPages {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Validators for the push of a task. */
  validators(crawl: Crawl, task: Task) {
    const page = this.#find(crawl, task);
    if (page === undefined) return undefined;
    const { etag, lastModified, finalUrl: validatedUrl } = page;
    return {
      ...(etag && { etag }),
      ...(lastModified && { lastModified }),
      ...(validatedUrl && { validatedUrl }),
    };
  }

  /** Returns the page that a report of an unchanged one stands for. */
  carryOver(crawl: Crawl, task: Task, { result }: Report): PageFound {
    const page = this.#find(crawl, task);
    if (page === undefined) {
      // The request had no validators.
      const error = { kind: 'status', message: '304 Not Modified' } as const;
      return { result: { ...result, error }, images: [] };
    }
    const { images, links: linkCount, finalUrl: _, ...known } = page;
    // The answer may have new validators; all else came with the page.
    const { etag = known.etag, lastModified = known.lastModified } = result;
    return { result: { ...result, ...known, etag, lastModified }, images, linkCount };
  }

  #find(crawl: Crawl, task: Task): EarlierPage | undefined {
    if (crawl.counters.earlier === 0) return undefined;
    const value = this.#store.get('earlier', keyOf(task));
    return value === undefined ? undefined : decodeEarlier(value);
  }
}

/** True for the answer 304 to a question that a slave asked. */
export function isUnchanged({ status, error }: Result): boolean {
  return status === 304 && error === undefined;
}
