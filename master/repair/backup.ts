/**
 * Backups: a consistent copy of the store, made while the master works, and of each crawl's files
 * up to the lengths that this copy records. A master starts from it with `--data <backup>/data
 * --out <backup>/out`. The authkey is not in it: a backup goes where a key should not.
 *
 * A backup is below `<data>/backups/` and nowhere else, whoever asks; one at a time, so many at
 * most, and none that would fill the disk. It has its name when it is whole and on the disk.
 */
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { copyFile, link, mkdir, open, readdir, rename, rm, stat, truncate } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { CommandError, codeOf, messageOf, OrbError } from '../../shared/errors.ts';
import { imagePath, shardName, thumbnailPath } from '../../shared/images.ts';
import { namesOf } from '../archive/crawl-archive.ts';
import { jobFileName } from '../jobs/job-file.ts';
import { decodeJobFile, jobFileKey } from '../jobs/job-record.ts';
import { freeBytesOf } from '../machine/disk-room.ts';
import { fileKeys, fileNames, type Lengths } from '../sinks/files.ts';
import { type ArchiveMark, parseArchiveRow } from '../store/archive-rows.ts';
import { decodeContent } from '../store/image-rows.ts';
import { type NativeStore, openStoppedStore, storeFile } from '../store/lmdb.ts';
import { type CrawlRecord, decodeCrawl } from '../store/records.ts';
import { batches, type ReadableStore, type Row, type Table } from '../store/store.ts';
import { type RecordedFile, recordedLengths, recordedPart } from './written.ts';

const backupsMax = 16;
/** Rows of a copy that are read at once. */
const rowsRead = 256;
const allKeys = { from: Buffer.of(0), to: Buffer.alloc(64, 0xff) };

export type Made = { readonly folder: string; readonly bytes: number };

/** The listener of backups: `Notices`. */
interface BackupEvents {
  backedUp(made: Made): void;
  backupFailed(name: string, why: string): void;
}

type BackupsOptions = {
  readonly store: NativeStore;
  readonly dataFolder: string;
  readonly outFolder: string;
  /** Free bytes that a backup leaves. */
  readonly reserveBytes: number;
  readonly events: BackupEvents;
};

export class Backups {
  readonly #options: BackupsOptions;
  #making: Promise<Made> | undefined;
  /** Work that changes names or files of crawls, which no backup may see half done. */
  #others = new Set<Promise<unknown>>();

  constructor(options: BackupsOptions) {
    this.#options = options;
  }

