/**
 * The output of a crawl to PostgreSQL. The rows of a write go as one text of JSON, which the server
 * takes apart by the types of the table's own columns.
 */
import type { Sql } from 'postgres';
import { codeOf, messageOf } from '../../../shared/errors.ts';
import type { NamedOutput } from '../../../shared/outputs.ts';
import { HeldError, type SinkKind, UnavailableError } from '../sink.ts';
import { driver, type OutputContext, tlsFault, urlOf } from './context.ts';
import { type CursorName, movedCursor } from './cursor-sink.ts';
import { type Patience, silentText } from './patience.ts';
import { type Column, type ColumnType, type Row, wellFormedJson } from './rows.ts';
import {
  conflictText,
  indexName,
  kindOf,
  lastOfEach,
  ownColumns,
  quoted,
  type SqlSession,
  type SqlWrite,
  sqlKind,
} from './sql.ts';

const connectS = 5;
/** Another session has made the same at once. Source: PostgreSQL, appendix A, unique_violation. */
const keyTaken = '23505';

const typeNames: Readonly<Record<ColumnType, string>> = {
  text: 'text',
  integer: 'bigint',
  real: 'double precision',
  boolean: 'boolean',
  json: 'jsonb',
  time: 'timestamp with time zone',
};
/** The server's names of types that can hold ours, without their length. */
const kinds: readonly (readonly [ColumnType, RegExp])[] = [
  ['text', /^(?:text|character|varchar|citext)/],
  ['integer', /^(?:bigint|integer|smallint)$/],
  ['real', /^(?:double precision|real|numeric)/],
  ['boolean', /^boolean$/],
  ['json', /^jsonb?$/],
  ['time', /^(?:timestamp|date)/],
];

export function postgresKind(output: NamedOutput, context: OutputContext): SinkKind {
  return sqlKind(output, context, (_crawl, _isNew, patience) =>
    PostgresSession.open(output, context, patience),
  );
}

class PostgresSession implements SqlSession {
  /** A page could hold its crawl by a longer one: a B-tree takes 2,704 bytes of a row, its heads
   *  included, after a compression that not each text yields to. */
  readonly keyBytesMax = 2_500;
  readonly #sql: Sql;
  readonly #patience: Patience;
  /** Types of the columns that were looked at, as the server names them, by table. */
  readonly #types = new Map<string, Map<string, string>>();

  private constructor(sql: Sql, patience: Patience) {
    this.#sql = sql;
    this.#patience = patience;
  }

  /** @throws HeldError its URL, or its driver · UnavailableError it cannot be connected to */
  static async open(
    output: NamedOutput,
    context: OutputContext,
    patience: Patience,
  ): Promise<PostgresSession> {
    const url = urlOf(context, output);
    const module = await driver('postgres', '3.4.9', () => import('postgres'));
    let sql: Sql;
    try {
      sql = module.default(url, {
        max: 1,
        connect_timeout: connectS,
        idle_timeout: 0,
        max_lifetime: null,
        // A pooler may give each transaction another session.
        prepare: false,
        fetch_types: false,
        onnotice: () => {},
        connection: { application_name: 'orbweaver' },
        ...tlsOf(url),
      });
    } catch (error) {
      // Its message could repeat the URL.
      throw new HeldError('its URL is not one of PostgreSQL: postgres://user@host/database', error);
    }
    const session = new PostgresSession(sql, patience);
    try {
      await session.#do(
        'CREATE TABLE IF NOT EXISTS orbweaver_cursors ' +
          '(crawl text, sink text, seq bigint NOT NULL, PRIMARY KEY (crawl, sink))',
      );
      return session;
    } catch (error) {
      // Another session may make it at once; a user without rights to make tables may find it
      // there. A server that does not answer would not answer that either.
      const isAnswer = !(error instanceof UnavailableError) || codeOf(error.cause) === keyTaken;
      if (isAnswer && (await session.#hasCursors().catch(() => false))) return session;
      await session.close();
      throw error;
    }
  }

  async #hasCursors(): Promise<boolean> {
    const [row] = await this.#do("SELECT to_regclass('orbweaver_cursors')::text AS name");
    return typeof row?.['name'] === 'string';
  }

