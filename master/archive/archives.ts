/**
 * The archives of all crawls that have one: made when something is appended, closed when the crawl
 * is over. The frontier calls it.
 */
import { lstat, rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { CrawlSpec } from '../../shared/crawl.ts';
import type { CrawlStatus } from '../../shared/protocol.ts';
import { type ArchiveMark, archiveMarks } from '../store/archive-rows.ts';
import type { Store } from '../store/store.ts';
import {
  type ArchivedCrawl,
  CrawlArchive,
  type CrawlArchiveOptions,
  fileBytesDefault,
  namesOf,
} from './crawl-archive.ts';
import { type About, Digests } from './records.ts';
import { SavedPages } from './saved-pages.ts';
import type { Upload } from './uploads.ts';
import { warcName } from './warc-file.ts';

type SpecifiedCrawl = ArchivedCrawl & { readonly spec: CrawlSpec };

type ArchivesOptions = Omit<CrawlArchiveOptions, 'digests'> & {
  readonly store: Store;
  /** The archive cannot be written: the master ends. */
  readonly onError: (error: unknown) => void;
};

export class Archives {
  readonly #options: ArchivesOptions;
  readonly #digests = new Digests();
  readonly #open = new Map<number, CrawlArchive>();

  readonly #saved: SavedPages;
  /** Writes under way. */
  readonly #keeping = new Set<Promise<void>>();

  constructor(options: ArchivesOptions) {
    this.#options = options;
    this.#saved = new SavedPages(options);
  }

  /** See `CrawlArchive.append`. */
  append(
    crawl: SpecifiedCrawl,
    upload: Upload,
    about: About,
    then: (mark: ArchiveMark | undefined) => void,
  ): void {
    const kept = this.#keep(crawl, upload, about, then)
      .catch(this.#options.onError)
      .finally(() => this.#keeping.delete(kept));
    this.#keeping.add(kept);
  }

  /** A page is a file before the archive has it, so that its commit covers both. */
  async #keep(
    crawl: SpecifiedCrawl,
    upload: Upload,
    about: About,
    then: (mark: ArchiveMark | undefined) => void,
  ): Promise<void> {
    const { archive } = crawl.spec.fetch;
    if (about.isPage && about.isAnswered) await this.#saved.save(crawl, upload);
    if (archive !== undefined) {
      await this.#of(crawl).append({ upload, about, then });
      return;
    }
    upload.drop();
    then(undefined);
  }

  /** Takes up what an earlier master left: cuts what was not committed, makes the indexes of open
   *  files again. */
  async restore(crawl: SpecifiedCrawl & { readonly isOpen: boolean }): Promise<void> {
    if (crawl.isOpen) await this.#saved.restore(crawl);
    if (archiveMarks(this.#options.store, crawl.id).every(({ isClosed }) => isClosed)) return;
    const archive = this.#of(crawl);
    await archive.restore();
    if (!crawl.isOpen) await this.rest(crawl);
  }

  /** Its crawl is over. */
  async rest({ id }: { readonly id: number }): Promise<void> {
    const archive = this.#open.get(id);
    if (archive === undefined) return;
    await archive.close();
    if (this.#open.get(id) === archive) this.#open.delete(id);
  }

  /** Does something to the folder of a crawl while nothing is written there. */
  async alone<T>({ id }: { readonly id: number }, work: () => Promise<T>): Promise<T> {
    const archive = this.#open.get(id);
    const rest = () => (archive === undefined ? work() : archive.alone(work));
    return await this.#saved.alone({ id }, rest);
  }

  /** Its crawl is removed; with `files` those that the archive made are deleted. Returns their
   *  names, by what became of them. */
  async remove(
    crawl: SpecifiedCrawl,
    files: boolean,
  ): Promise<{ readonly deleted: string[]; readonly kept: string[] }> {
    const deleted: string[] = [];
    const kept: string[] = [];
    await this.rest(crawl);
    const folder = join(this.#options.folder, crawl.name, 'archive');
    for (const mark of files ? archiveMarks(this.#options.store, crawl.id) : []) {
      for (const name of namesOf(mark)) {
        const path = join(folder, name);
        const found = await lstat(path).catch(() => undefined);
        if (found === undefined) continue;
        // One of another length is not as the master left it.
        const isOurs =
          found.isFile() && (name !== warcName(mark.file) || found.size === mark.length);
        const isGone = isOurs && (await rm(path).then(isTrue, isFalse));
        (isGone ? deleted : kept).push(`archive/${name}`);
      }
    }
    if (files) await rmdir(folder).catch(() => {});
    const gone = () => this.#saved.remove(crawl);
    if (files) deleted.push(...(await this.#saved.alone(crawl, gone)));
    return { deleted, kept };
  }

  /** The state of a crawl's archive. */
  statusOf(crawl: { readonly id: number }): Omit<NonNullable<CrawlStatus['archive']>, 'waits'> {
    const open = this.#open.get(crawl.id);
    const marks = open?.marks ?? archiveMarks(this.#options.store, crawl.id);
    const bytes = marks.reduce((sum, { length }) => sum + length, 0);
    return { files: marks.length, bytes };
  }

  /** Resolves when all that was appended is on the disk. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#keeping);
    for (const archive of [...this.#open.values()]) await archive.idle();
  }

  /** The master ends. */
  async close(): Promise<void> {
    for (const archive of this.#open.values()) await archive.leave();
    this.#open.clear();
  }

  #of(crawl: SpecifiedCrawl): CrawlArchive {
    const known = this.#open.get(crawl.id);
    if (known !== undefined) return known;
    const { store } = this.#options;
    const bytesMax = crawl.spec.archiveFileBytes ?? fileBytesDefault;
    const options = { ...this.#options, digests: this.#digests };
    const archive = new CrawlArchive(crawl, archiveMarks(store, crawl.id), bytesMax, options);
    this.#open.set(crawl.id, archive);
    return archive;
  }
}

const isTrue = () => true;
const isFalse = () => false;
