/**
 * Shared by the outputs to databases. The rows of a write and the number of its last record are
 * one step of the database, so that a crash on either side loses nothing and writes nothing twice.
 * That number wins over the one that the master has recorded:
 *
 *     the database is ahead    the master died before its own record: what it has is left out
 *     it is behind             it was set back, or is another one: the crawl is held
 *     ahead of all records     the master was set back: the crawl is held (`KnownRecords`)
 *     it moves in between      a write that was given up, or one of a master that was killed, has
 *                              waited for a lock and came late: what it has is left out
 */
import { basename, dirname, join } from 'node:path';
import type { NamedOutput } from '../../../shared/outputs.ts';
import type { Section } from '../../store/result-rows.ts';
import { HeldError, type Sink, type SinkCrawl, type SinkKind, UnavailableError } from '../sink.ts';
import { type OutputContext, pathOf } from './context.ts';
import { hastyMs, LateError, Patience } from './patience.ts';
import { Rejects, type RejectsMark } from './rejects.ts';
import { type Row, RowSource } from './rows.ts';

/** The mark: number of the last record that the target has, and its file of rejected rows. */
type CursorMark = { readonly seq: number; readonly rejects?: RejectsMark };

/** Whose cursor it is. */
export type CursorName = { readonly crawl: string; readonly sink: string };
/** `from`: what it has to be before; undefined: there is none yet. */
export type CursorStep = CursorName & { readonly from: number | undefined; readonly to: number };

/** A connection to a database. All throw HeldError and UnavailableError. */
export interface CursorSession {
  cursor(of: CursorName): Promise<number | undefined>;
  /** Sets it, whatever it was. */
  setCursor(of: CursorName, seq: number): Promise<void>;
  /** Is it still the target that it was opened for? */
  check(): Promise<void>;
  close(): Promise<void>;
}

/** Rows of a crawl on their way into a database. */
export type Delivery<S> = {
  readonly session: S;
  /** At least one. */
  readonly rows: readonly Row[];
  readonly cursor: CursorStep;
  /** To be called with the rows that it does not take, before the rows are committed. */
  readonly reject: (rows: readonly Row[], reason: string) => Promise<void>;
  /** Forgets the rows that were rejected: all is done again. */
  readonly unreject: () => Promise<void>;
};

/** How the rows of one crawl are written. */
export interface Deliverer<S> {
  /** In one step, or not at all. @throws HeldError the cursor is not `from` · UnavailableError */
  deliver(delivery: Delivery<S>): Promise<void>;
  /** Makes the target before the first row: there may be none. @throws as `deliver` */
  begin?(session: S): Promise<void>;
  /** The connection was lost: the target may be another one. */
  lost(): void;
}

type CursorTarget<S> = {
  /** Where its cursor is, in messages. */
  readonly cursorPlace: string;
  /** `isNew`: there may be no target yet. */
  connect(crawl: string, isNew: boolean, patience: Patience): Promise<S>;
  deliverer(source: RowSource): Deliverer<S>;
};

export function cursorKind<S extends CursorSession>(
  output: NamedOutput,
  context: OutputContext,
  target: CursorTarget<S>,
): SinkKind {
  const patience = new Patience();
  const records = new KnownRecords();
  const markOf = (mark: unknown) => mark as CursorMark | undefined;
  const rejectsOf = (crawl: string) =>
    join(
      dirname(pathOf(context, crawl, { ...output, target: 'x' })),
      `rejected-${output.name}.jsonl`,
    );
  return {
    name: output.name,
    async prepare(crawl) {
      // An operator waits for it.
      await (await target.connect(crawl, true, new Patience(hastyMs))).close();
    },
    async open(crawl, mark) {
      const path = rejectsOf(crawl.name);
      const all = { crawl, output, target, path, patience, records };
      return await CursorSink.open(all, markOf(mark));
    },
    async beginAnew(crawl, mark) {
      const before = markOf(mark);
      if (before === undefined) return { mark, begun: [] };
      const rejected = await Rejects.beginAnew(rejectsOf(crawl.name), before.rejects);
      const after: CursorMark = rejected === undefined ? before : { seq: before.seq };
      const begun = rejected === undefined ? [] : [rejected];
      const session = await target.connect(crawl.name, true, patience);
      try {
        const cursor = cursorName(crawl, output);
        const { seq: written } = before;
        const found = (await session.cursor(cursor)) ?? 0;
        if (found === written) return { mark: after, begun };
        await session.setCursor(cursor, written);
        const file = `${output.name} (${output.target})`;
        const records = { written, found };
        begun.push({ file, bytes: 0, lines: undefined, movedTo: undefined, records });
        return { mark: after, begun };
      } finally {
        await session.close();
      }
    },
    isTaken: () => Promise.resolve(false),
    rename: () => Promise.resolve(),
    // The rows in a database belong to the operator.
    async remove({ name }, mark) {
      const file = await Rejects.remove(rejectsOf(name), markOf(mark)?.rejects);
      return { deleted: file ? [basename(rejectsOf(name))] : [], kept: [] };
    },
    hurry: () => patience.hurry(),
    hasten: (isHasty) => patience.hasten(isHasty),
    silentMs: () => patience.silentMs,
  };
}

