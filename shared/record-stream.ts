/**
 * The messages between a program that reads a crawl's records and the master that it has started,
 * over the channel that Node makes between a process and its child (`--stream`).
 *
 *     program                                    master
 *                     <-- sections --            at most `streamRecordsMax` behind the last `taken`
 *     { taken: 17 }   -->                        on record: these are never sent again
 *     { leave: true } -->                        ends in order, and the crawl can go on later
 */
import type { RecordKind } from './result-fields.ts';

/** Records that follow each other: lines of JSON, or of kind `image-url` URLs, each ended by a line
 *  feed. `seq`: number of the first one within its crawl, from 1 on. */
export type SentSection = readonly [kind: RecordKind, seq: number, text: string];

export type FromMaster = {
  /** Hexadecimal; no other crawl has it. */
  readonly crawl: string;
  readonly sections: readonly SentSection[];
};

export type ToMaster = {
  /** Number of the last record that the program is done with. */
  readonly taken?: number;
  readonly leave?: true;
};

/** Limits of what is sent ahead of the program. A section is sent whole. */
export const streamRecordsMax = 2_000;
export const streamCharsMax = 1 << 20;
/** Of records that wait in the master because the program is slow: beyond it, nothing is leased. */
export const streamWaitingBytesMax = 256 << 10;
/** The program says what it has taken after so many records, or so many ms. */
export const takenEvery = { records: 1_000, ms: 200 } as const;
/** The longest time that a master has left to live when its program is gone. */
export const streamLeaveMs = 5_000;
