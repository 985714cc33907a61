/**
 * Shared by the outputs to SQL databases: the table of the rows, which is made and gets new
 * columns, and keys. The number of the last record stands in the table `orbweaver_cursors`; it is
 * changed in the transaction that writes the rows.
 */
import type { NamedOutput } from '../../../shared/outputs.ts';
import { HeldError, type SinkKind } from '../sink.ts';
import type { OutputContext } from './context.ts';
import {
  type CursorSession,
  type CursorStep,
  cursorKind,
  type Deliverer,
  type Delivery,
  MovedCursor,
} from './cursor-sink.ts';
import type { Patience } from './patience.ts';
import { type Column, type ColumnType, plainOf, type Row, type RowSource } from './rows.ts';

/** One write, which is done in one transaction, or not at all. */
export type SqlWrite = {
  readonly table: string;
  readonly columns: readonly Column[];
  readonly rows: readonly Row[];
  readonly key: readonly string[] | undefined;
  readonly onConflict: 'insert' | 'skip' | 'update';
  readonly cursor: CursorStep;
  /** Called before the commit with the rows whose key is there already, of `insert`. */
  readonly rejected: (rows: readonly Row[]) => Promise<void>;
};

/** A connection, which has a table of cursors. All throw HeldError and UnavailableError. */
export interface SqlSession extends CursorSession {
  /** Bytes of a key that its index holds; absent: any. */
  readonly keyBytesMax?: number;
  /** Types of a table's columns by their names; `other`: one that is not ours. Undefined: there is
   *  no such table. */
  columns(table: string): Promise<ReadonlyMap<string, ColumnType | 'other'> | undefined>;
  /** With a unique index on `key`, in one step: another output may write to it at once. */
  createTable(table: string, columns: readonly Column[], key?: readonly string[]): Promise<void>;
  addColumn(table: string, column: Column): Promise<void>;
  /** The statement that gives a column another type. */
  alterText(table: string, column: Column): string;
  /** Makes a unique index on these columns, unless there is one. */
  index(table: string, key: readonly string[]): Promise<void>;
  /** @throws HeldError the cursor is not `from` */
  write(write: SqlWrite): Promise<void>;
}

/** Which of our types a column of a server has; `other`: none. */
export function kindOf(
  kinds: readonly (readonly [ColumnType, RegExp])[],
  type: string,
): ColumnType | 'other' {
  return kinds.find(([, pattern]) => pattern.test(type))?.[0] ?? 'other';
}

/** Can a column of the first type hold any value of the second? */
function holds(column: ColumnType | 'other', value: ColumnType): boolean {
  if (column === value || column === 'text' || column === 'other') return true;
  return column === 'real' && value === 'integer';
}

export function sqlKind(
  output: NamedOutput,
  context: OutputContext,
  connect: (crawl: string, isNew: boolean, patience: Patience) => Promise<SqlSession>,
): SinkKind {
  return cursorKind(output, context, {
    cursorPlace: 'orbweaver_cursors',
    connect,
    deliverer: (source) => new SqlTable(source, output),
  });
}

/** The table of an output. */
class SqlTable implements Deliverer<SqlSession> {
  readonly #source: RowSource;
  readonly #output: NamedOutput;
  /** Once it has rows, it is the same until the next start. */
  #name: string | undefined;
  /** Its columns, as far as they were looked at. */
  #columns: ReadonlyMap<string, ColumnType | 'other'> | undefined;

  constructor(source: RowSource, output: NamedOutput) {
    this.#source = source;
    this.#output = output;
  }

  async begin(session: SqlSession): Promise<void> {
    await this.#fit(session, []);
  }

  async deliver(delivery: Delivery<SqlSession>): Promise<void> {
    const isKnown = this.#columns !== undefined;
    try {
      await this.#deliver(delivery);
    } catch (error) {
      if (!isKnown || !(error instanceof HeldError) || error instanceof MovedCursor) throw error;
      // The operator may have renamed or altered the table since it was looked at.
      this.lost();
      await delivery.unreject();
      await this.#deliver(delivery);
    }
  }

