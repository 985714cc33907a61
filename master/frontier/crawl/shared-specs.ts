/**
 * The specs of most crawls of a master are alike, or differ in few fields. Equal ones share their
 * memory: a spec takes some KiB, and a master may have thousands of crawls.
 */
import type { CrawlSpec } from '../../../shared/crawl.ts';

/** Different specs, and parts of specs, that are remembered. */
const partsMax = 256;

export class SharedSpecs {
  readonly #parts = new Map<string, object>();

  /** Returns an equal spec, which shares what it can with those before it. */
  share(spec: CrawlSpec): CrawlSpec {
    const fetch = this.#one(spec.fetch);
    return this.#one({ ...spec, fetch });
  }

  #one<T extends object>(part: T): T {
    const text = JSON.stringify(part);
    const known = this.#parts.get(text);
    // Its text is that of a `T`.
    if (known !== undefined) return known as T;
    if (this.#parts.size >= partsMax) this.#parts.clear();
    this.#parts.set(text, part);
    return part;
  }
}
