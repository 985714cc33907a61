/**
 * The output of a crawl to MySQL or MariaDB. A unique index of theirs cannot hold a whole text, so
 * that of a key lies over a column that they calculate, `_key`: the SHA-256 of the key's fields.
 */
import type { Connection, ResultSetHeader, RowDataPacket, SslOptions } from 'mysql2/promise';
import { codeOf, messageOf } from '../../../shared/errors.ts';
import type { NamedOutput } from '../../../shared/outputs.ts';
import { HeldError, type SinkKind, UnavailableError } from '../sink.ts';
import { driver, type OutputContext, tlsFault, urlOf } from './context.ts';
import { type CursorName, movedCursor } from './cursor-sink.ts';
import { type Patience, silentText } from './patience.ts';
import { type Column, type ColumnType, plainOf, type Row, wellFormedJson } from './rows.ts';
import { kindOf, lastOfEach, ownColumns, type SqlSession, type SqlWrite, sqlKind } from './sql.ts';

const connectMs = 5_000;
/** Characters of one INSERT, unless a row is longer, or the server takes less. */
const textMax = 1 << 19;
/** Bytes of a character at most. */
const characterMax = 3;
/** Which mode a server has is its operator's; the text of statements must not depend on it. */
const modes = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO';
const text = 'longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin';

const typeNames: Readonly<Record<ColumnType, string>> = {
  text,
  integer: 'bigint',
  real: 'double',
  boolean: 'tinyint(1)',
  json: 'json',
  time: 'datetime(3)',
};
/** The server's names of types that can hold ours. */
const kinds: readonly (readonly [ColumnType, RegExp])[] = [
  ['boolean', /^tinyint\(1\)/],
  ['text', /^(?:(?:long|medium|tiny)?text|varchar|char)/],
  ['integer', /^(?:bigint|int|mediumint|smallint)/],
  ['real', /^(?:double|float|decimal)/],
  ['json', /^json/],
  ['time', /^(?:datetime|timestamp)/],
];

export function mysqlKind(output: NamedOutput, context: OutputContext): SinkKind {
  return sqlKind(output, context, (_crawl, _isNew, patience) =>
    MysqlSession.open(output, context, patience),
  );
}

class MysqlSession implements SqlSession {
  readonly #connection: Connection;
  readonly #patience: Patience;
  /** Columns of time, by table: they take no RFC 3339. */
  readonly #times = new Map<string, Set<string>>();
  /** Bytes of a statement that the server takes. */
  #packetMax = Number.POSITIVE_INFINITY;

  private constructor(connection: Connection, patience: Patience) {
    this.#connection = connection;
    this.#patience = patience;
  }

  /** @throws HeldError its URL, or its driver · UnavailableError it cannot be connected to */
  static async open(
    output: NamedOutput,
    context: OutputContext,
    patience: Patience,
  ): Promise<MysqlSession> {
    const { uri, ssl } = partsOfUrl(urlOf(context, output).replace(/^mariadb:/, 'mysql:'));
    const { createConnection } = await driver('mysql2', '3.24.6', () => import('mysql2/promise'));
    // It throws at once where the URL is not to its taste.
    const connecting = (async () =>
      await createConnection({
        uri,
        ...(ssl !== undefined && { ssl }),
        connectTimeout: connectMs,
        charset: 'utf8mb4_bin',
        timezone: 'Z',
        // A row that a statement leaves as it was is none that it has changed.
        flags: ['-FOUND_ROWS'],
        multipleStatements: false,
      }))();
    // One that comes too late is closed.
    const close = () => void connecting.then((late) => late.destroy()).catch(() => {});
    const connection = await patience.timed(connecting, close, faultOf);
    // Each call reports its own error.
    (connection as unknown as NodeJS.EventEmitter).on('error', () => {});
    const session = new MysqlSession(connection, patience);
    try {
      // The default, unless the server has another: what others write while rows are counted is not
      // to be seen.
      await session.#do('SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ');
      await session.#do(`SET SESSION sql_mode = '${modes}', time_zone = '+00:00'`);
      const [server] = await session.#rows('SELECT @@max_allowed_packet AS packet', []);
      session.#packetMax = Number(server?.['packet']);
      await session.#makeCursors();
      return session;
    } catch (error) {
      await session.close();
      throw error;
    }
  }

