/**
 * The effect of one commit on one crawl. It turns admitted, ended and written tasks into changes of
 * the store, all in one transaction, and into the work that follows once they are on the disk. Each
 * commit has its own; the kinds of tasks and `seeding` call it.
 */
import type { SkipReason } from '../../../shared/protocol.ts';
import type { EarlierPage, FetchErrorBody } from '../../../shared/requests.ts';
import { parseCanonical } from '../../../shared/url.ts';
import { clockMs } from '../../machine/clock.ts';
import { type ArchiveMark, archiveChange } from '../../store/archive-rows.ts';
import { crawlRowsAt } from '../../store/crawl-rows.ts';
import type { KeptImage } from '../../store/image-rows.ts';
import {
  type BuriedRecord,
  commitKey,
  decodeBuried,
  depthMax,
  encodeBuried,
  encodeEarlier,
  encodeFault,
  encodeLastCrawl,
  encodeTask,
  fingerprintKey,
  lastCrawlKey,
  pageKind,
  type TaskRecord,
} from '../../store/records.ts';
import {
  type PackedRows,
  type ResultRecord,
  ResultRow,
  type SealedRow,
} from '../../store/result-rows.ts';
import type { Change } from '../../store/store.ts';
import { taskKey } from '../../store/task-keys.ts';
import type { Crawl } from '../crawl/crawl.ts';
import { type Fingerprinter, fingerprintWords } from '../filter/fingerprint.ts';
import { imageMark, imageName } from '../filter/seen-names.ts';
import type { HostName } from '../politeness/host.ts';
import { levelOf } from '../tasks/task-requests.ts';
import type { NewTask, TaskRows } from '../tasks/task-rows.ts';
import { keyOf, type Task } from '../tasks/tasks.ts';
import type { Offer, Origin } from './entry.ts';
import type { Finding } from './result-records.ts';
import { followChanges } from './seed-changes.ts';
import { type FoundAt, SkippedLinks } from './skipped.ts';
import { NewSources, type Sources } from './sources.ts';

/** How far from a seed, and how urgent. */
export type Place = Pick<TaskRecord, 'depth' | 'priority'>;

type Found = FoundAt & {
  readonly origin: Origin;
  readonly priority: number;
  readonly isTooDeep: boolean;
};

export class CommitBatch {
  readonly crawl: Crawl;
  /** Until it is sealed. */
  readonly admitted: NewTask[] = [];
  /** For after the commit. */
  readonly removed: Task[] = [];
  readonly released: { task: Task; record: TaskRecord }[] = [];
  readonly buried: { readonly url: string; readonly error: FetchErrorBody }[] = [];
  /** Redirects of seeds whose hosts joined the scope; seeds that brought no page, and why. */
  readonly followed: { readonly from: string; readonly to: string }[] = [];
  readonly faults: { readonly url: string; readonly why: string }[] = [];
  /** Images whose bytes are to be deleted. */
  readonly dropped: { readonly sha256: Uint8Array; readonly image: KeptImage }[] = [];
  readonly #fingerprinter: Fingerprinter;
  /** For a URL while links are hashed. */
  readonly #nested: Fingerprinter;
  readonly #hostOf: (url: URL) => HostName;
  readonly #rows: TaskRows;
  /** Keys of tasks that have ended, or have another row. */
  readonly #ended: Buffer[] = [];
  readonly #changes: Change[] = [];
  readonly #skipped: SkippedLinks;
  readonly #row = new ResultRow();
  readonly #sources: Sources;
  /** Seeds that were admitted once more. */
  readonly #again = new Set<string>();
  /** The page that led to the URLs that are admitted. */
  readonly #origins: NewSources;
  /** How far the files of its archive are, by their numbers. */
  #archived: Map<number, ArchiveMark> | undefined;