  /** A write that was given up may still wait for a lock, and has the cursor until it is done. To
   *  wait for it here would leave one more of those who wait. */
  async cursor({ crawl, sink }: CursorName): Promise<number | undefined> {
    const [row] = await this.#do(
      'SELECT seq::text AS seq FROM orbweaver_cursors WHERE crawl = $1 AND sink = $2 ' +
        'FOR NO KEY UPDATE NOWAIT',
      [crawl, sink],
    );
    return row === undefined ? undefined : Number(row['seq']);
  }

  async setCursor({ crawl, sink }: CursorName, seq: number): Promise<void> {
    await this.#do(
      'INSERT INTO orbweaver_cursors VALUES ($1, $2, $3::text::bigint) ' +
        'ON CONFLICT (crawl, sink) DO UPDATE SET seq = excluded.seq',
      [crawl, sink, String(seq)],
    );
  }

  async columns(table: string) {
    const rows = await this.#do(
      'SELECT attname::text AS name, format_type(atttypid, atttypmod)::text AS type ' +
        'FROM pg_attribute WHERE attrelid = to_regclass($1::text) AND attnum > 0 ' +
        'AND NOT attisdropped',
      [quotedTable(table)],
    );
    const types = new Map(rows.map(({ name, type }) => [String(name), String(type)] as const));
    this.#types.set(table, types);
    if (types.size === 0) return undefined;
    return new Map([...types].map(([name, type]) => [name, kindOf(kinds, type)] as const));
  }

  /** Statements without values are one transaction. */
  async createTable(
    table: string,
    columns: readonly Column[],
    key?: readonly string[],
  ): Promise<void> {
    const all = [...ownColumns, ...columns];
    const text = all.map(({ name, type }) => `${quoted(name)} ${typeNames[type]}`).join(', ');
    const statements = [`CREATE TABLE IF NOT EXISTS ${quotedTable(table)} (${text})`];
    if (key !== undefined) statements.push(indexText(table, key, indexNameOf(table, key)));
    await this.#do(statements.join('; '));
    this.#types.set(table, new Map(all.map(({ name, type }) => [name, typeNames[type]])));
  }

  async addColumn(table: string, { name, type }: Column): Promise<void> {
    await this.#do(
      `ALTER TABLE ${quotedTable(table)} ADD COLUMN IF NOT EXISTS ${quoted(name)} ${typeNames[type]}`,
    );
    this.#types.get(table)?.set(name, typeNames[type]);
  }

  alterText(table: string, { name, type }: Column): string {
    const as = typeNames[type];
    const at = quoted(name);
    return `ALTER TABLE ${quotedTable(table)} ALTER COLUMN ${at} TYPE ${as} USING ${at}::${as}`;
  }

  /** Only the owner of a table may name an index of it, be it there or not: so it looks first. */
  async index(table: string, key: readonly string[]): Promise<void> {
    const at = quotedTable(table);
    const uniques = await this.#do(
      'SELECT (SELECT json_agg(attname) FROM pg_attribute WHERE attrelid = indrelid ' +
        'AND attnum = ANY(indkey[0:indnkeyatts - 1]))::text AS names FROM pg_index ' +
        'WHERE indrelid = to_regclass($1::text) AND indisunique AND indisvalid ' +
        'AND indimmediate AND indpred IS NULL AND indexprs IS NULL',
      [at],
    );
    const wanted = [...key].sort().join('\n');
    const isThere = uniques.some(({ names }) => {
      const columns = JSON.parse(String(names)) as string[];
      return columns.sort().join('\n') === wanted;
    });
    if (isThere) return;
    const name = await indexName(indexNameOf(table, key), async (one) => {
      const [other] = await this.#do(
        'SELECT 1 FROM pg_class AS c LEFT JOIN pg_index AS i ON i.indexrelid = c.oid ' +
          'WHERE c.relname = $1::text AND c.relnamespace = ' +
          '(SELECT relnamespace FROM pg_class WHERE oid = to_regclass($2::text)) ' +
          'AND i.indrelid IS DISTINCT FROM to_regclass($2::text)',
        [one, at],
      );
      return other !== undefined;
    });
    await this.#do(indexText(table, key, name));
  }

  /** One statement is one transaction. The driver's own transactions end the process if the
   *  connection is lost in the middle: it writes the ROLLBACK to a socket that is gone. */
  async write(write: SqlWrite): Promise<void> {
    const { table, columns, key, onConflict, cursor } = write;
    const isStrict = key !== undefined && onConflict === 'insert';
    const rows =
      key !== undefined && onConflict === 'update' ? lastOfEach(write.rows, key) : write.rows;
    const taken = isStrict ? await this.#conflicts(write, key) : new Set<number>();
    await write.rejected(write.rows.filter(({ seq }) => taken.has(seq)));
    const names = columns.map(({ name }) => name);
    const list = ['_seq', ...names].map(quoted).join(', ');
    const { crawl, sink, from, to } = cursor;
    const moved =
      from === undefined
        ? 'INSERT INTO orbweaver_cursors VALUES ($2, $3, $4::text::bigint) ' +
          'ON CONFLICT DO NOTHING RETURNING seq'
        : 'UPDATE orbweaver_cursors SET seq = $4::text::bigint ' +
          'WHERE crawl = $2 AND sink = $3 AND seq = $5::text::bigint RETURNING seq';
    const text =
      `WITH moved AS (${moved}), rows AS (INSERT INTO ${quotedTable(table)} ("_crawl", ${list}) ` +
      `SELECT $2::text::${this.#typeOf(table, '_crawl')}, ${list} FROM json_to_recordset($1::text::json) AS x(${this.#fieldsOf(write)}) ` +
      `WHERE EXISTS (SELECT 1 FROM moved)` +
      // A key that came since is an error, after which they are looked for again.
      `${isStrict ? '' : conflictText(quotedTable(table), names, key, onConflict)}) ` +
      'SELECT count(*)::text AS count FROM moved';
    const json = jsonOf(taken.size === 0 ? rows : rows.filter(({ seq }) => !taken.has(seq)));
    const values = [json, crawl, sink, String(to)];
    try {
      const [done] = await this.#do(text, from === undefined ? values : [...values, String(from)]);
      if (done?.['count'] !== '1') throw movedCursor(from);
    } catch (error) {
      if (!(error instanceof UnavailableError) || codeOf(error.cause) !== keyTaken) throw error;
      const cameSince = isStrict && (await this.#conflicts(write, key)).size > taken.size;
      if (cameSince) throw error;
      // A unique index that is not of the key refuses the row for ever.
      throw new HeldError(`${messageOf(error)}; put that right`, error);
    }
  }

  /** Numbers of the rows whose key is in the table, or that of a row before them. */
  async #conflicts(write: SqlWrite, key: readonly string[]): Promise<ReadonlySet<number>> {
    const same = key.map((name) => `t.${quoted(name)} = x.${quoted(name)}`).join(' AND ');
    const parts = key.map((name) => `x.${quoted(name)}`).join(', ');
    const found = await this.#do(
      'SELECT seq::text FROM (SELECT x."_seq" AS seq, row_number() OVER ' +
        `(PARTITION BY ${parts} ORDER BY x."_seq") AS place, EXISTS (SELECT 1 FROM ` +
        `${quotedTable(write.table)} AS t WHERE ${same}) AS is_there ` +
        `FROM json_to_recordset($1::text::json) AS x(${this.#fieldsOf(write)})) AS all_rows ` +
        'WHERE is_there OR place > 1',
      [jsonOf(write.rows)],
    );
    return new Set(found.map(({ seq }) => Number(seq)));
  }

  /** The columns of the rows with the types that the table has. */
  #fieldsOf({ table, columns }: SqlWrite): string {
    const names = ['_seq', ...columns.map(({ name }) => name)];
    return names.map((name) => `${quoted(name)} ${this.#typeOf(table, name)}`).join(', ');
  }

  #typeOf(table: string, column: string): string {
    return this.#types.get(table)?.get(column) ?? 'text';
  }

  async check(): Promise<void> {
    await this.#do('SELECT 1');
  }

  async close(): Promise<void> {
    await this.#sql.end({ timeout: 1 }).catch(() => {});
  }

  async #do(query: string, values: string[] = []): Promise<Record<string, unknown>[]> {
    const close = () => void this.#sql.end({ timeout: 0 }).catch(() => {});
    return [...(await this.#patience.timed(this.#sql.unsafe(query, values), close, faultOf))];
  }
}

