/**
 * The output of a crawl to a SQLite database, by the module of Node where it has one, else by
 * libsql. Writes take a transaction of some ms each, on the master's own thread. The journal is as
 * the file has it: with a log beside it (WAL) a file that is copied or moved alone would lack rows.
 */
import { stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { codeOf, messageOf } from '../../../shared/errors.ts';
import type { NamedOutput } from '../../../shared/outputs.ts';
import { makeFolder } from '../../machine/make-folder.ts';
import { HeldError, type SinkKind, UnavailableError } from '../sink.ts';
import { driver, type OutputContext, pathOf } from './context.ts';
import { type CursorName, movedCursor } from './cursor-sink.ts';
import { type Column, type ColumnType, plainOf, type Row } from './rows.ts';
import {
  conflictText,
  indexName,
  lastOfEach,
  ownColumns,
  quoted,
  type SqlSession,
  type SqlWrite,
  sqlKind,
} from './sql.ts';

type Value = string | number | null;
type Statement = {
  run(...values: Value[]): { changes: number | bigint };
  all(...values: Value[]): unknown[];
};
type Database = { prepare(sql: string): Statement; exec(sql: string): unknown; close(): unknown };
type Driver = new (path: string) => Database;

/** Rows of a statement: each call of the driver takes longer than the row. */
const rowsAtOnce = 32;
/** Values of a statement. Source: sqlite.org/limits.html, SQLITE_MAX_VARIABLE_NUMBER. */
const valuesMax = 32_766;

const typeNames: Readonly<Record<ColumnType, string>> = {
  text: 'TEXT',
  integer: 'INTEGER',
  real: 'REAL',
  boolean: 'BOOLEAN',
  json: 'JSON',
  time: 'TIMESTAMP',
};
/** Names of types that others give their columns. A column takes any value here. */
const typesByName = new Map<string, ColumnType>(
  Object.entries(typeNames).map(([type, name]) => [name, type as ColumnType]),
);

export function sqliteKind(output: NamedOutput, context: OutputContext): SinkKind {
  return sqlKind(output, context, (crawl, isNew) =>
    SqliteSession.open(pathOf(context, crawl, output), isNew),
  );
}

async function loadDriver(): Promise<Driver> {
  const builtIn = process.getBuiltinModule?.('node:sqlite') as
    | { readonly DatabaseSync: Driver }
    | undefined;
  if (builtIn !== undefined) return builtIn.DatabaseSync;
  return await driver('libsql', '0.5.29', () => {
    // Its module is CommonJS.
    const load = createRequire(import.meta.url);
    return Promise.resolve(load('libsql') as Driver);
  });
}

class SqliteSession implements SqlSession {
  readonly #path: string;
  readonly #db: Database;
  /** Of the file that is open. */
  readonly #inode: bigint;
  #isOpen = true;

  private constructor(path: string, db: Database, inode: bigint) {
    this.#path = path;
    this.#db = db;
    this.#inode = inode;
  }

  /** @throws HeldError it is gone, or is no database · UnavailableError it is locked */
  static async open(path: string, isNew: boolean): Promise<SqliteSession> {
    const there = await inodeOf(path);
    if (there === undefined && !isNew) throw goneFrom(path);
    const Driver = await loadDriver();
    let db: Database | undefined;
    try {
      if (there === undefined) makeFolder(dirname(path));
      db = new Driver(path);
      db.exec('PRAGMA busy_timeout = 100');
      db.exec('PRAGMA synchronous = FULL');
      db.exec(
        'CREATE TABLE IF NOT EXISTS orbweaver_cursors ' +
          '(crawl TEXT, sink TEXT, seq INTEGER NOT NULL, PRIMARY KEY (crawl, sink))',
      );
      return new SqliteSession(path, db, (await inodeOf(path)) ?? 0n);
    } catch (error) {
      db?.close();
      throw faultOf(error, path);
    }
  }

  async cursor({ crawl, sink }: CursorName): Promise<number | undefined> {
    const [row] = await this.#do(() =>
      this.#db
        .prepare('SELECT seq FROM orbweaver_cursors WHERE crawl = ? AND sink = ?')
        .all(crawl, sink),
    );
    return row === undefined ? undefined : Number((row as { seq: unknown }).seq);
  }

  async setCursor({ crawl, sink }: CursorName, seq: number): Promise<void> {
    await this.#do(() =>
      this.#db
        .prepare('INSERT OR REPLACE INTO orbweaver_cursors VALUES (?, ?, ?)')
        .run(crawl, sink, seq),
    );
  }

  async columns(table: string) {
    const rows = await this.#do(() =>
      this.#db.prepare('SELECT name, type FROM pragma_table_info(?)').all(bare(table)),
    );
    if (rows.length === 0) return undefined;
    return new Map(
      (rows as { name: string; type: string }[]).map(({ name, type }) => [
        name,
        typesByName.get(type.toUpperCase()) ?? ('other' as const),
      ]),
    );
  }

  async createTable(
    table: string,
    columns: readonly Column[],
    key?: readonly string[],
  ): Promise<void> {
    const all = [...ownColumns, ...columns].map(
      ({ name, type }) => `${quoted(name)} ${typeNames[type]}`,
    );
    const statements = [`CREATE TABLE IF NOT EXISTS ${quoted(bare(table))} (${all.join(', ')})`];
    if (key !== undefined) statements.push(indexText(table, key, indexNameOf(table, key)));
    await this.#do(() => this.#db.exec(statements.join('; ')));
  }

  async addColumn(table: string, { name, type }: Column): Promise<void> {
    await this.#do(() =>
      this.#db.exec(
        `ALTER TABLE ${quoted(bare(table))} ADD COLUMN ${quoted(name)} ${typeNames[type]}`,
      ),
    );
  }

  /** It has no statement for that. */
  alterText(table: string, { name, type }: Column): string {
    const at = quoted(bare(table));
    return (
      `ALTER TABLE ${at} RENAME COLUMN ${quoted(name)} TO ${quoted(`${name}_old`)}; ` +
      `ALTER TABLE ${at} ADD COLUMN ${quoted(name)} ${typeNames[type]}`
    );
  }

  async index(table: string, key: readonly string[]): Promise<void> {
    const at = bare(table);
    const name = await indexName(indexNameOf(table, key), async (one) => {
      const found = await this.#do(() =>
        this.#db.prepare('SELECT tbl_name AS at FROM sqlite_master WHERE name = ?').all(one),
      );
      return found.some((row) => (row as { at: unknown }).at !== at);
    });
    await this.#do(() => this.#db.exec(indexText(table, key, name)));
  }

  async write(write: SqlWrite): Promise<void> {
    await this.check();
    await this.#do(async () => {
      this.#db.exec('BEGIN IMMEDIATE');
      try {
        const conflicts = this.#insert(write);
        this.#moveCursor(write);
        await write.rejected(conflicts);
        this.#db.exec('COMMIT');
      } catch (error) {
        this.#rollBack();
        throw error;
      }
    });
  }

  #insert({ table, columns, rows, key, onConflict, cursor }: SqlWrite): Row[] {
    const names = columns.map(({ name }) => name);
    const all = [...ownColumns.map(({ name }) => name), ...names];
    const places = `(${all.map(() => '?').join(', ')})`;
    const how = conflictText(quoted(bare(table)), names, key, onConflict);
    const into = `INSERT INTO ${quoted(bare(table))} (${all.map(quoted).join(', ')}) VALUES `;
    const prepared = (count: number) =>
      this.#db.prepare(`${into}${Array(count).fill(places).join(', ')}${how}`);
    // Only one that stands alone says whether it was inserted.
    const isStrict = key !== undefined && onConflict === 'insert';
    const atOnce = isStrict ? 1 : Math.max(1, Math.min(rowsAtOnce, valuesMax / all.length) | 0);
    const kept = key !== undefined && onConflict === 'update' ? lastOfEach(rows, key) : rows;
    const statement = prepared(atOnce);
    const rejected: Row[] = [];
    for (let i = 0; i < kept.length; i += atOnce) {
      const some = kept.slice(i, i + atOnce);
      const values: Value[] = [];
      for (const row of some) {
        values.push(cursor.crawl, row.seq);
        for (const { name, type } of columns) values.push(stored(row.values[name], type));
      }
      const of = some.length === atOnce ? statement : prepared(some.length);
      const { changes } = of.run(...values);
      if (isStrict && Number(changes) === 0) rejected.push(...some);
    }
    return rejected;
  }

  /** On a full disk, and after some other errors, SQLite has done that already. */
  #rollBack(): void {
    try {
      this.#db.exec('ROLLBACK');
    } catch {
      // The operator reads the error that made the write fail.
    }
  }

  #moveCursor({ cursor: { crawl, sink, from, to } }: SqlWrite): void {
    const { changes } =
      from === undefined
        ? this.#db
            .prepare('INSERT INTO orbweaver_cursors VALUES (?, ?, ?) ON CONFLICT DO NOTHING')
            .run(crawl, sink, to)
        : this.#db
            .prepare(
              'UPDATE orbweaver_cursors SET seq = ? WHERE crawl = ? AND sink = ? AND seq = ?',
            )
            .run(to, crawl, sink, from);
    if (Number(changes) !== 1) throw movedCursor(from);
  }

  /** A file that was moved away would be written to where it is now. */
  async check(): Promise<void> {
    const inode = await inodeOf(this.#path);
    if (inode === undefined) throw goneFrom(this.#path);
    if (inode !== this.#inode) {
      throw new HeldError(`${this.#path} is not the file that was written to; put that back`);
    }
  }

  close(): Promise<void> {
    if (!this.#isOpen) return Promise.resolve();
    this.#isOpen = false;
    try {
      this.#db.close();
    } catch {
      // A read of its last pages failed: what was committed is in the file.
    }
    return Promise.resolve();
  }

  async #do<T>(work: () => T | Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw faultOf(error, this.#path);
    }
  }
}

