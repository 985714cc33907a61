/**
 * What one commit does to one crawl: reports, failures and offered links are turned into changes
 * of the store, all in one transaction, and into what follows once they are on the disk.
 */
import type { Fingerprinter } from '../../shared/fingerprint.ts';
import type { Requests } from '../../shared/protocol.ts';
import { parseCanonical } from '../../shared/url.ts';
import {
  commitKey,
  crawlKey,
  depthMax,
  encodeBuried,
  encodeCrawl,
  encodeResults,
  encodeTask,
  fingerprintKey,
  type TaskRecord,
  taskKey,
} from '../store/records.ts';
import type { Change } from '../store/store.ts';
import type { Crawl } from './crawl.ts';
import type { Failure } from './inbox.ts';
import { excludedLine, failureLine, isPage, resultLine } from './lines.ts';
import type { Host } from './politeness.ts';
import type { Task } from './tasks.ts';

export type Report = Pick<Requests['task.report'], 'result' | 'images' | 'links'>;

/** Links and images without a report. `depth` is that of the links. */
export type Offer = {
  readonly links: Uint8Array;
  readonly images: Report['images'];
  readonly depth: number;
  readonly priority: number;
};

export type NewTask = {
  readonly host: Host;
  readonly record: TaskRecord;
  readonly rank: number;
  readonly seq: number;
};

/** Images share the filter with pages; the mark keeps their fingerprints apart. */
const imageMark = '!';

export class Gathering {
  readonly crawl: Crawl;
  /** For after the commit. */
  readonly admitted: NewTask[] = [];
  readonly removed: Task[] = [];
  readonly released: { task: Task; record: TaskRecord }[] = [];
  readonly #fingerprinter: Fingerprinter;
  readonly #hostOf: (url: URL) => Host;
  readonly #changes: Change[] = [];
  readonly #seenKeys: Buffer[] = [];
  #lines = '';
  #images = '';

  constructor(crawl: Crawl, fingerprinter: Fingerprinter, hostOf: (url: URL) => Host) {
    this.crawl = crawl;
    this.#fingerprinter = fingerprinter;
    this.#hostOf = hostOf;
  }

  /** A fetched task: its line, its images, its links; the task is gone. A page over the page limit
   *  (from a slave whose lease was over) is not taken: false, and its task waits again. */
  report(task: Task, report: Report, slave: string, at: number): boolean {
    const { counters } = this.crawl;
    const { result } = report;
    if (this.crawl.isFull && isPage(result)) {
      this.released.push({ task, record: task });
      return false;
    }
    const moved = result.finalUrl !== task.url && !this.#claim(result.finalUrl);
    const page = isPage(result) && !moved;
    const depth = Math.min(task.depth + 1, depthMax);
    const links = this.#links(report.links, depth, task.priority);
    const images = page ? report.images : [];
    this.#newImages(images);
    this.#lines += resultLine({ task, result, images, links, moved, slave, at });
    if (page) counters.pages++;
    else if (result.error) counters.failed++;
    else counters.others++;
    counters.bytes += result.bytes;
    this.#remove(task);
    return true;
  }

  /** Links and images that come by themselves. */
  offer({ links, images, depth, priority }: Offer): void {
    this.#links(links, Math.min(depth, depthMax), priority);
    this.#newImages(images);
  }

