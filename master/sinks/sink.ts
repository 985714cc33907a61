/**
 * The seam between the result queue and the targets of records. Every sink passes the contract
 * suite in test/sinks; `sinks.ts` lists them.
 *
 * A crawl has a sink of each kind and one for each output, each with a cursor of its own. The
 * result queue puts the cursor on record in the transaction that deletes the rows which all sinks
 * have. A crash before that leaves a target that is ahead of its cursor, and `open` makes it agree.
 */
import { ConfigError } from '../../shared/errors.ts';
import type { ItemRules } from '../../shared/items.ts';
import type { Output } from '../../shared/outputs.ts';
import type { Part } from '../store/parts.ts';
import type { Section } from '../store/result-rows.ts';

/** A crawl, as its sinks see it. */
export type SinkCrawl = {
  readonly name: string;
  /** 16 bytes that no other crawl has. With the number of a record they name it for ever. */
  readonly uid: Uint8Array;
  /** It has items. */
  readonly hasRules?: boolean;
  readonly spec?: {
    readonly outputs?: readonly Output[] | undefined;
    readonly everyMs?: number | undefined;
    readonly fetch?: {
      readonly items?: ItemRules | undefined;
      readonly download?: unknown;
    };
  };
  /** Number of its last record; undefined: not known. */
  readonly lastRecord?: number;
};

/** A target that is begun anew, and what the one before it had. */
export type BegunFile = {
  readonly file: string;
  readonly bytes: number;
  /** Undefined: not counted. */
  readonly lines: number | undefined;
  /** New path of the file that was there. */
  readonly movedTo: string | undefined;
  /** Of a database, which goes on behind a gap: numbers of the last record that was written, and of
   *  the last one that it has, 0 for none. */
  readonly records?: { readonly written: number; readonly found: number };
};

/** The outcome of a resume. */
export type Resumed = { readonly begun: readonly BegunFile[]; readonly cutBytes: number };

/** The targets of a removed crawl that were deleted or kept, by the names of files or tables. */
export type Deleted = {
  readonly deleted: readonly string[];
  /** Not as the sink left them, so they were left alone. */
  readonly kept: readonly string[];
};

/** A target that was closed, and its name from now on. */
export type ClosedTarget = {
  readonly file: string;
  readonly as: string;
  readonly bytes: number;
  /** Undefined: not counted. */
  readonly lines: number | undefined;
};

/** How a sink closes its targets under a date, so that new ones begin. */
export interface Rotation {
  /** The date, later than `after`, under which the targets can be closed; undefined: they are
   *  empty. `isOver`: nothing more is written to them, so they may have been moved away. `isExact`:
   *  nothing may stand behind the mark; otherwise it is cut.
   *  @throws HeldError a target is not what was left · ConfigError it cannot be used */
  plan(
    crawl: SinkCrawl,
    mark: unknown,
    how: {
      readonly after: string | undefined;
      readonly isOver: boolean;
      readonly isExact: boolean;
    },
  ): Promise<string | undefined>;
  /** Gives the targets the names of that date, durably. Called again after a crash. `mark` and
   *  `part` say what was closed, also where a `fault` kept it from closing the others.
   *  @throws ConfigError the disk fails */
  close(
    crawl: SinkCrawl,
    mark: unknown,
    date: string,
  ): Promise<{
    readonly mark: unknown;
    readonly part: unknown;
    readonly closed: readonly ClosedTarget[];
    readonly fault: ConfigError | undefined;
  }>;
}

/** Puts a mark on record in the middle of a write that takes long: the next write may begin behind
 *  it. */
export type Progress = (mark: unknown) => Promise<void>;

export interface Sink {
  /** Writes records in their order, durably. Returns its mark: a plain value that tells `open` of
   *  its kind where it stands now. After an error the mark is that of before, or of `progress`.
   *  @throws HeldError its target is not what it left: nothing is tried before the operator acts ·
   *  UnavailableError: it is tried again · any other error ends the master */
  write(records: readonly Section[], progress?: Progress): Promise<unknown>;
  /** Checks that the target is as it left it. @throws as `write` */
  check(): Promise<void>;
  close(): Promise<void>;
  /** Of a sink that gathers what it is given: number of the last record that is durable, while it
   *  has others. Undefined: all that it was given is. The rows of the others stay in the store. */
  readonly reached?: number | undefined;
  /** Makes durable what it has gathered. Returns its mark. @throws as `write` */
  finish?(progress?: Progress): Promise<unknown>;
  /** Of a patient kind: ends a write, which throws InterruptedError. */
  interrupt?(): void;
  /** Bytes that stood behind its mark when it was opened, and were cut. */
  readonly cutBytes: number;
}

export interface SinkKind {
  /** Of its cursors in the store: lower-case letters; of an output, digits and dashes, too. */
  readonly name: string;
  /** A write waits for a program, which may take any time. It is interrupted when something else is
   *  to be done with the sink. */
  readonly isPatient?: true;
  /** Somebody looks at each record as it comes: rows wait for few others. */
  readonly isPrompt?: true;
  /** Has this crawl such a sink? `mark`: where it stands. Absent: every crawl has one. */
  isWanted?(crawl: SinkCrawl, mark: unknown): boolean;
  /** Called before a crawl is made.
   *  @throws ConfigError its target would overwrite another one, or cannot be written */
  prepare(crawl: string): Promise<void>;
  /** Makes the target agree with the mark; undefined: nothing was written.
   *  @throws HeldError it is not what was left; it stays as it is · ConfigError it cannot be used
   *  */
  open(crawl: SinkCrawl, mark: unknown): Promise<Sink>;
  /** Makes room for a new target where the old one has changed. The old one is moved
   *  aside, nothing is removed. Returns the mark to go on with. @throws as `open` */
  beginAnew(crawl: SinkCrawl, mark: unknown): Promise<{ mark: unknown; begun: BegunFile[] }>;
  /** Has this name a target already? */
  isTaken(crawl: string): Promise<boolean>;
  /** Gives the target of a crawl, which is closed, the name of another one that has none. Called
   *  again after a crash: `isAgain`. @throws ConfigError it cannot; the target is as it was */
  rename(from: string, to: string, isAgain: boolean): Promise<void>;
  /** Deletes the targets of a crawl, which are closed: those that its sinks made, and nothing else.
   *  `parts`: those that a rotation has closed. Called again after a crash.
   *  @throws ConfigError one of them cannot be deleted */
  remove(crawl: SinkCrawl, mark: unknown, parts: readonly Part[]): Promise<Deleted>;
  /** Undefined: its targets cannot be closed under a date. */
  readonly rotation?: Rotation;
  /** The master ends: what waits for a server fails within some seconds, as unavailable. */
  hurry?(): void;
  /** The same while an operator waits; `false`: none does any more. */
  hasten?(isHasty: boolean): void;
  /** For how many ms a server has owed an answer; undefined: it owes none. */
  silentMs?(): number | undefined;
}

/** The target of a sink is not as it left it: its crawl is held until the operator acts. The
 *  message says which target, and what to do. */
export class HeldError extends ConfigError {}

/** The target cannot be written for now: a database that is away, a quota. It is tried again. */
export class UnavailableError extends ConfigError {}

/** Something else is to be done with the sink before this write is over: it is begun again. */
export class InterruptedError extends ConfigError {}