  /** A user without the right to make tables may find it there. */
  async #makeCursors(): Promise<void> {
    try {
      await this.#do(
        'CREATE TABLE IF NOT EXISTS orbweaver_cursors (crawl varchar(64) CHARACTER SET ascii, ' +
          'sink varchar(64) CHARACTER SET ascii, seq bigint NOT NULL, ' +
          'PRIMARY KEY (crawl, sink)) ENGINE=InnoDB',
      );
    } catch (error) {
      if (!(error instanceof HeldError)) throw error;
      await this.#do('SELECT seq FROM orbweaver_cursors LIMIT 0').catch(() => {
        throw error;
      });
    }
  }

  /** A write that was given up has the cursor until it is done. */
  async cursor({ crawl, sink }: CursorName): Promise<number | undefined> {
    const [row] = await this.#rows(
      'SELECT seq FROM orbweaver_cursors WHERE crawl = ? AND sink = ? FOR UPDATE',
      [crawl, sink],
    );
    return row === undefined ? undefined : Number(row['seq']);
  }

  async setCursor({ crawl, sink }: CursorName, seq: number): Promise<void> {
    await this.#do('REPLACE INTO orbweaver_cursors VALUES (?, ?, ?)', [crawl, sink, seq]);
  }

  async columns(table: string) {
    const [schema, name] = partsOf(table);
    const where = 'table_schema = COALESCE(?, DATABASE()) AND table_name = ?';
    const [found] = await this.#rows(
      `SELECT engine AS engine FROM information_schema.tables WHERE ${where}`,
      [schema, name],
    );
    if (found === undefined) return undefined;
    const engine = String(found['engine']);
    if (!/^InnoDB$/i.test(engine)) {
      throw new HeldError(
        `its table ${table} has the engine ${engine}, which has no transactions; change that: ` +
          `ALTER TABLE ${quotedTable(table)} ENGINE=InnoDB`,
      );
    }
    const rows = await this.#rows(
      'SELECT column_name AS name, column_type AS type FROM information_schema.columns ' +
        `WHERE ${where}`,
      [schema, name],
    );
    const types = rows.map(
      (row) => [String(row['name']), kindOf(kinds, String(row['type']))] as const,
    );
    const times = types.flatMap(([column, type]) => (type === 'time' ? [column] : []));
    this.#times.set(table, new Set(times));
    return new Map(types);
  }

  async createTable(
    table: string,
    columns: readonly Column[],
    key?: readonly string[],
  ): Promise<void> {
    const all = [...ownColumns, ...columns];
    const list = all.map(({ name, type }) => `${quoted(name)} ${typeOf(name, type)}`);
    if (key !== undefined) list.push(...keyParts(key));
    await this.#do(`CREATE TABLE IF NOT EXISTS ${quotedTable(table)} (${list}) ENGINE=InnoDB`);
    const times = all.flatMap(({ name, type }) => (type === 'time' ? [name] : []));
    this.#times.set(table, new Set(times));
  }

  async addColumn(table: string, { name, type }: Column): Promise<void> {
    await this.#do(
      `ALTER TABLE ${quotedTable(table)} ADD COLUMN ${quoted(name)} ${typeOf(name, type)}`,
    );
    if (type === 'time') this.#times.get(table)?.add(name);
  }

  alterText(table: string, { name, type }: Column): string {
    return `ALTER TABLE ${quotedTable(table)} MODIFY ${quoted(name)} ${typeNames[type]}`;
  }

  async index(table: string, key: readonly string[]): Promise<void> {
    const [schema, name] = partsOf(table);
    const isThere = async () => {
      const [found] = await this.#rows(
        'SELECT generation_expression AS made FROM information_schema.columns ' +
          'WHERE table_schema = COALESCE(?, DATABASE()) ' +
          "AND table_name = ? AND column_name = '_key'",
        [schema, name],
      );
      if (found === undefined) return false;
      refuseOtherKey(table, key, String(found['made']));
      return true;
    };
    if (await isThere()) return;
    const parts = keyParts(key).map((part) => `ADD ${part}`);
    try {
      await this.#do(`ALTER TABLE ${quotedTable(table)} ${parts.join(', ')}`);
    } catch (error) {
      // Another output of the same table may have been faster.
      if (!(await isThere())) throw error;
    }
  }

  async write(write: SqlWrite): Promise<void> {
    await this.#do('START TRANSACTION');
    try {
      // First, so that another writer waits here, and finds that it has moved.
      await this.#moveCursor(write);
      const before = await this.#countRows(write);
      await this.#insert(write);
      await write.rejected(await this.#conflicts(write, before));
      await this.#do('COMMIT');
    } catch (error) {
      await this.#do('ROLLBACK').catch(() => {});
      throw error;
    }
  }

  async #insert({ table, columns, rows, key, onConflict, cursor }: SqlWrite): Promise<void> {
    const names = columns.map(({ name }) => name);
    const times = this.#times.get(table) ?? new Set();
    const list = ['_crawl', '_seq', ...names].map(quoted).join(', ');
    const into = `INSERT INTO ${quotedTable(table)} (${list}) VALUES `;
    const how = conflictText(names, key, onConflict);
    const send = async (tuples: readonly string[]) => {
      if (tuples.length === 0) return;
      const statement = `${into}${tuples.join(',')}${how}`;
      this.#refuseLong(statement);
      await this.#do(statement);
    };
    const lengthMax = Math.min(textMax, this.#packetMax / (2 * characterMax));
    const isUpdate = key !== undefined && onConflict === 'update';
    let tuples: string[] = [];
    let length = 0;
    for (const { seq, values } of isUpdate ? lastOfEach(rows, key) : rows) {
      const own = columns.map(({ name, type }) => stored(values[name], type, times.has(name)));
      const tuple = `(${this.#connection.escape([cursor.crawl, seq, ...own])})`;
      if (length + tuple.length > lengthMax) {
        await send(tuples);
        [tuples, length] = [[], 0];
      }
      tuples.push(tuple);
      length += tuple.length;
    }
    await send(tuples);
  }

  /** The server would close the connection, mostly before its reason is read. One byte of a packet
   *  is the command. */
  #refuseLong(statement: string): void {
    if (statement.length * characterMax < this.#packetMax) return;
    const bytes = Buffer.byteLength(statement) + 1;
    if (bytes <= this.#packetMax) return;
    throw new HeldError(
      `a row is a statement of ${bytes} bytes, and max_allowed_packet of the server is ` +
        `${this.#packetMax}; raise that`,
    );
  }

  /** Rows that did not come in, because their key was there. `before`: what the table had, as
   *  another output of the same crawl writes the same numbers. */
  async #conflicts(write: SqlWrite, before: RowCounts): Promise<Row[]> {
    if (!isStrict(write)) return [];
    const after = await this.#countRows(write);
    return write.rows.filter(({ seq }) => (after.get(seq) ?? 0) <= (before.get(seq) ?? 0));
  }

  /** How many rows the table has of each record of a write, if rows are to be rejected. */
  async #countRows(write: SqlWrite): Promise<RowCounts> {
    if (!isStrict(write)) return new Map();
    const { table, cursor } = write;
    const found = await this.#rows(
      `SELECT _seq AS seq FROM ${quotedTable(table)} ` +
        'WHERE _crawl = ? AND _seq > ? AND _seq <= ?',
      [cursor.crawl, cursor.from ?? 0, cursor.to],
    );
    const counts = new Map<number, number>();
    for (const row of found) {
      const seq = Number(row['seq']);
      counts.set(seq, (counts.get(seq) ?? 0) + 1);
    }
    return counts;
  }

  async #moveCursor({ cursor: { crawl, sink, from, to } }: SqlWrite): Promise<void> {
    const done =
      from === undefined
        ? await this.#do('INSERT IGNORE INTO orbweaver_cursors VALUES (?, ?, ?)', [crawl, sink, to])
        : await this.#do(
            'UPDATE orbweaver_cursors SET seq = ? WHERE crawl = ? AND sink = ? AND seq = ?',
            [to, crawl, sink, from],
          );
    if ((done as ResultSetHeader).affectedRows !== 1) throw movedCursor(from);
  }

  async check(): Promise<void> {
    await this.#do('SELECT 1');
  }

  close(): Promise<void> {
    this.#connection.destroy();
    return Promise.resolve();
  }

  async #rows(query: string, values: (string | number | null)[]): Promise<RowDataPacket[]> {
    return (await this.#do(query, values)) as RowDataPacket[];
  }

  async #do(query: string, values?: (string | number | null)[]): Promise<unknown> {
    const close = () => this.#connection.destroy();
    const work = this.#connection.query(query, values);
    const [result] = await this.#patience.timed(work, close, faultOf);
    return result;
  }
}

