/**
 * What the outputs to SQL databases share. The rows of a write and the number of its last record,
 * in `orbweaver_cursors`, are one transaction of the database, so that a crash on either side loses
 * nothing and writes nothing twice. That number wins over the one that the master has recorded:
 *
 *     the database is ahead    the master died before its own record: what it has is left out
 *     it is behind             it was set back, or is another one: the crawl is held
 *     ahead of all records     the master was set back: the crawl is held
 */
import { basename, dirname, join } from 'node:path';
import type { NamedOutput } from '../../../shared/outputs.ts';
import type { Section } from '../../store/result-rows.ts';
import { HeldError, type Sink, type SinkCrawl, type SinkKind } from '../sink.ts';
import { type OutputContext, pathOf } from './context.ts';
import { Rejects, type RejectsMark } from './rejects.ts';
import { type Column, type ColumnType, plainOf, type Row, RowSource } from './rows.ts';

/** The mark: number of the last record that the target has, and its file of rejected rows. */
type SqlMark = { readonly seq: number; readonly rejects?: RejectsMark };

/** Whose cursor it is. */
export type CursorName = { readonly crawl: string; readonly sink: string };

/** One write, which is done in one transaction, or not at all. */
export type SqlWrite = {
  readonly table: string;
  readonly columns: readonly Column[];
  readonly rows: readonly Row[];
  readonly key: readonly string[] | undefined;
  readonly onConflict: 'insert' | 'skip' | 'update';
  readonly cursor: CursorName & { readonly from: number | undefined; readonly to: number };
  /** Called before the commit with the rows whose key is there already, of `insert`. */
  readonly rejected: (rows: readonly Row[]) => Promise<void>;
};

/** A connection to a database. All throw HeldError and UnavailableError. */
export interface SqlSession {
  /** Makes the table of cursors if there is none. Returns this one. */
  cursor(of: CursorName): Promise<number | undefined>;
  /** Sets it, whatever it was. */
  setCursor(of: CursorName, seq: number): Promise<void>;
  /** Types of a table's columns by their names; `other`: one that is not ours. Undefined: there is
   *  no such table. */
  columns(table: string): Promise<ReadonlyMap<string, ColumnType | 'other'> | undefined>;
  createTable(table: string, columns: readonly Column[], key?: readonly string[]): Promise<void>;
  addColumn(table: string, column: Column): Promise<void>;
  /** The statement that gives a column another type. */
  alterText(table: string, column: Column): string;
  /** Makes a unique index on these columns. */
  index(table: string, key: readonly string[]): Promise<void>;
  /** @throws HeldError the cursor is not `from` */
  write(write: SqlWrite): Promise<void>;
  /** Is it still the target that it was opened for? */
  check(): Promise<void>;
  close(): Promise<void>;
}

type SqlDialect = {
  /** `path`: of a file; `isNew`: there may be none. */
  connect(isNew: boolean): Promise<SqlSession>;
};

/** Can a column of the first type hold any value of the second? */
function holds(column: ColumnType | 'other', value: ColumnType): boolean {
  if (column === value || column === 'text' || column === 'other') return true;
  return column === 'real' && value === 'integer';
}

export function sqlKind(
  output: NamedOutput,
  context: OutputContext,
  dialectOf: (crawl: string) => SqlDialect,
): SinkKind {
  const markOf = (mark: unknown) => mark as SqlMark | undefined;
  const rejectsOf = (crawl: string) =>
    join(
      dirname(pathOf(context, crawl, { ...output, target: 'x' })),
      `rejected-${output.name}.jsonl`,
    );
  return {
    name: output.name,
    async prepare(crawl) {
      await (await dialectOf(crawl).connect(true)).close();
    },
    async open(crawl, mark) {
      const dialect = dialectOf(crawl.name);
      return await SqlSink.open(
        { crawl, output, dialect, path: rejectsOf(crawl.name) },
        markOf(mark),
      );
    },
    async beginAnew(crawl, mark) {
      const before = markOf(mark);
      if (before === undefined) return { mark, begun: [] };
      const session = await dialectOf(crawl.name).connect(true);
      try {
        const cursor = cursorName(crawl, output);
        if ((await session.cursor(cursor)) === before.seq) return { mark, begun: [] };
        await session.setCursor(cursor, before.seq);
      } finally {
        await session.close();
      }
      const file = `${output.name} (${output.target})`;
      return { mark, begun: [{ file, bytes: 0, lines: undefined, movedTo: undefined }] };
    },
    isTaken: () => Promise.resolve(false),
    rename: () => Promise.resolve(),
    // Tables are the operator's.
    async remove({ name }, mark) {
      const file = await Rejects.remove(rejectsOf(name), markOf(mark)?.rejects);
      return { deleted: file ? [basename(rejectsOf(name))] : [], kept: [] };
    },
  };
}

