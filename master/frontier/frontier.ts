/**
 * The frontier: everything known about URLs that are not yet done. This is its face: the rest of
 * the master calls these verbs and listens to `FrontierEvents`, and sees nothing else of it.
 *
 *     operators, programs   seed, recrawl, offer, pause, resume, cancel, remove, rename,
 *                           rotate, change, sinks, replay
 *     holders of leases     give, leave, heard, started, hop, extend, report, release
 *
 * Its owner makes it of `FrontierRooms`, which it also starts, drains and closes.
 * A verb that changes what is stored resolves when that is on the disk.
 */
import type { CrawlSpec } from '../../shared/crawl.ts';
import { CommandError } from '../../shared/errors.ts';
import type { Replies } from '../../shared/replies.ts';
import type { SinkState } from '../sinks/result-queue.ts';
import type { ClosedTarget, Deleted, Resumed } from '../sinks/sink.ts';
import type { Again, Seeds } from './admission.ts';
import {
  type Answer,
  type FailedFetch,
  type Offer,
  type SeedVerdict,
  smallEntryBytes,
  type Verdict,
} from './commit/entry.ts';
import { type PartialSpec, refuseOutsideFiles } from './crawl/spec-change.ts';
import type { CrawlList } from './crawl-list.ts';
import { askHop, type HopVerdict } from './dispatch/hops.ts';
import type { Claim, HeldLease, LeaseHolder } from './dispatch/leases.ts';
import type { FrontierRooms } from './rooms.ts';

export class Frontier {
  /** Its crawls, to be read. */
  readonly crawls: CrawlList;
  readonly #rooms: FrontierRooms;

  constructor(rooms: FrontierRooms) {
    this.#rooms = rooms;
    this.crawls = rooms.list;
  }

  /** Resolves when the filter queue has room again, so that more may be put; undefined: it has. */
  room(): Promise<void> | undefined {
    return this.#rooms.pipeline.room();
  }

  /** Offers seeds to a crawl, which is created if it does not exist.
   *  @throws CommandError E_DRAINING, E_BAD_REQUEST, E_LIMIT */
  async seed(seeds: Seeds): Promise<SeedVerdict> {
    return await this.#rooms.admission.seed(seeds);
  }

  /** Offers URLs of an earlier crawl to one that is created, and paused, if it does not exist.
   *  @throws CommandError E_DRAINING, E_BAD_REQUEST, E_LIMIT, E_NO_CRAWL */
  async recrawl(again: Again): Promise<Replies['crawl.recrawl']> {
    return await this.#rooms.admission.recrawl(again);
  }

  /** Takes links and images that belong to no task. @throws CommandError E_NO_CRAWL, E_LIMIT */
  async offer(name: string, offer: Offer): Promise<void> {
    const crawl = this.#rooms.crawls.named(name);
    this.#rooms.crawls.refuseAgain(crawl);
    const bytes = smallEntryBytes + offer.links.length + offer.images.length * 128;
    await new Promise<void>((done) =>
      this.#rooms.pipeline.put({ kind: 'offer', crawl, bytes, offer, done }),
    );
  }

  /** Without effect on a crawl that is held. @throws CommandError E_NO_CRAWL */
  async pause(name: string): Promise<void> {
    await this.#rooms.lifeCycle.pause(this.#rooms.crawls.named(name));
  }

  /** Lets a crawl that is paused or held go on. With `newFiles`, files that are not as the master
   *  left them are begun anew. @throws CommandError E_NO_CRAWL, E_BAD_REQUEST it stays held */
  async resume(name: string, newFiles = false): Promise<Resumed> {
    return await this.#rooms.lifeCycle.resume(this.#rooms.crawls.named(name), newFiles);
  }

  /** A slave could not log in for this crawl: it is held. Without effect if it has no login, is
   *  over, or was resumed since that `round`. */
  loginFailed(id: number, round: number, why: string): void {
    const { crawls, lifeCycle } = this.#rooms;
    const crawl = crawls.byId(id);
    if (crawl?.spec.fetch.login === undefined || crawl.login.round !== round) return;
    lifeCycle.loginFailed(crawl, why);
  }

  /** Ends a crawl permanently: it fetches nothing more. Its files stay.
   *  @throws CommandError E_NO_CRAWL */
  async cancel(name: string): Promise<void> {
    await this.#rooms.lifeCycle.cancel(this.#rooms.crawls.named(name));
  }

  /** Ends a crawl permanently, and forgets it; its name is free then. With `files` its result files
   *  are deleted. @throws CommandError E_NO_CRAWL, E_BAD_REQUEST it is being removed */
  async remove(name: string, files: boolean): Promise<Deleted> {
    return await this.#rooms.lifeCycle.remove(this.#rooms.crawls.named(name), files);
  }

