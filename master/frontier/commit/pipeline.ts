/**
 * The way of an entry: it waits in the filter queue, a commit takes it, and memory follows when it
 * is on the disk.
 *
 *     put --> filter queue --> one commit --on disk--> answer, admit, dispatch
 *
 * Nothing is acknowledged before it is on the disk. Work that is gathered but not committed is lost
 * with the process and was never acknowledged.
 */
import { hostKeyOf } from '../../../shared/url.ts';
import { clockMs } from '../../machine/clock.ts';
import type { GroupCommit, Part } from '../../store/group-commit.ts';
import type { SealedRow } from '../../store/result-rows.ts';
import type { Change } from '../../store/store.ts';
import type { Crawl } from '../crawl/crawl.ts';
import type { Crawls } from '../crawl/crawls.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import type { Fingerprinter } from '../filter/fingerprint.ts';
import type { FrontierEvents } from '../frontier-events.ts';
import type { LifeCycle } from '../life-cycle.ts';
import type { Host } from '../politeness/host.ts';
import type { Politeness } from '../politeness/politeness.ts';
import { answerCancelled, handle } from './apply.ts';
import { CommitBatch } from './commit-batch.ts';
import type { Entry } from './entry.ts';
import { FilterQueue, type TakenEntry } from './filter-queue.ts';
import type { ImagesPort } from './images-port.ts';
import type { Outcomes } from './outcomes.ts';
import type { ResultsPort } from './results.ts';
import type { Seeding } from './seeding.ts';
import type { Sources } from './sources.ts';

type PipelineOptions = {
  readonly commits: GroupCommit;
  readonly memory: { readonly isTight: boolean };
  readonly hashers: { readonly fingerprinter: Fingerprinter; readonly nested: Fingerprinter };
  readonly crawls: Crawls;
  readonly politeness: Politeness;
  readonly dispatcher: Dispatcher;
  readonly lifeCycle: LifeCycle;
  readonly outcomes: Outcomes;
  readonly seeding: Seeding;
  readonly sources: Sources;
  readonly results: ResultsPort;
  readonly images?: ImagesPort | undefined;
  readonly events: FrontierEvents;
};

/** The effects of a commit on one crawl, when it is on the disk. */
type Landing = {
  readonly batch: CommitBatch;
  readonly commit: number;
  readonly results: SealedRow | undefined;
  readonly stored: () => void;
  readonly landed: () => void;
  /** Takes the new tasks in; returns the hosts to be woken. */
  readonly woken: () => Set<Host>;
};

type Gathered = {
  readonly entries: readonly TakenEntry[];
  readonly answers: readonly (() => void)[];
  readonly landings: readonly Landing[];
  readonly done: readonly (() => void)[];
  readonly gatheredMs: number;
  /** Until its changes were complete. */
  readonly filledMs: number;
};

/** A new link costs twenty times as much as a known one, so not only bytes but also time bounds a
 *  batch: no request is served while it is gathered, made part of a commit, or taken in after that.
 *  The whole should take `batchMsMax`, of which the gathering is a part that depends on the links:
 *  a quarter where each is of another host. */
const batchMsMax = 30;
const gatherMsMax = 8;
const gatherMsMin = 2;
const smoothing = 1 / 8;
/** The commit of entries that are in no hurry waits for others, up to so many. */
const unhurriedEntries = 16;

export class Pipeline {
  readonly #options: PipelineOptions;
  readonly #filterQueue: FilterQueue;
  #gatherMs = gatherMsMax;

