/**
 * Links that one commit does not take, each with its reason: counted in the crawl's counters, the
 * first ones of each reason listed for skipped.jsonl. A link is counted once: its fingerprint, with
 * a mark laid over it, is kept where those of the admitted are, up to `countedMax` of a reason.
 * Beyond that the recent table alone knows, and the count is about right.
 */

import type { SkipReason } from '../../../shared/protocol.ts';
import type { Crawl } from '../crawl/crawl.ts';
import { fingerprintWords } from '../filter/fingerprint.ts';
import { type Finding, skipRecord } from './result-records.ts';

/** On what page, how far from a seed, and when a link was found. */
export type FoundAt = { readonly from: string; readonly depth: number; readonly at: number };

const mark = 0x5c1bbed1;
/** Of each reason: links that are counted exactly, and that are listed. */
export const countedMax = 100_000;
export const listedMax = 1_000;

export class SkippedLinks {
  readonly #crawl: Crawl;
  readonly #keep: (words: Uint32Array) => void;
  readonly #write: (finding: Finding) => void;
  readonly #marked = new Uint32Array(fingerprintWords);

  /** `keep`: admits a fingerprint to the filter and the commit. */
  constructor(
    crawl: Crawl,
    to: {
      readonly keep: (words: Uint32Array) => void;
      readonly write: (finding: Finding) => void;
    },
  ) {
    this.#crawl = crawl;
    this.#keep = to.keep;
    this.#write = to.write;
  }

  /** Was a link with this fingerprint counted before? */
  has(words: Uint32Array, at: number): boolean {
    return this.#crawl.filter.knows(this.#mark(words, at), 0);
  }

  add(url: string, reason: SkipReason, words: Uint32Array, at: number, found: FoundAt): void {
    if (this.has(words, at)) return;
    const { filter, books } = this.#crawl;
    const count = books.skipped(reason);
    const marked = this.#mark(words, at);
    if (count < countedMax) this.#keep(marked);
    else filter.settle(marked, 0);
    if (count < listedMax) this.#write(skipRecord(url, reason, found));
  }

  /** A link that is no URL; no line is written of it. */
  malformed(words: Uint32Array, at: number): void {
    const { filter, books } = this.#crawl;
    filter.settle(words, at);
    if (this.has(words, at)) return;
    const marked = this.#mark(words, at);
    if (books.malformed() < countedMax) this.#keep(marked);
    else filter.settle(marked, 0);
  }

  /** Good until the next call. */
  #mark(words: Uint32Array, at: number): Uint32Array {
    return skipMarked(words, at, this.#marked);
  }
}

/** The fingerprint under which a skipped link is kept, in `into`. */
export function skipMarked(
  words: Uint32Array,
  at: number,
  into = new Uint32Array(fingerprintWords),
): Uint32Array {
  for (let i = 0; i < fingerprintWords; i++) into[i] = (words[at + i] ?? 0) ^ mark;
  return into;
}
