/**
 * The start tag that the scanner stands in: which of its attributes are wanted, and their values as
 * they stand in the page. One tag serves all elements of a page, one after the other; whoever is
 * given it looks at once.
 */
import { attributeName, href, type Kind, lazy, letterBit, src, srcset, style } from './elements.ts';
import { type LazyNames, type LazyValue, looksLikeAddress } from './lazy.ts';

/** A longer attribute value is read over and dropped; what it began with is known. */
export const valueCharsMax = 1 << 20;
const beginningChars = 256;
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
  /** Something that is looked for was too long or too much: the next, and `dropped`, say what. */
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

  constructor(lazyNames: LazyNames) {
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

  /** What a value that was too long began with. */
  dropped(attribute: number): string | undefined {
    return (this.#dropped & attribute) === 0 ? undefined : this.#values[31 - Math.clz32(attribute)];
  }

  /** The raw value: character references are not decoded. */
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

  /** The attribute's value is too long to be kept, and any other of its name too late. */
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

  /** Nothing that is still to come of the tag is looked at. */
  dropRest(): void {
    const rest = this.wanted & ~this.#seen & (href | src | srcset);
    this.isCut ||= rest !== 0;
    this.#dropped |= rest;
    for (const name of [href, src, srcset])
      if ((rest & name) !== 0) this.#values[31 - Math.clz32(name)] = '';
    this.letters = 0;
  }
}