/** Modes in which no certificate is checked. */
const unverified = /^(?:disable|false|allow|prefer|require)?$/;

/** The driver checks the certificate of an address as if it were `localhost`; here it is checked
 *  for the address. All else about TLS in a URL is the driver's. */
function tlsOf(url: string): { readonly ssl?: { readonly host: string } } {
  // One with several hosts is none to Node.
  if (!URL.canParse(url)) return {};
  const { hostname, searchParams } = new URL(url);
  const mode = searchParams.get('sslmode') ?? searchParams.get('ssl');
  if (mode === null || unverified.test(mode)) return {};
  return { ssl: { host: hostname } };
}

/** The rows as a list; of a name that a map has twice the server takes the last. */
function jsonOf(rows: readonly Row[]): string {
  let text = '[';
  for (const { seq, values } of rows) {
    const map = wellFormedJson(values);
    text += `${text === '[' ? '' : ','}${map.slice(0, -1)}${map === '{}' ? '' : ','}"_seq":${seq}}`;
  }
  return `${text}]`;
}

function indexNameOf(table: string, key: readonly string[]): string {
  return `${table.split('.').at(-1)}_${key.join('_')}_key`.slice(0, 60);
}

function indexText(table: string, key: readonly string[], name: string): string {
  const columns = key.map(quoted).join(', ');
  return `CREATE UNIQUE INDEX IF NOT EXISTS ${quoted(name)} ON ${quotedTable(table)} (${columns})`;
}

