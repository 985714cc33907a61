/**
 * Hands the chunks of a page to a scanner, each with what the scanner left of the one before. A
 * long rest waits until the input has doubled, so that one endless token costs linear time.
 */

/** A rest shorter than this is read again with every chunk. */
const rescanCharsMin = 1 << 12;

/** Scans `text`; returns the index up to which it was read. `last`: no more text follows. */
type Scan = (text: string, last: boolean) => number;

export class Carry {
  readonly #scan: Scan;
  #rest = '';
  /** Chunks that wait until they are as long as `#rest`. */
  #held: string[] = [];
  #heldChars = 0;

  constructor(scan: Scan) {
    this.#scan = scan;
  }

  write(chunk: string): void {
    if (this.#rest.length < rescanCharsMin) {
      this.#read(this.#rest.length === 0 ? chunk : this.#rest + chunk);
      return;
    }
    this.#held.push(chunk);
    this.#heldChars += chunk.length;
    if (this.#heldChars >= this.#rest.length) this.#read(this.#all());
  }

  end(): void {
    this.#scan(this.#all(), true);
  }

  #read(text: string): void {
    this.#rest = text.slice(this.#scan(text, false));
  }

  /** Returns all remaining text. */
  #all(): string {
    const text = this.#rest + this.#held.join('');
    this.#rest = '';
    this.#held = [];
    this.#heldChars = 0;
    return text;
  }
}
