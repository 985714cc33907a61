/**
 * Checks leaf pages in WebAssembly: a large store has millions of rows, and JavaScript takes four
 * times as long. It says whether a page is sound; `pages.ts` finds out what is wrong with another.
 * The code is in leaf-check.wat.
 */
import { leafCheckWasm } from './leaf-check-wasm.ts';

const tableBytes = 1024;
const tablesBytes = 8 * tableBytes;
const memoryPageBytes = 65_536;
const polynomial = 0xedb88320;

type Exports = {
  readonly memory: WebAssembly.Memory;
  rows(page: number): number;
};

export class LeafCheck {
  /** For the pages. */
  readonly bytes: Buffer;
  readonly #exports: Exports;

  constructor(bytes: number) {
    const module = new WebAssembly.Module(Buffer.from(leafCheckWasm, 'base64'));
    this.#exports = new WebAssembly.Instance(module).exports as unknown as Exports;
    const { memory } = this.#exports;
    memory.grow(Math.ceil(bytes / memoryPageBytes));
    const words = new Int32Array(memory.buffer, 0, tablesBytes / 4);
    for (let byte = 0; byte < 256; byte++) {
      let crc = byte;
      for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? polynomial : 0);
      words[byte] = crc;
    }
    for (let at = 256; at < words.length; at++) {
      const last = words[at - 256] ?? 0;
      words[at] = (words[last & 0xff] ?? 0) ^ (last >>> 8);
    }
    this.bytes = Buffer.from(memory.buffer, tablesBytes, bytes);
  }

  /** Returns how many rows the leaf at `at` has, if they are in order, each with its checksum, and
   *  none has pages of its own; else -1. The pointers to its rows have been checked. */
  rows(at: number): number {
    return this.#exports.rows(tablesBytes + at);
  }
}
