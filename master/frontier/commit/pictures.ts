/**
 * Images that pages show, as tasks: which pages show one, until it is taken; what is kept, by its
 * content; and which images look the same. A commit asks while it is gathered, when the store does
 * not show the last commits yet: what these have is remembered here.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { type Download, type ImageFacts, imageHopsMax } from '../../../shared/images.ts';
import type { Image, Result } from '../../../shared/requests.ts';
import type { Values } from '../../../shared/rule-results.ts';
import { parseCanonical } from '../../../shared/url.ts';
import { Likeness } from '../../images/likeness.ts';
import {
  contentKey,
  decodeContent,
  decodeNaming,
  encodeContent,
  encodeNaming,
  type KeptImage,
  type Naming,
  namingKey,
  namingPrefix,
  pageOfNaming,
} from '../../store/image-rows.ts';
import { afterPrefix, crawlKey, kindNumbers } from '../../store/records.ts';
import { batches, type Rows } from '../../store/store.ts';
import type { Crawl } from '../crawl/crawl.ts';
import type { Task } from '../tasks/tasks.ts';
import type { CommitBatch } from './commit-batch.ts';

/** Pages that are kept of one image. */
const pagesMax = 100;
/** More entries than commits that the store does not show yet may hold. */
const freshMax = 16_384;
/** Some milliseconds of work. */
const rowsAtOnce = 1_000;
/** Before its URL, so that the URL may be a page, too, and is an address of an image. */
const mark = '%';

/** Which pages show an image whose task is open: the first `pagesMax` of them. */
type Named = { readonly pages: Naming[]; readonly seqs: number[] };
/** An image whose task has ended: rows that the store still shows are gone with the commit. */
const ended: Named = { pages: [], seqs: [] };

type Page = Pick<Task, 'seq' | 'url' | 'depth' | 'priority'>;

/** The name in `seen` of the task of an image. */
export function pictureName(url: string): string {
  return mark + url;
}

export class Pictures {
  readonly #store: Rows;
  /** Pages of images whose tasks are open, by crawl and fingerprint. */
  readonly #namings = new Recent<Named>(freshMax);
  /** Kept images, by crawl and SHA-256. */
  readonly #contents = new Recent<KeptImage>(freshMax);
  readonly #likeness = new Map<number, Likeness>();
  readonly #loading = new Map<number, Promise<void>>();

  constructor(store: Rows) {
    this.#store = store;
  }

  /** A page shows these images: those that are new become tasks, unless the page forbids it. */
  shown(batch: CommitBatch, page: Page, images: readonly Image[], result: Result): void {
    const { download } = batch.crawl.spec.fetch;
    if (download === undefined || images.length === 0) return;
    if (isOptedOut(result.directives, download)) return;
    const done = new Set<string>();
    for (const { src, alt, license } of images) {
      const url = src.replace(/#.*/s, '');
      if (done.has(url)) continue;
      done.add(url);
      this.#show(batch, url, page, { page: page.url, alt, license });
    }
  }

  /** An image is somewhere else: that is another task. */
  moved(batch: CommitBatch, task: Task, target: string): void {
    if (task.level >= imageHopsMax) return;
    const [first] = this.namingsOf(batch, task);
    const page = { ...task, url: first?.page ?? task.url };
    this.#show(batch, target, page, first ?? { page: task.url }, task.level + 1);
  }

  #show(batch: CommitBatch, url: string, page: Page, naming: Naming, level = 0): void {
    const { crawl } = batch;
    const parsed = parseCanonical(url);
    if (parsed === undefined || !crawl.images.takes(parsed)) return;
    const name = pictureName(url);
    const place = { depth: page.depth, priority: page.priority };
    const prefix = namingPrefix(crawl.id, batch.fingerprintOf(name));
    const known = this.#named(prefix);
    if (known !== undefined) {
      // It waits: this page shows it, too.
      if (known.pages.length >= pagesMax) return;
      known.pages.push(naming);
      known.seqs.push(page.seq);
    } else {
      if (crawl.images.isFull) return;
      const found = { kind: kindNumbers.image, level, ...place, goesFirst: true };
      if (!batch.admit(parsed, name, found, page)) return;
      this.#namings.set(prefix.toString('latin1'), { pages: [naming], seqs: [page.seq] });
    }
    const row = { key: namingKey(prefix, page.seq), value: encodeNaming(naming) };
    batch.also([{ table: 'namings', ...row }]);
  }

