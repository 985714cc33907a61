/**
 * Which images a crawl takes, and whether it has room for more. With a page limit the images of its
 * pages are taken all the same, so pages are held back while images go on.
 */
import type { CrawlSpec } from '../../../shared/crawl.ts';
import { kindNumbers } from '../../store/records.ts';
import type { Books } from './books.ts';
import type { Scope } from './scope.ts';

type ImageCrawl = {
  readonly spec: CrawlSpec;
  readonly scope: Pick<Scope, 'takesImage'>;
  readonly books: Books;
};

export class ImageRoom {
  readonly #crawl: ImageCrawl;
  #fault: string | undefined;

  constructor(crawl: ImageCrawl) {
    this.#crawl = crawl;
  }

  /** Why none can be written until an operator resumes the crawl. Nothing of it is on record, so
   *  each start tries anew. */
  get fault(): string | undefined {
    return this.#fault;
  }

  failed(why: string): void {
    this.#fault = why;
  }

  /** An operator wants it to be tried again. */
  again(): void {
    this.#fault = undefined;
  }

  /** It keeps the images of its pages. */
  get areWanted(): boolean {
    return this.#crawl.spec.fetch.download !== undefined;
  }

  /** Tasks of images that are open. */
  get waiting(): number {
    if (!this.areWanted) return 0;
    return this.#crawl.books.ledger?.waitingOf(kindNumbers.image) ?? 0;
  }

  /** It has, or waits for, all the images that it may have. */
  get isFull(): boolean {
    const { spec, books } = this.#crawl;
    if (spec.maxImages === undefined) return false;
    return (books.ledger?.wantedOf(kindNumbers.image) ?? 0) >= spec.maxImages;
  }

  /** May no page be leased, though an image may? */
  get holdPages(): boolean {
    const { spec, books } = this.#crawl;
    if (spec.maxPages === undefined || !this.areWanted) return false;
    const { leased, offered } = books.open;
    return books.counters.pages + leased + offered >= spec.maxPages;
  }

  /** Does it take the image of that URL, canonical? */
  takes(url: URL): boolean {
    const { spec, scope } = this.#crawl;
    const { download } = spec.fetch;
    return download !== undefined && scope.takesImage(url, download.images.scope ?? 'any');
  }
}
