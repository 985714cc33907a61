/**
 * The images of all crawls that download some: their folders, and what is known of each by its
 * content. The frontier calls it. Source: docs/download.md.
 */
import { join } from 'node:path';
import type { CrawlSpec } from '../../shared/crawl.ts';
import type { Room } from '../store/group-commit.ts';
import { contentKey, decodeContent } from '../store/image-rows.ts';
import type { Store } from '../store/store.ts';
import { ImageFolder, type Kept, type KeptContent } from './image-folder.ts';

type ImageCrawl = {
  readonly id: number;
  readonly name: string;
  readonly state: string;
  readonly startedAt: number;
  readonly spec: CrawlSpec;
};

type ImagesOptions = {
  readonly store: Store;
  /** `<out>`. */
  readonly folder: string;
  readonly room: Room & { refused(): void };
  /** A fault of ours: the master ends. */
  readonly onError: (error: unknown) => void;
};

export class Images {
  readonly #options: ImagesOptions;
  readonly #open = new Map<number, ImageFolder>();
  /** Finished crawls whose folders are swept. */
  readonly #swept = new Set<number>();

  constructor(options: ImagesOptions) {
    this.#options = options;
  }

  /** See `ImageFolder.append`. */
  append(crawl: ImageCrawl, content: KeptContent, then: Kept): void {
    this.#swept.delete(crawl.id);
    this.#of(crawl).append(content, then).catch(this.#options.onError);
  }

  /** Has the crawl this image on the disk and on record? */
  async has(crawl: ImageCrawl, sha256: Uint8Array): Promise<boolean> {
    const row = this.#options.store.get('contents', contentKey(crawl.id, sha256));
    if (row === undefined) return false;
    const { type, bytes } = decodeContent(row);
    const folder = this.#of(crawl);
    const hex = Buffer.from(sha256).toString('hex');
    if (await folder.has(hex, type, bytes)) return true;
    folder.forget(hex);
    return false;
  }

  /** Does something to the folder of a crawl while nothing is written there. */
  async alone<T>({ id }: { readonly id: number }, work: () => Promise<T>): Promise<T> {
    const folder = this.#open.get(id);
    const result = folder === undefined ? await work() : await folder.alone(work);
    // It may have another name now.
    this.#open.delete(id);
    return result;
  }

  /** Its crawl is over. If it is finished, what a crash left is swept away. */
  async rest(crawl: ImageCrawl): Promise<void> {
    const { id, state, spec, startedAt } = crawl;
    if (spec.fetch.download === undefined || state !== 'finished' || this.#swept.has(id)) return;
    this.#swept.add(id);
    await this.#of(crawl).sweep(this.#isKept(id), startedAt);
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
    const { deleted, kept } = await this.#of(crawl).remove(this.#isKept(crawl.id));
    this.#open.delete(crawl.id);
    const text = (count: number) => (count === 0 ? [] : [`images (${count})`]);
    return { deleted: text(deleted), kept: text(kept) };
  }

  /** Resolves when all that was appended is on the disk. */
  async idle(): Promise<void> {
    for (const folder of [...this.#open.values()]) await folder.idle();
  }

  #isKept(crawl: number): (sha256: string) => boolean {
    const { store } = this.#options;
    return (sha256) => store.has('contents', contentKey(crawl, Buffer.from(sha256, 'hex')));
  }

  #of({ id, name }: ImageCrawl): ImageFolder {
    const known = this.#open.get(id);
    if (known !== undefined) return known;
    const { folder, room } = this.#options;
    const made = new ImageFolder(join(folder, name, 'images'), room);
    this.#open.set(id, made);
    return made;
  }
}
