/**
 * The output of a crawl to a file of text, CSV or JSONL: exact by its length, as result files are.
 *
 * With `rotate` it writes numbered files, `books-00001.csv` and so on. None is renamed: when one is
 * long enough the next write begins the next one, whose number is a part of the mark. The
 * remains of a crash are cut. With `compress` each write is a member of gzip of its own.
 */
import { rm, stat } from 'node:fs/promises';
import { basename, dirname, extname } from 'node:path';
import { gzipSync } from 'node:zlib';
import { ConfigError } from '../../../shared/errors.ts';
import { type NamedOutput, partOf } from '../../../shared/outputs.ts';
import { syncFolder } from '../../../shared/sync-folder.ts';
import { visibleJson } from '../../../shared/visible.ts';
import { makeFolder } from '../../machine/make-folder.ts';
import type { Section } from '../../store/result-rows.ts';
import { type FileMark, OutFile, unusable } from '../out-file.ts';
import { moveAside } from '../result-folder.ts';
import {
  type BegunFile,
  type Deleted,
  HeldError,
  type Progress,
  type Sink,
  type SinkCrawl,
  type SinkKind,
} from '../sink.ts';
import { type OutputContext, pathOf } from './context.ts';
import { csvLine } from './csv.ts';
import { type Row, RowSource } from './rows.ts';

/** The mark: of the file that is being written, and its number. */
type TextMark = FileMark & {
  readonly part: number;
  readonly columns?: readonly string[];
  /** The next file is begun: what stands there is ours. */
  readonly isNextBegun?: true;
};
const nothing: TextMark = { length: 0, lines: 0, end: 0, part: 1 };

export function textFileKind(output: NamedOutput, context: OutputContext): SinkKind {
  const { name, rotate } = output;
  const markOf = (mark: unknown) => (mark as TextMark | undefined) ?? nothing;
  const pathFor = (crawl: string, part: number) => {
    const path = pathOf(context, crawl, output);
    const zipped = output.compress && extname(path) !== '.gz' ? `${path}.gz` : path;
    return rotate === undefined ? zipped : partOf(zipped, part);
  };
  return {
    name,
    async prepare(crawl) {
      const path = pathFor(crawl, 1);
      const found = await stat(path).catch(() => undefined);
      if (found !== undefined && (!found.isFile() || found.size > 0)) {
        throw new ConfigError(
          `${path} is there already, and is not of this crawl; move it away, or name another file`,
        );
      }
      // Now is the time to hear that it cannot be made.
      if (found === undefined) await (await made(path)).close();
      const next = rotate === undefined ? undefined : await standingAt(pathFor(crawl, 2));
      if (next !== undefined) throw new ConfigError(next);
    },
    open: (crawl, mark) =>
      TextSink.open((part) => pathFor(crawl.name, part), markOf(mark), output, crawl),
    async beginAnew(crawl, mark) {
      const { length: bytes, lines, part, columns, isNextBegun } = markOf(mark);
      const path = pathFor(crawl.name, part);
      try {
        await (await OutFile.find(path, markOf(mark), !output.compress))?.close();
        const lacks = lackedBy(columns, new RowSource(crawl, output));
        if (lacks.length === 0) {
          const next = pathFor(crawl.name, part + 1);
          if (rotate === undefined || isNextBegun) return { mark, begun: [] };
          if ((await standingAt(next)) === undefined) return { mark, begun: [] };
          const movedTo = await moveAside(next);
          return { mark, begun: [{ file: basename(next), bytes: 0, lines: 0, movedTo }] };
        }
        throw new HeldError(`it has no column ${lacks.join(', ')}`);
      } catch (error) {
        if (!(error instanceof HeldError)) throw error;
        const movedTo = await moveAside(path);
        const begun: BegunFile[] = [{ file: basename(path), bytes, lines, movedTo }];
        return { mark: { ...nothing, part }, begun };
      }
    },
    isTaken: () => Promise.resolve(false),
    rename: () => Promise.resolve(),
    remove: ({ name: crawl }, mark) => remove((part) => pathFor(crawl, part), markOf(mark), output),
  };
}

class TextSink implements Sink {
  readonly #pathFor: (part: number) => string;
  readonly #output: NamedOutput;
  readonly #source: RowSource;
  /** Of the CSV file, in their order; undefined: it has no header yet. */
  #columns: readonly string[] | undefined;
  #file: OutFile;
  #part: number;
  #isNextBegun: boolean;
  readonly cutBytes: number;

  private constructor(
    pathFor: (part: number) => string,
    output: NamedOutput,
    source: RowSource,
    { file, mark, cutBytes }: { file: OutFile; mark: TextMark; cutBytes: number },
  ) {
    this.#pathFor = pathFor;
    this.#output = output;
    this.#source = source;
    this.#file = file;
    this.#part = mark.part;
    this.#columns = mark.columns;
    this.#isNextBegun = mark.isNextBegun === true;
    this.cutBytes = cutBytes;
  }

