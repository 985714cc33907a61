/**
 * The start tag that the scanner is reading: its wanted attributes, and their raw values. One
 * object serves all elements of a page, one after the other, so a receiver must read it at once.
 */
import { attributeName, href, type Kind, lazy, letterBit, src, srcset, style } from './elements.ts';
import { LazyNames, type LazyValue, looksLikeAddress } from './lazy.ts';

/** A longer attribute value is skipped and dropped; only its beginning is kept. */
export const valueCharsMax = 1 << 20;
const beginningChars = 256;
/** Lazy attributes of one tag. */
const lazyCountMax = 64;
const noLazyNames = new LazyNames([]);

export class Tag {
  kind: Kind = 'other';
  /** Lower-case; only where it matters: kinds `raw`, `about` and `extra`, and foreign elements. */
  name = '';
  /** Bits of the wanted attributes. */
  wanted = 0;
  /** First letters of wanted attributes, as bits: most tags have few. */
  letters = 0;
  /** In the order of the tag; a repeated name occurs twice. */
  lazies: LazyValue[] = [];
  /** Something wanted was too long or beyond a limit; `lazyDrops` and `dropped` have the
   *  details. */
  isCut = false;
  /** Lazy attributes that were too long or too many. */
  lazyDrops = 0;
  readonly #lazyNames: LazyNames;
  /** Of href, style and the lazy attributes. */
  readonly #usualLetters: number;
  /** Attributes already seen; the first of a name wins. */
  #seen = 0;
  #kept = 0;
  #dropped = 0;
  readonly #values: string[] = new Array(32).fill('');

  /** `lazyNames`: default: no lazy attributes. */
  constructor(lazyNames = noLazyNames) {
    this.#lazyNames = lazyNames;
    this.#usualLetters = lazyNames.letters | letterBit('h') | letterBit('s');
  }

  begin(wanted: number): void {
    this.wanted = wanted;
    this.letters = (wanted & ~(style | lazy | href)) === 0 ? this.#usualLetters : -1;
    this.#seen = 0;
    this.#kept = 0;
    if (this.isCut) {
      this.isCut = false;
      this.#dropped = 0;
      this.lazyDrops = 0;
    }
    if (this.lazies.length > 0) this.lazies = [];
  }

  has(attribute: number): boolean {
    return (this.#kept & attribute) !== 0;
  }

  /** Returns the beginning of a value that was too long. */
  dropped(attribute: number): string | undefined {
    return (this.#dropped & attribute) === 0 ? undefined : this.#values[31 - Math.clz32(attribute)];
  }

  /** Returns the raw value: character references are not decoded. */
  value(attribute: number): string | undefined {
    return this.has(attribute) ? this.#values[31 - Math.clz32(attribute)] : undefined;
  }

  /** Keep the attribute if it is wanted and the first of its name. */
  take(buffer: string, start: number, end: number, valueStart: number, valueEnd: number): void {
    const name = attributeName(buffer, start, end) & this.wanted & ~this.#seen;
    if (valueEnd - valueStart > valueCharsMax) {
      this.drop(buffer, start, end, valueStart);
    } else if (name !== 0) {
      this.#seen |= name;
      this.#kept |= name;
      this.#values[31 - Math.clz32(name)] = buffer.slice(valueStart, valueEnd);
    } else if ((this.wanted & lazy) !== 0) {
      const found = this.#lazyNames.find(buffer, start, end);
      if (found === undefined) return;
      const value = buffer.slice(valueStart, valueEnd);
      if (this.lazies.length < lazyCountMax) this.lazies.push({ name: found, value });
      else if (looksLikeAddress(value)) this.#dropLazy();
    }
  }

  /** The attribute's value is too long to be kept, and later ones of its name do not count. */
  drop(buffer: string, start: number, end: number, valueStart: number): void {
    const attribute = attributeName(buffer, start, end);
    const name = attribute & this.wanted & ~this.#seen;
    this.#seen |= attribute;
    if (name !== 0) {
      this.isCut = true;
      this.#dropped |= name;
      const beginning = buffer.slice(valueStart, valueStart + beginningChars);
      this.#values[31 - Math.clz32(name)] = beginning;
    } else if ((this.wanted & lazy) !== 0 && this.#lazyNames.find(buffer, start, end)) {
      this.#dropLazy();
    }
  }

  #dropLazy(): void {
    this.isCut = true;
    this.lazyDrops++;
  }

  /** Ignores the rest of the tag. */
  dropRest(): void {
    const rest = this.wanted & ~this.#seen & (href | src | srcset);
    this.isCut ||= rest !== 0;
    this.#dropped |= rest;
    for (const name of [href, src, srcset])
      if ((rest & name) !== 0) this.#values[31 - Math.clz32(name)] = '';
    this.letters = 0;
  }
}
