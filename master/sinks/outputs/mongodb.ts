/**
 * The output of a crawl to MongoDB. It needs no transactions, which a single server does not have:
 * the `_id` of a document is made of the identity of the crawl and the number of the record, so that
 * one that is written again after a crash is there already. The cursor moves behind the documents.
 */
import type { AnyBulkWriteOperation, Db, Document, MongoClient } from 'mongodb';
import { codeOf, messageOf } from '../../../shared/errors.ts';
import type { NamedOutput } from '../../../shared/outputs.ts';
import { HeldError, type SinkKind, UnavailableError } from '../sink.ts';
import { driver, type OutputContext, urlOf } from './context.ts';
import {
  type CursorName,
  type CursorSession,
  type CursorStep,
  cursorKind,
  type Deliverer,
  type Delivery,
  movedCursor,
} from './cursor-sink.ts';
import type { Patience } from './patience.ts';
import { type Row, type RowSource, wellFormed } from './rows.ts';
import { lastOfEach, parted } from './sql.ts';

const connectMs = 5_000;
/** Of documents that one message takes; the server's own limit is 48 MB. */
const batchRows = 1_000;
type Stored = Document & { readonly _id: string };

export function mongodbKind(output: NamedOutput, context: OutputContext): SinkKind {
  return cursorKind<MongoSession>(output, context, {
    cursorPlace: 'the collection orbweaver_cursors',
    connect: (_crawl, _isNew, patience) => MongoSession.open(output, context, patience),
    deliverer: (source) => new MongoDeliverer(source, output),
  });
}

class MongoDeliverer implements Deliverer<MongoSession> {
  readonly #source: RowSource;
  readonly #output: NamedOutput;
  #hasIndex = false;

  constructor(source: RowSource, output: NamedOutput) {
    this.#source = source;
    this.#output = output;
  }

