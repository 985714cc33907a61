/**
 * `repair`: makes a new store of what can be read of a damaged one, drops what does not fit
 * together, and says what it saved and what it could not. The damaged file is kept aside.
 *
 * Saved rows are made consistent again: counts and sums follow the rows; a task or a line of a
 * crawl that is lost goes; what waits or was written counts as seen. The Bloom filters are made
 * anew at the next start.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { amount } from '../../shared/amount.ts';
import { ConfigError, StoreError } from '../../shared/errors.ts';
import { encodeValue } from '../../shared/frame.ts';
import { hostKeyOf } from '../../shared/url.ts';
import { Fingerprinter } from '../frontier/filter/fingerprint.ts';
import { imageName } from '../frontier/filter/seen-names.ts';
import { kinds, namesIn, taskName } from '../frontier/kinds/kinds.ts';
import { DataFolder } from '../machine/data-folder.ts';
import { freeBytesOf, megabytes, refusalText } from '../machine/disk-room.ts';
import { filesName, type Lengths, noLengths } from '../sinks/files.ts';
import { openLmdbStore, storeFile } from '../store/lmdb.ts';
import {
  type CrawlRecord,
  crawlKey,
  cursorKey,
  decodeLastCrawl,
  decodeTask,
  encodeCrawl,
  encodeCursor,
  encodeLastCrawl,
  formatKey,
  formatVersion,
  hostBytes,
  lastCrawlKey,
  lastOfSource,
  secretKey,
  seedHostOf,
} from '../store/records.ts';
import type { Store, Table } from '../store/store.ts';
import { parseTaskKey, taskKey } from '../store/task-keys.ts';
import { taskKeyOf, taskTables } from '../store/unsorted-rows.ts';
import { otherFormat } from '../store/upgrade.ts';
import { checkStore } from './check.ts';
import { KeptImages } from './kept-images.ts';
import { missingResults, refuseMissing } from './missing-results.ts';
import { NextNumbers } from './next-numbers.ts';
import { forgetReplacement, replacementIn, replaceStore } from './replacement.ts';
import { Salvage, type Salvaged, type TakeRow } from './salvage.ts';
import { savedCrawls } from './saved-crawls.ts';
import { SavedRows } from './saved-rows.ts';
import { SeenRebuild, seenTables } from './seen-rebuild.ts';
import { WaitingRows } from './waiting-rows.ts';
import {
  lengthsOfFiles,
  missingParts,
  type RecordedFile,
  type RecordedLengths,
  readUnwritten,
  readWritten,
  recordedLengths,
  recordedPart,
  resultsOf,
  type Written,
} from './written.ts';
import { countedAnew } from './written-counts.ts';

/** Left over for others. */
const spareBytes = 64e6;
const empty = Buffer.alloc(0);
const lastCommitLost = 'the last commit is lost: all rows are those of the one before it';

/** Gives the lines to print. @throws ConfigError what the operator has to do */
export async function repair(options: {
  readonly dataFolder: string;
  readonly outFolder: string;
  /** Go on though result files are missing. */
  readonly withoutResults?: boolean;
}): Promise<string[]> {
  const { dataFolder, outFolder, withoutResults = false } = options;
  const path = storeFile(join(dataFolder, 'store'));
  if (!existsSync(path)) throw new ConfigError(`there is no store in ${dataFolder}: see --data`);
  const folder = DataFolder.open(dataFolder);
  try {
    const damage = checkStore(path);
    if (damage === undefined) return [`the store ${path} is whole: there is nothing to repair`];
    const salvage = new Salvage(path);
    try {
      const missing = missingResults(salvage, outFolder);
      if (!withoutResults) refuseMissing(missing, outFolder);
      const lines = await rebuild(salvage, path, { dataFolder, outFolder, withoutResults });
      return [`${path}: ${damage}`, ...lines, ...missing.map((what) => `without ${what}`)];
    } finally {
      salvage.close();
    }
  } finally {
    folder.close();
  }
}