/** As the clients of MySQL name them: which TLS an operator demands. */
const tlsModes: Readonly<Record<string, SslOptions | undefined>> = {
  DISABLED: undefined,
  REQUIRED: { rejectUnauthorized: false },
  VERIFY_CA: { rejectUnauthorized: true },
  VERIFY_IDENTITY: { rejectUnauthorized: true, verifyIdentity: true },
};
/** The driver's own parameters of a URL, and those that the output sets itself. */
const parameters = ['ssl', 'socketPath', 'compress', 'charset', 'timezone', 'connectTimeout'];

/** The driver leaves out parameters that it does not know, so that a demand for TLS in the words of
 *  another one would end in plain text. @throws HeldError it is not a URL of MySQL */
function partsOfUrl(url: string): { readonly uri: string; readonly ssl?: SslOptions } {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined || parsed.pathname.length < 2) {
    throw new HeldError('its URL is not one of MySQL: mysql://user@host/database');
  }
  const { searchParams } = parsed;
  const mode = searchParams.get('ssl-mode')?.toUpperCase();
  if (mode !== undefined && !Object.hasOwn(tlsModes, mode)) {
    const known = Object.keys(tlsModes).join(', ');
    throw new HeldError(`the ssl-mode of its URL must be one of ${known}`);
  }
  // The driver would check the certificate of an address as if it were `localhost`.
  if (mode === 'VERIFY_IDENTITY' && /^\[|(?:^|\.)\d+$/.test(parsed.hostname)) {
    throw new HeldError('its ssl-mode VERIFY_IDENTITY needs the name of the host: give no address');
  }
  searchParams.delete('ssl-mode');
  const unknown = [...searchParams.keys()].filter((name) => !parameters.includes(name));
  if (unknown.length > 0 || !/^(?:\{.*\})?$/.test(searchParams.get('ssl') ?? '')) {
    throw new HeldError(
      `its URL has a parameter that is not known: ${unknown.join(', ') || 'ssl without {…}'}; ` +
        'leave it out (TLS is ssl-mode=VERIFY_IDENTITY, VERIFY_CA or REQUIRED)',
    );
  }
  const ssl = mode === undefined ? undefined : tlsModes[mode];
  return { uri: parsed.href, ...(ssl !== undefined && { ssl }) };
}

