/**
 * Finds the nearest of very many 64-bit hashes without comparing all of them. A hash is five blocks
 * of bits. Two hashes that differ in at most nine bits have a block that differs in at most one, so
 * only those are compared that share a block with the wanted hash, or with a neighbour of it. Which
 * hashes have a block is kept in chunks, each number with the half of its hash that has less of the
 * block: nearly all of them are far by that half, so the hash itself is seldom looked at, which
 * would miss the cache. It takes 40 bytes a hash, and what is free in the last chunks. No I/O.
 *
 *     heads: chunk of (block, value) --> [next, number, half, number, half, …] --> [next, …] --> 0
 *
 * Source: Norouzi, Punjani, Fleet, "Fast Search in Hamming Space with Multi-Index Hashing" (2012).
 */
import { likenessBits } from '../../shared/images.ts';

/** Bits of each block but the last, which has 12. */
const blockBits = 13;
const blocks = 5;
const valuesMax = 1 << blockBits;
const chunkWords = 64;
const numbersMax = (chunkWords - 1) >> 1;
/** Of one array, so that growing copies nothing. */
const segmentChunks = 1 << 14;

export class HashBlocks {
  /** By block and value: the newest chunk, from 1 on; 0: there is none. */
  readonly #heads = new Uint32Array(blocks * valuesMax);
  /** Numbers in the newest chunk. */
  readonly #filled = new Uint8Array(blocks * valuesMax);
  readonly #segments: Uint32Array[] = [];
  #chunks = 0;

  /** Takes the hash of this number, as two words. */
  add(low: number, high: number, number: number): void {
    for (let block = 0; block < blocks; block++) {
      const list = block * valuesMax + valueIn(block, low, high);
      let chunk = this.#heads[list] ?? 0;
      let filled = this.#filled[list] ?? 0;
      if (chunk === 0 || filled === numbersMax) {
        chunk = this.#begin(chunk);
        this.#heads[list] = chunk;
        filled = 0;
      }
      const segment = this.#segmentOf(chunk);
      const at = startOf(chunk) + 1 + filled * 2;
      segment[at] = number;
      segment[at + 1] = isLow(block) ? high : low;
      this.#filled[list] = filled + 1;
    }
  }

  /** Returns the number of the first hash with the fewest bits that differ, if these are at most
   *  `likenessBits`; -1: there is none. `hashes`: two words for each number. */
  nearest(low: number, high: number, hashes: Uint32Array): number {
    let best = likenessBits + 1;
    let found = -1;
    for (let block = 0; block < blocks; block++) {
      const value = valueIn(block, low, high);
      const half = isLow(block) ? high : low;
      const bits = block === blocks - 1 ? blockBits - 1 : blockBits;
      // The last round is the value itself.
      for (let bit = 0; bit <= bits; bit++) {
        const list = block * valuesMax + (bit === bits ? value : value ^ (1 << bit));
        let filled = this.#filled[list] ?? 0;
        for (let chunk = this.#heads[list] ?? 0; chunk !== 0; filled = numbersMax) {
          const segment = this.#segmentOf(chunk);
          const start = startOf(chunk);
          const end = start + 1 + filled * 2;
          for (let at = start + 1; at < end; at += 2) {
            if (ones((segment[at + 1] ?? 0) ^ half) > best) continue;
            const number = segment[at] ?? 0;
            const apart =
              ones((hashes[number * 2] ?? 0) ^ low) + ones((hashes[number * 2 + 1] ?? 0) ^ high);
            if (apart > best || (apart === best && number > found)) continue;
            best = apart;
            found = number;
          }
          chunk = segment[start] ?? 0;
        }
      }
    }
    return found;
  }

  /** A chunk before this one. */
  #begin(next: number): number {
    const chunk = ++this.#chunks;
    if ((chunk - 1) % segmentChunks === 0) {
      this.#segments.push(new Uint32Array(segmentChunks * chunkWords));
    }
    this.#segmentOf(chunk)[startOf(chunk)] = next;
    return chunk;
  }

  #segmentOf(chunk: number): Uint32Array {
    return this.#segments[Math.floor((chunk - 1) / segmentChunks)] ?? none;
  }
}

const none = new Uint32Array(0);

/** Is most of that block in the low word? */
function isLow(block: number): boolean {
  return block < 2;
}

function startOf(chunk: number): number {
  return ((chunk - 1) % segmentChunks) * chunkWords;
}

function valueIn(block: number, low: number, high: number): number {
  const mask = valuesMax - 1;
  switch (block) {
    case 0:
      return low & mask;
    case 1:
      return (low >>> 13) & mask;
    case 2:
      return ((low >>> 26) | (high << 6)) & mask;
    case 3:
      return (high >>> 7) & mask;
    default:
      return high >>> 20;
  }
}

/** Bits that are set in a word. Source: Warren, "Hacker's Delight", 5-1. */
function ones(word: number): number {
  const pairs = word - ((word >>> 1) & 0x55555555);
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333);
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}
