/**
 * Reads on through a page in bytes: text, and tags that say nothing, at less than a nanosecond a
 * byte, where JavaScript takes four. The scanner asks it in its state `text`, and reads itself what
 * is not plain, so that all rules of HTML but the delimiters of a plain tag are in one place. The
 * code is in plain-tags.wat.
 *
 * One memory serves all pages of the process, a chunk at a time: `begin`, `skip` as often as the
 * scanner comes to text, `end`.
 */
import v8 from 'node:v8';
import {
  endsAttributeName,
  endsTagName,
  endsUnquoted,
  isLetter,
  isLetterOrDigit,
  isSpace,
  letterBit,
  rel,
  type Tables,
} from './elements.ts';
import type { LazyNames } from './lazy.ts';
import { plainTagsWasm } from './plain-tags-wasm.ts';

const classesAt = 64;
const linksEndAt = 320;
const linksAt = 328;
const textAt = 8192;
/** Longer chunks are read without it: those of sockets and of zlib are at most 64 KiB. */
const textBytes = 256 << 10;
/** Of one load in the WebAssembly code. */
const roomBytes = 16;

/** A class of characters is a bit, by its place here. */
const classes = [
  isSpace,
  endsTagName,
  endsAttributeName,
  endsUnquoted,
  isLetter,
  isLetterOrDigit,
] as const;

type Exports = {
  readonly memory: WebAssembly.Memory;
  skip(at: number, end: number, letters: number, links: number): number;
};

/** The calls that a scanner leaves to it. */
export type PlainWants = {
  readonly lengths: Uint16Array;
  /** First letters of attributes, as bits: tags with one of these are the scanner's. */
  readonly letters: number;
};

export function plainWantsOf(tables: Tables, lazy: LazyNames | undefined): PlainWants {
  const { lengthsByLetter, wantedOf } = tables;
  const images = lazy === undefined ? 0 : lazy.letters | letterBit('s');
  const rels = (wantedOf.link & rel) === 0 ? 0 : letterBit('r');
  return { lengths: lengthsByLetter.subarray(0x60, 0x80), letters: images | rels };
}

export class PlainTags {
  /** Number of links that `skip` read. */
  count = 0;
  readonly #skip: Exports['skip'];
  readonly #text: Buffer;
  readonly #lengths: Uint16Array;
  readonly #words: Uint32Array;
  #wants: PlainWants | undefined;
  #end = 0;
  #letters = 0;
  #isBusy = false;

  constructor({ memory, skip }: Exports) {
    memory.grow(Math.ceil((textAt + textBytes + roomBytes) / 65_536) - 1);
    this.#skip = skip;
    const classOf = new Uint8Array(memory.buffer, classesAt, 256);
    for (const [bit, isIn] of classes.entries())
      for (let c = 0; c < 256; c++) if (isIn(c)) classOf[c] = (classOf[c] ?? 0) | (1 << bit);
    this.#lengths = new Uint16Array(memory.buffer, 0, 32);
    this.#words = new Uint32Array(memory.buffer, 0, textAt / 4);
    this.#text = Buffer.from(memory.buffer, textAt, textBytes);
  }

  /** Takes a chunk, one byte a character; false if it is too long, or in the midst of another. */
  begin(text: string, wants: PlainWants): boolean {
    if (this.#isBusy || text.length > textBytes) return false;
    this.#isBusy = true;
    if (this.#wants !== wants) {
      this.#wants = wants;
      this.#lengths.set(wants.lengths);
      this.#letters = wants.letters;
    }
    this.#text.write(text, 'latin1');
    this.#end = textAt + text.length;
    return true;
  }

  /** Returns the index, from `at` on, of the first "<" that is not read here, or the length of the
   *  text. `count`, `start` and `stop` tell of the hrefs of the plain `a` elements before it. */
  skip(at: number): number {
    const open = this.#skip(textAt + at, this.#end, this.#letters, 1) - textAt;
    this.count = ((this.#words[linksEndAt / 4] ?? 0) - linksAt) / 8;
    return open;
  }

  start(link: number): number {
    return (this.#words[linksAt / 4 + 2 * link] ?? 0) - textAt;
  }

  stop(link: number): number {
    return (this.#words[linksAt / 4 + 2 * link + 1] ?? 0) - textAt;
  }

  end(): void {
    this.#isBusy = false;
  }
}

let shared: PlainTags | undefined | 'not loaded' = 'not loaded';

/** Undefined where this machine cannot run it: then JavaScript reads all. */
export function plainTags(): PlainTags | undefined {
  if (shared === 'not loaded') shared = load();
  return shared;
}

function load(): PlainTags | undefined {
  // A slave has it off for other code: see scripts/build.mjs. V8 asks when a module is made.
  v8.setFlagsFromString('--wasm-dynamic-tiering');
  try {
    const module = new WebAssembly.Module(Buffer.from(plainTagsWasm, 'base64'));
    return new PlainTags(new WebAssembly.Instance(module).exports as unknown as Exports);
  } catch (error) {
    // Some old processors have no vectors. V8 reserves 10 GiB of addresses for a memory, more than
    // `ulimit -v` may leave: a RangeError.
    if (error instanceof Error && ['CompileError', 'RangeError'].includes(error.name))
      return undefined;
    throw error;
  } finally {
    v8.setFlagsFromString('--no-wasm-dynamic-tiering');
  }
}
