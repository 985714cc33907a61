/**
 * The output of a crawl to Parquet files. Nothing can be appended to such a file, so rows are
 * gathered, and wait in the store, until a file is whole: 100,000 rows, 128 MB, or the end of what
 * there is to fetch. Until then it is written under a temporary name:
 *
 *     gather --whole--> footer, sync --> its name on record --> rename --> rows leave the store
 *
 * A crash before the name is on record leaves a temporary file that is written over; one behind it
 * leaves a file that is renamed, or is found under its name.
 */
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, extname, join } from 'node:path';
import type { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import { ConfigError } from '../../../shared/errors.ts';
import type { NamedOutput } from '../../../shared/outputs.ts';
import { syncFolder } from '../../../shared/sync-folder.ts';
import { isSameFile } from '../../machine/same-file.ts';
import type { Section } from '../../store/result-rows.ts';
import { unusable } from '../out-file.ts';
import { exists } from '../result-folder.ts';
import { HeldError, type Progress, type Sink, type SinkCrawl, type SinkKind } from '../sink.ts';
import { driver, type OutputContext, pathOf } from './context.ts';
import { type Column, type ColumnType, plainOf, type Row, RowSource } from './rows.ts';

const fileRows = 100_000;
const fileBytes = 128e6;
/** Bytes of rows, about, that are encoded at once. */
const groupBytes = 2 << 20;

/** A file: numbers of its first and last record, and its length. */
type Range = readonly [first: number, last: number, bytes: number];
/** The mark: number of the last record in a file, and the files; `pending`: has got its name, or is
 *  about to. */
type ParquetMark = {
  readonly seq: number;
  readonly files: readonly Range[];
  readonly pending?: Range | undefined;
};
const nothing: ParquetMark = { seq: 0, files: [] };

const basicTypes = {
  text: 'STRING',
  integer: 'INT64',
  real: 'DOUBLE',
  boolean: 'BOOLEAN',
  json: 'JSON',
  time: 'TIMESTAMP',
} as const satisfies Readonly<Record<ColumnType, string>>;

type Library = typeof import('hyparquet-writer');

/** Its paths within one crawl. */
class Places {
  readonly #path: string;
  readonly temporary: string;

  constructor(context: OutputContext, { name, uid }: SinkCrawl, output: NamedOutput) {
    this.#path = pathOf(context, name, output);
    const of = Buffer.from(uid).toString('hex').slice(0, 8);
    this.temporary = join(this.folder, `.${basename(this.#path)}.${of}.tmp`);
  }

  get folder(): string {
    return dirname(this.#path);
  }

  /** `books-000000001-000100000.parquet` */
  of([first, last]: Range): string {
    const end = extname(this.#path);
    const stem = this.#path.slice(0, this.#path.length - end.length);
    return `${stem}-${padded(first)}-${padded(last)}${end}`;
  }
}

function padded(seq: number): string {
  return String(seq).padStart(9, '0');
}

export function parquetKind(output: NamedOutput, context: OutputContext): SinkKind {
  const markOf = (mark: unknown) => (mark as ParquetMark | undefined) ?? nothing;
  return {
    name: output.name,
    async prepare(crawl) {
      await load();
      const path = pathOf(context, crawl, output);
      const stem = basename(path, extname(path));
      const found = await readdir(dirname(path)).catch(() => []);
      const there = found.find((file) => {
        const rest = file.startsWith(`${stem}-`) && file.endsWith(extname(path));
        return rest && /^\d+-\d+$/.test(basename(file, extname(path)).slice(stem.length + 1));
      });
      if (there !== undefined) {
        throw new ConfigError(
          `${join(dirname(path), there)} is there already, and is not of this crawl; move it ` +
            'away, or name another file',
        );
      }
      await made(dirname(path));
    },
    open: (crawl, mark) =>
      ParquetSink.open(new Places(context, crawl, output), crawl, output, markOf(mark)),
    beginAnew(crawl, mark) {
      const { pending, ...before } = markOf(mark);
      if (pending === undefined) return Promise.resolve({ mark, begun: [] });
      const file = basename(new Places(context, crawl, output).of(pending));
      const begun = [{ file, bytes: pending[2], lines: undefined, movedTo: undefined }];
      return Promise.resolve({ mark: { ...before, seq: pending[1] }, begun });
    },
    isTaken: () => Promise.resolve(false),
    rename: () => Promise.resolve(),
    async remove(crawl, mark) {
      const places = new Places(context, crawl, output);
      const deleted: string[] = [];
      const kept: string[] = [];
      await rm(places.temporary, { force: true });
      for (const range of markOf(mark).files) {
        const path = places.of(range);
        const found = await stat(path).catch(() => undefined);
        if (found === undefined) continue;
        const isOurs = found.isFile() && found.size === range[2];
        if (isOurs) await rm(path, { force: true });
        (isOurs ? deleted : kept).push(basename(path));
      }
      return { deleted, kept };
    },
  };
}

async function load(): Promise<Library> {
  return await driver('hyparquet-writer', '0.17.0', () => import('hyparquet-writer'));
}

/** A file that is being written. */
type Draft = {
  readonly handle: FileHandle;
  readonly columns: readonly Column[];
  readonly bytes: ByteWriter;
  readonly writer: ParquetWriter;
  /** Bytes of it that are in the file. */
  length: number;
  first: number;
  rows: number;
  /** It has its footer. */
  isEnded: boolean;
};

class ParquetSink implements Sink {
  readonly cutBytes = 0;
  readonly #places: Places;
  readonly #source: RowSource;
  readonly #library: Library;
  #mark: ParquetMark;
  #draft: Draft | undefined;
  /** Rows of the draft that are not encoded yet, and their bytes, about. */
  #rows: Row[] = [];
  #bytes = 0;
  /** Number of the last record that it has taken: what it is given again is left out. */
  #taken: number;

  private constructor(places: Places, source: RowSource, library: Library, mark: ParquetMark) {
    this.#places = places;
    this.#source = source;
    this.#library = library;
    this.#mark = mark;
    this.#taken = mark.seq;
  }

  /** @throws HeldError a file that was about to be renamed is gone · ConfigError the disk fails */
  static async open(
    places: Places,
    crawl: SinkCrawl,
    output: NamedOutput,
    mark: ParquetMark,
  ): Promise<ParquetSink> {
    const library = await load();
    const { pending, ...before } = mark;
    let now: ParquetMark = before;
    if (pending !== undefined) {
      await settle(places, pending);
      now = { seq: pending[1], files: [...before.files, pending] };
    }
    return new ParquetSink(places, new RowSource(crawl, output), library, now);
  }

  /** Undefined: all that it was given. */
  get reached(): number | undefined {
    return this.#draft === undefined ? undefined : this.#mark.seq;
  }

  /** An error leaves what was taken where it is; the same call again goes on there. */
  async write(records: readonly Section[], progress?: Progress): Promise<ParquetMark> {
    if (this.#draft?.isEnded) await this.#publish(this.#draft, progress);
    for (const row of this.#source.rowsOf(records)) {
      if (row.seq <= this.#taken) continue;
      const draft = await this.#draftFor(row, progress);
      this.#rows.push(row);
      this.#bytes += sizeOf(row);
      draft.rows++;
      this.#taken = row.seq;
    }
    if (this.#draft !== undefined) await this.#encode(this.#draft, false);
    return this.#mark;
  }

  async finish(progress?: Progress): Promise<ParquetMark> {
    if (this.#draft !== undefined) await this.#publish(this.#draft, progress);
    return this.#mark;
  }

  /** Its files are whole, and others may take them away. */
  check(): Promise<void> {
    return Promise.resolve();
  }

  async close(): Promise<void> {
    const draft = this.#draft;
    this.#draft = undefined;
    if (draft === undefined) return;
    // Another one may have been begun in its place.
    const isOurs = await this.#checkDraft(draft).then(
      () => true,
      () => false,
    );
    await draft.handle.close();
    if (isOurs) await rm(this.#places.temporary, { force: true }).catch(() => {});
  }

  /** The file that a row goes to; the one before it is published if it is whole. */
  async #draftFor({ seq }: Row, progress: Progress | undefined): Promise<Draft> {
    const draft = this.#draft;
    if (draft !== undefined) {
      await this.#encode(draft, false);
      const isWhole = draft.rows >= fileRows || draft.length + this.#bytes >= fileBytes;
      if (!isWhole && isSame(draft.columns, this.#source.columns)) return draft;
      await this.#publish(draft, progress);
    }
    const { columns } = this.#source;
    const { ByteWriter, ParquetWriter, schemaFromColumnData } = this.#library;
    const handle = await begun(this.#places);
    const bytes = new ByteWriter();
    const columnData = columns.map(({ name, type }) => ({
      name,
      type: basicTypes[type],
      data: [],
    }));
    const schema = schemaFromColumnData({ columnData });
    const writer = new ParquetWriter({ writer: bytes, schema, createdBy: 'orbweaver' });
    const facts = { handle, columns, bytes, writer };
    this.#draft = { ...facts, length: 0, first: seq, rows: 0, isEnded: false };
    return this.#draft;
  }

  /** Encodes the rows that wait, if there are enough of them, and appends them to the file. */
  async #encode(draft: Draft, isLast: boolean): Promise<void> {
    if (this.#rows.length > 0 && (isLast || this.#bytes >= groupBytes)) {
      const rows = this.#rows;
      const columnData = draft.columns.map(({ name, type }) => ({
        name,
        data: rows.map(({ values }) => typedValue(values[name], type, name)),
      }));
      this.#rows = [];
      this.#bytes = 0;
      // Its writer is in memory.
      void draft.writer.write({ columnData, rowGroupSize: rows.length });
    }
    if (isLast && !draft.isEnded) {
      void draft.writer.finish();
      draft.isEnded = true;
    }
    const { bytes, handle } = draft;
    if (bytes.index === 0) return;
    try {
      // A disk that is almost full takes a part.
      for (let at = 0; at < bytes.index; ) {
        const { bytesWritten } = await handle.write(
          bytes.getBytes(),
          at,
          bytes.index - at,
          draft.length + at,
        );
        at += bytesWritten;
      }
    } catch (error) {
      throw unusable(this.#places.temporary, error);
    }
    draft.length += bytes.index;
    // Offsets within the file go on.
    bytes.index = 0;
  }

  /** Ends a file, and gives it its name. */
  async #publish(draft: Draft, progress: Progress | undefined): Promise<void> {
    await this.#encode(draft, true);
    const { temporary } = this.#places;
    const range: Range = [draft.first, this.#taken, draft.length];
    const path = this.#places.of(range);
    try {
      await draft.handle.sync();
    } catch (error) {
      throw unusable(temporary, error);
    }
    if (await exists(path)) {
      throw new HeldError(`${path} is there already; move it away`);
    }
    await this.#checkDraft(draft);
    await progress?.({ ...this.#mark, pending: range });
    try {
      await rename(temporary, path);
    } catch (error) {
      throw unusable(temporary, error, 'cannot rename');
    }
    await syncFolder(this.#places.folder);
    await draft.handle.close();
    this.#draft = undefined;
    this.#mark = { seq: range[1], files: [...this.#mark.files, range] };
  }

  /** @throws HeldError what lies under its temporary name is not what was written */
  async #checkDraft({ handle }: Draft): Promise<void> {
    const { temporary } = this.#places;
    const [ours, there] = await Promise.all([
      handle.stat(),
      stat(temporary).catch(() => undefined),
    ]);
    if (isSameFile(there, ours)) return;
    throw new HeldError(`${temporary} is gone, and will be written again; leave it so`);
  }
}

/** A crash has left it between its two names, or under the second one. */
async function settle(places: Places, pending: Range): Promise<void> {
  const path = places.of(pending);
  if ((await stat(path).catch(() => undefined))?.size === pending[2]) return;
  const draft = await stat(places.temporary).catch(() => undefined);
  if (draft?.size !== pending[2]) {
    throw new HeldError(
      `${path} is gone, or is not what was written; put it back (--new-files goes on without it)`,
    );
  }
  if (await exists(path)) {
    throw new HeldError(`${path} is not what was written; move it away`);
  }
  try {
    await rename(places.temporary, path);
  } catch (error) {
    throw unusable(places.temporary, error, 'cannot rename');
  }
  await syncFolder(places.folder);
}

async function made(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true });
  } catch (error) {
    throw unusable(folder, error, 'cannot make the folder');
  }
}

async function begun(places: Places): Promise<FileHandle> {
  await made(places.folder);
  try {
    // The rows of a file that a crash has left wait in the store.
    await rm(places.temporary, { force: true });
    return await open(places.temporary, 'wx');
  } catch (error) {
    throw unusable(places.temporary, error);
  }
}

function isSame(a: readonly Column[], b: readonly Column[]): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}

/** Bytes that a row takes in memory, about. */
function sizeOf({ values }: Row): number {
  let size = 16;
  for (const value of Object.values(values)) {
    if (typeof value === 'string') size += value.length;
    else size += typeof value === 'object' && value !== null ? JSON.stringify(value).length : 8;
  }
  return size;
}

/** A value as its column has it. @throws HeldError it cannot */
function typedValue(value: unknown, type: ColumnType, name: string): unknown {
  if (value === undefined || value === null) return null;
  if (type === 'text') return plainOf(value, type);
  if (type === 'json') return value;
  if (type === 'boolean' && typeof value === 'boolean') return value;
  if (type === 'real' && typeof value === 'number') return value;
  if (type === 'integer' && Number.isSafeInteger(value)) return BigInt(value as number);
  const time = type === 'time' ? new Date(String(value)) : undefined;
  if (time !== undefined && !Number.isNaN(time.getTime())) return time;
  throw new HeldError(
    `the column ${name} of its file is ${type}, and a value is not; give the field another type`,
  );
}
