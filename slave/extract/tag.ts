/**
 * The start tag that the scanner stands in: which of its attributes are wanted, and their values as
 * they stand in the page. One tag serves all elements of a page, one after the other; whoever is
 * given it looks at once.
 */
import { attributeName, href, type Kind, lazy, letterBit, style } from './elements.ts';
import type { LazyNames, LazyValue } from './lazy.ts';

/** A longer attribute value is read over and dropped: it holds no URL that would be kept. */
export const valueCharsMax = 1 << 20;
/** Lazy attributes of one tag. */
const lazyCountMax = 64;

export class Tag {
  kind: Kind = 'other';
  /** Lower-case; only where it matters: kinds `raw`, `about` and `extra`, and foreign elements. */
  name = '';
  /** Bits of the attributes that are looked for. */
  wanted = 0;
  /** First letters that a wanted attribute can have, as bits: those of most tags are few. */
  letters = 0;
  /** In the order of the tag; a name that stands twice is there twice. */
  lazies: LazyValue[] = [];
  readonly #lazyNames: LazyNames;
  /** Of href, style and the lazy attributes. */
  readonly #usualLetters: number;
  /** Attributes already seen; the first of a name wins. */
  #seen = 0;
  #kept = 0;
  readonly #values: string[] = new Array(32).fill('');

  constructor(lazyNames: LazyNames) {
    this.#lazyNames = lazyNames;
    this.#usualLetters = lazyNames.letters | letterBit('h') | letterBit('s');
  }

  begin(wanted: number): void {
    this.wanted = wanted;
    this.letters = (wanted & ~(style | lazy | href)) === 0 ? this.#usualLetters : -1;
    this.#seen = 0;
    this.#kept = 0;
    if (this.lazies.length > 0) this.lazies = [];
  }

  has(attribute: number): boolean {
    return (this.#kept & attribute) !== 0;
  }

  /** The raw value: character references are not decoded. */
  value(attribute: number): string | undefined {
    return this.has(attribute) ? this.#values[31 - Math.clz32(attribute)] : undefined;
  }

  /** Keep the attribute if it is wanted and the first of its name. */
  take(buffer: string, start: number, end: number, valueStart: number, valueEnd: number): void {
    const name = attributeName(buffer, start, end) & this.wanted & ~this.#seen;
    if (valueEnd - valueStart > valueCharsMax) {
      this.#seen |= name;
    } else if (name !== 0) {
      this.#seen |= name;
      this.#kept |= name;
      this.#values[31 - Math.clz32(name)] = buffer.slice(valueStart, valueEnd);
    } else if ((this.wanted & lazy) !== 0) {
      const found = this.#lazyNames.find(buffer, start, end);
      if (found !== undefined && this.lazies.length < lazyCountMax)
        this.lazies.push({ name: found, value: buffer.slice(valueStart, valueEnd) });
    }
  }

  /** The attribute's value is too long to be kept, and any other of its name too late. */
  drop(buffer: string, start: number, end: number): void {
    this.#seen |= attributeName(buffer, start, end);
  }
}