  async deliver({ session, rows, cursor, reject }: Delivery<MongoSession>): Promise<void> {
    const { table = this.#source.name, key, onConflict = 'insert' } = this.#output;
    const times = this.#source.columns.flatMap(({ name, type }) => (type === 'time' ? [name] : []));
    const documentOf = (row: Row) => storedOf(row, cursor, times);
    if (key === undefined) {
      const taken = await session.insert(table, rows.map(documentOf));
      if (taken.length > 0) {
        throw new HeldError(
          `the collection ${table} has an index of its own that ${taken.length} documents break; ` +
            'drop that index, or name another collection',
        );
      }
    } else {
      if (!this.#hasIndex) await session.index(table, key.map(fieldName));
      this.#hasIndex = true;
      const { whole, keyless } = parted(rows, key);
      let conflicts: readonly Row[] = [];
      if (onConflict === 'update') {
        await session.update(table, key.map(fieldName), lastOfEach(whole, key).map(documentOf));
      } else {
        const taken = new Set(await session.insert(table, whole.map(documentOf)));
        if (onConflict === 'insert')
          conflicts = whole.filter((row) => taken.has(idOf(row, cursor)));
      }
      await reject(keyless, 'a key field is missing');
      await reject(conflicts, 'its key is there already');
    }
    await session.move(cursor);
  }

  lost(): void {
    this.#hasIndex = false;
  }
}

class MongoSession implements CursorSession {
  readonly #client: MongoClient;
  readonly #db: Db;
  readonly #patience: Patience;

  private constructor(client: MongoClient, patience: Patience) {
    this.#client = client;
    this.#db = client.db();
    this.#patience = patience;
  }

  /** @throws HeldError its URL, or its driver · UnavailableError it cannot be connected to */
  static async open(
    output: NamedOutput,
    context: OutputContext,
    patience: Patience,
  ): Promise<MongoSession> {
    const url = urlOf(context, output);
    if (!/^mongodb(?:\+srv)?:\/\/[^/]+\/[^/?]+/.test(url)) {
      throw new HeldError('its URL is not one of MongoDB: mongodb://user@host/database');
    }
    const { MongoClient } = await driver('mongodb', '7.9.0', () => import('mongodb'));
    let client: MongoClient;
    try {
      client = new MongoClient(url, {
        appName: 'orbweaver',
        maxPoolSize: 1,
        serverSelectionTimeoutMS: connectMs,
        connectTimeoutMS: connectMs,
        ignoreUndefined: true,
        writeConcern: { w: 'majority', journal: true },
        readConcern: { level: 'majority' },
      });
    } catch (error) {
      // Its message could repeat the URL.
      throw new HeldError('its URL is not one of MongoDB: mongodb://user@host/database', error);
    }
    const session = new MongoSession(client, patience);
    try {
      await session.#do(client.connect());
      return session;
    } catch (error) {
      await session.close();
      throw error;
    }
  }

  async cursor(of: CursorName): Promise<number | undefined> {
    const found = await this.#do(this.#cursors.findOne({ _id: cursorId(of) }));
    return found === null ? undefined : Number(found['seq']);
  }

  async setCursor(of: CursorName, seq: number): Promise<void> {
    const set = { $set: { seq } };
    await this.#do(this.#cursors.updateOne({ _id: cursorId(of) }, set, { upsert: true }));
  }

  /** @throws HeldError the cursor is not `from` */
  async move(step: CursorStep): Promise<void> {
    const { from, to } = step;
    const _id = cursorId(step);
    if (from === undefined) {
      try {
        await this.#do(this.#cursors.insertOne({ _id, seq: to }));
      } catch (error) {
        throw isDuplicate(error) ? movedCursor(from) : error;
      }
      return;
    }
    const moved = this.#cursors.updateOne({ _id, seq: from }, { $set: { seq: to } });
    if ((await this.#do(moved)).matchedCount !== 1) throw movedCursor(from);
  }

  /** Returns the ids of those that an index has refused; one that is there already is none of
   *  them. */
  async insert(table: string, documents: readonly Stored[]): Promise<string[]> {
    const refused: string[] = [];
    const at = this.#db.collection<Stored>(table);
    for (let i = 0; i < documents.length; i += batchRows) {
      const some = documents.slice(i, i + batchRows);
      const operations = some.map((document) => ({ insertOne: { document } }));
      for (const index of await this.#bulk(table, operations)) {
        refused.push(some[index]?._id ?? '');
      }
    }
    if (refused.length === 0) return [];
    const found = at.find({ _id: { $in: refused } }, { projection: { _id: 1 } }).toArray();
    const there = new Set((await this.#do(found)).map(({ _id }) => _id));
    return refused.filter((id) => !there.has(id));
  }

  /** Those with the same key, unless a later one is there. */
  async update(table: string, key: readonly string[], documents: readonly Stored[]): Promise<void> {
    for (let i = 0; i < documents.length; i += batchRows) {
      const operations = documents.slice(i, i + batchRows).map(({ _id, ...fields }) => ({
        updateOne: {
          filter: {
            // A value from a page must not be read as an operator.
            ...Object.fromEntries(key.map((name) => [name, { $eq: fields[name] }])),
            $or: [
              { _crawl: { $ne: fields['_crawl'] } },
              { _seq: { $lt: fields['_seq'] } },
              { _seq: null },
            ],
          },
          update: { $set: fields, $setOnInsert: { _id } },
          upsert: true,
        },
      }));
      // Refused: a later one is there.
      await this.#bulk(table, operations);
    }
  }

  async index(table: string, key: readonly string[]): Promise<void> {
    const fields = Object.fromEntries(key.map((name) => [name, 1 as const]));
    await this.#do(this.#db.collection(table).createIndex(fields, { unique: true }));
  }

  async check(): Promise<void> {
    await this.#do(this.#db.command({ ping: 1 }));
  }

  async close(): Promise<void> {
    await this.#client.close().catch(() => {});
  }

  get #cursors() {
    return this.#db.collection<Stored>('orbweaver_cursors');
  }

  /** Does all that can be done. Returns the places of those that a unique index has refused. */
  async #bulk(table: string, operations: AnyBulkWriteOperation<Stored>[]): Promise<number[]> {
    if (operations.length === 0) return [];
    const at = this.#db.collection<Stored>(table);
    try {
      await this.#do(at.bulkWrite(operations, { ordered: false }));
      return [];
    } catch (error) {
      const errors = refusalsOf(error);
      if (errors === undefined) throw error;
      return errors;
    }
  }

  async #do<T>(work: Promise<T>): Promise<T> {
    return await this.#patience.timed(work, () => void this.close(), faultOf);
  }
}

function cursorId({ crawl, sink }: CursorName): string {
  return `${crawl}:${sink}`;
}

function idOf({ seq }: Row, { crawl }: CursorName): string {
  return `${crawl}-${seq}`;
}

function storedOf(row: Row, cursor: CursorName, times: readonly string[]): Stored {
  const stored: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(row.values)) {
    const isTime = times.includes(name) && typeof value === 'string';
    stored[fieldName(name)] = isTime ? new Date(value) : plainTexts(value);
  }
  return { ...stored, _id: idOf(row, cursor), _crawl: cursor.crawl, _seq: row.seq };
}

/** A name with a point would be one inside another; one with a dollar an operator. */
function fieldName(name: string): string {
  return name.replaceAll('.', '_').replace(/^\$/, '_');
}

/** Text without half characters, names without NUL. */
function plainTexts(value: unknown): unknown {
  if (typeof value === 'string') return wellFormed(value);
  if (Array.isArray(value)) return value.map(plainTexts);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, of]) => [wellFormed(fieldName(name)), plainTexts(of)]),
  );
}

const duplicateKey = 11000;

function isDuplicate(error: unknown): boolean {
  const cause = error instanceof HeldError ? error.cause : error;
  return codeOf(cause) === String(duplicateKey);
}

/** Of a write where nothing else went wrong. */
function refusalsOf(error: unknown): number[] | undefined {
  const cause = error instanceof HeldError ? error.cause : error;
  if (!(cause instanceof Error) || !('writeErrors' in cause)) return undefined;
  const errors = [cause.writeErrors].flat() as { code?: number; index?: number }[];
  if (errors.length === 0 || errors.some(({ code }) => code !== duplicateKey)) return undefined;
  return errors.map(({ index }) => index ?? 0);
}

/** Codes that pass: log-ins, time limits, a primary that steps down, a shutdown, a full disk.
 *  Source: mongodb.com/docs, "Error Codes". */
const passing = new Set([
  6, 7, 13, 18, 24, 50, 64, 89, 91, 112, 189, 262, 8000, 9001, 10058, 10107, 11600, 11602, 13388,
  13435, 13436, 14031,
]);

function faultOf(thrown: Error): Error {
  if (!thrown.name.startsWith('Mongo')) return thrown;
  const error = withoutBulk(thrown);
  const text = messageOf(error);
  const isAnswer = /^Mongo(?:Server|BulkWrite)Error$/.test(error.name);
  const code = Number(codeOf(error) ?? 0);
  if (!isAnswer || passing.has(code)) return new UnavailableError(text, error);
  return new HeldError(`${text}; put that right`, error);
}

/** The driver puts what ends a bulk write, as a lost connection, into an error of an answer. */
function withoutBulk(error: Error): Error {
  const inner = 'errorResponse' in error ? error.errorResponse : undefined;
  return inner instanceof Error ? inner : error;
}
