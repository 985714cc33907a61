/**
 * `jobs.jsonl` in the folder of the results: a line for each job that has ended, once. The file is
 * appended to and synced, then one transaction records its length, so a start cuts what was not
 * recorded and writes it again. A file that was moved away is followed by a new one; one that was
 * changed is left alone: lines wait in the store, and no job begins, until it is put back or moved
 * away.
 */
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import { isDiskFull } from '../machine/disk-room.ts';
import { makeFolder } from '../machine/make-folder.ts';
import { type FileMark, OutFile, otherSize } from '../sinks/out-file.ts';
import { HeldError } from '../sinks/sink.ts';
import type { GroupCommit, Room } from '../store/group-commit.ts';
import type { Store } from '../store/store.ts';
import {
  decodeJob,
  decodeJobFile,
  encodeJobFile,
  type JobFileRecord,
  jobFileKey,
  jobKey,
  lineOf,
} from './job-record.ts';

/** A job whose line is to be written. */
type Ended = { readonly job: number; readonly seq: number };

type JobFileOptions = {
  readonly store: Store;
  readonly commits: GroupCommit;
  /** Folder of the results. */
  readonly folder: string;
  readonly room: Room & { refused(): void };
  readonly warn: (line: string) => void;
  /** An error after which the master cannot go on. */
  readonly onError: (error: unknown) => void;
  /** The lines of all jobs up to this one are in the file. */
  readonly onWritten: (seq: number) => void;
  readonly onHeld: () => void;
};

/** In the folder of the results. */
export const jobFileName = 'jobs.jsonl';
const fresh: FileMark = { length: 0, lines: 0, end: 0 };
const batchBytesMax = 8 << 20;
const batchMax = 256;
const retryMs = 2_000;

export class JobFile {
  readonly path: string;
  readonly #options: JobFileOptions;
  #record: JobFileRecord;
  #file: OutFile | undefined;
  #ended: Ended[] = [];
  #wasOpen = false;
  #held: string | undefined;
  #writing: Promise<void> | undefined;
  #retry: NodeJS.Timeout | undefined;
  #state: 'open' | 'closed' = 'open';

  constructor(options: JobFileOptions) {
    this.#options = options;
    this.path = join(options.folder, jobFileName);
    const row = options.store.get('meta', jobFileKey);
    this.#record = row === undefined ? { upTo: 0, mark: fresh } : decodeJobFile(row);
  }

  /** Number of the last job whose line is in it. */
  get upTo(): number {
    return this.#record.upTo;
  }

  /** Why nothing can be written; undefined: it can. */
  get held(): string | undefined {
    return this.#held;
  }

  /** Lines that wait. */
  get waiting(): number {
    return this.#ended.length;
  }

  /** This job has ended, on the disk; in the order of their numbers. One that ends while the master
   *  stops has its line after the next start. */
  add(ended: Ended): void {
    this.#ended.push(ended);
    if (this.#state === 'open') this.#start();
  }

  /** Resolves when what waits is written, or cannot be. */
  async close(): Promise<void> {
    this.#state = 'closed';
    clearTimeout(this.#retry);
    await this.#writing;
    await this.#file?.close().catch(() => {});
  }

  #start(): void {
    if (this.#writing !== undefined || this.#retry !== undefined) return;
    this.#writing = this.#write()
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#writing = undefined;
        if (this.#ended.length > 0 && this.#state === 'open') this.#start();
      });
  }

  async #write(): Promise<void> {
    const { store, room, onWritten } = this.#options;
    while (this.#ended.length > 0) {
      await room.room();
      const file = await this.#open();
      const lines: string[] = [];
      let bytes = 0;
      while (lines.length < Math.min(batchMax, this.#ended.length) && bytes < batchBytesMax) {
        const row = store.get('meta', jobKey(this.#ended[lines.length]?.job ?? 0));
        const line = row === undefined ? '' : lineOf(decodeJob(row));
        bytes += line.length;
        lines.push(line);
      }
      await file.check();
      await file.append(Buffer.from(lines.join('')));
      try {
        await file.check();
      } catch (error) {
        // Nothing counts that went into a file while it was moved.
        await file.cut();
        throw error;
      }
      file.accept();
      const upTo = this.#ended[lines.length - 1]?.seq ?? this.#record.upTo;
      this.#record = { ...this.#record, upTo };
      await this.#recorded(file.mark);
      this.#ended.splice(0, lines.length);
      this.#held = undefined;
      onWritten(upTo);
    }
  }

  /** A file begins on record, so that a start after a crash knows what is its own. */
  async #open(): Promise<OutFile> {
    if (this.#file !== undefined) return this.#file;
    const { folder, warn, store } = this.#options;
    makeFolder(folder);
    const isThere = existsSync(this.path);
    const isNew = store.get('meta', jobFileKey) === undefined;
    if (!isThere && this.#record.mark.length > 0) {
      warn(`${this.path} was moved away: a new one begins`);
    }
    if (isNew && isThere) {
      // Of another data folder: its lines stay.
      const { size } = statSync(this.path);
      await this.#recorded({ length: size, lines: undefined, end: undefined });
    } else if (isNew || !isThere) await this.#recorded(fresh);
    const { path } = this;
    const { length } = this.#record.mark;
    // A start cuts what a crash left behind the mark. Later, it is somebody else's.
    const size = this.#wasOpen && existsSync(path) ? statSync(path).size : length;
    if (size > length) throw otherSize(path, size, length);
    this.#file = (await OutFile.find(path, this.#record.mark)) ?? (await OutFile.make(path));
    await this.#file.cut();
    await this.#file.sync();
    this.#wasOpen = true;
    return this.#file;
  }

  async #recorded(mark: FileMark): Promise<void> {
    this.#record = { ...this.#record, mark };
    const value = encodeJobFile(this.#record);
    await this.#options.commits.written([{ table: 'meta', key: jobFileKey, value }]);
  }

  async #failed(error: unknown): Promise<void> {
    const { room, warn, onError } = this.#options;
    const cause = error instanceof ConfigError ? (error.cause ?? error) : error;
    if (isDiskFull(cause)) {
      room.refused();
      return;
    }
    if (!(error instanceof HeldError)) {
      onError(error);
      this.#ended = [];
      return;
    }
    await this.#file?.close().catch(() => {});
    this.#file = undefined;
    // If the file was moved away, the next line begins a new one at once.
    if (!existsSync(this.path)) return;
    const text = `${messageOf(error)}, or move it away`;
    if (this.#held !== text) warn(`no job begins: ${text}`);
    this.#held = text;
    this.#options.onHeld();
    if (this.#state === 'closed') return;
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      this.#start();
    }, retryMs);
  }
}