function cursorName({ uid }: SinkCrawl, { name }: NamedOutput): CursorName {
  return { crawl: Buffer.from(uid).toString('hex'), sink: name };
}

type Target = {
  readonly crawl: SinkCrawl;
  readonly output: NamedOutput;
  readonly dialect: SqlDialect;
  /** Of the rejected rows. */
  readonly path: string;
};

class SqlSink implements Sink {
  readonly cutBytes = 0;
  readonly #target: Target;
  readonly #source: RowSource;
  /** Of its table: once that has rows, it is the same until the next start. */
  #name: string | undefined;
  readonly #rejects: Rejects;
  /** Undefined: the connection was lost, and is made again. */
  #session: SqlSession | undefined;
  /** Columns of the table, as far as they were looked at. */
  #columns: ReadonlyMap<string, ColumnType | 'other'> | undefined;
  #mark: SqlMark | undefined;
  /** The number in the database. */
  #seq: number | undefined;

  private constructor(target: Target, mark: SqlMark | undefined, rejects: Rejects) {
    this.#target = target;
    this.#mark = mark;
    this.#rejects = rejects;
    this.#source = new RowSource(target.crawl, target.output);
  }

  static async open(target: Target, mark: SqlMark | undefined): Promise<SqlSink> {
    const rejects = new Rejects(target.path);
    const sink = new SqlSink(target, mark, rejects);
    try {
      const isAhead = (await sink.#connect()).isAhead;
      await rejects.open(mark?.rejects, isAhead);
      return sink;
    } catch (error) {
      await sink.close();
      throw error;
    }
  }

  async write(records: readonly Section[]): Promise<SqlMark | undefined> {
    const session = this.#session ?? (await this.#reconnect());
    const from = this.#seq;
    const rows = this.#source.rowsOf(records).filter(({ seq }) => seq > (from ?? 0));
    const last = rows.at(-1);
    if (last === undefined) {
      await session.check();
      // What the database has already counts from now on.
      return from !== undefined && from > (this.#mark?.seq ?? 0) ? this.#has(from) : this.#mark;
    }
    const { key, onConflict = 'insert' } = this.#target.output;
    const { whole, keyless } = key === undefined ? { whole: rows, keyless: [] } : parted(rows, key);
    const cursor = cursorName(this.#target.crawl, this.#target.output);
    try {
      const columns = await this.#fit(session, rows);
      await session.write({
        ...{ table: this.#table, columns, rows: whole, key, onConflict },
        cursor: { ...cursor, from, to: last.seq },
        rejected: async (conflicts) => {
          await this.#rejects.append([
            ...keyless.map((row) => ({ row, reason: 'a key field is missing' })),
            ...conflicts.map((row) => ({ row, reason: 'its key is there already' })),
          ]);
        },
      });
    } catch (error) {
      await this.#lost();
      throw error;
    }
    return this.#has(last.seq);
  }

  /** It has all up to this record, and so has the file of rejected rows. */
  #has(seq: number): SqlMark {
    const rejects = this.#rejects.accept();
    this.#seq = seq;
    this.#mark = { seq, ...(rejects && { rejects }) };
    return this.#mark;
  }

  /** A write may have been committed although its answer was lost. */
  async #reconnect(): Promise<SqlSession> {
    const { session, isAhead } = await this.#connect();
    if (isAhead) this.#has(this.#seq ?? 0);
    else await this.#rejects.undo();
    return session;
  }

  async check(): Promise<void> {
    if (this.#session === undefined) await this.#reconnect();
    await this.#session?.check();
  }

  async close(): Promise<void> {
    await this.#lost();
    await this.#rejects.close();
  }

  get #table(): string {
    this.#name ??= this.#target.output.table ?? this.#source.name;
    return this.#name;
  }

