/**
 * What one commit does to one crawl: reports, failures and offered links are turned into changes
 * of the store, all in one transaction, and into what follows once they are on the disk.
 */
import { type Fingerprinter, fingerprintWords } from '../../shared/fingerprint.ts';
import type {
  EarlierPage,
  FetchErrorKind,
  Requests,
  Result,
  SkipReason,
} from '../../shared/protocol.ts';
import { parseCanonical } from '../../shared/url.ts';
import {
  type BuriedRecord,
  commitKey,
  crawlKey,
  depthMax,
  encodeBuried,
  encodeCrawl,
  encodeEarlier,
  encodeResults,
  encodeTask,
  fingerprintKey,
  type TaskRecord,
  taskKey,
} from '../store/records.ts';
import type { Change } from '../store/store.ts';
import { addToSum } from '../store/sums.ts';
import type { Crawl } from './crawl.ts';
import type { HostName } from './host.ts';
import type { Failure } from './inbox.ts';
import {
  type Exclusion,
  excludedLine,
  failureLine,
  isPage,
  resultLine,
  sitemapLine,
} from './lines.ts';
import { type EarlierPages, type Finding, isUnchanged } from './recrawl.ts';
import { guessedLevel, levelBelow, mayName, type SitemapPart, sitemapsMax } from './sitemaps.ts';
import { type FoundAt, SkippedLinks } from './skipped.ts';
import type { Task } from './tasks.ts';

export type Report = Pick<Requests['task.report'], 'result' | 'images' | 'links'>;

/** Where links come from; `url` is '' when that is not known. */
export type Origin = Pick<Task, 'url' | 'depth' | 'priority'>;

/** Links and images without a report. */
export type Offer = {
  readonly links: Uint8Array;
  readonly images: Report['images'];
  readonly from: Origin;
};

export type NewTask = {
  readonly host: HostName;
  readonly record: TaskRecord;
  readonly rank: number;
  readonly seq: number;
};

type Found = FoundAt & { readonly priority: number; readonly isTooDeep: boolean };

/** Images, sitemaps and names of pages share the filter with URLs; the marks keep them apart. */
export const imageMark = '!';
const sitemapMark = '^';
export const nameMark = '=';

export class Gathering {
  readonly crawl: Crawl;
  /** For after the commit. */
  readonly admitted: NewTask[] = [];
  readonly removed: Task[] = [];
  readonly released: { task: Task; record: TaskRecord }[] = [];
  readonly #fingerprinter: Fingerprinter;
  /** For a URL while links are hashed. */
  readonly #nested: Fingerprinter;
  readonly #hostOf: (url: URL) => HostName;
  readonly #earlier: EarlierPages;
  readonly #changes: Change[] = [];
  readonly #seenKeys: Buffer[] = [];
  readonly #skipped: SkippedLinks;
  #lines = '';
  #images = '';

  constructor(
    crawl: Crawl,
    hashers: { readonly fingerprinter: Fingerprinter; readonly nested: Fingerprinter },
    hostOf: (url: URL) => HostName,
    earlier: EarlierPages,
  ) {
    this.crawl = crawl;
    this.#earlier = earlier;
    this.#fingerprinter = hashers.fingerprinter;
    this.#nested = hashers.nested;
    this.#hostOf = hostOf;
    this.#skipped = new SkippedLinks(crawl, (words) => this.#markSeen(words, 0));
  }

  /** A fetched task: its line, its images, its links; the task is gone. `before`: how many links of
   *  it were taken in earlier commits. A page over the page limit
   *  (from a slave whose lease was over) is not taken: false, and its task waits again. */
  report(
    task: Task,
    report: Report,
    { before, slave }: { readonly before: number; readonly slave: string },
    at: number,
  ): boolean {
    const { counters } = this.crawl;
    const unchanged = isUnchanged(report.result);
    const found: Finding = unchanged ? this.#earlier.carryOver(this.crawl, task, report) : report;
    const { result } = found;
    if (this.crawl.isFull && isPage(result)) {
      this.released.push({ task, record: task });
      return false;
    }
    const moved = result.finalUrl !== task.url && !this.#claim(result.finalUrl);
    const excluded = moved ? undefined : this.#exclusion(result);
    const page = isPage(result) && !moved && excluded === undefined;
    const counted = before + this.links(report.links, task, at);
    const links = found.linkCount ?? counted;
    const { images } = found;
    // A page of a known name may show other images than the one that was written.
    if ((page || excluded === 'canonical') && images.length > 0) {
      this.#newImages(images.map(({ src }) => withoutFragment(src)).join('\n'));
    }
    this.#lines += resultLine({ task, result, images, links, moved, excluded, slave, at });
    if (page) counters.pages++;
    else if (excluded !== undefined) counters.excluded++;
    else if (result.error) this.#failed(result.error.kind, 1);
    else counters.others++;
    if (page && unchanged) counters.unchanged++;
    counters.bytes += report.result.bytes;
    this.#remove(task);
    return true;
  }