function quotedTable(table: string): string {
  return table.split('.').map(quoted).join('.');
}

/** SQLSTATEs that pass: connection, resources, operator, locks, roll-back, a key that came since,
 *  a server that is read-only for the time of a fail-over, one that ends idle transactions, and a
 *  log-in that an operator can put right. Source: PostgreSQL, appendix A. */
const passing = /^(?:(?:08|28|40|53|55|57|58)...|23505|25006|25P03)$/;

const lateText =
  'an earlier write still waits in the database, mostly for a lock of another program';

function faultOf(error: Error): Error {
  const code = codeOf(error) ?? '';
  // The driver's own codes are words: CONNECTION_CLOSED, ECONNREFUSED, CONNECT_TIMEOUT.
  const isState = /^[0-9A-Z]{5}$/.test(code);
  const ofTls = tlsFault(error);
  if (ofTls !== undefined) return ofTls;
  // A fault of our own, or of the file system.
  if (!isState && !/^(?:E[A-Z]+|CONN\w+)$/.test(code)) return error;
  const isLate = code === '55P03' && messageOf(error).includes('"orbweaver_cursors"');
  const said = code === 'CONNECT_TIMEOUT' ? silentText(connectS * 1000) : messageOf(error);
  const text = isLate ? lateText : said || code;
  if (!isState || passing.test(code)) {
    return /^(?:ENOSPC|EDQUOT|EROFS|EIO)$/.test(code) ? error : new UnavailableError(text, error);
  }
  const how = code === '3D000' ? 'create it' : 'put that right';
  return new HeldError(`${text}; ${how}`, error);
}
