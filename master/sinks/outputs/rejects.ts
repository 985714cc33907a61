/**
 * Rows that a database did not take, because their key is there already: one line each in
 * `rejected-<output>.jsonl`, in the folder of the crawl. They are appended and synced before the
 * transaction of the other rows is committed. So a database that is ahead of the master's record
 * means that the lines behind the record count; otherwise they are cut, and written again.
 */
import { rm, stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { syncFolder } from '../../../shared/sync-folder.ts';
import { visibleJson } from '../../../shared/visible.ts';
import { makeFolder } from '../../machine/make-folder.ts';
import { type FileMark, OutFile } from '../out-file.ts';
import { moveAside } from '../result-folder.ts';
import { type BegunFile, HeldError } from '../sink.ts';
import type { Row } from './rows.ts';

export type RejectsMark = FileMark;
const empty: FileMark = { length: 0, lines: 0, end: 0 };

export class Rejects {
  readonly #path: string;
  #file: OutFile | undefined;
  #isChanged = false;
  /** Rows that do not count yet: the file takes them as a whole. */
  #appended: { readonly seq: number; readonly text: string }[] = [];

  constructor(path: string) {
    this.#path = path;
  }

  /** `isAhead`: what stands behind the mark counts. @throws HeldError */
  async open(mark: RejectsMark = empty, isAhead = false): Promise<void> {
    const bytes = (await stat(this.#path).catch(() => undefined))?.size ?? 0;
    const known =
      isAhead && bytes > mark.length ? { length: bytes, lines: undefined, end: undefined } : mark;
    this.#file = await OutFile.find(this.#path, known);
    await this.#file?.cut();
    this.#isChanged = known !== mark;
  }

  /** @throws HeldError somebody did something to the file · Error of the file system */
  async append(lines: readonly { readonly row: Row; readonly reason: string }[]): Promise<void> {
    if (lines.length === 0) return;
    if (this.#file === undefined) {
      makeFolder(dirname(this.#path));
      this.#file = await OutFile.make(this.#path);
      await syncFolder(dirname(this.#path));
    }
    await this.#file.check();
    for (const { row, reason } of lines) {
      const { seq, values } = row;
      const text = visibleJson(JSON.stringify({ reason, seq, ...withoutClash(values) }));
      this.#appended.push({ seq, text: `${text}\n` });
    }
    await this.#appendAll();
  }

  async #appendAll(): Promise<void> {
    const texts = this.#appended.map(({ text }) => text);
    await this.#file?.append(Buffer.from(texts.join('')));
    this.#isChanged = true;
  }

  /** Of what was appended only the rows up to this record count. */
  async settle(lastSeq: number): Promise<void> {
    const kept = this.#appended.filter(({ seq }) => seq <= lastSeq);
    await this.undo();
    if (kept.length === 0) return;
    this.#appended = kept;
    await this.#appendAll();
  }

  /** Forgets the rows that were appended. */
  async undo(): Promise<void> {
    this.#appended = [];
    if (this.#isChanged) await this.#file?.cut();
    this.#isChanged = false;
  }

  /** The rows that were appended count from now on. Returns the mark, if there is a file. */
  accept(): RejectsMark | undefined {
    if (this.#isChanged) this.#file?.accept();
    this.#isChanged = false;
    this.#appended = [];
    return this.#file?.mark;
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
  }

  /** Makes room for a new file if this one is not what was left; undefined: it is.
   *  @throws HeldError, ConfigError it cannot be moved */
  static async beginAnew(
    path: string,
    mark: RejectsMark | undefined,
  ): Promise<BegunFile | undefined> {
    if (mark === undefined) return undefined;
    try {
      await (await OutFile.find(path, mark))?.close();
      return undefined;
    } catch (error) {
      if (!(error instanceof HeldError)) throw error;
      const movedTo = await moveAside(path);
      return { file: basename(path), bytes: mark.length, lines: mark.lines, movedTo };
    }
  }

  /** Deletes the file if it is as it was left. */
  static async remove(path: string, mark: RejectsMark | undefined): Promise<boolean> {
    if (mark === undefined) return false;
    const file = await OutFile.find(path, mark).catch(() => undefined);
    await file?.close();
    if (file === undefined) return false;
    await rm(path, { force: true });
    return true;
  }
}

/** A field that has one of our names gets a `_` in front. */
function withoutClash(values: Row['values']): Row['values'] {
  if (!('reason' in values || 'seq' in values)) return values;
  const ours = ['reason', 'seq'];
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [ours.includes(name) ? `_${name}` : name, value]),
  );
}
