/**
 * How many parsed robots.txt are kept: a host can serve half a megabyte of rules, and have any
 * number of names. Beyond the bound those go that were asked least lately; their files are in the
 * store, to be parsed again. Owned by the frontier.
 */

/** Whoever keeps a parsed file: a gate. */
export type ParsedHolder = { forgetParsed(): void };

/** What parsed rules take, about, for each byte of the file; and at least. */
const bytesPerByte = 6;
const bytesMin = 1024;

export class RobotsRoom {
  readonly #bytesMax: number;
  /** The one that was asked last comes last. */
  readonly #held = new Map<ParsedHolder, number>();
  #bytes = 0;

  /** `bytesMax`: default: there is no end of it. */
  constructor(bytesMax = Number.POSITIVE_INFINITY) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The holder has parsed one more file of so many bytes. */
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

  /** It was asked. */
  touch(holder: ParsedHolder): void {
    const bytes = this.#held.get(holder);
    if (bytes === undefined) return;
    this.#held.delete(holder);
    this.#held.set(holder, bytes);
  }

  /** It keeps none any more. */
  leave(holder: ParsedHolder): void {
    this.#drop(holder);
  }

  /** Gives what it had. */
  #drop(holder: ParsedHolder): number {
    const bytes = this.#held.get(holder) ?? 0;
    this.#held.delete(holder);
    this.#bytes -= bytes;
    return bytes;
  }
}