/** By the numbers of their records. */
type RowCounts = ReadonlyMap<number, number>;

/** Rows whose key is there are rejected. */
function isStrict({ key, onConflict }: SqlWrite): boolean {
  return key !== undefined && onConflict === 'insert';
}

type Plain = string | number | boolean | null;

/** Those of the assignments are done from left to right, and each sees the ones before it. So
 *  `_seq` and `_crawl` come last: if the row stays, its `_crawl` is that of the new one. */
function conflictText(
  names: readonly string[],
  key: readonly string[] | undefined,
  onConflict: SqlWrite['onConflict'],
): string {
  if (key === undefined) return '';
  if (onConflict !== 'update') return ' ON DUPLICATE KEY UPDATE `_seq` = `_seq`';
  const isNewer =
    'NOT (`_crawl` <=> VALUES(`_crawl`)) OR `_seq` IS NULL OR `_seq` < VALUES(`_seq`)';
  const set = [...names.filter((name) => !key.includes(name)), '_seq'].map(
    (name) => `${quoted(name)} = IF(${isNewer}, VALUES(${quoted(name)}), ${quoted(name)})`,
  );
  return ` ON DUPLICATE KEY UPDATE ${set.join(', ')}, \`_crawl\` = VALUES(\`_crawl\`)`;
}