/**
 * The records that a database can have of a crawl. Until this master has been connected to it, that
 * is those from before its first try: if it had been set back, the crawl would go on while the
 * database is away, and give the numbers that the database has to other records.
 */
class KnownRecords {
  #beforeFirst: number | undefined;
  #isConnected = false;

  /** To be called before each connection. */
  look({ lastRecord }: SinkCrawl): void {
    this.#beforeFirst ??= lastRecord;
  }

  connected(): void {
    this.#isConnected = true;
  }

  /** Number of the last one from before its first try, 0 if it is not known. */
  get beforeFirst(): number {
    return this.#beforeFirst ?? 0;
  }

  /** Number of the last one; undefined: not known. */
  last({ lastRecord }: SinkCrawl): number | undefined {
    return this.#isConnected ? lastRecord : this.#beforeFirst;
  }
}

function cursorName({ uid }: SinkCrawl, { name }: NamedOutput): CursorName {
  return { crawl: Buffer.from(uid).toString('hex'), sink: name };
}

type SinkTarget<S> = {
  readonly crawl: SinkCrawl;
  readonly output: NamedOutput;
  readonly target: CursorTarget<S>;
  /** Of the rejected rows. */
  readonly path: string;
  readonly patience: Patience;
  readonly records: KnownRecords;
};

class CursorSink<S extends CursorSession> implements Sink {
  readonly cutBytes = 0;
  readonly #target: SinkTarget<S>;
  readonly #source: RowSource;
  readonly #deliverer: Deliverer<S>;
  readonly #rejects: Rejects;
  /** Undefined: the connection was lost, and is made again. */
  #session: S | undefined;
  #mark: CursorMark | undefined;
  /** The number in the database. */
  #seq: number | undefined;
  /** Number of the last record that a write without an answer had. */
  #unanswered = 0;

  private constructor(target: SinkTarget<S>, mark: CursorMark | undefined) {
    this.#target = target;
    this.#mark = mark;
    this.#rejects = new Rejects(target.path);
    this.#source = new RowSource(target.crawl, target.output);
    this.#deliverer = target.target.deliverer(this.#source);
  }