  /** `name`: as of a crawl. @throws CommandError E_BAD_REQUEST it cannot be made now */
  async make(name: string): Promise<Made> {
    if (this.#making !== undefined) throw refusal('a backup is being made; try again later');
    const folder = join(backupsIn(this.#options.dataFolder), name);
    this.#making = this.#make(folder);
    try {
      const made = await this.#making;
      this.#options.events.backedUp(made);
      return made;
    } catch (error) {
      if (error instanceof CommandError) throw error;
      this.#options.events.backupFailed(name, messageOf(error));
      // No path leaves the process, and a code of our own says nothing.
      const code = error instanceof OrbError ? undefined : codeOf(error);
      const why = code ?? "see the master's log";
      throw refusal(`the backup failed: ${why}; nothing of it is left`);
    } finally {
      this.#making = undefined;
    }
  }

  /** Does work that moves or deletes result files, while no backup is made. */
  async alone<T>(work: () => Promise<T>): Promise<T> {
    while (this.#making !== undefined) await this.idle();
    const done = work();
    this.#others.add(done);
    try {
      return await done;
    } finally {
      this.#others.delete(done);
    }
  }

  /** Resolves when none is being made. */
  async idle(): Promise<void> {
    await this.#making?.catch(() => {});
  }

  /** @throws CommandError */
  async #refuse(folder: string): Promise<void> {
    const { dataFolder, outFolder, reserveBytes } = this.#options;
    if (existsSync(folder)) throw refusal('there is a backup of that name; choose another');
    const all = dirname(folder);
    const others = existsSync(all) ? readdirSync(all).filter((name) => !name.startsWith('.')) : [];
    if (others.length >= backupsMax) {
      throw refusal(`there are ${others.length} backups already; remove some`);
    }
    const storeBytes = usedBytes(storeFile(join(dataFolder, 'store')));
    const isLinked = statSync(dataFolder).dev === deviceOf(outFolder);
    const needed = storeBytes + (await folderBytes(outFolder, isLinked ? isImage : isNone));
    if (freeBytesOf(dataFolder) < needed + reserveBytes) {
      throw refusal(`there is no room for a backup of ${Math.ceil(needed / 1e6)} MB`);
    }
  }

  async #make(folder: string): Promise<Made> {
    await this.#refuse(folder);
    await Promise.allSettled(this.#others);
    const unfinished = unfinishedIn(this.#options.dataFolder);
    // The remains of a backup that a start could not delete.
    await rm(unfinished, { recursive: true, force: true });
    try {
      const path = storeFile(join(unfinished, 'data/store'));
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      await this.#options.store.backup(path);
      let bytes = await synced(path);
      // It is there even if no crawl has written anything: a master starts with both folders.
      const out = join(unfinished, 'out');
      await mkdir(out);
      for (const { folder, files } of await recordedIn(dirname(path))) {
        bytes += await this.#copyFiles(folder, files, join(out, folder));
      }
      bytes += await this.#copyImages(dirname(path), out);
      await synced(out);
      await rename(unfinished, folder);
      await synced(dirname(folder));
      return { folder, bytes };
    } catch (error) {
      await rm(unfinished, { recursive: true, force: true });
      throw error;
    }
  }

  /** Files only grow, so that up to their recorded lengths they are what the store says. */
  async #copyFiles(from: string, files: readonly RecordedFile[], target: string): Promise<number> {
    await mkdir(target, { recursive: true });
    let bytes = 0;
    for (const { name, length } of files) {
      const to = join(target, name);
      await mkdir(dirname(to), { recursive: true });
      try {
        await copyFile(join(this.#options.outFolder, from, name), to);
      } catch (error) {
        // One of a crawl that is over, or of an earlier part, may have been moved away.
        if (codeOf(error) !== 'ENOENT') throw error;
        continue;
      }
      // One of a crawl that is held may be shorter.
      if (statSync(to).size > length) await truncate(to, length);
      bytes += await synced(to);
    }
    await synced(target);
    return bytes;
  }

  /** Downloaded images never change: they get a second name, where that can be. So do shards, but
   *  for the last one of a crawl. Returns the bytes of those that were copied. */
  async #copyImages(store: string, target: string): Promise<number> {
    const folders = new Set<string>();
    let bytes = 0;
    for await (const { path, grows } of imagesIn(store)) {
      const [from, to] = [join(this.#options.outFolder, path), join(target, path)];
      if (!folders.has(dirname(to))) await mkdir(dirname(to), { recursive: true });
      for (const folder of [dirname(to), dirname(dirname(to))]) folders.add(folder);
      bytes += await (grows ? copied(from, to) : linkedOrCopied(from, to));
    }
    for (const folder of folders) await synced(folder);
    return bytes;
  }
}

/** Deletes what a master that was killed left of a backup: it takes the room that the next one
 *  needs, or the crawls. */
export function forgetUnfinished(dataFolder: string): void {
  try {
    rmSync(unfinishedIn(dataFolder), { recursive: true, force: true });
  } catch {
    // The next backup says why it cannot be made.
  }
}

function backupsIn(dataFolder: string): string {
  return join(dataFolder, 'backups');
}

function unfinishedIn(dataFolder: string): string {
  return join(backupsIn(dataFolder), '.unfinished');
}

/** `folder`: from that of the results. */
type Recorded = { readonly folder: string; readonly files: readonly RecordedFile[] };

/** The files of a copy: those of its crawls that are written, earlier parts, and that of jobs. */
async function recordedIn(folder: string): Promise<Recorded[]> {
  const copy = await openStoppedStore(folder);
  try {
    const crawls: CrawlRecord[] = [];
    for await (const { value } of rowsOf(copy, 'crawls')) crawls.push(decodeCrawl(value));
    const files = new Map<number, RecordedFile[]>();
    const jobs: Recorded[] = [];
    const add = (crawl: number, more: readonly RecordedFile[]) => {
      const known = files.get(crawl);
      if (known === undefined) files.set(crawl, [...more]);
      else known.push(...more);
    };
    for await (const { key, value } of rowsOf(copy, 'meta')) {
      const said = recordedLengths(key, value);
      const part = recordedPart(key, value);
      if (said !== undefined) add(said.crawl, writtenFiles(said.lengths));
      if (part !== undefined) add(part.crawl, part.files);
      const archived = parseArchiveRow(key, value);
      if (archived !== undefined) add(archived.crawl, archivedFiles(archived.mark));
      if (key.equals(jobFileKey)) {
        const { length } = decodeJobFile(value).mark;
        jobs.push({ folder: '.', files: [{ name: jobFileName, length }] });
      }
    }
    const written = crawls.flatMap(({ id, name, removal }) => {
      const known = files.get(id);
      // The files of a removed crawl are gone, or those of a later one of its name.
      const isGone = removal === 'deleting' || removal === 'erasing';
      return known === undefined || isGone ? [] : [{ folder: name, files: known }];
    });
    return [...written, ...jobs];
  } finally {
    await copy.close();
    await rm(`${storeFile(folder)}-lock`, { force: true });
  }
}

/** The downloaded images of a copy, by their paths from the folder of results. `grows`: images may
 *  still be appended; a master that begins with the backup cuts off what is not on record. */
async function* imagesIn(
  folder: string,
): AsyncGenerator<{ readonly path: string; readonly grows?: true }> {
  const copy = await openStoppedStore(folder);
  try {
    const names = new Map<number, string>();
    const shards = new Map<string, Set<number>>();
    for await (const { value } of rowsOf(copy, 'crawls')) {
      const { id, name, removal } = decodeCrawl(value);
      if (removal === undefined) names.set(id, name);
    }
    for await (const { key, value } of rowsOf(copy, 'contents')) {
      const crawl = names.get(key.readUInt32BE(0));
      if (crawl === undefined) continue;
      const sha256 = key.toString('hex', 4);
      const { type, hasThumbnail, isDropped, place } = decodeContent(value);
      if (isDropped) continue;
      if (place !== undefined) {
        const known = shards.get(crawl) ?? new Set();
        shards.set(crawl, known.add(place.shard));
        continue;
      }
      yield { path: join(crawl, 'images', imagePath(sha256, type)) };
      if (hasThumbnail) yield { path: join(crawl, 'images', thumbnailPath(sha256)) };
    }
    for (const [crawl, numbers] of shards) {
      const last = Math.max(...numbers);
      for (const number of numbers) {
        const path = join(crawl, 'images', shardName(number));
        yield { path, ...(number === last && { grows: true }) };
      }
    }
  } finally {
    await copy.close();
    await rm(`${storeFile(folder)}-lock`, { force: true });
  }
}

/** Returns the bytes that were copied. A file that is not there is left out: it is downloaded again
 *  where it is wanted. */
async function linkedOrCopied(from: string, to: string): Promise<number> {
  try {
    await link(from, to);
    return 0;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return 0;
    // Another file system, or one without links.
    return await copied(from, to);
  }
}

/** Returns the bytes that were copied; 0: it is not there. */
async function copied(from: string, to: string): Promise<number> {
  try {
    await copyFile(from, to);
    return await synced(to);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return 0;
    throw error;
  }
}

/** All rows of a table, in slices: the master works meanwhile. */
async function* rowsOf(copy: ReadableStore, table: Table): AsyncGenerator<Row> {
  for (const rows of batches(copy, table, allKeys, rowsRead)) {
    yield* rows;
    await turn();
  }
}

function writtenFiles(lengths: Lengths): readonly RecordedFile[] {
  // Files of items are only there if a crawl has made some.
  return fileKeys.flatMap((key) => {
    const length = lengths[key];
    return length === undefined ? [] : [{ name: fileNames[key], length }];
  });
}

/** A WARC file up to its mark; the index of a file that is complete. A start makes that of an open
 *  one. */
function archivedFiles(mark: ArchiveMark): RecordedFile[] {
  const [warc = '', index = ''] = namesOf(mark).map((name) => join('archive', name));
  const files = [{ name: warc, length: mark.length }];
  return mark.isClosed ? [...files, { name: index, length: Number.POSITIVE_INFINITY }] : files;
}

/** Puts a file or folder on the disk; gives its size. */
async function synced(path: string): Promise<number> {
  const file = await open(path, 'r');
  try {
    await file.sync();
    return (await file.stat()).size;
  } finally {
    await file.close();
  }
}

/** Bytes that a sparse file really takes. */
function usedBytes(path: string): number {
  return statSync(path).blocks * 512;
}

/** A path from the folder of results. */
const isImage = (name: string) => /^[^/]+\/images\/(?!.*\.tar$)/.test(name);
const isNone = () => false;

function deviceOf(folder: string): number | undefined {
  return existsSync(folder) ? statSync(folder).dev : undefined;
}

async function folderBytes(folder: string, isFree: (name: string) => boolean): Promise<number> {
  if (!existsSync(folder)) return 0;
  let bytes = 0;
  for (const name of await readdir(folder, { recursive: true })) {
    if (isFree(name)) continue;
    // Another program may move or pack one meanwhile.
    bytes += (await stat(join(folder, name)).catch(() => undefined))?.size ?? 0;
  }
  return bytes;
}

function refusal(message: string): CommandError {
  return new CommandError('E_BAD_REQUEST', message);
}
