/**
 * The sitemaps of a crawl: which there are, and what slaves say of them. A sitemap is a task like a
 * page, in its host's queue, for its host's robots.txt and pace; it is in no count of pages, and is
 * never buried. Its level says how it was found:
 *
 *     0  /sitemap.xml, guessed: if there is none, nobody hears of it
 *     1  named by the robots.txt of a host in scope, on whatever host it is
 *     2… named by a sitemap index, or where one redirects to: on the same host name, or in scope
 *
 * Called by the politeness when a crawl meets a host, and by the commands of slaves.
 */
import { canonicalUrl } from '../../../shared/url.ts';
import type { Crawl } from '../crawl/crawl.ts';
import type { Crawls } from '../crawl/crawls.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import type { LeaseHolder } from '../dispatch/leases.ts';
import type { Host } from '../politeness/host.ts';
import type { Task } from '../tasks/tasks.ts';
import { type Entry, type SitemapPart, smallEntryBytes, type Verdict } from './entry.ts';

export const guessedLevel = 0;
const namedLevel = 1;
/** The protocol knows one index above its sitemaps; redirects count, too. */
const levelMax = 4;
/** Sitemaps of one crawl: as many as one index may name. Source: sitemaps.org. */
export const sitemapsMax = 50_000;

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

  /** The host's robots.txt is known, and the crawl begins there: offers the host's sitemaps. Those
   *  that the crawl has are known to its filter, so that it may be said again. */
  met(host: Host, crawlId: number): void {
    const crawl = this.#crawls.byId(crawlId);
    if (crawl === undefined) return;
    const { urls, level } = sitemapsOf(crawl, host);
    if (urls.length === 0) return;
    const bytes = urls.length * smallEntryBytes;
    this.#put({ kind: 'sitemaps', crawl, bytes, urls, level });
  }

  /** Takes a part of what a sitemap says; the last one ends its lease. Resolves when it is on the
   *  disk. */
  async take(
    holder: LeaseHolder,
    leaseId: number,
    id: Uint8Array,
    part: SitemapPart,
  ): Promise<Verdict> {
    const task = this.#dispatcher.open(holder, leaseId, id);
    const crawl = task && this.#crawls.of(task);
    if (task?.kind !== 'sitemap' || crawl === undefined) return 'stale';
    if (part.end !== undefined) this.#dispatcher.claim(holder, leaseId, id);
    const bytes = smallEntryBytes + part.urls.length + part.images.length;
    return await new Promise((done) =>
      this.#put({ kind: 'sitemap', crawl, bytes, task, part, slave: holder.name, done }),
    );
  }
}

/** What a crawl reads of a host: what its robots.txt names, or a guess. */
function sitemapsOf(crawl: Crawl, { key, robots }: Host): { urls: string[]; level: number } {
  const { sitemaps, maxDepth } = crawl.spec;
  const root = new URL(key);
  const none = { urls: [], level: namedLevel };
  // With a depth of 0 nothing of what they list would be fetched.
  if (sitemaps === 'none' || maxDepth === 0 || !crawl.scope.owns(root)) return none;
  const { robots: token } = crawl.manners(root);
  const named = token === undefined ? [] : robots.sitemaps(token);
  const urls = named.flatMap((text) => {
    const url = URL.canParse(text, key) && canonicalUrl(new URL(text, key).href);
    return url ? [url.href] : [];
  });
  if (urls.length > 0) return { urls, level: namedLevel };
  return sitemaps === 'all' ? { urls: [`${key}/sitemap.xml`], level: guessedLevel } : none;
}

/** The level of sitemaps that an index names, or of where one redirects to; undefined: they are not
 *  followed. A guess that leads elsewhere is taken for a missing one. */
export function levelBelow(task: Task, isRedirect: boolean): number | undefined {
  if (isRedirect && task.level === guessedLevel) return undefined;
  const level = Math.max(task.level, namedLevel) + 1;
  return level <= levelMax ? level : undefined;
}

/** May this sitemap name that one? An index could send us to any host. */
export function mayName(crawl: Crawl, from: Task, target: URL): boolean {
  return target.hostname === new URL(from.url).hostname || crawl.scope.owns(target);
}
