/**
 * A result queue over a store in memory, with sinks that can be slow, full, away or cut off in the
 * middle: for the contract that every sink keeps. Time moves when the test waits for something.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mock, type TestContext } from 'node:test';
import { ResultQueue, type ResultQueueOptions } from '../../master/sinks/result-queue.ts';
import { HeldError, type Progress, type Sink, type SinkKind } from '../../master/sinks/sink.ts';
import { GroupCommit } from '../../master/store/group-commit.ts';
import { MemoryStore } from '../../master/store/memory.ts';
import { commitKey, crawlKey } from '../../master/store/records.ts';
import { ResultRow, type Section } from '../../master/store/result-rows.ts';

/** A crawl of which only the results are looked at. */
class RigCrawl {
  readonly id = 1;
  readonly name = 'default';
  readonly uid: Buffer<ArrayBuffer>;
  /** Of all crawls of a database, each test has its own. */
  constructor(uid = Buffer.alloc(16, 9)) {
    this.uid = uid;
  }
  state = 'running';
  isOpen = true;
  /** Waiting rows are written at once. */
  isFetched = true;
  unwritten = 0;
  lastRecord = 0;
  readonly open = {
    record: (rows: number) => {
      this.unwritten += rows;
    },
    written: (rows: number) => {
      this.unwritten -= rows;
    },
  };
}

/** Faults that a test may give a sink before each of its writes. */
type Fault = (kind: string) => void | Promise<void>;
/** Thrown by a fault behind the write: the process dies there. */
export class Crash extends Error {}

/** `isReal`: time goes by itself, for servers that have their own. */
type Options = Partial<ResultQueueOptions<RigCrawl>> & { readonly isReal?: boolean };

export class SinkRig {
  readonly store = new MemoryStore();
  readonly #uid: Buffer<ArrayBuffer>;
  crawl: RigCrawl;
  queue: ResultQueue<RigCrawl>;
  /** Before a write, and behind it, before its cursor is on record. */
  before: Fault = () => {};
  behind: Fault = () => {};
  readonly held: string[] = [];
  readonly said: string[] = [];
  readonly dropped: number[] = [];
  errors: unknown[] = [];
  readonly #kinds: readonly SinkKind[];
  readonly #options: Options;
  readonly #opened: Sink[] = [];
  #commits: GroupCommit;
  #commit = 0;
  #record = 1;