  /** A failed fetch: again at `retryAt`; buried if there is none, or it has failed too often. */
  failure(failure: Failure, at: number): void {
    const { crawl } = this;
    const { task, error, retryAt, slave, attempts = task.attempts + 1 } = failure;
    const { url, depth, priority } = task;
    if (retryAt !== undefined && attempts < crawl.spec.attemptsMax) {
      const record = { url, depth, priority, attempts, notBefore: retryAt };
      this.#putTask(task, record);
      this.released.push({ task, record });
      return;
    }
    const words = this.#fingerprinter.one(crawl.secret, url);
    this.#changes.push({
      table: 'buried',
      key: fingerprintKey(crawl.id, words, 0),
      value: encodeBuried({ url, depth, priority, attempts, ...error }),
    });
    this.#lines += failureLine({ task, error, attempts, slave, at });
    crawl.counters.failed++;
    crawl.counters.buried++;
    this.#remove(task);
  }

  /** A URL that is left out without being fetched. */
  excluded(task: Task, at: number): void {
    this.#lines += excludedLine({ task, excluded: 'robots', at });
    this.crawl.counters.excluded++;
    this.#remove(task);
  }

  /** A URL that the operator named, canonical and open to the scope. False when it was known. */
  seed(url: URL, priority: number): boolean {
    const words = this.#fingerprinter.one(this.crawl.secret, url.href);
    if (this.crawl.filter.knows(words, 0)) return false;
    this.#markSeen(words, 0);
    this.#admit(url, 0, priority);
    return true;
  }

  /** Back from the buried: to be fetched as if it were new. */
  replay(url: URL, depth: number, priority: number, buriedKey: Buffer): void {
    this.#changes.push({ table: 'buried', key: buriedKey, value: undefined });
    this.crawl.counters.buried--;
    this.crawl.counters.failed--;
    this.crawl.counters.known--;
    this.#admit(url, depth, priority);
  }

  /** Ends the gathering: all changes, for one transaction, and the row of the result queue. */
  seal(): { changes: Change[]; commit: number; results: Buffer | undefined } {
    const { crawl } = this;
    const commit = crawl.takeCommit();
    const changes = [...crawl.filter.changes(this.#seenKeys, commit), ...this.#changes];
    let results: Buffer | undefined;
    if (this.#lines !== '' || this.#images !== '') {
      results = encodeResults(this.#lines, this.#images);
      changes.push({ table: 'results', key: commitKey(crawl.id, commit), value: results });
    }
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

  /** Admits the new ones among the links; gives how many there were in all. */
  #links(links: Uint8Array, depth: number, priority: number): number {
    const { crawl } = this;
    const tooDeep = crawl.spec.maxDepth !== undefined && depth > crawl.spec.maxDepth;
    const text = Buffer.from(links.buffer, links.byteOffset, links.byteLength);
    let total = 0;
    this.#fingerprinter.hash(crawl.secret, text, ({ count, words, start, end }) => {
      total += count;
      if (tooDeep) return;
      for (let i = 0; i < count; i++) {
        if (crawl.filter.knows(words, i * 4)) continue;
        const url = parseCanonical(text.toString('latin1', start(i), end(i)));
        if (url === undefined || crawl.scope.refuses(url)) {
          crawl.filter.settle(words, i * 4);
          continue;
        }
        this.#markSeen(words, i * 4);
        this.#admit(url, depth, priority);
      }
    });
    return total;
  }

  #newImages(images: Report['images']): void {
    if (images.length === 0) return;
    const { crawl } = this;
    const text = Buffer.from(
      images.map(({ src }) => imageMark + withoutFragment(src)).join('\n'),
      'latin1',
    );
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
    this.#seenKeys.push(fingerprintKey(this.crawl.id, words, at));
  }

  #admit(url: URL, depth: number, priority: number): void {
    const { crawl } = this;
    const host = this.#hostOf(url);
    const position = { rank: crawl.rank(depth, priority), seq: crawl.takeSeq() };
    const record = { url: url.href, depth, priority, attempts: 0, notBefore: 0 };
    this.#changes.push({
      table: 'tasks',
      key: taskKey(crawl.id, host.hash, position.rank, position.seq),
      value: encodeTask(record),
    });
    this.admitted.push({ host, record, ...position });
    crawl.counters.known++;
    crawl.counters.waiting++;
  }

  #putTask(task: Task, record: TaskRecord): void {
    this.#changes.push({ table: 'tasks', key: keyOf(task), value: encodeTask(record) });
  }

  #remove(task: Task): void {
    this.#changes.push({ table: 'tasks', key: keyOf(task), value: undefined });
    this.removed.push(task);
    this.crawl.counters.waiting--;
  }
}

/** A task's key in the store, and its name on the wire. */
export function keyOf({ queue, rank, seq }: Task): Buffer {
  return taskKey(queue.crawl, queue.host, rank, seq);
}

function withoutFragment(src: string): string {
  const hash = src.indexOf('#');
  return hash < 0 ? src : src.slice(0, hash);
}