async function rebuild(
  salvage: Salvage,
  path: string,
  { dataFolder, outFolder, withoutResults }: Rebuild & { readonly dataFolder: string },
): Promise<string[]> {
  if (!salvage.hasAny) {
    throw new ConfigError(
      `nothing of ${path} can be read; put a backup in its place, or move ${dataFolder} away`,
    );
  }
  const folder = dirname(path);
  // Once as rows that wait, once in the new store.
  const needed = 2 * salvage.bytes + spareBytes;
  const free = freeBytesOf(folder);
  if (free < needed) {
    throw new ConfigError(
      `the new store needs ${megabytes(needed)} MB under ${folder}, and ${megabytes(free)} MB are ` +
        'free; free some space',
    );
  }
  forgetReplacement(dataFolder);
  const newFolder = replacementIn(dataFolder);
  const store = await openLmdbStore(newFolder);
  const rows = new WaitingRows(join(newFolder, 'rows'));
  const lines: string[] = [];
  try {
    const how = { outFolder, withoutResults };
    lines.push(...(await new Rebuilding(salvage, { store, rows }, how).run()));
    await store.close();
    rows.close();
  } catch (error) {
    await store.close();
    rows.close();
    forgetReplacement(dataFolder);
    if (!(error instanceof StoreError)) throw error;
    throw new ConfigError(`the damaged store is as it was: ${refusalText(error)}`, error);
  }
  const aside = `${path}.damaged-${new Date().toISOString().replaceAll(':', '')}`;
  for (const name of readdirSync(dataFolder)) {
    if (name.startsWith('bloom-')) rmSync(join(dataFolder, name));
  }
  replaceStore(dataFolder, aside);
  lines.push(`the damaged file is kept as ${aside}`);
  return lines;
}

/** `rows`: what waits to be committed to it. */
type Target = { readonly store: Store; readonly rows: WaitingRows };
type Rebuild = { readonly outFolder: string; readonly withoutResults: boolean };

class Rebuilding {
  readonly #salvage: Salvage;
  readonly #store: Store;
  readonly #rows: WaitingRows;
  readonly #outFolder: string;
  readonly #withoutResults: boolean;
  /** Files that rotations have closed. */
  readonly #parts: { readonly crawl: number; readonly files: readonly RecordedFile[] }[] = [];
  readonly #crawls = new Map<number, CrawlRecord>();
  readonly #waiting = new Map<number, number>();
  readonly #buried = new Map<number, number>();
  readonly #next = new NextNumbers();
  readonly #fingerprinter = new Fingerprinter();
  readonly #seen = new SeenRebuild();
  /** Keys of the hosts' places; with a new one tasks move. */
  #secret: Buffer | undefined;
  #isNewSecret = false;
  #isMetaWhole = false;
  #format = formatVersion;
  /** The highest number that a crawl ever had. */
  #lastCrawl = 0;
  readonly #report = new SavedRows();
  readonly #notes: string[] = [];

  constructor(salvage: Salvage, to: Target, { outFolder, withoutResults }: Rebuild) {
    this.#salvage = salvage;
    this.#store = to.store;
    this.#rows = to.rows;
    this.#outFolder = outFolder;
    this.#withoutResults = withoutResults;
  }