  constructor(test: TestContext, kinds: readonly SinkKind[], options: Options = {}) {
    // Several in one test share its clock.
    mock.timers.reset();
    if (!options.isReal) mock.timers.enable({ apis: ['setTimeout'] });
    test.after(async () => {
      mock.timers.reset();
      await this.#closeAll();
    });
    this.#kinds = kinds.map((kind) => this.#faulty(kind));
    this.#options = options;
    this.#uid = Buffer.from(options.isReal ? randomBytes(16) : Buffer.alloc(16, 9));
    this.crawl = new RigCrawl(this.#uid);
    [this.#commits, this.queue] = this.#make();
  }

  /** One row with a page of these URLs each, as a commit would leave it. */
  async offer(...urls: readonly string[]): Promise<void> {
    const row = new ResultRow();
    for (const url of urls) row.add('other', { url, depth: 0, at: 0 });
    const sealed = row.seal(this.#record);
    this.#record += urls.length;
    this.crawl.lastRecord = this.#record - 1;
    const commit = ++this.#commit;
    await this.store.commit([{ table: 'results', key: commitKey(1, commit), value: sealed.bytes }]);
    this.queue.offer(this.crawl, commit, sealed);
  }

  /** Rows in the store. */
  get rows(): number {
    return this.store.range('results', { from: crawlKey(1), to: crawlKey(2) }).length;
  }

  /** Lets time pass until it is so. */
  async until(isSo: () => boolean, stepMs = 50): Promise<void> {
    const giveUpAt = performance.now() + 30_000;
    while (!isSo() && performance.now() < giveUpAt) {
      if (this.#options.isReal) await new Promise((resolve) => setTimeout(resolve, 1));
      else {
        mock.timers.tick(stepMs);
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    assert.ok(isSo(), 'it never comes to that');
  }

  async settle(): Promise<void> {
    let turns = 0;
    await this.until(() => turns++ > 200);
  }

  /** The process dies and starts again. */
  async restart(): Promise<void> {
    await this.#closeAll();
    this.crawl = new RigCrawl(this.#uid);
    this.crawl.lastRecord = this.#record - 1;
    this.errors = [];
    [this.#commits, this.queue] = this.#make();
    await this.#passing(this.queue.restore(this.crawl));
  }

  async close(): Promise<void> {
    await this.#passing(this.queue.close());
    await this.#passing(this.#commits.flushed());
  }

  /** Waits for something that needs time to pass. */
  async #passing(promise: Promise<unknown>): Promise<void> {
    let isOver = false;
    const over = promise.finally(() => {
      isOver = true;
    });
    over.catch(() => {});
    await this.until(() => isOver);
    await promise;
  }

  async resume(newFiles = false) {
    const resumed = this.queue.resume(this.crawl, newFiles);
    await this.#passing(resumed);
    return await resumed;
  }

  /** The kernel closes the files that a process leaves open. */
  async #closeAll(): Promise<void> {
    for (const sink of this.#opened.splice(0)) await sink.close();
  }

  #make(): [GroupCommit, ResultQueue<RigCrawl>] {
    const onError = (error: unknown) => this.errors.push(error);
    const commits = new GroupCommit({ store: this.store, everyMs: 0, onError });
    const queue = new ResultQueue<RigCrawl>({
      store: this.store,
      commits,
      sinks: this.#kinds,
      folder: '',
      waitingBytesMax: () => 1 << 20,
      events: {
        written: () => {},
        held: (_crawl, reason) => this.held.push(reason),
        released: () => this.said.push('released'),
        unavailable: (_crawl, sink) => this.said.push(`${sink} away`),
        available: (_crawl, sink) => this.said.push(`${sink} back`),
        left: (_crawl, sink) => this.said.push(`${sink} left`),
        missed: (_crawl, sink) => this.said.push(`${sink} missed`),
        dropped: (_crawl, records) => this.dropped.push(records),
      },
      onError,
      ...this.#options,
    });
    return [commits, queue];
  }

  #faulty(kind: SinkKind): SinkKind {
    return {
      name: kind.name,
      prepare: (crawl) => kind.prepare(crawl),
      beginAnew: (crawl, mark) => kind.beginAnew(crawl, mark),
      remove: (crawl, mark, parts) => kind.remove(crawl, mark, parts),
      ...(kind.rotation !== undefined && { rotation: kind.rotation }),
      isTaken: (crawl) => kind.isTaken(crawl),
      rename: (from, to, isAgain) => kind.rename(from, to, isAgain),
      open: async (crawl, mark) => {
        const sink = await kind.open(crawl, mark);
        this.#opened.push(sink);
        const write = async (records: readonly Section[], progress?: Progress) => {
          await this.before(kind.name);
          const next = await sink.write(records, progress);
          if (sink.reached === undefined) await this.behind(kind.name);
          return next;
        };
        // Gathered rows are written here.
        const finish = async (progress?: Progress) => {
          const next = await sink.finish?.(progress);
          await this.behind(kind.name);
          return next;
        };
        return {
          write,
          finish,
          check: () => sink.check(),
          close: () => sink.close(),
          cutBytes: sink.cutBytes,
          get reached() {
            return sink.reached;
          },
        };
      },
    };
  }
}

/** A sink whose target is an array. */
export class ArrayKind implements SinkKind {
  readonly name: string;
  /** Undefined: it is gone. */
  target: Section[] | undefined = [];

  constructor(name = 'array') {
    this.name = name;
  }

  async prepare(): Promise<void> {}

  async open(_crawl: unknown, mark: unknown): Promise<Sink> {
    const { target } = this;
    const count = Number(mark ?? 0);
    if (target === undefined || target.length < count) throw new HeldError('the array is gone');
    const cutBytes = target.length - count;
    target.length = count;
    return {
      cutBytes,
      write: async (records) => {
        if (this.target !== target) throw new HeldError('the array is gone');
        target.push(...records);
        return target.length;
      },
      check: async () => {
        if (this.target !== target) throw new HeldError('the array is gone');
      },
      close: async () => {},
    };
  }

  async beginAnew(_crawl: unknown, mark: unknown) {
    const begun = [{ file: this.name, bytes: Number(mark), lines: undefined, movedTo: undefined }];
    this.target = [];
    return { mark: 0, begun };
  }

  async isTaken() {
    return false;
  }

  async rename() {}

  async remove() {
    this.target = undefined;
    return { deleted: [this.name], kept: [] };
  }
}