  /** The record of an image whose task is open; undefined: there is none. */
  #named(prefix: Buffer): Named | undefined {
    const key = prefix.toString('latin1');
    const known = this.#namings.get(key);
    if (known !== undefined) return known === ended ? undefined : known;
    const rows = this.#store.range('namings', {
      from: prefix,
      to: afterPrefix(prefix),
      limit: pagesMax,
    });
    if (rows.length === 0) return undefined;
    const named = {
      pages: rows.map(({ value }) => decodeNaming(value)),
      seqs: rows.map((row) => pageOfNaming(row.key)),
    };
    this.#namings.set(key, named);
    return named;
  }

  /** The pages that show an image, the first one first. */
  namingsOf(batch: CommitBatch, { url }: Task): readonly Naming[] {
    const prefix = namingPrefix(batch.crawl.id, batch.fingerprintOf(pictureName(url)));
    return this.#named(prefix)?.pages ?? [];
  }

  /** The task of an image has ended: the pages are on record with it. */
  ended(batch: CommitBatch, { url }: Task): void {
    const prefix = namingPrefix(batch.crawl.id, batch.fingerprintOf(pictureName(url)));
    // All that are in the store are known, and those of commits that it does not show yet.
    const { seqs } = this.#named(prefix) ?? ended;
    const keys = seqs.map((seq) => namingKey(prefix, seq));
    batch.also(keys.map((key) => ({ table: 'namings', key, value: undefined }) as const));
    this.#namings.set(prefix.toString('latin1'), ended);
  }

  /** The record of these bytes; undefined: they are not kept. */
  kept({ id }: Crawl, sha256: Uint8Array): KeptImage | undefined {
    const key = contentKey(id, sha256);
    const fresh = this.#contents.get(key.toString('latin1'));
    if (fresh !== undefined) return fresh;
    const row = this.#store.get('contents', key);
    return row && decodeContent(row);
  }

  /** An image is kept. `before`: what is on record of its bytes; it is in another place if it was
   *  taken away and came again. Returns what is on record now. */
  keep(
    batch: CommitBatch,
    sha256: Uint8Array,
    image: Omit<KeptImage, 'group'>,
    before: KeptImage | undefined,
  ): KeptImage {
    const { place } = image;
    const isMoved = place?.shard !== before?.place?.shard || place?.at !== before?.place?.at;
    if (before !== undefined && (place === undefined || !isMoved)) return before;
    const { crawl } = batch;
    const kept = before ? { ...before, place } : this.#grouped(crawl, sha256, image);
    const key = contentKey(crawl.id, sha256);
    this.#contents.set(key.toString('latin1'), kept);
    batch.also([{ table: 'contents', key, value: encodeContent(kept) }]);
    if (before === undefined && !kept.isDropped) crawl.books.kept(image.bytes);
    return kept;
  }

  #grouped(crawl: Crawl, sha256: Uint8Array, image: Omit<KeptImage, 'group'>): KeptImage {
    if (image.dhash === undefined) return image;
    const isDropping = crawl.spec.fetch.download?.images.similar === 'drop';
    const likeness = this.#likenessOf(crawl);
    // A copy: that of the report would keep all of its message in memory.
    const dhash = Uint8Array.from(image.dhash);
    const group = likeness.add(dhash, sha256, isDropping ? 'firsts' : 'all');
    const isDropped = isDropping && group !== undefined && !Buffer.from(group).equals(sha256);
    return { ...image, dhash, group, ...(isDropped && { isDropped }) };
  }

  /** Frees the memory of a crawl that is over. */
  rest({ id }: Crawl): void {
    this.#likeness.delete(id);
    this.#loading.delete(id);
  }

  /** Resolves when images of the crawl can be compared with those before: after a start their
   *  hashes are read first, in slices, so that others are served meanwhile; undefined: they can. */
  ready({ id }: Crawl): Promise<void> | undefined {
    if (this.#likeness.has(id)) return undefined;
    const known = this.#loading.get(id);
    if (known !== undefined) return known;
    const made = new Likeness();
    const load = async () => {
      // Not before it is known that they are read.
      await turn();
      for (const _ of this.#restored(id, made)) await turn();
      if (this.#loading.get(id) !== loading) return;
      this.#loading.delete(id);
      this.#likeness.set(id, made);
    };
    const loading = load();
    this.#loading.set(id, loading);
    return loading;
  }

  /** All hashes of the crawl: read at once if nobody waited until they were. */
  #likenessOf({ id }: Crawl): Likeness {
    const known = this.#likeness.get(id);
    if (known !== undefined) return known;
    const made = new Likeness();
    for (const _ of this.#restored(id, made));
    this.#likeness.set(id, made);
    return made;
  }

  /** Restores the hashes of a crawl; yields after each slice. */
  *#restored(id: number, likeness: Likeness): Generator<void> {
    const all = { from: crawlKey(id), to: afterPrefix(crawlKey(id)) };
    for (const rows of batches(this.#store, 'contents', all, rowsAtOnce)) {
      for (const { value } of rows) {
        const { dhash, group, isDropped } = decodeContent(value);
        if (dhash && group && !isDropped) likeness.restore(dhash, group);
      }
      yield;
    }
  }
}

/** Does a page, or an answer, forbid that its images are taken? */
export function isOptedOut(directives: Result['directives'], { images }: Download): boolean {
  if (images.ignoreOptOut === true || directives === undefined) return false;
  return directives.includes('noai') || directives.includes('noimageai');
}

/** The findings of a slave, by the names of fields. */
export function imageValues(facts: ImageFacts): Values {
  const { width, height, dhash, creator, credit, copyright, license, optOut, fault, type } = facts;
  const all = { type, width, height, creator, credit, copyright, license, optOut, fault };
  const said = Object.entries(all).filter(([, value]) => value !== undefined);
  const values = Object.fromEntries(said) as Values;
  return dhash === undefined ? values : { ...values, dhash: Buffer.from(dhash).toString('hex') };
}

/** The last so many of what was set. */
class Recent<V> {
  readonly #max: number;
  readonly #values = new Map<string, V>();

  constructor(max: number) {
    this.#max = max;
  }

  get(key: string): V | undefined {
    return this.#values.get(key);
  }

  set(key: string, value: V): void {
    this.#values.set(key, value);
    if (this.#values.size <= this.#max) return;
    for (const oldest of this.#values.keys()) {
      this.#values.delete(oldest);
      return;
    }
  }

  delete(key: string): void {
    this.#values.delete(key);
  }
}