  constructor(
    crawl: Crawl,
    hashers: { readonly fingerprinter: Fingerprinter; readonly nested: Fingerprinter },
    hostOf: (url: URL) => HostName,
    sources: Sources,
    rows: TaskRows,
  ) {
    this.crawl = crawl;
    this.#fingerprinter = hashers.fingerprinter;
    this.#nested = hashers.nested;
    this.#hostOf = hostOf;
    this.#sources = sources;
    this.#rows = rows;
    this.#origins = new NewSources(crawl);
    this.#skipped = new SkippedLinks(crawl, {
      keep: (words) => this.#markSeen(words, 0),
      write: (finding) => this.write(finding),
    });
  }

  /** Admits the new ones among the links. Returns the number of links. */
  links(links: Uint8Array, origin: Origin, now: number): number {
    const { crawl } = this;
    const depth = Math.min(origin.depth + 1, depthMax);
    const isTooDeep = crawl.spec.maxDepth !== undefined && depth > crawl.spec.maxDepth;
    const { url: from, priority } = origin;
    const found = { origin, from, depth, priority, at: now, isTooDeep };
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
    if (this.crawl.state === 'finished' && this.admitted.length > 0) this.crawl.moveTo('running');
    this.images(images.map(({ src }) => src));
  }

  /** Takes the new ones among the images. */
  images(srcs: readonly string[]): void {
    if (srcs.length === 0) return;
    const { crawl } = this;
    const names = srcs.map((src) => imageName(withoutFragment(src)));
    const text = Buffer.from(names.join('\n'), 'latin1');
    this.#fingerprinter.hash(crawl.secret, text, ({ count, words, start, end }) => {
      for (let i = 0; i < count; i++) {
        const at = i * fingerprintWords;
        if (crawl.filter.knows(words, at)) continue;
        const src = text.toString('latin1', start(i) + imageMark.length, end(i));
        if (parseCanonical(src) === undefined) continue;
        this.#markSeen(words, at);
        crawl.books.image();
        this.#row.addImage(src);
      }
    });
  }

  /** A task of another kind than links lead to, by its name in the filter. False when it was
   *  known. */
  admit(
    url: URL,
    name: string,
    found: Place & Pick<TaskRecord, 'kind' | 'level'> & { readonly goesFirst?: boolean },
    origin?: Origin,
  ): boolean {
    if (!this.take(name)) return false;
    this.#admit(url, { ...found, from: origin && this.#origins.numberOf(origin) });
    return true;
  }

  /** A URL that the operator named, canonical and open to the scope: no trap rule is asked. False
   *  when it was known. */
  seed(url: URL, priority: number): boolean {
    const words = this.#fingerprinter.one(this.crawl.secret, url.href);
    // Not `knows`: a link of that name may have been settled as a trap.
    if (this.crawl.filter.hasAdmitted(words, 0)) return false;
    this.#markSeen(words, 0);
    this.#admitSeed(url, { priority });
    return true;
  }

  /** A seed brought no page. */
  faultSeed({ url }: Task, why: string): void {
    if (this.crawl.books.seeds.fault(url, why)) this.faults.push({ url, why });
  }

  /** The host of where a seed redirects to, within its site, joins the scope. */
  join(url: URL, from: string): void {
    this.#changes.push(...followChanges(this.crawl, url));
    this.followed.push({ from, to: url.href });
  }

  /** Where a seed redirects to is a seed. False when it was known. */
  followSeed(url: URL, { level, priority, ...seed }: Task): boolean {
    const { crawl } = this;
    const words = this.#fingerprinter.one(crawl.secret, url.href);
    const isKnown = crawl.filter.hasAdmitted(words, 0);
    if (isKnown && !crawl.books.seeds.isToBeAskedAgain(url.href)) return false;
    const from = this.#origins.numberOf({ url: seed.url, depth: 0, priority });
    const found = { priority, level: level + 1, from };
    if (isKnown) return this.seedAgain(url, found);
    this.#markSeen(words, 0);
    this.#admitSeed(url, found);
    return true;
  }

  /** A seed of a crawl of which none was answered, once more. False: it waits already. */
  seedAgain(url: URL, found: Partial<TaskRecord> = {}): boolean {
    const { crawl } = this;
    const key = fingerprintKey(crawl.id, this.#fingerprinter.one(crawl.secret, url.href), 0);
    if (this.#again.has(url.href)) return false;
    this.#again.add(url.href);
    const row = this.#rows.buried(key);
    if (row === undefined) this.#admitSeed(url, found);
    else {
      this.replay(decodeBuried(row), key);
      crawl.books.seeds.admit();
    }
    return true;
  }

  /** A URL of an earlier crawl, canonical and in the scope. False when it was known. */
  again(url: URL, depth: number, page: EarlierPage | undefined, from = ''): boolean {
    if (!this.take(url.href)) return false;
    const origin = this.#origins.lastOf(from) ?? { url: from, depth: 0, priority: 0 };
    this.#admit(url, { depth, priority: 0, from: this.#origins.numberOf(origin) }, page);
    if (depth === 0) this.crawl.books.seeds.admit();
    return true;
  }

  /** Takes a name in the filter; false when it was known. */
  take(name: string): boolean {
    const { crawl } = this;
    const words = this.#fingerprinter.one(crawl.secret, name);
    if (crawl.filter.knows(words, 0)) return false;
    this.#markSeen(words, 0);
    return true;
  }

  /** The URL of what led to a task; undefined: it is a seed. */
  fromOf(task: Task): string | undefined {
    return this.#sources.urlOf(task);
  }

  /** A record for the sinks. */
  write({ kind, record, reported, packed }: Finding): void {
    this.#row.add(kind, record, reported, packed);
  }

  /** A record for each row of a page: see `ResultRow`. */
  writeItems(record: ResultRecord, rows: PackedRows): void {
    this.#row.addItems(record, rows);
  }

  /** The task waits again, as it was. */
  release(task: Task): void {
    this.released.push({ task, record: task });
  }

  /** The task waits again, after a failure. */
  retry(
    task: Task,
    again: Pick<TaskRecord, 'attempts' | 'notBefore'>,
    error: FetchErrorBody,
    at: number,
  ): void {
    const { kind, level, url, depth, priority, from } = task;
    const record = { kind, level, url, depth, priority, from, ...again };
    const key = keyOf(task);
    // By the clock of `notBefore`; `at` is for people.
    this.#changes.push(...this.#rows.changed(key, encodeTask(record, clockMs())));
    this.#ended.push(key);
    // A task without failed attempts has no such row to be deleted at its end.
    if (again.attempts > 0) {
      this.#changes.push({ table: 'faults', key, value: encodeFault({ ...error, at }) });
    }
    this.released.push({ task, record });
  }

  /** The task has ended. */
  remove(task: Task): void {
    const key = keyOf(task);
    this.#changes.push(this.#rows.removed(key));
    this.#ended.push(key);
    if (this.crawl.counters.earlier > 0) {
      this.#changes.push({ table: 'earlier', key, value: undefined });
    }
    if (task.attempts > 0) this.#changes.push({ table: 'faults', key, value: undefined });
    this.removed.push(task);
    this.crawl.open.end();
  }

  /** Keeps a URL that is given up, for inspection; `name`: its name in the filter. */
  bury(task: Task, error: FetchErrorBody, attempts: number, name = task.url): void {
    const { crawl } = this;
    const { url, depth, priority, from, kind } = task;
    const key = fingerprintKey(crawl.id, this.#fingerprinter.one(crawl.secret, name), 0);
    // That of a page is 0.
    const more = kind > 0 && { task: kind };
    const value = encodeBuried({ url, depth, priority, attempts, from, ...error, ...more });
    this.#changes.push({ table: 'buried', key, value });
    crawl.books.buried(kind, error, url);
    this.buried.push({ url, error });
  }

  /** The fingerprint of a name, 16 bytes. */
  fingerprintOf(name: string): Buffer {
    const { id, secret } = this.crawl;
    return fingerprintKey(id, this.#fingerprinter.one(secret, name), 0).subarray(-16);
  }

  /** Back from the buried: to be fetched as if it were new. `goesFirst`: before all other tasks of
   *  its host. */
  replay(
    { url, depth, priority, from, task: kind = pageKind, ...error }: BuriedRecord,
    buriedKey: Buffer,
    goesFirst = false,
  ): void {
    const { crawl } = this;
    this.#changes.push({ table: 'buried', key: buriedKey, value: undefined });
    crawl.books.unburied(kind, error);
    this.#admit(new URL(url), { kind, depth, priority, from, level: levelOf(url), goesFirst });
  }

  /** Changes that belong to what is being offered. */
  also(changes: readonly Change[]): void {
    this.#changes.push(...changes);
  }

  /** The exchanges of a task are in the archive, up to this mark. */
  archived(mark: ArchiveMark): void {
    this.#archived ??= new Map();
    this.#archived.set(mark.file, mark);
  }

  /** Ends the batch: adds all changes, for one transaction, and makes the row of the result queue.
   *  Its result lives until the disk answers, so the links of the batch are no part of it. */
  seal(changes: Change[]): {
    admitted: readonly NewTask[];
    commit: number;
    results: SealedRow | undefined;
    /** To be called when all of it is on the disk. */
    landed: () => void;
  } {
    const { crawl } = this;
    const commit = crawl.takeCommit();
    const admitted = this.admitted.splice(0);
    const { changes: ofTasks, landed } = this.#rows.added(crawl.id, admitted);
    for (const some of [crawl.filter.changes(commit), this.#changes.splice(0), ofTasks]) {
      for (const change of some) changes.push(change);
    }
    let results: SealedRow | undefined;
    if (!this.#row.isEmpty) {
      results = this.#row.seal(crawl.takeRecords(this.#row.count));
      changes.push({ table: 'results', key: commitKey(crawl.id, commit), value: results.bytes });
    }
    changes.push(...this.#origins.changes(), ...crawl.trapChanges());
    for (const mark of this.#archived?.values() ?? []) changes.push(archiveChange(crawl.id, mark));
    if (commit === 1) {
      changes.push({ table: 'meta', key: lastCrawlKey, value: encodeLastCrawl(crawl.id) });
    }
    changes.push(...crawlRowsAt(commit, crawl.record()));
    return { admitted, commit, results, landed: this.#landing(landed) };
  }

  #landing(landed: () => void): () => void {
    return () => {
      for (const key of this.#ended) this.#rows.gone(key);
      landed();
    };
  }

  /** A link that is not known: admitted, or skipped with a reason. */
  #offer(text: string, words: Uint32Array, at: number, found: Found): void {
    const { filter } = this.crawl;
    const url = parseCanonical(text);
    const reason = url && this.#refuses(url, found);
    if (url === undefined) this.#skipped.malformed(words, at);
    else if (reason === undefined) {
      this.#markSeen(words, at);
      const from = this.#origins.numberOf(found.origin);
      this.#admit(url, { depth: found.depth, priority: found.priority, from });
    } else {
      // Nearer to a seed it would be taken.
      if (reason !== 'depth' && reason !== 'similar') filter.settle(words, at);
      this.#skipped.add(url.href, reason, words, at, found);
    }
  }

  #refuses(url: URL, { depth, isTooDeep }: Found): SkipReason | undefined {
    const { scope, traps, filter, secret } = this.crawl;
    const outside = scope.isElsewhere(url)
      ? 'host'
      : (traps.looks(url) ?? scope.refusesText(url.href));
    if (outside !== undefined) return outside;
    if (isTooDeep) return 'depth';
    const plain = traps.withoutSession(url);
    const words = plain === undefined ? undefined : this.#nested.one(secret, plain);
    if (words !== undefined && filter.hasAdmitted(words, 0)) return 'session';
    const rule = traps.count(url, depth);
    // The first of them stands for the page by all its names.
    if (rule === undefined && words !== undefined) this.#markSeen(words, 0);
    return rule;
  }

  #markSeen(words: Uint32Array, at: number): void {
    this.crawl.filter.admit(words, at);
    this.crawl.books.seen(words, at);
  }

  #admitSeed(url: URL, found: Partial<TaskRecord>): void {
    this.#admit(url, { priority: 0, level: levelOf(url.href), ...found, depth: 0 });
    this.crawl.books.seeds.admit();
  }

  /** `goesFirst`: before all other tasks of its host. */
  #admit(
    url: URL,
    found: Place & Partial<TaskRecord> & { readonly goesFirst?: boolean },
    earlier?: EarlierPage,
  ): void {
    const { crawl } = this;
    const { kind = pageKind, level = 0, depth, priority, from, goesFirst = false } = found;
    const host = this.#hostOf(url);
    const rank = goesFirst ? 0 : crawl.rank(depth, priority);
    const position = { rank, seq: crawl.takeSeq() };
    const record = { kind, level, url: url.href, depth, priority, from, attempts: 0, notBefore: 0 };
    if (earlier !== undefined) {
      const key = taskKey(crawl.id, host.hash, position.rank, position.seq);
      this.#changes.push({ table: 'earlier', key, value: encodeEarlier(earlier) });
    }
    this.admitted.push({ host, record, ...position });
    crawl.books.seeds.asks(url.href);
    crawl.books.admitted(kind, { hasEarlier: earlier !== undefined });
  }
}

function withoutFragment(src: string): string {
  const hash = src.indexOf('#');
  return hash < 0 ? src : src.slice(0, hash);
}