  /** Admits the new ones among the links; gives how many there were in all. */
  links(links: Uint8Array, origin: Origin, now: number): number {
    const { crawl } = this;
    const depth = Math.min(origin.depth + 1, depthMax);
    const isTooDeep = crawl.spec.maxDepth !== undefined && depth > crawl.spec.maxDepth;
    const { url: from, priority } = origin;
    const found = { from, depth, priority, at: now, isTooDeep };
    const text = Buffer.from(links.buffer, links.byteOffset, links.byteLength);
    let total = 0;
    this.#fingerprinter.hash(crawl.secret, text, ({ count, words, start, end }) => {
      total += count;
      for (let i = 0; i < count; i++) {
        const at = i * fingerprintWords;
        if (crawl.filter.knows(words, at)) continue;
        // Counted before, and no nearer this time: not worth a string.
        if (isTooDeep && this.#skipped.has(words, at)) continue;
        this.#offer(text.toString('latin1', start(i), end(i)), words, at, found);
      }
    });
    return total;
  }

  /** Links and images that come by themselves; a finished crawl goes on for new ones. */
  offer({ links, images, from }: Offer, at: number): void {
    this.links(links, from, at);
    if (this.crawl.state === 'finished' && this.admitted.length > 0) this.crawl.state = 'running';
    if (images.length > 0)
      this.#newImages(images.map(({ src }) => withoutFragment(src)).join('\n'));
  }

  /** A failed fetch: again at `retryAt`; buried if there is none, or it has failed too often. */
  failure(failure: Failure, at: number): void {
    const { crawl } = this;
    const { task, error, retryAt, slave, attempts = task.attempts + 1 } = failure;
    const { url, depth, priority } = task;
    if (retryAt !== undefined && attempts < crawl.spec.attemptsMax) {
      const { kind, level } = task;
      const record = { kind, level, url, depth, priority, attempts, notBefore: retryAt };
      this.#putTask(task, record, at);
      this.released.push({ task, record });
      return;
    }
    const line = failureLine({ task, error, attempts, slave, at });
    if (task.kind === 'sitemap') {
      this.#sitemapEnds(task, line);
      return;
    }
    const words = this.#fingerprinter.one(crawl.secret, url);
    this.#changes.push({
      table: 'buried',
      key: fingerprintKey(crawl.id, words, 0),
      value: encodeBuried({ url, depth, priority, attempts, ...error }),
    });
    this.#lines += line;
    this.#failed(error.kind, 1);
    crawl.counters.buried++;
    this.#remove(task);
  }

  /** A URL that is left out without being fetched. */
  excluded(task: Task, at: number): void {
    if (isGuess(task)) {
      this.#sitemapEnds(task, undefined);
      return;
    }
    this.#lines += excludedLine({ task, excluded: 'robots', at });
    this.crawl.counters.excluded++;
    this.#remove(task);
  }

  /** A part of a fetched sitemap: what it lists; with the last one the task is gone. */
  sitemap(task: Task, { kind, urls, images, end }: SitemapPart, slave: string, at: number): void {
    if (kind === 'index') this.#sitemapsIn(task, Buffer.from(urls).toString('latin1').split('\n'));
    else this.links(urls, task, at);
    if (images.length > 0) this.#newImages(Buffer.from(images).toString('latin1'));
    if (end === undefined) return;
    const { redirectedTo, bytes } = end.result;
    if (redirectedTo !== undefined) this.#sitemapsIn(task, [redirectedTo], true);
    this.crawl.counters.bytes += bytes;
    const isMissing = kind === 'none' && isGuess(task);
    const line = { task, result: end.result, kind, urls: end.urls, images: end.images, slave, at };
    this.#sitemapEnds(task, isMissing ? undefined : sitemapLine(line));
  }

  /** Sitemaps that were found; each is admitted once. */
  sitemaps(urls: readonly string[], level: number, depth = 0, priority = 0): void {
    const { crawl } = this;
    for (const text of urls) {
      const url = parseCanonical(text);
      if (url === undefined || crawl.counters.sitemaps >= sitemapsMax) continue;
      const words = this.#fingerprinter.one(crawl.secret, sitemapMark + text);
      if (crawl.filter.knows(words, 0)) continue;
      this.#markSeen(words, 0);
      crawl.counters.sitemaps++;
      this.#admit(url, { kind: 'sitemap', level, depth, priority });
    }
  }

  /** Those that a sitemap itself leads to. */
  #sitemapsIn(task: Task, texts: readonly string[], isRedirect = false): void {
    const level = levelBelow(task, isRedirect);
    if (level === undefined) return;
    const urls = texts.filter((text) => {
      const url = parseCanonical(text);
      return url !== undefined && mayName(this.crawl, task, url);
    });
    this.sitemaps(urls, level, task.depth, task.priority);
  }

  /** Without a line it is as if it had never been known. */
  #sitemapEnds(task: Task, line: string | undefined): void {
    if (line === undefined) this.crawl.counters.known--;
    else this.crawl.counters.others++;
    this.#lines += line ?? '';
    this.#remove(task);
  }

  /** A URL that the operator named, canonical and open to the scope: no trap rule is asked. False
   *  when it was known. */
  seed(url: URL, priority: number): boolean {
    const words = this.#fingerprinter.one(this.crawl.secret, url.href);
    // Not `knows`: a link of that name may have been settled as a trap.
    if (this.crawl.filter.hasAdmitted(words, 0)) return false;
    this.#markSeen(words, 0);
    this.#admit(url, { depth: 0, priority });
    return true;
  }

  /** A URL of an earlier crawl, canonical and in the scope. False when it was known. */
  again(url: URL, depth: number, page: EarlierPage | undefined): boolean {
    const words = this.#fingerprinter.one(this.crawl.secret, url.href);
    if (this.crawl.filter.knows(words, 0)) return false;
    this.#markSeen(words, 0);
    this.#admit(url, { depth, priority: 0 }, page);
    return true;
  }

  /** Back from the buried: to be fetched as if it were new. */
  replay({ url, depth, priority, kind }: BuriedRecord, buriedKey: Buffer): void {
    this.#changes.push({ table: 'buried', key: buriedKey, value: undefined });
    this.crawl.counters.buried--;
    this.#failed(kind, -1);
    this.crawl.counters.known--;
    this.#admit(new URL(url), { depth, priority });
  }

  /** Changes that belong to what is being offered. */
  also(changes: readonly Change[]): void {
    this.#changes.push(...changes);
  }

  /** Ends the gathering: all changes, for one transaction, and the row of the result queue. */
  seal(): { changes: Change[]; commit: number; results: Buffer | undefined } {
    const { crawl } = this;
    const commit = crawl.takeCommit();
    const changes = [...crawl.filter.changes(this.#seenKeys, commit), ...this.#changes];
    let results: Buffer | undefined;
    const lines = { pages: this.#lines, images: this.#images, skipped: this.#skipped.lines };
    if (lines.pages !== '' || lines.images !== '' || lines.skipped !== '') {
      results = encodeResults(lines);
      changes.push({ table: 'results', key: commitKey(crawl.id, commit), value: results });
    }
    changes.push(...crawl.trapChanges());
    changes.push({ table: 'crawls', key: crawlKey(crawl.id), value: encodeCrawl(crawl.record()) });
    return { changes, commit, results };
  }

  /** A page's final URL, where it differs from the task's: true when it is new and now taken, so
   *  that the page counts under it. */
  #claim(finalUrl: string): boolean {
    const { crawl } = this;
    const words = this.#fingerprinter.one(crawl.secret, finalUrl);
    if (crawl.filter.knows(words, 0)) return false;
    const url = parseCanonical(finalUrl);
    if (url === undefined || crawl.scope.refuses(url)) return false;
    this.#markSeen(words, 0);
    crawl.counters.known++;
    return true;
  }

  /** Why an answer is no result, if it is none; a page takes its name. */
  #exclusion(result: Result): Exclusion | undefined {
    const { spec } = this.crawl;
    if (result.error !== undefined || result.redirectedTo !== undefined) return undefined;
    const isNoindex = result.directives?.includes('noindex') === true;
    if (isNoindex && spec.fetch.obey.includes('noindex')) return 'noindex';
    if (!spec.canonical || !isPage(result)) return undefined;
    return this.#takeName(result) ? undefined : 'canonical';
  }

  /** A page is named by its canonical URL if that is in scope, else by its final URL. The name is
   *  taken by the first page that has it, not by being seen: a canonical URL that is waiting may be
   *  broken, or name this page in turn, and then neither would be written. */
  #takeName({ finalUrl, canonical }: Result): boolean {
    const { crawl } = this;
    const url = canonical === undefined ? undefined : parseCanonical(canonical);
    const name = url === undefined || crawl.scope.refuses(url) ? finalUrl : url.href;
    const words = this.#fingerprinter.one(crawl.secret, nameMark + name);
    if (crawl.filter.knows(words, 0)) return false;
    this.#markSeen(words, 0);
    return true;
  }

  /** A link that is not known: admitted, or skipped with a reason. */
  #offer(text: string, words: Uint32Array, at: number, found: Found): void {
    const { filter } = this.crawl;
    const url = parseCanonical(text);
    const reason = url && this.#refuses(url, found);
    if (url === undefined) filter.settle(words, at);
    else if (reason === undefined) {
      this.#markSeen(words, at);
      this.#admit(url, { depth: found.depth, priority: found.priority });
    } else {
      // Nearer to a seed it would be taken.
      if (reason !== 'depth' && reason !== 'similar') filter.settle(words, at);
      this.#skipped.add(url.href, reason, words, at, found);
    }
  }

  #refuses(url: URL, { depth, isTooDeep }: Found): SkipReason | undefined {
    const { scope, traps, filter, secret } = this.crawl;
    const outside = scope.refuses(url) ?? (isTooDeep ? 'depth' : undefined);
    if (outside !== undefined) return outside;
    const plain = traps.withoutSession(url);
    const words = plain === undefined ? undefined : this.#nested.one(secret, plain);
    if (words !== undefined && filter.hasAdmitted(words, 0)) return 'session';
    const rule = traps.take(url, depth);
    // The first of them stands for the page by all its names.
    if (rule === undefined && words !== undefined) this.#markSeen(words, 0);
    return rule;
  }

  #failed(kind: FetchErrorKind, by: 1 | -1): void {
    const { counters } = this.crawl;
    counters.failed += by;
    const count = (counters.errors[kind] ?? 0) + by;
    if (count > 0) counters.errors[kind] = count;
    else delete counters.errors[kind];
  }

  /** `urls`: without fragments, joined by line feeds. */
  #newImages(urls: string): void {
    const { crawl } = this;
    const text = Buffer.from(imageMark + urls.replaceAll('\n', `\n${imageMark}`), 'latin1');
    this.#fingerprinter.hash(crawl.secret, text, ({ count, words, start, end }) => {
      for (let i = 0; i < count; i++) {
        if (crawl.filter.knows(words, i * 4)) continue;
        const src = text.toString('latin1', start(i) + imageMark.length, end(i));
        if (parseCanonical(src) === undefined) continue;
        this.#markSeen(words, i * 4);
        crawl.counters.images++;
        this.#images += `${src}\n`;
      }
    });
  }

  #markSeen(words: Uint32Array, at: number): void {
    this.crawl.filter.admit(words, at);
    this.crawl.counters.seen++;
    addToSum(this.crawl.seenSum, words, at);
    this.#seenKeys.push(fingerprintKey(this.crawl.id, words, at));
  }

  #admit(
    url: URL,
    found: Pick<TaskRecord, 'depth' | 'priority'> & Partial<TaskRecord>,
    earlier?: EarlierPage,
  ): void {
    const { crawl } = this;
    const { kind = 'page', level = 0, depth, priority } = found;
    const host = this.#hostOf(url);
    const position = { rank: crawl.rank(depth, priority), seq: crawl.takeSeq() };
    const record = { kind, level, url: url.href, depth, priority, attempts: 0, notBefore: 0 };
    const key = taskKey(crawl.id, host.hash, position.rank, position.seq);
    this.#changes.push({ table: 'tasks', key, value: encodeTask(record) });
    if (earlier !== undefined) {
      this.#changes.push({ table: 'earlier', key, value: encodeEarlier(earlier) });
      crawl.counters.earlier++;
    }
    this.admitted.push({ host, record, ...position });
    crawl.counters.known++;
    crawl.counters.waiting++;
  }

  #putTask(task: Task, record: TaskRecord, at: number): void {
    this.#changes.push({ table: 'tasks', key: keyOf(task), value: encodeTask(record, at) });
  }

  #remove(task: Task): void {
    const key = keyOf(task);
    this.#changes.push({ table: 'tasks', key, value: undefined });
    if (this.crawl.counters.earlier > 0) {
      this.#changes.push({ table: 'earlier', key, value: undefined });
    }
    this.removed.push(task);
    this.crawl.counters.waiting--;
  }
}

/** A task's key in the store, and its name on the wire. */
export function keyOf({ queue, rank, seq }: Task): Buffer {
  return taskKey(queue.crawl, queue.host, rank, seq);
}

function isGuess({ kind, level }: Task): boolean {
  return kind === 'sitemap' && level === guessedLevel;
}

function withoutFragment(src: string): string {
  const hash = src.indexOf('#');
  return hash < 0 ? src : src.slice(0, hash);
}