  static async open<S extends CursorSession>(
    target: SinkTarget<S>,
    mark: CursorMark | undefined,
  ): Promise<CursorSink<S>> {
    const sink = new CursorSink(target, mark);
    try {
      const { session, isAhead } = await sink.#connect();
      if (sink.#seq === undefined) await sink.#deliverer.begin?.(session);
      await sink.#rejects.open(mark?.rejects, isAhead);
      return sink;
    } catch (error) {
      await sink.close();
      throw error;
    }
  }

  /** A server may close a connection that is idle, which the first write after that finds: it is
   *  done again at once, over a new one. */
  async write(records: readonly Section[]): Promise<CursorMark | undefined> {
    const isOld = this.#session !== undefined;
    try {
      return await this.#write(records);
    } catch (error) {
      const isLost = error instanceof UnavailableError && !(error instanceof LateError);
      if (!isOld || !isLost || this.#session !== undefined) throw error;
      return await this.#write(records);
    }
  }

  async #write(records: readonly Section[]): Promise<CursorMark | undefined> {
    const session = this.#session ?? (await this.#reconnect());
    const from = this.#seq;
    const rows = this.#source.rowsOf(records).filter(({ seq }) => seq > (from ?? 0));
    const last = rows.at(-1);
    if (last === undefined) {
      try {
        await session.check();
      } catch (error) {
        await this.#lost();
        throw error;
      }
      // Rows that the database has already count from now on.
      return from !== undefined && from > (this.#mark?.seq ?? 0) ? this.#has(from) : this.#mark;
    }
    try {
      await this.#deliverer.deliver({
        session,
        rows,
        cursor: { ...cursorName(this.#target.crawl, this.#target.output), from, to: last.seq },
        reject: (some, reason) => this.#rejects.append(some.map((row) => ({ row, reason }))),
        unreject: () => this.#rejects.undo(),
      });
    } catch (error) {
      const late = error instanceof MovedCursor ? await this.#late(session) : undefined;
      if (late === undefined) {
        this.#unanswered = Math.max(this.#unanswered, last.seq);
        await this.#lost();
        throw error;
      }
      await this.#rejects.settle(late);
      this.#has(late);
      return await this.write(records);
    }
    return this.#has(last.seq);
  }

  /** Where a late write of our own has left the cursor; undefined: it was somebody else. A copy of
   *  the data folder has the same records as we up to where this master began. */
  async #late(session: S): Promise<number | undefined> {
    const { crawl, output, records } = this.#target;
    const seq = await session.cursor(cursorName(crawl, output)).catch(() => undefined);
    if (seq === undefined || seq <= (this.#seq ?? 0)) return undefined;
    return seq <= Math.max(this.#unanswered, records.beforeFirst) ? seq : undefined;
  }

  /** It has all up to this record, and so has the file of rejected rows. */
  #has(seq: number): CursorMark {
    const rejects = this.#rejects.accept();
    this.#seq = seq;
    this.#mark = { seq, ...(rejects && { rejects }) };
    return this.#mark;
  }

  /** A write may have been committed although its answer was lost. */
  async #reconnect(): Promise<S> {
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

  async #lost(): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    this.#deliverer.lost();
    await session?.close();
  }

  /** @throws HeldError the database was set back · UnavailableError */
  async #connect(): Promise<{ session: S; isAhead: boolean }> {
    const { crawl, output, target, patience, records } = this.#target;
    records.look(crawl);
    const written = this.#mark?.seq;
    const session = await target.connect(crawl.name, written === undefined, patience);
    try {
      const seq = await session.cursor(cursorName(crawl, output));
      const isBack = written !== undefined && (seq ?? 0) < written;
      if (isBack) {
        throw new HeldError(
          `its cursor in ${target.cursorPlace} is ${seq ?? 'missing'}, but ${written} was ` +
            'written: the database was set back, or is another one; put it back (--new-files ' +
            'goes on without the rows in between)',
        );
      }
      const lastRecord = records.last(crawl);
      if (lastRecord !== undefined && (seq ?? 0) > lastRecord) {
        throw new HeldError(
          `its cursor in ${target.cursorPlace} is ${seq}, but this crawl had ${lastRecord} ` +
            "records: the master's data folder was set back; write to another table or database, " +
            `or give the output up: sinks ${crawl.name} --drop ${output.name}`,
        );
      }
      records.connected();
      this.#session = session;
      this.#seq = seq;
      return { session, isAhead: (seq ?? 0) > (written ?? 0) };
    } catch (error) {
      await session.close();
      throw error;
    }
  }
}

/** Somebody has moved the cursor since it was read. */
export class MovedCursor extends HeldError {}

export function movedCursor(from: number | undefined, place = 'orbweaver_cursors'): MovedCursor {
  return new MovedCursor(
    `its cursor in ${place} is not ${from ?? 'missing'} any more: the database was set back, or ` +
      'another program writes to it; put it back, or stop that program (--new-files goes on ' +
      'without the rows in between)',
  );
}
