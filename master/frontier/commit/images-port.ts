/** The frontier's view of downloaded images: the seam to `Images`. */
import type { Kept, KeptContent } from '../../images/image-queue.ts';
import type { KeptImage } from '../../store/image-rows.ts';
import type { Crawl } from '../crawl/crawl.ts';

/** Where the bytes of images go before their tasks end. */
export interface ImagesPort {
  /** Keeps an image. `then` is called in the order of the calls, when it is on the disk, or with
   *  the reason why it cannot be written. */
  append(crawl: Crawl, content: KeptContent, then: Kept): void;
  /** Has the crawl this image on the disk and on record? */
  has(crawl: Crawl, sha256: Uint8Array): boolean;
  /** Deletes an image whose record says that it is dropped. */
  drop(crawl: Crawl, sha256: Uint8Array, image: KeptImage): void;
  /** The crawl is over: what is not on record is deleted. */
  rest(crawl: Crawl): Promise<void>;
  /** Does something to the folder of a crawl while nothing is written there. */
  alone<T>(crawl: Crawl, work: () => Promise<T>): Promise<T>;
  /** The crawl is removed, with its files or without. */
  remove(
    crawl: Crawl,
    files: boolean,
  ): Promise<{ readonly deleted: string[]; readonly kept: string[] }>;
}