function stored(value: unknown, type: ColumnType, isTime: boolean): Plain {
  if (type === 'json' && value !== undefined && value !== null) {
    // A column of JSON takes no text that is none.
    const json = wellFormedJson(value);
    return isDeeper(value, jsonLevelsMax) ? wellFormedJson(json) : json;
  }
  const plain = plainOf(value, type);
  if (!isTime || typeof plain !== 'string') return plain;
  // 2026-01-31T12:00:00.000Z
  return plain.replace('T', ' ').replace(/Z$/, '');
}

/** MariaDB takes JSON of at most 32 levels; a deeper value is a text with JSON in it. */
const jsonLevelsMax = 31;

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((one) => isDeeper(one, levels - 1));
}

/** Column and indexes for a key. A NULL in a key makes its `_key` NULL, and these do not
 *  collide. */
function keyParts(key: readonly string[]): readonly string[] {
  const parts = key.flatMap((field) => [`LENGTH(${quoted(field)})`, "':'", quoted(field)]);
  return [
    '`_key` char(64) CHARACTER SET ascii ' +
      `GENERATED ALWAYS AS (SHA2(CONCAT(${parts.join(', ')}), 256)) STORED`,
    'UNIQUE INDEX `_key` (`_key`)',
    'INDEX `_record` (`_crawl`, `_seq`)',
  ];
}

/** The index over `_key` is that of another output then. Each server writes the expression in its
 *  own way, with the names in their order, and not to each user. @throws HeldError */
function refuseOtherKey(table: string, key: readonly string[], made: string): void {
  const names = [...made.matchAll(/`((?:[^`]|``)+)`/g)].map(([, name = '']) => name);
  const own = new Set(names.map((name) => name.replaceAll('``', '`')));
  if (own.size === 0 || [...own].join('\n') === key.join('\n')) return;
  throw new HeldError(
    `the column _key of ${table} is made of ${[...own].join(', ')}, and the key of this output is ` +
      `${key.join(', ')}; give it that key, or another table`,
  );
}

/** An index cannot hold a text without a length. */
function typeOf(name: string, type: ColumnType): string {
  return name === '_crawl' ? 'char(32) CHARACTER SET ascii' : typeNames[type];
}

function partsOf(table: string): readonly [schema: string | null, name: string] {
  const [first = '', second] = table.split('.');
  return second === undefined ? [null, first] : [first, second];
}

function quotedTable(table: string): string {
  return table.split('.').map(quoted).join('.');
}

function quoted(name: string): string {
  return `\`${name.replaceAll('`', '``')}\``;
}

/** Errors that pass: locks, connections, log-ins, a full disk, a shutdown, a server that may only
 *  be read. Source: MySQL 8.4 and MariaDB 10.11, "Server error codes". */
const passing = new Set([
  3, 20, 1021, 1026, 1037, 1038, 1040, 1041, 1044, 1045, 1053, 1105, 1114, 1129, 1158, 1159, 1160,
  1161, 1203, 1205, 1213, 1226, 1290, 1317, 1698, 1792, 1836, 1927, 1969, 3024, 4031,
]);

/** ENOSPC or EDQUOT in an error about a file, of which there are many. */
const isFull = /\b(?:errcode|errno|error):? "?(?:28|122)\b/i;

function faultOf(error: Error): Error {
  const ofTls = tlsFault(error);
  if (ofTls !== undefined) return ofTls;
  const code = codeOf(error) ?? '';
  const number = 'errno' in error ? Number(error.errno) : 0;
  const isSilent = code === 'ETIMEDOUT';
  const said = isSilent ? silentText(connectMs) : messageOf(error) || code;
  // The driver gives each of its errors this field.
  const isAnswer = 'sqlState' in error && typeof error.sqlState === 'string';
  if (!isAnswer && /^(?:ENOSPC|EDQUOT|EROFS|EIO)$/.test(code)) return error;
  // Of the connection; anything else that has no code is a fault of our own.
  if (!isAnswer)
    return code === '' && !/clos/i.test(said) ? error : new UnavailableError(said, error);
  if (passing.has(number) || isFull.test(said)) return new UnavailableError(said, error);
  const how = number === 1049 ? 'create it' : 'put that right';
  return new HeldError(`${said}; ${how}`, error);
}