  constructor(options: PipelineOptions) {
    this.#options = options;
    this.#filterQueue = new FilterQueue(options.memory);
    options.commits.addGatherer(() => this.#fill());
  }

  put(entry: Entry): void {
    this.#filterQueue.put(entry);
    const isFew = this.#filterQueue.count < unhurriedEntries && !this.#filterQueue.isFull;
    this.#options.commits.request(isFew ? (entry.mayWaitMs ?? 0) : 0);
  }

  /** See `FilterQueue`. */
  expect(crawl: Crawl, bytes: number): () => void {
    return this.#filterQueue.expect(crawl, bytes);
  }

  /** Resolves when there is room again; undefined: there is. */
  room(): Promise<void> | undefined {
    return this.#filterQueue.room();
  }

  /** Takes a batch of entries off the filter queue and makes one part of them. */
  #fill(): Part | undefined {
    const batches = new Map<Crawl, CommitBatch>();
    const entries: TakenEntry[] = [];
    const answers: (() => void)[] = [];
    const began = performance.now();
    for (const entry of this.#filterQueue.take()) {
      const { crawl, bytes } = entry;
      entries.push({ crawl, bytes });
      answers.push(this.#handle(entry, batches));
      if (performance.now() - began > this.#gatherMs) break;
    }
    if (entries.length === 0) return undefined;
    const gatheredMs = performance.now() - began;
    if (!this.#filterQueue.isEmpty) this.#options.commits.requestMore();
    const { waitingRoom, queues } = this.#options.crawls;
    const changes: Change[] = [];
    const landings: Landing[] = [];
    let came = 0;
    for (const batch of batches.values()) {
      const { admitted, ...sealed } = batch.seal(changes);
      came += admitted.length;
      const [stored, woken] = [batch.crawl.filter.seal(), queues.coming(batch.crawl, admitted)];
      landings.push({ batch, ...sealed, stored, woken });
    }
    const done: (() => void)[] = [];
    for (const work of [waitingRoom.relieve(), queues.rows.move(came)]) {
      for (const change of work?.changes ?? []) changes.push(change);
      if (work !== undefined) done.push(work.done);
    }
    const filledMs = performance.now() - began;
    const gathered = { entries, answers, landings, done, gatheredMs, filledMs };
    return { changes, done: this.#landing(gathered) };
  }

  /** Returns what is to be called when the batch is on the disk. Within `#fill` it would keep all
   *  variables of that until then. */
  #landing(gathered: Gathered): () => void {
    const { entries, answers, landings, done, gatheredMs, filledMs } = gathered;
    return () => {
      const began = performance.now();
      for (const { stored, landed } of landings) {
        stored();
        landed();
      }
      for (const end of done) end();
      for (const answer of answers) answer();
      this.#filterQueue.settle(entries);
      for (const landing of landings) this.#apply(landing);
      this.#filterQueue.makeRoom();
      this.#options.dispatcher.dispatchSoon();
      this.#pace(gatheredMs, filledMs + performance.now() - began);
    };
  }

  /** A batch took so long, its gathering included. */
  #pace(gatheredMs: number, tookMs: number): void {
    const wantedMs = (gatheredMs / tookMs) * batchMsMax;
    const nextMs = Math.min(gatherMsMax, Math.max(gatherMsMin, wantedMs));
    this.#gatherMs += (nextMs - this.#gatherMs) * smoothing;
  }

  /** Applies one entry; returns the answer to send when it is on the disk. */
  #handle(entry: Entry, batches: Map<Crawl, CommitBatch>): () => void {
    const { crawl } = entry;
    if (crawl.state === 'cancelled') return () => answerCancelled(entry);
    const { outcomes, seeding } = this.#options;
    const batch = this.#batch(crawl, batches);
    // For people only. `clockMs` is behind once the machine has slept, or its clock was set.
    return handle(entry, batch, { outcomes, offers: seeding }, Date.now());
  }

  #batch(crawl: Crawl, batches: Map<Crawl, CommitBatch>): CommitBatch {
    let batch = batches.get(crawl);
    if (batch === undefined) {
      const hostOf = (url: URL) => {
        const key = hostKeyOf(url);
        return { key, hash: this.#options.politeness.hashOf(key) };
      };
      const { hashers, sources, crawls } = this.#options;
      batch = new CommitBatch(crawl, hashers, hostOf, sources, crawls.queues.rows);
      batches.set(crawl, batch);
    }
    return batch;
  }

  /** A batch has reached the disk: memory follows. */
  #apply({ batch, commit, results, woken }: Landing): void {
    const { crawl, removed, released, buried } = batch;
    for (const task of removed) task.queue.remove(task);
    // Results from before a crawl was cancelled are written all the same.
    if (results !== undefined) this.#options.results.offer(crawl, commit, results);
    for (const { sha256, image } of batch.dropped) this.#options.images?.drop(crawl, sha256, image);
    if (crawl.state === 'cancelled') return;
    const { queues } = this.#options.crawls;
    const hosts = woken();
    for (const { task, record } of released) {
      task.queue.release(task, record);
      const known = crawl.queues.get(task.queue.host.toString('latin1'));
      if (known !== undefined) hosts.add(known.host);
    }
    const now = clockMs();
    for (const host of hosts) this.#options.politeness.wake(host, now);
    for (const { queue } of removed) queues.leaveIfDone(crawl, queue.host);
    const { events } = this.#options;
    for (const one of buried) events.taskBuried(crawl, one);
    for (const hop of batch.followed) events.seedFollowed(crawl, hop);
    for (const fault of batch.faults) events.seedFaulted(crawl, fault);
    // A page less under way: a crawl at its page limit may have room for another.
    if (crawl.spec.maxPages !== undefined && crawl.active) queues.wake(crawl);
    if (crawl.filter.wantsSave) this.#saveFilter(crawl);
    this.#options.lifeCycle.settle(crawl);
  }

  #saveFilter({ filter, lastCommit }: Crawl): void {
    filter.save(lastCommit).then(
      (changes) => this.#options.commits.written(changes),
      // The rows that it would have replaced are still there: the next start reads them all.
      () => {},
    );
  }
}
