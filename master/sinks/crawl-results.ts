/**
 * The results of one crawl: its rows that wait, and its sinks, which write them. Each sink takes
 * the rows in the order of their commits, a batch at a time, at its own pace; a row is deleted when
 * the slowest sink has it.
 *
 * A sink whose target is not what it left holds its crawl until the operator acts. One that cannot
 * write for now is tried again, later and later. When too much waits for it, or for an output that
 * is slower than its crawl, the crawl is held until half of that is written. Other sinks of the
 * crawl go on writing.
 */
import { ConfigError, messageOf } from '../../shared/errors.ts';
import { type NamedOutput, namedOutputs } from '../../shared/outputs.ts';
import { commitKey, cursorKey, decodeCursor, encodeCursor } from '../store/records.ts';
import type { SealedRow } from '../store/result-rows.ts';
import type { Change } from '../store/store.ts';
import type { CrawlResultsOptions, ResultCrawl } from './crawl-results-options.ts';
import { leaving, outletsFor } from './new-outlets.ts';
import { Outlet } from './outlet.ts';
import { endRotation, type Rotated, rotate } from './rotation.ts';
import {
  HeldError,
  InterruptedError,
  type Resumed,
  type Sink,
  type SinkKind,
  UnavailableError,
} from './sink.ts';
import { WaitingRows } from './waiting-rows.ts';
import { cursorMayWaitMs, timeToWrite } from './write-pace.ts';
import { withRoom } from './write-room.ts';

/** Bytes that may wait for one sink, before its crawl is held. */
const backlogBytesMaxDefault = 1 << 30;

export class CrawlResults<C extends ResultCrawl> {
  readonly crawl: C;
  readonly rows: WaitingRows;
  /** Those that every crawl has, then its outputs. */
  #outlets: readonly Outlet[];
  /** The first of them, whose backlog counts for all crawls. */
  readonly #baseCount: number;
  /** The spec of its outputs. */
  #outputs: readonly NamedOutput[];
  readonly #options: CrawlResultsOptions<C>;
  #state: 'open' | 'closing' | 'forgotten' = 'open';
  /** Why it is held: too much waits for a sink. */
  #overfull: string | undefined;

  /** `before`: its outputs, if those of its spec are to be reconciled with them. */
  constructor(crawl: C, options: CrawlResultsOptions<C>, before?: readonly NamedOutput[]) {
    const { sinks, store } = options;
    this.crawl = crawl;
    this.#options = options;
    this.rows = new WaitingRows(store, crawl.id);
    const outletOf = (kind: SinkKind) => {
      const saved = store.get('meta', cursorKey(crawl.id, kind.name));
      const cursor = saved && decodeCursor(saved);
      return (kind.isWanted?.(crawl, cursor?.mark) ?? true) ? [new Outlet(kind, cursor)] : [];
    };
    const base = sinks.flatMap(outletOf);
    this.#baseCount = base.length;
    this.#outputs = options.outputs ? (before ?? namedOutputs(crawl.spec?.outputs ?? [])) : [];
    const outputs = this.#outputs.flatMap((output) => options.outputs?.(output) ?? []);
    this.#outlets = [...base, ...outputs.flatMap(outletOf)];
  }

  get outlets(): readonly Outlet[] {
    return this.#outlets;
  }

  /** Those of its outputs. */
  get outputOutlets(): readonly Outlet[] {
    return this.#outlets.slice(this.#baseCount);
  }

  /** Bytes that count for all crawls: those that a sink which every crawl has is to write. */
  get waitingBytes(): number {
    if (this.rows.bytes === 0) return 0;
    const base = this.#outlets.slice(0, this.#baseCount);
    if (!base.every(({ isWriting }) => isWriting)) return 0;
    return this.rows.bytesAfter(Math.min(...base.map(({ commit }) => commit)));
  }

  /** Why it is held until a sink has written; undefined: it is not. */
  get overfull(): string | undefined {
    return this.#overfull;
  }

  /** All of its sinks can write. */
  get isWriting(): boolean {
    return this.outlets.every((outlet) => outlet.isWriting);
  }

