/**
 * Puts sitemaps into the filter queue: those of a host that a crawl meets, and the parts that
 * slaves report. `kinds/sitemap.ts` has their effect on a commit.
 * Called by the politeness when a crawl meets a host, and by the commands of slaves.
 */
import type { Crawls } from '../crawl/crawls.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import type { LeaseHolder } from '../dispatch/leases.ts';
import { kindOf } from '../kinds/kinds.ts';
import { sitemapsOf } from '../kinds/sitemap.ts';
import type { Host } from '../politeness/host.ts';
import { type Entry, type SitemapPart, smallEntryBytes, type Verdict } from './entry.ts';

export class Sitemaps {
  readonly #crawls: Crawls;
  readonly #dispatcher: Dispatcher;
  readonly #put: (entry: Entry) => void;

  constructor(options: {
    crawls: Crawls;
    dispatcher: Dispatcher;
    put: (entry: Entry) => void;
  }) {
    this.#crawls = options.crawls;
    this.#dispatcher = options.dispatcher;
    this.#put = options.put;
  }

  /** The host's robots.txt is known, and the crawl starts there: offers the host's sitemaps. The
   *  filter knows those that the crawl has, so repeated calls are harmless. */
  met(host: Host, crawlId: number): void {
    const crawl = this.#crawls.byId(crawlId);
    if (crawl === undefined) return;
    const { urls, level } = sitemapsOf(crawl, host);
    if (urls.length === 0) return;
    const bytes = urls.length * smallEntryBytes;
    this.#put({ kind: 'sitemaps', crawl, bytes, urls, level });
  }

  /** Takes a part of a sitemap; the last one ends its lease. Resolves when it is on the disk. */
  async take(
    holder: LeaseHolder,
    leaseId: number,
    id: Uint8Array,
    part: SitemapPart,
  ): Promise<Verdict> {
    const task = this.#dispatcher.open(holder, leaseId, id);
    const crawl = task && this.#crawls.of(task);
    if (task === undefined || crawl === undefined) return 'stale';
    if (kindOf(task).answeredBy !== 'task.sitemap') return 'stale';
    if (part.end !== undefined) this.#dispatcher.claim(holder, leaseId, id);
    const bytes = smallEntryBytes + part.urls.length + part.images.length;
    return await new Promise((done) =>
      this.#put({ kind: 'sitemap', crawl, bytes, task, part, slave: holder.name, done }),
    );
  }
}
