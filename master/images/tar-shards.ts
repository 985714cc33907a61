/**
 * The images of one crawl in tar files of limited size: `<out>/<crawl>/images/000000.tar`, as
 * training programs read them. The entries of one image follow each other: its bytes, its thumbnail
 * if it has one, and what is known of it, under one name with different endings.
 *
 *     start --> the last shard is cut back to what is on record --> images are appended --> full:
 *     the next shard
 *
 * A shard ends with two blocks of zeros at any time; the next images overwrite them.
 * Source: POSIX.1-2017, pax, "ustar Interchange Format"; WebDataset, "The WebDataset format".
 */
import { type FileHandle, open, readdir, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { entryName, shardName } from '../../shared/images.ts';
import { syncFolder } from '../../shared/sync-folder.ts';
import { makeFolder } from '../machine/make-folder.ts';
import type { KeptImage, Place } from '../store/image-rows.ts';
import { isFileOf } from './image-folder.ts';
import type { ImageKeeper, KeptContent, Removed } from './image-queue.ts';
import { entryOf, tarBlockBytes, tarEntries, tarTrailer } from './tar.ts';

const named = /^(\d{6,9})\.tar$/;
/** Larger batches are not copied into one buffer before they are written. */
const joinedBytesMax = 4 << 20;

type ShardOptions = {
  readonly path: string;
  readonly bytesMax: number;
  /** Start of the crawl: shards that were written before it are somebody else's. Unix time, ms. */
  readonly sinceMs: number;
  /** Is an image of the crawl on record? */
  readonly isBegun: () => boolean;
  /** Number of the last shard on record, taken away or not; undefined: none is. */
  readonly lastShard: () => number | undefined | Promise<number | undefined>;
  /** Where an image is by the store, or by what is under way to it. */
  readonly placeOf: (sha256: string) => Place | undefined;
};
type Shard = { readonly number: number; readonly handle: FileHandle };
/** Of what is appended. */
type Position = { readonly number: number; readonly end: number };

export class TarShards implements ImageKeeper {
  path: string;
  readonly #options: ShardOptions;
  /** Undefined: nothing was written since the start. */
  #next: Position | undefined;
  #open: Shard | undefined;
  /** Written by a call that failed later. */
  readonly #written = new Map<string, Place>();

  constructor(options: ShardOptions) {
    this.path = options.path;
    this.#options = options;
  }

  async write(contents: readonly KeptContent[]): Promise<ReadonlyMap<string, Place>> {
    this.#next ??= await this.#cutBack();
    try {
      await this.#append(contents);
    } catch (error) {
      // It is opened anew, and cut back to what is known to be there.
      await this.close();
      throw error;
    }
    const places = new Map(this.#written);
    this.#written.clear();
    return places;
  }

  has(_sha256: string, { place, bytes }: KeptImage): boolean {
    if (place === undefined) return false;
    return isFileOf(this.#pathOf(place.shard), (size) => size >= place.at + bytes);
  }

  /** Images in a shard stay there. */
  async drop(): Promise<void> {}

  /** Images are in the order of their commits, so what a crash left is at the end. */
  async sweep(): Promise<number> {
    if (this.#next === undefined) {
      this.#next = await this.#cutBack();
      await this.close();
    }
    return 0;
  }

  async remove(isKept: (sha256: string) => boolean): Promise<Removed> {
    await this.close();
    this.#next = undefined;
    const count = { deleted: 0, kept: 0 };
    for (const number of await this.#numbers()) {
      const isOurs = (await this.#recordedEnd(number, isKept)) > 0;
      if (isOurs) await rm(this.#pathOf(number), { force: true });
      count[isOurs ? 'deleted' : 'kept']++;
    }
    await rmdir(this.path).catch(() => {});
    return count;
  }

  async close(): Promise<void> {
    const { handle } = this.#open ?? {};
    this.#open = undefined;
    await handle?.close();
  }

  async #append(contents: readonly KeptContent[]): Promise<void> {
    const { bytesMax } = this.#options;
    let pieces: Uint8Array[] = [];
    let places = new Map<string, Place>();
    await this.#skipMissing();
    let { number, end } = this.#start();
    for (const content of contents) {
      if (this.#written.has(content.sha256)) continue;
      const entries = entriesOf(content);
      const bytes = entries.reduce((sum, piece) => sum + piece.length, 0);
      if (end > 0 && end + bytes + tarTrailer.length > bytesMax) {
        await this.#flush(number, end, pieces, places);
        await this.close();
        [pieces, places] = [[], new Map()];
        this.#next = { number: number + 1, end: 0 };
        ({ number, end } = this.#next);
      }
      places.set(content.sha256, { shard: number, at: end + tarBlockBytes });
      pieces.push(...entries);
      end += bytes;
    }
    await this.#flush(number, end, pieces, places);
  }

  /** Somebody took the shard away: its number is not used again. */
  async #skipMissing(): Promise<void> {
    const { number, end } = this.#start();
    if (end === 0) return;
    const found = await stat(this.#pathOf(number)).catch(() => undefined);
    if (found !== undefined && found.size >= end) return;
    await this.close();
    this.#next = { number: number + 1, end: 0 };
  }

  #start(): Position {
    return this.#next ?? { number: 0, end: 0 };
  }

  /** Writes up to `end`, durably. Then it counts. */
  async #flush(
    number: number,
    end: number,
    pieces: readonly Uint8Array[],
    places: ReadonlyMap<string, Place>,
  ): Promise<void> {
    if (pieces.length === 0) return;
    const from = this.#start().end;
    const handle = await this.#handle(number, from);
    const all = [...pieces, tarTrailer];
    const isSmall = end - from < joinedBytesMax;
    await writeAt(handle, isSmall ? [Buffer.concat(all)] : all, from);
    await handle.datasync();
    for (const [sha256, place] of places) this.#written.set(sha256, place);
    this.#next = { number, end };
  }

  async #handle(number: number, end: number): Promise<FileHandle> {
    if (this.#open?.number === number) return this.#open.handle;
    await this.close();
    makeFolder(this.path);
    const path = this.#pathOf(number);
    const handle = await open(path, end === 0 ? 'w' : 'r+', 0o666);
    this.#open = { number, handle };
    if (end > 0) await handle.truncate(end);
    for (const folder of [this.path, dirname(this.path)]) await syncFolder(folder);
    return handle;
  }

  /** Cuts off what no record knows. Returns where the next image goes. */
  async #cutBack(): Promise<Position> {
    const { sinceMs, isBegun } = this.#options;
    const last = isBegun() ? await this.#lastRecorded() : undefined;
    // A clock that was set back since the start makes our own look older.
    const since = Math.min(sinceMs, last?.mtimeMs ?? sinceMs);
    let free: number | undefined;
    for (const number of (await this.#numbers()).reverse()) {
      if (number === last?.number || free !== undefined) break;
      const path = this.#pathOf(number);
      const found = await stat(path).catch(() => undefined);
      if (found !== undefined && found.mtimeMs < since) free = number + 1;
      else await rm(path, { force: true });
    }
    if (last !== undefined) await cut(this.#pathOf(last.number), last.end);
    // The number of one that was taken away is not used again.
    const recorded = (await this.#options.lastShard()) ?? -1;
    if (recorded > (last?.number ?? -1)) free = Math.max(free ?? 0, recorded + 1);
    return free === undefined && last !== undefined ? last : { number: free ?? 0, end: 0 };
  }

  /** The last shard with an image on record, and where that ends. */
  async #lastRecorded(): Promise<(Position & { readonly mtimeMs: number }) | undefined> {
    for (const number of (await this.#numbers()).reverse()) {
      const isOurs = (sha256: string, at: number) => {
        const place = this.#options.placeOf(sha256);
        return place?.shard === number && place.at === at;
      };
      const end = await this.#recordedEnd(number, isOurs);
      if (end > 0) return { number, end, mtimeMs: (await stat(this.#pathOf(number))).mtimeMs };
    }
    return undefined;
  }

  /** The end of the last image of a shard that is on record; 0: none is. */
  async #recordedEnd(
    number: number,
    isKept: (sha256: string, at: number) => boolean,
  ): Promise<number> {
    let end = 0;
    let isRecorded = false;
    let name = '';
    for await (const entry of tarEntries(this.#pathOf(number))) {
      const sha256 = entry.name.slice(0, 64);
      // The first entry of an image is the image.
      if (sha256 !== name) isRecorded = isKept(sha256, entry.at);
      name = sha256;
      if (isRecorded) end = entry.end;
    }
    return end;
  }

  /** The shards that are there, in their order. */
  async #numbers(): Promise<number[]> {
    const names = await readdir(this.path).catch(() => []);
    const numbers = names.flatMap((name) => named.exec(name)?.[1] ?? []).map(Number);
    return numbers.sort((a, b) => a - b);
  }

  #pathOf(number: number): string {
    return join(this.path, shardName(number));
  }
}

function entriesOf({ sha256, type, pieces, thumbnail, about }: KeptContent): Uint8Array[] {
  return [
    ...entryOf(entryName(sha256, type), pieces),
    ...(thumbnail ? entryOf(`${sha256}.thumb.webp`, [thumbnail]) : []),
    ...entryOf(`${sha256}.json`, [Buffer.from(JSON.stringify(about))]),
  ];
}

/** Ends a shard after its last image on record. */
async function cut(path: string, end: number): Promise<void> {
  const { size } = await stat(path);
  if (size === end + tarTrailer.length) return;
  const handle = await open(path, 'r+');
  try {
    await handle.truncate(end);
    await writeAt(handle, [tarTrailer], end);
    await handle.datasync();
  } finally {
    await handle.close();
  }
}

async function writeAt(
  handle: FileHandle,
  pieces: readonly Uint8Array[],
  from: number,
): Promise<void> {
  let at = from;
  for (const piece of pieces) {
    for (let done = 0; done < piece.length; ) {
      const { bytesWritten } = await handle.write(piece, done, piece.length - done, at);
      done += bytesWritten;
      at += bytesWritten;
    }
  }
}
