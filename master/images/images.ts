/**
 * The images of all crawls that download some: their folders, and what is known of each by its
 * content. The frontier calls it. Source: docs/download.md.
 */
import { join } from 'node:path';
import type { CrawlSpec } from '../../shared/crawl.ts';
import { shardBytesDefault } from '../../shared/images.ts';
import { ownTurn } from '../machine/own-turn.ts';
import type { FolderRoom } from '../store/group-commit.ts';
import { contentKey, decodeContent, type KeptImage } from '../store/image-rows.ts';
import { crawlKey } from '../store/records.ts';
import { batches, type Store } from '../store/store.ts';
import { ImageFolder } from './image-folder.ts';
import { ImageQueue, type Kept, type KeptContent } from './image-queue.ts';
import { TarShards } from './tar-shards.ts';

type ImageCrawl = {
  readonly id: number;
  readonly name: string;
  readonly state: string;
  readonly startedAt: number;
  readonly spec: CrawlSpec;
};

/** Rows that are read from the store at once. */
const rowsMax = 1_024;

type ImagesOptions = {
  readonly store: Store;
  /** `<out>`. */
  readonly folder: string;
  readonly room: FolderRoom;
  /** A fault of ours: the master ends. */
  readonly onError: (error: unknown) => void;
};

export class Images {
  readonly #options: ImagesOptions;
  readonly #open = new Map<number, ImageQueue>();
  /** Finished crawls whose folders are swept. */
  readonly #swept = new Set<number>();

  constructor(options: ImagesOptions) {
    this.#options = options;
  }

  /** See `ImageQueue.append`. */
  append(crawl: ImageCrawl, content: KeptContent, then: Kept): void {
    this.#swept.delete(crawl.id);
    this.#of(crawl).append(content, then).catch(this.#options.onError);
  }

  /** Has the crawl this image on the disk and on record? */
  has(crawl: ImageCrawl, sha256: Uint8Array): boolean {
    const image = this.#rowOf(crawl.id, sha256);
    if (image === undefined) return false;
    // Nobody wants the bytes of one that was dropped.
    if (image.isDropped) return true;
    return this.#of(crawl).has(Buffer.from(sha256).toString('hex'), image);
  }

  /** Deletes an image whose record says that it is dropped. */
  drop(crawl: ImageCrawl, sha256: Uint8Array, image: KeptImage): void {
    const hex = Buffer.from(sha256).toString('hex');
    this.#of(crawl).drop(hex, image).catch(this.#options.onError);
  }

  /** Does something to the folder of a crawl while nothing is written there. */
  async alone<T>({ id }: { readonly id: number }, work: () => Promise<T>): Promise<T> {
    const queue = this.#open.get(id);
    return queue === undefined ? await work() : await queue.alone(work);
  }

  /** Its crawl is over. If it is finished, what a crash left is swept away. */
  async rest(crawl: ImageCrawl): Promise<void> {
    const { id, state, spec, startedAt } = crawl;
    if (spec.fetch.download === undefined || state !== 'finished' || this.#swept.has(id)) return;
    this.#swept.add(id);
    const isKept = (sha256: string) => {
      const image = this.#rowOf(id, bytesOf(sha256));
      return image !== undefined && image.isDropped !== true;
    };
    const queue = this.#of(crawl);
    await queue.sweep(isKept, startedAt);
    await queue.close();
    this.#open.delete(id);
  }

  /** Its crawl is removed; with `files` its images are deleted. Returns what became of them, in
   *  words. */
  async remove(
    crawl: ImageCrawl,
    files: boolean,
  ): Promise<{ readonly deleted: string[]; readonly kept: string[] }> {
    const none = { deleted: [], kept: [] };
    if (!files || crawl.spec.fetch.download === undefined) return none;
    const isKept = (sha256: string) => this.#rowOf(crawl.id, bytesOf(sha256)) !== undefined;
    const { deleted, kept } = await this.#of(crawl).remove(isKept);
    this.#open.delete(crawl.id);
    const text = (count: number) => (count === 0 ? [] : [`images (${count})`]);
    return { deleted: text(deleted), kept: text(kept) };
  }

  /** Resolves when all that was appended is on the disk. */
  async idle(): Promise<void> {
    for (const folder of [...this.#open.values()]) await folder.idle();
  }

  /** The record of an image. */
  #rowOf(crawl: number, sha256: Uint8Array): KeptImage | undefined {
    const row = this.#options.store.get('contents', contentKey(crawl, sha256));
    return row && decodeContent(row);
  }

  #of({ id, name, spec, startedAt }: ImageCrawl): ImageQueue {
    const { folder, room } = this.#options;
    const path = join(folder, name, 'images');
    const known = this.#open.get(id);
    // It may have another name since.
    known?.moveTo(path);
    if (known !== undefined) return known;
    const { store, shardBytes = shardBytesDefault } = spec.fetch.download?.images ?? {};
    const placeOf = (sha256: string) =>
      made.placeOf(sha256) ?? this.#rowOf(id, bytesOf(sha256))?.place;
    const rows = { from: crawlKey(id), to: crawlKey(id + 1), limit: 1 };
    const isBegun = () => this.#options.store.keys('contents', rows).length > 0;
    const lastShard = () => lastShardOf(this.#options.store, id);
    const own = { placeOf, isBegun, lastShard };
    const shards = { path, bytesMax: shardBytes, sinceMs: startedAt, ...own };
    const keeper = store === 'tar' ? new TarShards(shards) : new ImageFolder(path);
    const made = new ImageQueue(keeper, room);
    this.#open.set(id, made);
    return made;
  }
}

/** A look at each image of the crawl, once after a start: some seconds for each million, in which
 *  others are served. */
async function lastShardOf(store: Store, crawl: number): Promise<number | undefined> {
  const of = { from: crawlKey(crawl), to: crawlKey(crawl + 1) };
  let last: number | undefined;
  for (const rows of batches(store, 'contents', of, rowsMax)) {
    for (const { value } of rows) {
      const { place } = decodeContent(value);
      if (place !== undefined && place.shard > (last ?? -1)) last = place.shard;
    }
    await ownTurn();
  }
  return last;
}

function bytesOf(sha256: string): Uint8Array {
  return Buffer.from(sha256, 'hex');
}