  /** @throws HeldError the file is not what was written to · ConfigError the disk fails */
  static async open(
    pathFor: (part: number) => string,
    mark: TextMark,
    output: NamedOutput,
    crawl: SinkCrawl,
  ): Promise<TextSink> {
    const path = pathFor(mark.part);
    const file = (await OutFile.find(path, mark, !output.compress)) ?? (await made(path));
    try {
      const cutBytes = await file.cut();
      return new TextSink(pathFor, output, new RowSource(crawl, output), { file, mark, cutBytes });
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** @throws HeldError somebody did something to the file · Error of the file system */
  async write(records: readonly Section[], progress?: Progress): Promise<TextMark> {
    const rows = this.#source.rowsOf(records);
    await this.check();
    if (rows.length === 0) return this.#mark;
    await this.#file.checkEnd();
    await this.#next(progress);
    await this.#file.append(this.#bytesOf(rows));
    await this.check();
    this.#file.accept();
    return this.#mark;
  }

  async check(): Promise<void> {
    await this.#file.check();
  }

  async close(): Promise<void> {
    await this.#file.close();
  }

  get #mark(): TextMark {
    const columns = this.#columns;
    const { length, lines, end } = this.#file.mark;
    const isNextBegun = this.#isNextBegun && { isNextBegun: true as const };
    return { length, lines, end, part: this.#part, ...(columns && { columns }), ...isNextBegun };
  }

  /** Begins the next file if this one is long enough. That is on record before it is made, so that
   *  one which is there already is somebody else's; its number is, with the write. */
  async #next(progress: Progress | undefined): Promise<void> {
    const { rotate, compress } = this.#output;
    if (rotate === undefined || this.#file.mark.length < rotate) return;
    const path = this.#pathFor(this.#part + 1);
    if (!this.#isNextBegun) {
      const other = await standingAt(path);
      if (other !== undefined) throw new HeldError(other);
      this.#isNextBegun = true;
      await progress?.(this.#mark);
    }
    const empty = { length: 0, lines: 0, end: 0 };
    // The remains of a crash there belong to the write that is done again now.
    const file = (await OutFile.find(path, empty, !compress)) ?? (await made(path));
    await file.cut();
    await this.#file.close();
    this.#file = file;
    this.#part++;
    this.#isNextBegun = false;
    this.#columns = undefined;
  }

  /** The rules have changed since the header was written. @throws HeldError */
  #refuseLack(): void {
    const lacks = lackedBy(this.#columns, this.#source);
    if (lacks.length === 0) return;
    throw new HeldError(
      `${this.#file.path} has no column for ${lacks.join(', ')}, which rows have now; begin a ` +
        'new file (--new-files)',
    );
  }

  #bytesOf(rows: readonly Row[]): Buffer {
    const { kind, compress, delimiter = ',', formulas } = this.#output;
    let text = '';
    if (kind === 'csv') {
      const how = { delimiter, isEscaped: formulas === 'escape' };
      const columns = this.#columns ?? this.#source.columns.map((column) => column.name);
      if (this.#file.mark.length === 0) text = csvLine(columns, how);
      else this.#refuseLack();
      this.#columns = columns;
      for (const { values } of rows) {
        const cells = columns.map((name) => values[name]);
        text += csvLine(cells, how);
      }
    } else {
      for (const { values } of rows) text += `${visibleJson(JSON.stringify(values))}\n`;
    }
    const bytes = Buffer.from(text);
    return compress === undefined ? bytes : gzipSync(bytes);
  }
}

/** The fault of a path that is to be a new file; undefined: nothing, or an empty file, is
 *  there. */
async function standingAt(path: string): Promise<string | undefined> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined || (found.isFile() && found.size === 0)) return undefined;
  return `${path} is there already, and is not of this crawl; move it away`;
}

/** Columns of the rows that a CSV file has no place for. */
function lackedBy(columns: readonly string[] | undefined, { columns: now }: RowSource): string[] {
  if (columns === undefined) return [];
  return now.flatMap(({ name }) => (columns.includes(name) ? [] : [name]));
}

/** @throws HeldError, ConfigError it cannot be made */
async function made(path: string): Promise<OutFile> {
  try {
    makeFolder(dirname(path));
  } catch (error) {
    throw unusable(dirname(path), error, 'cannot make the folder');
  }
  const file = await OutFile.make(path);
  await syncFolder(dirname(path));
  return file;
}

/** Deletes the files that were written. Files before the last have no mark: their names are its. */
async function remove(
  pathFor: (part: number) => string,
  mark: TextMark,
  output: NamedOutput,
): Promise<Deleted> {
  const deleted: string[] = [];
  const kept: string[] = [];
  for (let part = 1; part <= mark.part; part++) {
    const path = pathFor(part);
    let isOurs = true;
    if (part === mark.part) {
      const found = await OutFile.find(path, mark, !output.compress).catch(() => undefined);
      isOurs = found !== undefined;
      await found?.close();
    }
    if ((await stat(path).catch(() => undefined)) === undefined) continue;
    const isGone =
      isOurs &&
      (await rm(path).then(
        () => true,
        () => false,
      ));
    (isGone ? deleted : kept).push(basename(path));
  }
  return { deleted, kept };
}