  /** Takes over a row that is on the disk. */
  offer(commit: number, row: SealedRow): void {
    this.crawl.open.record(1);
    this.rows.add(commit, row, this.isWriting);
    for (const outlet of this.outlets) this.begin(outlet);
    this.#holdIfOverfull();
  }

  /** The master ends: what waits is written at once, and nothing is tried again. */
  closing(): void {
    this.#state = 'closing';
    this.hurry();
  }

  /** Rows that could wait for another commit go to the disk now. */
  hurry(): void {
    this.#options.commits.request();
  }

  /** Nothing of it is in memory from now on. */
  forgotten(): void {
    this.#state = 'forgotten';
  }

  /** Writes, unless something is done with the sink already, or there is nothing to write. */
  begin(outlet: Outlet): void {
    outlet.stir();
    if (this.#state === 'forgotten' || outlet.isBusy || !outlet.isWriting) return;
    if (outlet.isClaimed || (!this.rows.has(outlet.given) && !this.#isWhole(outlet))) return;
    void this.work(outlet, () => this.#writeAll(outlet)).then(() => this.begin(outlet));
  }

  /** Does something with a sink, after which it may be held, or be tried again. */
  work(outlet: Outlet, work: () => Promise<void>): Promise<void> {
    return outlet.work(() => this.#guarded(outlet, work), this.#options.onError);
  }

  /** Does something while nothing is done with any of its sinks, and goes on then. An error ends
   *  the master, and this never. */
  async alone(work: () => Promise<void>): Promise<void> {
    for (const outlet of this.outlets) outlet.claim();
    this.#options.commits.request();
    while (this.outlets.some(({ isBusy }) => isBusy)) {
      if (this.outlets.some(({ isBroken }) => isBroken)) await new Promise(() => {});
      for (const outlet of this.outlets) await outlet.idle();
    }
    for (const outlet of this.outlets) outlet.unclaim();
    const done = work();
    const { onError } = this.#options;
    await Promise.all(this.outlets.map((outlet) => outlet.work(() => done, onError)));
    await done;
    for (const outlet of this.outlets) this.goOn(outlet);
  }

  /** Writes again, or tries it later where it failed. */
  goOn(outlet: Outlet): void {
    if (outlet.state === 'failing') outlet.retry(() => this.#tryAgain(outlet));
    else this.begin(outlet);
  }

  /** An error of a target stays with its sink; the master handles any other. */
  async #guarded(outlet: Outlet, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (error instanceof InterruptedError) return;
      outlet.forget();
      if (error instanceof HeldError) await this.#hold(outlet, error);
      else if (error instanceof UnavailableError) this.#failed(outlet, error);
      else throw error;
    }
  }

  /** The target stays open: a removed file can be copied from /proc as long as it is. */
  async #hold(outlet: Outlet, error: HeldError): Promise<void> {
    outlet.held(messageOf(error));
    this.rows.forgetKept();
    if (this.crawl.state === 'cancelled') await this.drop(outlet);
    else this.#options.events.held(this.crawl, outlet.reason);
  }

  /** Should an outlet write now? Nothing more comes, or too much waits for it. */
  #isWhole(outlet: Outlet): boolean {
    if (!outlet.isGathering) return false;
    const { rows, crawl } = this;
    if (rows.bytesAfter(outlet.commit) > this.#backlogBytesMax / 2) return true;
    return !rows.has(outlet.given) && (outlet.isEnding || crawl.isFetched || !crawl.isOpen);
  }

  #failed(outlet: Outlet, error: UnavailableError): void {
    const reason = messageOf(error);
    if (outlet.state === 'writing' && this.#state !== 'closing') {
      this.#options.events.unavailable(this.crawl, outlet.kind.name, reason);
    }
    outlet.failed(reason);
    this.rows.forgetKept();
    this.#holdIfOverfull();
    if (this.#state !== 'closing') this.goOn(outlet);
  }

  #tryAgain(outlet: Outlet): void {
    if (outlet.isBusy || outlet.state !== 'failing' || this.#state === 'closing') return;
    void this.work(outlet, () => this.#writeAll(outlet)).then(() => this.begin(outlet));
  }

  /** Also when it is held already: the reason may be another one by now. */
  #holdIfOverfull(): void {
    const { rows, outlets } = this;
    for (const [i, outlet] of outlets.entries()) {
      const { state, kind, reason } = outlet;
      if (i < this.#baseCount ? state !== 'failing' : state === 'held') continue;
      if (rows.bytesAfter(outlet.commit) <= this.#backlogBytesMax) continue;
      const why = state === 'failing' ? reason : 'it is slower than the crawl';
      this.#overfull = why.startsWith(`${kind.name}: `) ? why : `${kind.name}: ${why}`;
      this.#options.events.held(this.crawl, this.#overfull, true);
      return;
    }
  }

  get #backlogBytesMax(): number {
    return this.#options.backlogBytesMax ?? backlogBytesMaxDefault;
  }

  #releaseIfRoom(): void {
    if (this.#overfull === undefined) return;
    const { rows, outlets } = this;
    const most = this.#backlogBytesMax / 2;
    const isRoom = ({ commit, state }: Outlet) =>
      state !== 'held' && rows.bytesAfter(commit) <= most;
    if (!outlets.every(isRoom)) return;
    this.#overfull = undefined;
    this.#options.events.released(this.crawl);
  }

  /** It has written: its crawl goes on if that was what it waited for. */
  #recovered(outlet: Outlet): void {
    if (outlet.state === 'failing') this.#options.events.available(this.crawl, outlet.kind.name);
    outlet.recovered();
    this.#releaseIfRoom();
  }

  async #writeAll(outlet: Outlet): Promise<void> {
    const { rows, crawl } = this;
    let isMore = false;
    while (rows.has(outlet.given) || outlet.state === 'failing' || this.#isWhole(outlet)) {
      // Rows may come for ever.
      if (outlet.isClaimed && outlet.isWriting) return;
      if (!isMore) await timeToWrite(outlet, this.#waiting(outlet));
      outlet.sink ??= await withRoom(this.#options.room, () =>
        outlet.kind.open(crawl, outlet.mark),
      );
      ({ isMore } = await this.#write(outlet, outlet.sink));
      if (this.#isWhole(outlet)) await this.#finish(outlet, outlet.sink);
      if (outlet.state === 'failing') this.#recovered(outlet);
      this.#options.events.written(crawl);
    }
  }

  #waiting(outlet: Outlet) {
    const { rows, crawl } = this;
    const isOver = () => crawl.isFetched || !crawl.isOpen || this.#state === 'closing';
    return {
      bytes: () => rows.bytesAfter(outlet.given),
      isHurried: () => isOver() || this.#isWhole(outlet),
    };
  }

  /** Writes the next rows, and puts on record that it did. */
  async #write(outlet: Outlet, sink: Sink): Promise<{ isAny: boolean; isMore: boolean }> {
    const { rows, isMore } = this.rows.after(outlet.given);
    const last = rows.at(-1);
    if (last === undefined) return { isAny: false, isMore: false };
    const records = rows.flatMap(({ sections }) => sections);
    const progress = (mark: unknown) => this.#reached(outlet, mark);
    outlet.mark = await withRoom(this.#options.room, () => {
      // The claim came while it waited for room.
      if (outlet.isClaimed && outlet.kind.isPatient) throw new InterruptedError('claimed');
      return sink.write(records, progress);
    });
    const taken = rows.map(({ commit, sections }) => {
      const { seq = 0, count = 1 } = sections.at(-1) ?? {};
      return { commit, seq: seq + count - 1 };
    });
    if (outlet.take(taken, sink)) await this.#passed(outlet);
    this.rows.release(Math.min(...this.outlets.map(({ given }) => given)));
    return { isAny: true, isMore };
  }

  /** Makes durable what the sink has gathered. */
  async #finish(outlet: Outlet, sink: Sink): Promise<void> {
    const progress = (mark: unknown) => this.#reached(outlet, mark);
    outlet.mark = await withRoom(this.#options.room, async () => await sink.finish?.(progress));
    if (outlet.take([], sink)) await this.#passed(outlet);
  }

  /** In the middle of a write: its rows stay. */
  async #reached(outlet: Outlet, mark: unknown): Promise<void> {
    outlet.mark = mark;
    const key = cursorKey(this.crawl.id, outlet.kind.name);
    const value = encodeCursor({ commit: outlet.commit, mark });
    await this.#options.commits.written([{ table: 'meta', key, value }]);
  }

  /** Rows that all sinks had before a crash, or that waited for a sink which is gone. */
  async dropWritten(): Promise<void> {
    const [outlet] = this.outlets;
    const commit = Math.min(...this.outlets.map((one) => one.commit));
    if (outlet !== undefined && this.rows.firstCommit <= commit) await this.#passed(outlet);
  }

  /** One transaction: the cursor, and the end of the rows that all sinks have. */
  async #passed(outlet: Outlet): Promise<void> {
    const { kind, commit, mark } = outlet;
    const { rows, outlets, crawl } = this;
    const gone = rows.drop(Math.min(...outlets.map((outlet) => outlet.commit)));
    const changes: Change[] = gone.map((row) => ({
      table: 'results',
      key: commitKey(crawl.id, row.commit),
      value: undefined,
    }));
    const key = cursorKey(crawl.id, kind.name);
    changes.push({ table: 'meta', key, value: encodeCursor({ commit, mark }) });
    await this.#options.commits.written(changes, cursorMayWaitMs(outlet, this.#waiting(outlet)));
    crawl.open.written(gone.length);
    if (outlet.state !== 'failing') this.#releaseIfRoom();
  }

