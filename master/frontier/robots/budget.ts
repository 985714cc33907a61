/**
 * Limits the memory of parsed robots.txt files: a host can serve half a megabyte of rules, and have
 * any number of names. Beyond the limit the least recently used ones are dropped; their files stay
 * in the store, to be parsed again. Owned by the frontier.
 */

/** A holder of a parsed file: a gate. */
export type ParsedHolder = { forgetParsed(): void };

/** Approximate size of parsed rules per byte of the file; and the minimum. */
const bytesPerByte = 6;
const bytesMin = 1024;

export class RobotsBudget {
  readonly #bytesMax: number;
  /** In the order of use, the most recent last. */
  readonly #held = new Map<ParsedHolder, number>();
  #bytes = 0;

  /** `bytesMax`: default: no limit. */
  constructor(bytesMax = Number.POSITIVE_INFINITY) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The holder has parsed one more file of `fileBytes`. */
  take(holder: ParsedHolder, fileBytes: number): void {
    const bytes = Math.max(bytesMin, fileBytes * bytesPerByte) + this.#drop(holder);
    this.#held.set(holder, bytes);
    this.#bytes += bytes;
    for (const other of this.#held.keys()) {
      if (this.#bytes <= this.#bytesMax || other === holder) return;
      this.leave(other);
      other.forgetParsed();
    }
  }

  /** The holder was used. */
  touch(holder: ParsedHolder): void {
    const bytes = this.#held.get(holder);
    if (bytes === undefined) return;
    this.#held.delete(holder);
    this.#held.set(holder, bytes);
  }

  /** The holder no longer keeps a file. */
  leave(holder: ParsedHolder): void {
    this.#drop(holder);
  }

  /** Returns the size that it had. */
  #drop(holder: ParsedHolder): number {
    const bytes = this.#held.get(holder) ?? 0;
    this.#held.delete(holder);
    this.#bytes -= bytes;
    return bytes;
  }
}