/** Without a schema: a file has none. */
function bare(table: string): string {
  return table.split('.').at(-1) ?? table;
}

function indexNameOf(table: string, key: readonly string[]): string {
  return `${bare(table)}_${key.join('_')}_key`;
}

function indexText(table: string, key: readonly string[], name: string): string {
  const columns = key.map(quoted).join(', ');
  return `CREATE UNIQUE INDEX IF NOT EXISTS ${quoted(name)} ON ${quoted(bare(table))} (${columns})`;
}

function stored(value: unknown, type: ColumnType): Value {
  const plain = plainOf(value, type);
  return typeof plain === 'boolean' ? Number(plain) : plain;
}

async function inodeOf(path: string): Promise<bigint | undefined> {
  const found = await stat(path, { bigint: true }).catch(() => undefined);
  return found?.ino;
}

function goneFrom(path: string): HeldError {
  return new HeldError(`${path} is gone, and rows were written to it; put the file back`);
}

/** Errors that pass. Source: sqlite.org/rescode.html */
const passing =
  /SQLITE_(?:BUSY|LOCKED|FULL|IOERR|NOMEM)|database (?:table )?is locked|disk is full/;

function faultOf(error: unknown, path: string): unknown {
  if (!(error instanceof Error) || error instanceof HeldError) return error;
  const code = codeOf(error) ?? '';
  const text = `${path}: ${messageOf(error)}`;
  if (passing.test(`${code} ${error.message}`)) return new UnavailableError(text, error);
  return new HeldError(`${text}; put that right`, error);
}