  /** Gives a crawl, and the folder of its results, another name.
   *  @throws CommandError E_NO_CRAWL, E_BAD_REQUEST the name is taken, or the folder stays */
  async rename(name: string, to: string): Promise<void> {
    await this.#rooms.lifeCycle.rename(this.#rooms.crawls.named(name), to);
  }

  /** Changes options of a crawl; null: the default of that field.
   *  @throws CommandError E_NO_CRAWL, E_BAD_REQUEST, E_LIMIT: see `SpecChanges` */
  async change(name: string, part: PartialSpec): Promise<Replies['crawl.set']> {
    const crawl = this.#rooms.crawls.named(name);
    refuseOutsideFiles(part, crawl.spec);
    return await this.#rooms.specChanges.change(crawl, part);
  }

  /** The sinks of a crawl, and what waits for each. `drop`: an output that is given up first, with
   *  what waits for it. @throws CommandError E_NO_CRAWL, E_BAD_REQUEST */
  async sinks(name: string, drop?: string): Promise<SinkState[]> {
    const { crawls, specChanges, sinksOf } = this.#rooms;
    const crawl = crawls.named(name);
    if (drop === undefined) return sinksOf(crawl);
    const { outputs = [] } = crawl.spec;
    if (!outputs.some((output) => output.name === drop)) {
      const names = outputs.map((output) => output.name).join(', ') || 'none';
      const why = `the crawl "${name}" has no output ${drop.slice(0, 64)}; its outputs: ${names}`;
      throw new CommandError('E_BAD_REQUEST', why);
    }
    const left = outputs.filter((output) => output.name !== drop);
    await specChanges.change(crawl, { outputs: left.length === 0 ? null : left });
    return sinksOf(crawl);
  }

  /** A start names a crawl that is there: see `SpecChanges`. @throws CommandError as `change` */
  async startAgain(name: string, spec: CrawlSpec, isLimited: boolean): Promise<void> {
    await this.#rooms.specChanges.startAgain(this.#rooms.crawls.named(name), spec, isLimited);
  }

  /** Closes the result files of a crawl under a dated name, and begins new ones. Returns what was
   *  closed; nothing: the files are empty. @throws CommandError E_NO_CRAWL, E_BAD_REQUEST */
  async rotate(name: string): Promise<readonly ClosedTarget[]> {
    return await this.#rooms.lifeCycle.rotate(this.#rooms.crawls.named(name));
  }

  /** Tries one URL that was given up again, or all of them. Returns their number.
   *  @throws CommandError E_NO_CRAWL */
  async replay(name: string, url?: string): Promise<number> {
    const crawl = this.#rooms.crawls.named(name);
    this.#rooms.crawls.refuseAgain(crawl);
    return await this.#rooms.buried.replay(crawl, url);
  }

  /** From now on the holder gets tasks as its credit allows. Called again when that has grown. */
  give(holder: LeaseHolder): void {
    this.#rooms.dispatcher.give(holder);
  }

  /** The holder is gone: its leases end at once. */
  leave(holder: LeaseHolder): void {
    this.#rooms.dispatcher.remove(holder);
  }

  /** The holder sent a message of any kind: it works. */
  heard(holder: LeaseHolder): void {
    this.#rooms.dispatcher.heard(holder);
  }

  /** The request of this lease, the first or that of a redirect, has left `agoMs` ago. */
  started(lease: HeldLease, agoMs = 0): void {
    this.#rooms.dispatcher.started(lease, agoMs);
  }

  /** May the fetch of this lease go on at `url`? Resolves when it may, or with the reason why not.
   *  @throws CommandError E_BAD_REQUEST */
  hop(lease: HeldLease, url: string, isFrame = false): Promise<HopVerdict> {
    return askHop(this.#rooms, lease, url, isFrame);
  }

  /** Extends these leases; returns those that the holder no longer has. */
  extend(holder: LeaseHolder, leaseIds: readonly number[]): number[] {
    return this.#rooms.dispatcher.extend(holder, leaseIds);
  }

  /** Takes the answer to a task. Resolves with `stale` if the task was done already. */
  report(claim: Claim, answer: Answer): Promise<Verdict> {
    return this.#rooms.reports.report(claim, answer);
  }

  /** Takes a task back: unfetched, so that it waits again, or failed, so that it is retried later
   *  or buried. Unfetched tasks go back at once, and wait for `waitMs`. */
  async release(claim: Claim, failed?: FailedFetch, waitMs = 0): Promise<Verdict> {
    if (failed !== undefined) return await this.#rooms.reports.fail(claim, failed);
    return this.#rooms.dispatcher.release(claim, waitMs) ? 'done' : 'stale';
  }
}
