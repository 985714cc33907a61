/**
 * Rows of a new store that wait to be committed, in a file: a table of the damaged store is read in
 * one go, and may have a hundred million rows.
 */
import { closeSync, ftruncateSync, openSync, readSync, writeSync } from 'node:fs';
import { ConfigError } from '../../shared/errors.ts';
import { decodeValue, encodeValue } from '../../shared/frame.ts';
import { refusalText } from '../machine/disk-room.ts';
import type { Change, Store } from '../store/store.ts';

/** Rows and bytes of one commit. */
const batchRows = 5_000;
const batchBytes = 16 << 20;

export class WaitingRows {
  readonly #path: string;
  readonly #file: number;
  /** Of the batches in the file, in bytes. */
  #lengths: number[] = [];
  #end = 0;
  #changes: Change[] = [];
  #bytes = 0;

  /** @throws Error of the file system */
  constructor(path: string) {
    this.#path = path;
    this.#file = openSync(path, 'w+');
  }

  /** @throws ConfigError the disk is full */
  put(change: Change): void {
    this.#changes.push(change);
    this.#bytes += change.key.length + (change.value?.length ?? 0);
    if (this.#changes.length >= batchRows || this.#bytes >= batchBytes) this.#keep();
  }

  /** Commits them all, in their order. @throws ConfigError, StoreError */
  async commitTo(store: Store): Promise<void> {
    this.#keep();
    let at = 0;
    for (const length of this.#lengths) {
      const bytes = Buffer.allocUnsafe(length);
      if (readSync(this.#file, bytes, 0, length, at) < length) {
        throw new ConfigError(`cannot read ${this.#path}: it is shorter than what was written`);
      }
      await store.commit(decodeValue(bytes) as Change[]);
      at += length;
    }
    ftruncateSync(this.#file);
    this.#lengths = [];
    this.#end = 0;
  }

  close(): void {
    closeSync(this.#file);
  }

  #keep(): void {
    if (this.#changes.length === 0) return;
    const bytes = encodeValue(this.#changes);
    try {
      for (let at = 0; at < bytes.length; ) {
        at += writeSync(this.#file, bytes, at, bytes.length - at, this.#end + at);
      }
    } catch (error) {
      throw new ConfigError(`cannot write ${this.#path}: ${refusalText(error)}`, error);
    }
    this.#lengths.push(bytes.length);
    this.#end += bytes.length;
    this.#changes = [];
    this.#bytes = 0;
  }
}
