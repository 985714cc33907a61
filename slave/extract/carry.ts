/**
 * The unread rest of a scanner's chunk, which is read again with the next chunks. A long rest waits
 * until the input has doubled, so that one endless token costs linear time.
 */

/** A rest shorter than this is read again with every chunk. */
const rescanCharsMin = 1 << 12;

export class Carry {
  #rest = '';
  /** Chunks that wait until they are as long as `#rest`. */
  #held: string[] = [];
  #heldChars = 0;

  /** Returns the text to read with `chunk`; undefined: wait for more. */
  with(chunk: string): string | undefined {
    if (this.#rest.length < rescanCharsMin) {
      return this.#rest.length === 0 ? chunk : this.#rest + chunk;
    }
    this.#held.push(chunk);
    this.#heldChars += chunk.length;
    return this.#heldChars < this.#rest.length ? undefined : this.all();
  }

  /** Returns all remaining text. */
  all(): string {
    const text = this.#rest + this.#held.join('');
    this.#rest = '';
    this.#held = [];
    this.#heldChars = 0;
    return text;
  }

  keep(rest: string): void {
    this.#rest = rest;
  }
}
