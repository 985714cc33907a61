/**
 * The files of an extraction, in a folder of its own: `items.jsonl`, `rejected.jsonl`, and what it
 * needs to go on: `extract.json`, the place in the archive and the lengths of the files, and
 * `extract.names`, a hash for each page that counts.
 *
 *     append the files --> sync them --> replace extract.json
 *
 * Bytes behind the recorded lengths do not count: the next run cuts them, so that a kill at any
 * moment leaves each row once.
 */
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { type FileHandle, open, readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { ConfigError, codeOf, messageOf } from '../../shared/errors.ts';
import type { NamedOutput } from '../../shared/outputs.ts';
import { takeLock } from '../machine/data-folder.ts';
import { isDiskFull } from '../machine/disk-room.ts';
import { makeFolder } from '../machine/make-folder.ts';
import { isSameFile } from '../machine/same-file.ts';
import { replaceFile } from '../sinks/result-folder.ts';
import type { Place } from './archived-answers.ts';

const names = { items: 'items.jsonl', rejected: 'rejected.jsonl', names: 'extract.names' } as const;
type Name = keyof typeof names;
export type RowsName = Exclude<Name, 'names'>;
const all = Object.keys(names) as Name[];
const cursorName = 'extract.json';
const lockName = 'extract.lock';

/** Counts of the pages so far, in the cursor. */
export type ExtractCounts = {
  /** Answers that were read, and those of them that count as pages. */
  answers: number;
  pages: number;
  rows: number;
  rejected: number;
  /** Answers that are no pages, by the reason. */
  passed: Record<string, number>;
  /** In the order of `countNames`. */
  rules: Record<string, number[]>;
};

/** How far an output is: the lines that it has, their bytes, and the mark of its sink. */
type OutputCursor = {
  readonly output: NamedOutput;
  readonly lines: number;
  readonly bytes: number;
  readonly mark?: unknown;
};

type Cursor = {
  readonly version: 1;
  /** Digest of all that the rows depend on: another digest makes other rows. */
  readonly rules: string;
  readonly archive: string;
  readonly place: Place | undefined;
  readonly lengths: Readonly<Record<Name, number>>;
  readonly counts: ExtractCounts;
  /** Names the extraction for databases, in hexadecimal digits. */
  readonly uid: string;
  readonly outputs: Readonly<Record<string, OutputCursor>>;
};

type Identity = Pick<Cursor, 'rules' | 'archive'>;

export class ExtractFiles {
  readonly #folder: string;
  readonly #identity: Identity;
  readonly #handles: Readonly<Record<Name, FileHandle>>;
  readonly #lengths: Record<Name, number>;
  readonly #waiting: Record<Name, string[]> = { items: [], rejected: [], names: [] };
  /** Characters that wait. */
  waiting = 0;
  place: Place | undefined;
  readonly counts: ExtractCounts;
  /** 16 bytes that no other extraction has. */
  readonly uid: Buffer;
  readonly #outputs: Record<string, OutputCursor>;
  /** As the last commit left them. */
  #committed: Pick<Cursor, 'place' | 'counts'>;

  private constructor(
    folder: string,
    identity: Identity,
    handles: Readonly<Record<Name, FileHandle>>,
    cursor: Cursor | undefined,
  ) {
    this.#folder = folder;
    this.#identity = identity;
    this.#handles = handles;
    this.#lengths = { ...(cursor?.lengths ?? { items: 0, rejected: 0, names: 0 }) };
    this.place = cursor?.place;
    this.counts = cursor?.counts ?? noCounts();
    this.uid = cursor?.uid === undefined ? randomBytes(16) : Buffer.from(cursor.uid, 'hex');
    this.#outputs = { ...cursor?.outputs };
    this.#committed = this.#now();
  }

  get outputs(): Readonly<Record<string, OutputCursor>> {
    return this.#outputs;
  }

  pathOf(name: RowsName): string {
    return join(this.#folder, names[name]);
  }

  /** Bytes of the file that are durable, and whole lines. */
  length(name: RowsName): number {
    return this.#lengths[name];
  }

  /** Puts on record how far an output is. @throws ConfigError */
  async reached(output: string, cursor: OutputCursor): Promise<void> {
    if (isDeepStrictEqual(this.#outputs[output], cursor)) return;
    this.#outputs[output] = cursor;
    await guarded(this.#folder, () => this.#record());
  }

  /** Takes up what an earlier run left, or begins. @throws ConfigError the folder holds something
   *  else, is in use, or cannot be written */
  static async open(folder: string, identity: Identity): Promise<ExtractFiles> {
    return await guarded(folder, async () => {
      makeFolder(folder);
      const owner = takeLock(join(folder, lockName));
      if (owner !== undefined) {
        throw new ConfigError(
          `${folder} is being written by the process with id ${owner}; wait for it, or choose another --as`,
        );
      }
      try {
        return await ExtractFiles.#begin(folder, identity);
      } catch (error) {
        rmSync(join(folder, lockName), { force: true });
        throw error;
      }
    });
  }

  static async #begin(folder: string, identity: Identity): Promise<ExtractFiles> {
    const cursor = await cursorIn(folder);
    if (cursor === undefined) await refuseOthers(folder);
    else refuseChanged(folder, cursor, identity);
    const handles: Partial<Record<Name, FileHandle>> = {};
    try {
      for (const name of all) {
        const path = join(folder, names[name]);
        const handle = await open(path, cursor === undefined ? 'w' : 'r+');
        handles[name] = handle;
        const length = cursor?.lengths[name] ?? 0;
        const { size } = await handle.stat();
        if (size < length) throw shorter(path, size, length);
        if (size > length) await handle.truncate(length);
      }
    } catch (error) {
      for (const handle of Object.values(handles)) await handle.close();
      throw error;
    }
    const files = new ExtractFiles(folder, identity, handles as Record<Name, FileHandle>, cursor);
    if (cursor === undefined) await files.commit();
    return files;
  }

  /** The hashes of the pages so far. */
  async names(): Promise<Set<string>> {
    const text = await readFile(join(this.#folder, names.names), 'latin1');
    return new Set(text.split('\n').filter((line) => line !== ''));
  }

  /** A line, with its line feed; written with the next commit. */
  add(name: Name, line: string): void {
    this.#waiting[name].push(line);
    this.waiting += line.length;
  }

  /** Writes what waits, then the place and the counts. @throws ConfigError */
  async commit(): Promise<void> {
    await guarded(this.#folder, async () => {
      for (const name of all) {
        const lines = this.#waiting[name].splice(0);
        if (lines.length > 0) await this.#append(name, Buffer.from(lines.join('')));
      }
      this.waiting = 0;
      this.#committed = this.#now();
      await this.#record();
    });
  }

  /** Idempotent. Rows that were not committed do not count. */
  async close(): Promise<void> {
    for (const name of all) await this.#handles[name].close().catch(() => {});
    rmSync(join(this.#folder, lockName), { force: true });
  }

  async #append(name: Name, bytes: Buffer): Promise<void> {
    const path = join(this.#folder, names[name]);
    const handle = this.#handles[name];
    const length = this.#lengths[name];
    const [found, own] = [await stat(path).catch(() => undefined), await handle.stat()];
    if (!isSameFile(found, own) || own.size !== length) {
      throw new ConfigError(
        `${path} was moved, removed or changed meanwhile; put it back and run the same command ` +
          'again, or choose another --as',
      );
    }
    for (let at = 0; at < bytes.length; ) {
      const { bytesWritten } = await handle.write(bytes, at, bytes.length - at, length + at);
      at += bytesWritten;
    }
    await handle.datasync();
    this.#lengths[name] = length + bytes.length;
  }

  #now(): Pick<Cursor, 'place' | 'counts'> {
    return { place: this.place, counts: structuredClone(this.counts) };
  }

  async #record(): Promise<void> {
    const cursor: Cursor = {
      version: 1,
      ...this.#identity,
      lengths: this.#lengths,
      ...this.#committed,
      uid: this.uid.toString('hex'),
      outputs: this.#outputs,
    };
    const path = join(this.#folder, cursorName);
    await replaceFile(path, `${JSON.stringify(cursor)}\n`);
  }
}

function noCounts(): ExtractCounts {
  return { answers: 0, pages: 0, rows: 0, rejected: 0, passed: {}, rules: {} };
}

async function cursorIn(folder: string): Promise<Cursor | undefined> {
  const path = join(folder, cursorName);
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  try {
    const cursor = JSON.parse(text) as Cursor;
    if (cursor.version === 1 && typeof cursor.lengths.items === 'number') return cursor;
  } catch {
    // Below.
  }
  throw new ConfigError(`${path} is not as extract left it; choose another --as`);
}

/** A new extraction needs a folder of its own. */
async function refuseOthers(folder: string): Promise<void> {
  // The files of a run that was killed before its first commit.
  const own: readonly string[] = [...Object.values(names), lockName, `${cursorName}.new`];
  const found = await readdir(folder);
  const others = found.filter((name) => !own.includes(name));
  const sizes = await Promise.all(
    Object.values(names).map(async (name) => {
      return (await stat(join(folder, name)).catch(() => undefined))?.size ?? 0;
    }),
  );
  if (others.length === 0 && sizes.every((size) => size === 0)) return;
  throw new ConfigError(`${folder} holds the results of something else; choose another --as`);
}

function refuseChanged(folder: string, cursor: Cursor, { rules, archive }: Identity): void {
  const what =
    cursor.archive !== archive
      ? `of the archive ${cursor.archive}`
      : cursor.rules !== rules
        ? 'by other rules'
        : undefined;
  if (what === undefined) return;
  throw new ConfigError(`${folder} holds items that were made ${what}; choose another --as`);
}

function shorter(path: string, size: number, length: number): ConfigError {
  return new ConfigError(
    `${path} has ${size} bytes, and ${length} were written; put it back, or choose another --as`,
  );
}

async function guarded<T>(folder: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    const why = isDiskFull(error)
      ? 'the disk is full: make room, and run the same command again'
      : messageOf(error);
    throw new ConfigError(`cannot write to ${folder}: ${why}`, error);
  }
}
