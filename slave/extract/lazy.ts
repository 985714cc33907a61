/**
 * The attributes in which scripts keep the address of a picture until the user scrolls to it. Their
 * names are an option of the crawl; the name itself shows the use of the value.
 */
import { letterBit } from './elements.ts';

/** `background` counts on every element, `poster` on video, the others on elements of images. */
type LazyUse = 'url' | 'background' | 'poster';
type LazyName = { readonly use: LazyUse; readonly isSet: boolean };
export type LazyValue = { readonly name: LazyName; readonly value: string };

export class LazyNames {
  readonly #names = new Map<string, LazyName>();
  /** First letters as bits. */
  letters = 0;
  /** Lengths modulo 32 and last letters as bits: most attributes end here. */
  #lengths = 0;
  #lastLetters = 0;

  constructor(names: readonly string[]) {
    for (const name of names) {
      const use = /poster/.test(name)
        ? 'poster'
        : /bg|background/.test(name)
          ? 'background'
          : 'url';
      this.#names.set(name, { use, isSet: name.endsWith('set') });
      this.#lengths |= 1 << (name.length & 31);
      this.letters |= letterBit(name);
      this.#lastLetters |= 1 << (name.charCodeAt(name.length - 1) & 31);
    }
  }

  /** Returns the lazy attribute whose name is at `start`, if it is one. */
  find(buffer: string, start: number, end: number): LazyName | undefined {
    if (((this.#lengths >>> ((end - start) & 31)) & 1) === 0) return undefined;
    if (((this.letters >>> (buffer.charCodeAt(start) & 31)) & 1) === 0) return undefined;
    if (((this.#lastLetters >>> (buffer.charCodeAt(end - 1) & 31)) & 1) === 0) return undefined;
    return this.#names.get(buffer.slice(start, end).toLowerCase());
  }
}

/** Is it an address rather than `true`, a number or JSON? */
export function looksLikeAddress(value: string): boolean {
  return (value.includes('/') || value.includes('.')) && !/^\s*[[{]/.test(value);
}