  async #deliver({ session, rows, cursor, reject }: Delivery<SqlSession>): Promise<void> {
    const { key, onConflict = 'insert' } = this.#output;
    const { whole, keyless } = key === undefined ? { whole: rows, keyless: [] } : parted(rows, key);
    const keyMax = session.keyBytesMax ?? Number.POSITIVE_INFINITY;
    const isLong = (row: Row) => key !== undefined && keyBytes(row, key) > keyMax;
    const fitting = whole.some(isLong) ? whole.filter((row) => !isLong(row)) : whole;
    const columns = await this.#fit(session, rows);
    await session.write({
      table: this.#table,
      columns,
      rows: fitting,
      key,
      onConflict,
      cursor,
      rejected: async (conflicts) => {
        await reject(keyless, 'a key field is missing');
        await reject(whole.filter(isLong), `its key is longer than ${keyMax} bytes`);
        await reject(conflicts, 'its key is there already');
      },
    });
  }

  lost(): void {
    this.#columns = undefined;
  }

  get #table(): string {
    this.#name ??= this.#output.table ?? this.#source.name;
    return this.#name;
  }

  /** Makes the table fit the rows. Returns the columns that they have.
   *  @throws HeldError a column has another type */
  async #fit(session: SqlSession, rows: readonly Row[]): Promise<readonly Column[]> {
    const wanted = this.#source.columns;
    const { key } = this.#output;
    const table = this.#table;
    const unknown = key?.filter((name) => !wanted.some((column) => column.name === name)) ?? [];
    if (unknown.length > 0) {
      throw new HeldError(
        `its key ${unknown.join(', ')} is not a field of its records; these have ` +
          wanted.map(({ name }) => name).join(', '),
      );
    }
    let columns = this.#columns ?? (await session.columns(table));
    columns ??= await made(session, table, wanted, key);
    if (this.#columns === undefined || wanted.some(({ name }) => !this.#columns?.has(name))) {
      for (const column of [...ownColumns, ...wanted]) {
        const type: ColumnType | 'other' =
          columns.get(column.name) ?? (await added(session, table, column));
        columns = new Map([...columns, [column.name, type]]);
        if (!holds(type, column.type)) {
          throw new HeldError(
            `the column ${column.name} of ${table} is ${type}, and its values are ${column.type}; ` +
              `change it: ${session.alterText(table, column)}`,
          );
        }
      }
      if (key !== undefined) await session.index(table, key);
      this.#columns = columns;
    }
    // A row that takes the place of another has nothing where it has no value.
    if (key !== undefined && this.#output.onConflict === 'update') return wanted;
    return wanted.filter(({ name }) => rows.some(({ values }) => Object.hasOwn(values, name)));
  }
}

/** Makes a table, unless another output does it at the same time, with columns of its own. Returns
 *  the columns that it has. */
async function made(
  session: SqlSession,
  table: string,
  columns: readonly Column[],
  key: readonly string[] | undefined,
): Promise<ReadonlyMap<string, ColumnType | 'other'>> {
  try {
    await session.createTable(table, columns, key);
    return (await session.columns(table)) ?? new Map();
  } catch (error) {
    const there = await session.columns(table);
    if (there === undefined) throw error;
    return there;
  }
}

/** Adds a column, unless another output does it at the same time. Returns the type that it has. */
async function added(
  session: SqlSession,
  table: string,
  column: Column,
): Promise<ColumnType | 'other'> {
  try {
    await session.addColumn(table, column);
    return column.type;
  } catch (error) {
    const type = (await session.columns(table))?.get(column.name);
    if (type === undefined) throw error;
    return type;
  }
}

/** In each table: which crawl a row is of, and the number of its record. */
export const ownColumns: readonly Column[] = [
  { name: '_crawl', type: 'text' },
  { name: '_seq', type: 'integer' },
];

/** Rows with a value in all fields of the key, and the others: to most databases a missing value is
 *  not the same as another one. */
export function parted(rows: readonly Row[], key: readonly string[]) {
  const isWhole = ({ values }: Row) => key.every((name) => (values[name] ?? null) !== null);
  return { whole: rows.filter(isWhole), keyless: rows.filter((row) => !isWhole(row)) };
}

function keyBytes({ values }: Row, key: readonly string[]): number {
  return key.reduce((sum, name) => sum + Buffer.byteLength(String(plainOf(values[name]))), 0);
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

/** The clause for a row whose key is there. `table`: quoted. */
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

/** The name of a new index, or of the one that is there: a table that was renamed keeps the name of
 *  its own. */
export async function indexName(
  wanted: string,
  isOfAnother: (name: string) => Promise<boolean>,
): Promise<string> {
  let name = wanted;
  for (let n = 2; await isOfAnother(name); n++) name = `${wanted}_${n}`;
  return name;
}

/** A name as SQL has it. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