  async #lost(): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    this.#columns = undefined;
    await session?.close();
  }

  /** @throws HeldError the database was set back · UnavailableError */
  async #connect(): Promise<{ session: SqlSession; isAhead: boolean }> {
    const { crawl, output, dialect } = this.#target;
    const written = this.#mark?.seq;
    const session = await dialect.connect(written === undefined);
    try {
      const seq = await session.cursor(cursorName(crawl, output));
      const isBack = written !== undefined && (seq ?? 0) < written;
      if (isBack) {
        throw new HeldError(
          `its cursor in orbweaver_cursors is ${seq ?? 'missing'}, but ${written} was written: ` +
            'the database was set back, or is another one; put it back, or go on without the rows ' +
            `in between: resume ${crawl.name} --new-files`,
        );
      }
      const { lastRecord } = crawl;
      if (lastRecord !== undefined && (seq ?? 0) > lastRecord) {
        throw new HeldError(
          `its cursor in orbweaver_cursors is ${seq}, but this crawl has ${lastRecord} records: ` +
            "the master's data folder was set back; write to another table or database, or give the " +
            `output up: sinks ${crawl.name} --drop ${output.name}`,
        );
      }
      this.#session = session;
      this.#seq = seq;
      return { session, isAhead: (seq ?? 0) > (written ?? 0) };
    } catch (error) {
      await session.close();
      throw error;
    }
  }

  /** Makes the table fit the rows. Returns the columns that they have.
   *  @throws HeldError a column has another type */
  async #fit(session: SqlSession, rows: readonly Row[]): Promise<readonly Column[]> {
    const wanted = this.#source.columns;
    const { key } = this.#target.output;
    const table = this.#table;
    const unknown = key?.filter((name) => !wanted.some((column) => column.name === name)) ?? [];
    if (unknown.length > 0) {
      throw new HeldError(
        `its key ${unknown.join(', ')} is not a field of its records; these have ` +
          wanted.map(({ name }) => name).join(', '),
      );
    }
    let columns = this.#columns ?? (await session.columns(table));
    if (columns === undefined) {
      await session.createTable(table, wanted, key);
      columns = new Map([...ownColumns, ...wanted].map(({ name, type }) => [name, type] as const));
    }
    if (this.#columns === undefined || wanted.some(({ name }) => !this.#columns?.has(name))) {
      for (const column of [...ownColumns, ...wanted]) {
        const type = columns.get(column.name);
        if (type === undefined) {
          await session.addColumn(table, column);
          columns = new Map([...columns, [column.name, column.type]]);
        } else if (!holds(type, column.type)) {
          throw new HeldError(
            `the column ${column.name} of ${table} is ${type}, and its values are ${column.type}; ` +
              `change it, then resume the crawl: ${session.alterText(table, column)}`,
          );
        }
      }
      if (key !== undefined) await session.index(table, key);
      this.#columns = columns;
    }
    const used = new Set(rows.flatMap(({ values }) => Object.keys(values)));
    return wanted.filter(({ name }) => used.has(name));
  }
}

/** In each table: which crawl a row is of, and the number of its record. */
export const ownColumns: readonly Column[] = [
  { name: '_crawl', type: 'text' },
  { name: '_seq', type: 'integer' },
];

/** Rows with all fields of the key, and the others. */
function parted(rows: readonly Row[], key: readonly string[]) {
  const isWhole = ({ values }: Row) => key.every((name) => values[name] !== undefined);
  return { whole: rows.filter(isWhole), keyless: rows.filter((row) => !isWhole(row)) };
}

/** The last of the rows with the same key, in the order of their records. */
export function lastOfEach(rows: readonly Row[], key: readonly string[]): Row[] {
  const last = new Map<string, Row>();
  for (const row of rows) {
    const of = JSON.stringify(key.map((name) => String(plainOf(row.values[name]))));
    last.delete(of);
    last.set(of, row);
  }
  return [...last.values()];
}

/** What is done with a row whose key is there. `table`: quoted. */
export function conflictText(
  table: string,
  names: readonly string[],
  key: readonly string[] | undefined,
  onConflict: SqlWrite['onConflict'],
): string {
  if (key === undefined) return '';
  const on = ` ON CONFLICT (${key.map(quoted).join(', ')}) DO `;
  if (onConflict !== 'update') return `${on}NOTHING`;
  const set = [...ownColumns.map(({ name }) => name), ...names]
    .filter((name) => !key.includes(name))
    .map((name) => `${quoted(name)} = excluded.${quoted(name)}`);
  return (
    `${on}UPDATE SET ${set.join(', ')} WHERE ${table}."_crawl" IS NULL ` +
    `OR ${table}."_crawl" <> excluded."_crawl" OR ${table}."_seq" IS NULL OR ${table}."_seq" < excluded."_seq"`
  );
}

export function movedCursor(from: number | undefined): HeldError {
  return new HeldError(
    `its cursor in orbweaver_cursors is not ${from ?? 'missing'} any more: another program has ` +
      'written it, or the database was set back',
  );
}

/** A name as SQL has it. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
