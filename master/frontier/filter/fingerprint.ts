/**
 * Fingerprints: 128-bit SipHash-1-3 of canonical URLs, keyed with a secret of the crawl, so that a
 * hostile page cannot make URLs collide. A report's links are hashed as they arrive: one text with
 * a URL per line, without a string for a known link.
 *
 * A fingerprint is four 32-bit words, the little-endian words of SipHash's 16 bytes.
 * Source: Aumasson & Bernstein, "SipHash" (2012). The code is in siphash.wat.
 */
import assert from 'node:assert/strict';
import { siphashWasm } from './siphash-wasm.ts';

/** Words of one fingerprint. */
export const fingerprintWords = 4;
export const fingerprintBytes = 16;

const textBytes = 256 << 10;
const linesMax = 8192;
const lineFeed = 10;

type Exports = {
  readonly memory: WebAssembly.Memory;
  readonly resume: WebAssembly.Global;
  hashLines(text: number, end: number, out: number, ends: number, linesMax: number): number;
};

/** Fingerprints of some lines of a text. Valid until the next call of `hash`. */
type FingerprintBatch = {
  readonly count: number;
  /** Four words a line. */
  readonly words: Uint32Array;
  /** Start and end of line `i` in the text. */
  start(i: number): number;
  end(i: number): number;
};

export class Fingerprinter {
  readonly #exports: Exports;
  readonly #key: Uint8Array;
  readonly #text: Buffer;
  readonly #words: Uint32Array;
  readonly #ends: Uint32Array;
  readonly #outAt = 64;
  readonly #endsAt = this.#outAt + linesMax * fingerprintBytes;
  readonly #textAt = this.#endsAt + linesMax * 4;
  #busy = false;

  constructor() {
    const module = new WebAssembly.Module(Buffer.from(siphashWasm, 'base64'));
    this.#exports = new WebAssembly.Instance(module).exports as unknown as Exports;
    const { memory } = this.#exports;
    memory.grow(Math.ceil((this.#textAt + textBytes) / 65_536));
    this.#key = new Uint8Array(memory.buffer, 0, 16);
    this.#words = new Uint32Array(memory.buffer, this.#outAt, linesMax * fingerprintWords);
    this.#ends = new Uint32Array(memory.buffer, this.#endsAt, linesMax);
    this.#text = Buffer.from(memory.buffer, this.#textAt, textBytes);
  }

  /** Hashes every line of `text` (separated by line feeds; empty lines are skipped) with the
   *  16-byte `key` and passes them to `visit` in batches. A line longer than the batch buffer is
   *  left out: it is far beyond any URL. */
  hash(key: Uint8Array, text: Uint8Array, visit: (batch: FingerprintBatch) => void): void {
    assert(!this.#busy, 'a Fingerprinter is not to be used by its own visitor');
    this.#busy = true;
    try {
      this.#hashAll(key, text, visit);
    } finally {
      this.#busy = false;
    }
  }

  #hashAll(key: Uint8Array, text: Uint8Array, visit: (batch: FingerprintBatch) => void): void {
    this.#key.set(key);
    let at = 0;
    while (at < text.length) {
      let end = Math.min(text.length, at + textBytes);
      if (end < text.length) {
        const cut = text.lastIndexOf(lineFeed, end - 1);
        if (cut < at) {
          const next = text.indexOf(lineFeed, end);
          at = next < 0 ? text.length : next + 1;
          continue;
        }
        end = cut + 1;
      }
      this.#text.set(text.subarray(at, end));
      this.#hashWindow(text, at, end - at, visit);
      at = end;
    }
  }

  /** Returns the fingerprint of one text without line feeds, as four words. Only the
   *  first 256 KiB of it count. */
  one(key: Uint8Array, text: string): Uint32Array {
    assert(!this.#busy, 'a Fingerprinter is not to be used by its own visitor');
    this.#key.set(key);
    const end = this.#textAt + this.#text.write(text, 'latin1');
    const count = this.#exports.hashLines(this.#textAt, end, this.#outAt, this.#endsAt, 1);
    return count === 0 ? new Uint32Array(fingerprintWords) : this.#words.slice(0, fingerprintWords);
  }

  #hashWindow(
    text: Uint8Array,
    offset: number,
    length: number,
    visit: (batch: FingerprintBatch) => void,
  ): void {
    const { hashLines, resume } = this.#exports;
    const limit = this.#textAt + length;
    const shift = offset - this.#textAt;
    let from = this.#textAt;
    while (from < limit) {
      const count = hashLines(from, limit, this.#outAt, this.#endsAt, linesMax);
      const end = (i: number) => (this.#ends[i] ?? 0) + shift;
      // A line begins after the line feed before its end; empty lines leave no end behind.
      const start = (i: number) => text.lastIndexOf(lineFeed, end(i) - 1) + 1;
      if (count > 0) visit({ count, words: this.#words, start, end });
      from = Number(resume.value);
    }
  }
}
