/**
 * Images that look the same: 64-bit hashes of looks (dHash) in the order in which the images came,
 * and the group of each. A hash belongs to the group of the nearest one before it, if they differ
 * in at most `likenessBits`; otherwise it begins a group. All hashes are compared, in WebAssembly:
 * about a millisecond for each million. Beyond 4 million an index of their blocks is made, a part
 * with each hash that comes, and asked when it is complete. An image takes 44 bytes of memory at
 * most, with the index 84. No I/O.
 */
import assert from 'node:assert/strict';
import { likenessBits } from '../../shared/images.ts';
import { HashBlocks } from './hash-blocks.ts';
import { nearestWasm } from './nearest-wasm.ts';

/** An image with fewer differing bits is flat: it looks like any other flat one. */
const bitsMin = 8;
const roomAtFirst = 1024;
const pageBytes = 1 << 16;
const hashBytes = 8;
const nameBytes = 32;
/** Hashes beyond which comparing all takes longer than the index. */
const indexFromDefault = 4_194_304;
/** Hashes that enter the index with one that comes. */
const indexedAtOnce = 128;

type Exports = {
  readonly memory: WebAssembly.Memory;
  /** See nearest.wat. */
  nearest(count: number, below: number): number;
};

let module: WebAssembly.Module | undefined;

export class Likeness {
  readonly #exports: Exports;
  #bytes: Uint8Array;
  /** The same. */
  #words: Uint32Array;
  readonly #indexFrom: number;
  #index: HashBlocks | undefined;
  /** Hashes in the index. */
  #indexed = 0;
  /** Number of the group of each. */
  #groups = new Uint32Array(roomAtFirst);
  #count = 0;
  /** Names of groups, in their order. */
  #names = new Uint8Array(roomAtFirst * nameBytes);
  #groupCount = 0;
  /** Numbers of groups, while hashes are restored. */
  #numbers: Map<string, number> | undefined = new Map();

  constructor(indexFrom = indexFromDefault) {
    this.#indexFrom = indexFrom;
    module ??= new WebAssembly.Module(Buffer.from(nearestWasm, 'base64'));
    this.#exports = new WebAssembly.Instance(module).exports as unknown as Exports;
    this.#bytes = new Uint8Array(this.#exports.memory.buffer);
    this.#words = new Uint32Array(this.#exports.memory.buffer);
  }

  get count(): number {
    return this.#count;
  }

  /** Takes a hash of 8 bytes, of an image with that SHA-256. Returns the name of its group: its
   *  own, if it begins one; undefined: it is in none. `compared`: with which hashes those that
   *  follow are compared, all of a group or its first alone. */
  add(
    dhash: Uint8Array,
    name: Uint8Array,
    compared: 'all' | 'firsts' = 'all',
  ): Uint8Array | undefined {
    this.#numbers = undefined;
    if (isFlat(dhash)) return undefined;
    const near = this.#nearest(dhash);
    const group = near < 0 ? this.#begin(name) : (this.#groups[near] ?? 0);
    if (near < 0 || compared === 'all') this.#push(dhash, group);
    return this.#names.slice(group * nameBytes, (group + 1) * nameBytes);
  }

  /** Takes a hash whose group is known, before any is added. */
  restore(dhash: Uint8Array, group: Uint8Array): void {
    assert.ok(this.#numbers !== undefined, 'restored first');
    const key = Buffer.from(group).toString('latin1');
    const number = this.#numbers.get(key) ?? this.#begin(group);
    this.#numbers.set(key, number);
    this.#push(dhash, number);
  }

  #begin(name: Uint8Array): number {
    const number = this.#groupCount++;
    if ((number + 1) * nameBytes > this.#names.length) {
      const next = new Uint8Array(this.#names.length * 2);
      next.set(this.#names);
      this.#names = next;
    }
    this.#names.set(name, number * nameBytes);
    return number;
  }

  #push(dhash: Uint8Array, group: number): void {
    const number = this.#count++;
    if (number === this.#groups.length) this.#groups = grown(this.#groups);
    this.#groups[number] = group;
    const at = hashBytes * (number + 1);
    if (at + hashBytes > this.#bytes.length) {
      const { memory } = this.#exports;
      // Doubled, so that growing costs little.
      memory.grow(this.#bytes.length / pageBytes);
      this.#bytes = new Uint8Array(memory.buffer);
      this.#words = new Uint32Array(memory.buffer);
    }
    this.#bytes.set(dhash, at);
    if (this.#count > this.#indexFrom) this.#indexSome();
  }

  #indexSome(): void {
    this.#index ??= new HashBlocks();
    const end = Math.min(this.#count, this.#indexed + indexedAtOnce);
    for (; this.#indexed < end; this.#indexed++) {
      const at = (this.#indexed + 1) * 2;
      this.#index.add(this.#words[at] ?? 0, this.#words[at + 1] ?? 0, this.#indexed);
    }
  }

  /** The number of the first of the nearest hashes; -1: none is near. */
  #nearest(dhash: Uint8Array): number {
    this.#bytes.set(dhash, 0);
    if (this.#index !== undefined && this.#indexed === this.#count) {
      const [low = 0, high = 0] = this.#words;
      return this.#index.nearest(low, high, this.#words.subarray(2));
    }
    return this.#exports.nearest(this.#count, likenessBits + 1);
  }
}

/** True: nearly all of its bits are the same. */
function isFlat(dhash: Uint8Array): boolean {
  const set = dhash.reduce((sum, byte) => sum + ones(byte), 0);
  return Math.min(set, 64 - set) < bitsMin;
}

/** Bits that are set in a byte. */
function ones(byte: number): number {
  let count = 0;
  for (let rest = byte; rest !== 0; rest &= rest - 1) count++;
  return count;
}

function grown(array: Uint32Array<ArrayBuffer>): Uint32Array<ArrayBuffer> {
  const next = new Uint32Array(array.length * 2);
  next.set(array);
  return next;
}