  async run(): Promise<string[]> {
    const lengths = this.#meta();
    const { crawls, old, lastRemoved, of } = savedCrawls(this.#salvage);
    for (const record of crawls.values()) this.#crawls.set(record.id, record);
    this.#lastCrawl = Math.max(this.#lastCrawl, lastRemoved);
    this.#report.add('crawls', crawls.size, { of });
    const seeded = new Set<number>();
    this.#table('seeds', (key, value) => {
      if (!this.#crawls.has(key.readUInt32BE(0))) return undefined;
      if (seedHostOf(key) === undefined) seeded.add(key.readUInt32BE(0));
      return { key, value };
    });
    for (const { id, name, state } of this.#crawls.values()) {
      // Format 1 has them in the crawl's record.
      if (seeded.has(id) || state === 'cancelled' || this.#format === 1) continue;
      this.#notes.push(`crawl ${name}: its seeds' hosts are lost; add a seed of each again`);
    }
    const areTasksWhole = this.#tasks();
    this.#table('results', (key, value) => {
      if (!this.#crawls.has(key.readUInt32BE(0))) return undefined;
      this.#next.result(key, Buffer.from(value), this.#format);
      return { key, value };
    });
    this.#table('sources', (key, value) => {
      if (!this.#crawls.has(key.readUInt32BE(0))) return undefined;
      this.#next.of(key.readUInt32BE(0)).source = lastOfSource(Buffer.from(key)) + 1;
      return { key, value };
    });
    this.#table('buried', (key, value) => {
      if (!this.#crawls.has(key.readUInt32BE(0))) return undefined;
      add(this.#buried, key.readUInt32BE(0));
      return { key, value };
    });
    for (const table of ['earlier', 'faults'] as const) {
      this.#table(table, (key, value) => {
        const isKept = this.#crawls.has(key.readUInt32BE(0)) && !this.#isNewSecret;
        return isKept ? { key, value } : undefined;
      });
    }
    for (const table of ['robots', 'breakers', 'paces'] as const) {
      this.#table(table, (key, value) => (this.#isNewSecret ? undefined : { key, value }));
    }
    this.#table('items', (key, value) => ({ key, value }));
    await this.#images();
    this.#seenKeys();
    this.#lengths(lengths);
    await this.#rows.commitTo(this.#store);
    for (const record of this.#crawls.values()) {
      const isOld = old.has(record.id);
      const counted = isOld ? this.#countedAnew(record, lengths.get(record.id)) : record;
      await this.#crawl(counted, isOld && areTasksWhole);
    }
    const last = Math.max(this.#lastCrawl, ...this.#crawls.keys());
    if (this.#format >= 3) this.#put('meta', lastCrawlKey, encodeLastCrawl(last));
    await this.#rows.commitTo(this.#store);
    // A later repair falls back on the roots of the commit before: they are to have all rows, too.
    this.#put('meta', formatKey, Buffer.from([this.#format]));
    await this.#rows.commitTo(this.#store);
    if (this.#salvage.isOfCommitBefore) this.#notes.push(lastCommitLost);
    return [...this.#report.lines, ...this.#notes];
  }

  /** Format, secret, and the rest; gives the lengths of crawls' files that are known. */
  #meta(): Map<number, RecordedLengths> {
    const known = new Map<number, RecordedLengths>();
    const { rows, of, damage } = this.#salvage.table('meta', (key, value) => {
      const said = recordedLengths(key, Buffer.from(value));
      if (said !== undefined) known.set(said.crawl, said);
      this.#next.cursor(key, Buffer.from(value));
      const part = recordedPart(key, Buffer.from(value));
      if (part !== undefined) this.#parts.push(part);
      if (key.equals(secretKey)) this.#secret = Buffer.from(value);
      else if (key.equals(formatKey)) this.#format = value[0] ?? formatVersion;
      else if (key.equals(lastCrawlKey)) this.#lastCrawl = decodeLastCrawl(Buffer.from(value));
      else this.#put('meta', key, value);
    });
    this.#isMetaWhole = damage.length === 0;
    this.#report.add('meta', rows, { of });
    this.#isNewSecret = this.#secret === undefined;
    this.#secret ??= randomBytes(16);
    if (this.#format > formatVersion) throw otherFormat(this.#format, formatVersion);
    // Rows are saved as they are, so an older format is upgraded by the next start.
    this.#put('meta', formatKey, Buffer.from([this.#format]));
    this.#put('meta', secretKey, this.#secret);
    return known;
  }

  /** Tasks of crawls that are there; under a new secret they get new places. Returns whether all
   *  were read. */
  #tasks(): boolean {
    let isWhole = true;
    for (const table of taskTables) {
      const keep = (key: Buffer, value: Buffer) => {
        const parts = parseTaskKey((table === 'tasks' ? key : taskKeyOf(key)) ?? empty);
        const crawl = parts && this.#crawls.get(parts.crawl);
        if (parts === undefined || crawl === undefined) return undefined;
        add(this.#waiting, crawl.id);
        const next = this.#next.of(crawl.id);
        next.seq = Math.max(next.seq, parts.seq + 1);
        const host = this.#isNewSecret ? this.#hashOf(decodeTask(value).url) : parts.host;
        return { key: taskKey(crawl.id, host, parts.rank, parts.seq), value };
      };
      if (this.#table(table, keep, 'tasks').damage.length > 0) isWhole = false;
    }
    return isWhole;
  }

  /** The records of images that are kept, or wait. */
  async #images(): Promise<void> {
    const isOurs = (key: Buffer) => this.#crawls.has(key.readUInt32BE(0));
    this.#table('namings', (key, value) => (isOurs(key) ? { key, value } : undefined));
    const known = new Set<string>();
    const { damage } = this.#table('contents', (key, value) => {
      if (!isOurs(key)) return undefined;
      known.add(key.toString('latin1'));
      return { key, value };
    });
    if (damage.length === 0) return;
    let added = 0;
    for (const crawl of this.#crawls.values()) {
      if (crawl.state === 'cancelled' || crawl.spec.fetch?.download === undefined) continue;
      this.#missParts(crawl);
      const lines = new KeptImages();
      this.#read(crawl, { onPicture: (line) => lines.add(line) });
      const folder = join(resultsOf(this.#outFolder, crawl), 'images');
      for await (const { key, value } of lines.rows(crawl.id, folder)) {
        if (known.has(key.toString('latin1'))) continue;
        this.#put('contents', key, value);
        added++;
      }
    }
    if (added > 0) this.#notes.push(`${amount(added, 'row')} of contents made of lines`);
  }

  #hashOf(url: string): Buffer {
    const words = this.#fingerprinter.one(this.#secret ?? empty, hostKeyOf(new URL(url)));
    return Buffer.from(words.buffer, 0, hostBytes);
  }

  /** URLs that were seen, that wait or that were written must not be fetched again. */
  #seenKeys(): void {
    const isRead = this.#readSeen();
    let added = 0;
    for (const crawl of this.#crawls.values()) {
      if ((this.#seen.sum(crawl) && isRead) || crawl.state === 'cancelled') continue;
      this.#missParts(crawl);
      const before = this.#seen.of(crawl).count;
      this.#addNames(crawl);
      this.#seen.sum(crawl);
      added += this.#seen.of(crawl).count - before;
    }
    if (added > 0) {
      const were = added === 1 ? 'was' : 'were';
      this.#notes.push(`${amount(added, 'key')} of seen ${were} found in tasks and lines`);
    }
  }

  /** Returns false if some rows cannot be read. */
  #readSeen(): boolean {
    let isRead = true;
    for (const table of seenTables) {
      const salvaged = this.#salvage.table(table, (key, value) => {
        if (this.#crawls.has(key.readUInt32BE(0))) this.#seen.add(table, key, value);
      });
      this.#report.add(table, salvaged.rows, salvaged);
      isRead &&= salvaged.damage.length === 0;
    }
    return isRead;
  }

  /** The names of what waits and of what was written. */
  #addNames(crawl: CrawlRecord): void {
    const admit = (name: string) => {
      this.#seen.addKey(crawl, this.#fingerprinter.one(crawl.secret, name));
    };
    const onTask = (key: Buffer, value: Buffer) => {
      if (key.readUInt32BE(0) === crawl.id) admit(taskName(decodeTask(value)));
    };
    for (const table of taskTables) this.#salvage.table(table, onTask);
    this.#read(crawl, {
      onLine: (line) => {
        for (const name of namesIn(line, crawl.spec)) admit(name);
      },
      onImage: (src) => admit(imageName(src)),
      onPicture: ({ url }) => admit(taskName({ kind: kinds.image.number, url })),
    });
  }

  /** The records that a crawl has written, and those that it is still to write. */
  #read(crawl: CrawlRecord, written: Written): void {
    this.#salvage.table('results', (key, value) => {
      if (key.readUInt32BE(0) === crawl.id) readUnwritten(value, this.#format, written);
    });
    readWritten(resultsOf(this.#outFolder, crawl), written);
  }

  /** Closed files are nobody's business but here: only they say what some of the crawl's URLs were.
   *  @throws ConfigError one is not there */
  #missParts(crawl: CrawlRecord): void {
    const folder = resultsOf(this.#outFolder, crawl);
    const files = this.#parts.flatMap((part) => (part.crawl === crawl.id ? part.files : []));
    const missing = missingParts(folder, files);
    if (!this.#withoutResults) refuseMissing(missing, this.#outFolder);
    const notes = missing.map((what) => `without ${what}`);
    this.#notes.push(...notes.filter((note) => !this.#notes.includes(note)));
  }

  /** A crawl whose files' lengths are lost goes on behind their last whole line. */
  #lengths(known: ReadonlyMap<number, RecordedLengths>): void {
    for (const crawl of this.#crawls.values()) {
      const { id, name } = crawl;
      if (known.has(id) || this.#isMetaWhole) continue; // or nothing was written yet
      const lengths = lengthsOfFiles(resultsOf(this.#outFolder, crawl));
      this.#put('meta', ...this.#lengthsRow(id, lengths));
      if (lengths.pages > 0) {
        this.#notes.push(`crawl ${name} goes on at the end of its files: see their last lines`);
      }
    }
  }

  #lengthsRow(crawl: number, lengths: Lengths): [Buffer, Buffer] {
    if (this.#format < 3) return [Buffer.from(`sink/${crawl}`), encodeValue(lengths)];
    return [cursorKey(crawl, filesName), encodeCursor({ commit: 0, mark: lengths })];
  }

  /** Its record is of the commit before that of its other rows, or of the one after it. */
  #countedAnew(record: CrawlRecord, said: RecordedLengths | undefined): CrawlRecord {
    const { id, name } = record;
    const folder = resultsOf(this.#outFolder, record);
    const files = this.#parts.flatMap((part) => (part.crawl === id ? part.files : []));
    if (record.state === 'cancelled' || missingParts(folder, files).length > 0) {
      this.#notes.push(`crawl ${name}: its counts are those of another commit`);
      return record;
    }
    this.#notes.push(`crawl ${name}: its counts are made of its lines`);
    const lengths = said?.lengths ?? (this.#isMetaWhole ? noLengths : undefined);
    const of = { folder, lengths, commit: said?.commit ?? 0, format: this.#format };
    return countedAnew(record, this.#salvage, { ...of, waits: this.#waiting.has(id) });
  }

  async #crawl(record: CrawlRecord, isNoneLost: boolean): Promise<void> {
    const { id, name, counters } = record;
    const waiting = this.#waiting.get(id) ?? 0;
    const lost = isNoneLost ? 0 : counters.waiting - waiting;
    if (lost > 0)
      this.#notes.push(
        `crawl ${name}: ${amount(lost, 'URL')} that waited ${lost === 1 ? 'is' : 'are'} lost`,
      );
    const { count, words } = this.#seen.of(record);
    const whole: CrawlRecord = {
      ...record,
      // Rows that are lost are in it.
      ledger: undefined,
      counters: {
        ...counters,
        waiting,
        seen: count,
        buried: this.#buried.get(id) ?? 0,
        ...(lost > 0 && { lost: lost + (counters.lost ?? 0) }),
      },
      seenSum: [...words],
      ...this.#next.after(record),
    };
    this.#put('crawls', crawlKey(id), encodeCrawl(whole));
    for (const { table, key, value } of this.#seen.rows(whole, this.#format)) {
      this.#put(table, key, value);
    }
    await this.#rows.commitTo(this.#store);
  }

  /** Copies what `keep` gives for a row, to the table `target`; undefined drops it. */
  #table(
    table: Table,
    keep: (key: Buffer, value: Buffer) => { key: Buffer; value: Buffer } | undefined,
    target = table,
  ): Salvaged {
    let kept = 0;
    const take: TakeRow = (key, value) => {
      const row = keep(key, value);
      if (row === undefined) return;
      kept++;
      this.#put(target, row.key, row.value);
    };
    const salvaged = this.#salvage.table(table, take);
    this.#report.add(target, kept, salvaged);
    return salvaged;
  }

  #put(table: Table, key: Uint8Array, value: Uint8Array): void {
    this.#rows.put({ table, key: Buffer.from(key), value: Buffer.from(value) });
  }
}

function add(counts: Map<number, number>, crawl: number): void {
  counts.set(crawl, (counts.get(crawl) ?? 0) + 1);
}