  /** Opens the target of a sink that is not writing, and writes all that waits. */
  async reopen(outlet: Outlet, newFiles: boolean): Promise<Resumed> {
    const { mark, begun } = newFiles
      ? await outlet.kind.beginAnew(this.crawl, outlet.mark)
      : { mark: outlet.mark, begun: [] };
    const sink = await outlet.kind.open(this.crawl, mark);
    try {
      outlet.mark = mark;
      outlet.forget();
      if (begun.length > 0) await this.#passed(outlet);
      while ((await this.#write(outlet, sink)).isAny);
      await sink.check();
    } catch (error) {
      await sink.close();
      throw error;
    }
    const { sink: before } = outlet;
    outlet.sink = sink;
    this.#recovered(outlet);
    await before?.close();
    return { begun, cutBytes: sink.cutBytes };
  }

  /** Opens the target of a sink; if it is not what was left, the crawl is held. */
  async open(outlet: Outlet): Promise<void> {
    await this.#guarded(outlet, async () => {
      outlet.sink = await outlet.kind.open(this.crawl, outlet.mark);
    });
  }

  /** Closes the targets of a sink, while nothing else is done with it, under a date, and begins new
   *  ones. A held sink goes on then. @throws ConfigError none was closed */
  async rotate(outlet: Outlet): Promise<Rotated> {
    try {
      const rotated = await rotate(this.crawl, outlet, this.#options);
      if (rotated.closed.length > 0 || !outlet.isWriting) await this.#openNew(outlet);
      return rotated;
    } catch (error) {
      if (error instanceof HeldError && this.crawl.isOpen) await this.#hold(outlet, error);
      throw error;
    }
  }

  /** Ends what a crash has left of a rotation. @throws ConfigError the disk fails */
  async endRotation(outlet: Outlet): Promise<void> {
    // A target that could not be closed is opened next, and that says what is wrong.
    const { closed } = await endRotation(this.crawl, outlet, this.#options);
    if (closed.length === 0 || this.crawl.isOpen) return;
    await this.#openNew(outlet);
    await outlet.sink?.close();
    outlet.sink = undefined;
  }

  /** Begins new targets in place of those that were closed. */
  async #openNew(outlet: Outlet): Promise<void> {
    await outlet.sink?.close();
    outlet.sink = undefined;
    outlet.forget();
    try {
      outlet.sink = await outlet.kind.open(this.crawl, outlet.mark);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      // Of a crawl that is over, others may be moved away. A full disk may have room later.
      if (error instanceof HeldError && this.crawl.isOpen) throw error;
    }
    if (outlet.state !== 'held') return;
    this.#recovered(outlet);
    if (this.isWriting && this.#overfull === undefined && this.crawl.isOpen) {
      this.#options.events.released(this.crawl);
    }
  }

  /** Opens the target of a sink again: its path has changed. */
  async openAgain(outlet: Outlet): Promise<void> {
    const { sink: before } = outlet;
    if (before === undefined) return;
    await this.#guarded(outlet, async () => {
      outlet.sink = await outlet.kind.open(this.crawl, outlet.mark);
      outlet.forget();
      await before.close();
    });
  }

  /** Its outputs have changed, while nothing is done with its sinks. A new one begins with the next
   *  record; what waits for one that is gone leaves. */
  async reconcile(): Promise<void> {
    const { commits, events, outputs: make } = this.#options;
    if (make === undefined) return;
    const { crawl } = this;
    const before = new Map(this.#outputs.map((output, i) => [output, this.outputOutlets[i]]));
    const outputs = namedOutputs(crawl.spec?.outputs ?? []);
    const lastCommit = await this.#completeLeaving(before, outputs);
    for (const { commit, kind } of leaving(before, outputs)) {
      const records = this.recordsAfter(commit) - this.recordsAfter(lastCommit);
      if (records > 0) events.missed(crawl, kind.name, records);
    }
    const wasHeld = this.#outlets.some(({ state }) => state === 'held');
    const { made, changes } = await outletsFor({ id: crawl.id, lastCommit }, outputs, before, make);
    this.#outlets = [...this.#outlets.slice(0, this.#baseCount), ...made];
    this.#outputs = outputs;
    const gone = this.rows.drop(Math.min(...this.#outlets.map(({ commit }) => commit)));
    for (const { commit } of gone) {
      changes.push({ table: 'results', key: commitKey(crawl.id, commit), value: undefined });
    }
    await commits.written(changes);
    crawl.open.written(gone.length);
    this.#releaseIfRoom();
    const isHeld = this.#outlets.some(({ state }) => state === 'held');
    if (wasHeld && !isHeld && this.#overfull === undefined) events.released(crawl);
    if (gone.length > 0) events.written(crawl);
  }

  /** Outputs that can write and are no more get what waits for them. Returns the commit that all of
   *  these have: what came later is for new ones, which begin there. */
  async #completeLeaving(
    before: ReadonlyMap<NamedOutput, Outlet | undefined>,
    outputs: readonly NamedOutput[],
  ): Promise<number> {
    let upTo = this.crawl.lastCommit ?? 0;
    // Rows may come for ever, and meanwhile the other sinks stand still.
    const { lastCommit } = this.rows;
    // A slow output may need hours for the rows that wait for it.
    if (this.#overfull !== undefined) return upTo;
    for (const outlet of leaving(before, outputs).filter(({ isWriting }) => isWriting)) {
      await this.#guarded(outlet, async () => {
        if (outlet.given >= lastCommit && !outlet.isGathering) return;
        outlet.sink ??= await outlet.kind.open(this.crawl, outlet.mark);
        while (outlet.given < lastCommit && (await this.#write(outlet, outlet.sink)).isAny);
        if (outlet.isGathering) await this.#finish(outlet, outlet.sink);
      });
      if (outlet.isWriting) upTo = Math.min(upTo, outlet.commit);
    }
    return upTo;
  }

  /** Nothing that waits for it will be written any more. */
  async drop(outlet: Outlet): Promise<void> {
    if (this.rows.lastCommit <= outlet.commit) return;
    this.tellLacking(outlet);
    if (outlet.state === 'failing') outlet.recovered();
    outlet.commit = this.rows.lastCommit;
    outlet.forget();
    await this.#passed(outlet);
  }

  /** Number of records that wait for a sink with the rows up to a commit. */
  recordsAfter(commit: number): number {
    const next = this.rows.recordAfter(commit);
    return next === undefined ? 0 : (this.crawl.lastRecord ?? 0) + 1 - next;
  }

  /** Says what an outlet does not get of a crawl that is given up. */
  tellLacking(outlet: Outlet): void {
    const records = this.recordsAfter(outlet.commit);
    if (records === 0) return;
    const { events } = this.#options;
    if (this.outputOutlets.includes(outlet)) events.missed(this.crawl, outlet.kind.name, records);
    else events.dropped(this.crawl, records);
  }
}
