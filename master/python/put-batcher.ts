/**
 * Batches links that programs put one by one and that belong to no page in hand. Each put is
 * answered at once; the links are offered to the crawl some milliseconds later, all together, so
 * that they are hashed in one call and take one entry of the filter queue.
 */

/** Shorter than the wait of the group commit, which the links wait for anyway. */
const withinMs = 5;
const bytesMax = 64 << 10;

export class PutBatcher {
  readonly #offer: (links: string) => void;
  #links: string[] = [];
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;

  /** `offer` takes canonical URLs, each with a line feed. */
  constructor(offer: (links: string) => void) {
    this.#offer = offer;
  }

  add(url: string): void {
    this.#links.push(url);
    this.#bytes += url.length + 1;
    if (this.#bytes >= bytesMax) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), withinMs);
  }

  /** Offers the links now. Called before the open work of a crawl is counted. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#links.length === 0) return;
    const links = `${this.#links.join('\n')}\n`;
    this.#links = [];
    this.#bytes = 0;
    this.#offer(links);
  }
}
