/**
 * Crawls that are repeated (`every: 24h`): a series of crawls, each made of the results of the one
 * before, under a dated name. The newest of a series has the time when the next is due; the others
 * have ended, and go when there are more than `keep`.
 *
 *     done --due--> the next: making --URLs taken over--> open --finished--> done, compared, pruned
 *                    (paused)
 *
 * Each step is on record with its effect, or can be done twice, so that a start goes on in the
 * middle. Time that a master was down counts as one time that was missed, however long it was.
 * Source: PROTOCOL.md [C-150].
 */
import { CommandError, ConfigError, messageOf } from '../shared/errors.ts';
import type { Logger } from '../shared/log.ts';
import type { CrawlStatus } from '../shared/protocol.ts';
import { writeChanges } from './change-file.ts';
import { durationText } from './cli/duration.ts';
import type { ServeOptions } from './cli/serve-options.ts';
import type { CrawlView } from './frontier/crawl/crawl-view.ts';
import type { Frontier } from './frontier/frontier.ts';
import type { CrawlChange, FrontierListener } from './frontier/frontier-events.ts';
import { countsText } from './inspect/page-diff.ts';
import { isDiskFull } from './machine/disk-room.ts';
import type { Backups } from './repair/backup.ts';
import { RepeatMaking, seedsToRepeat } from './repeat-making.ts';
import { dateAfter, dateOf } from './sinks/dated-files.ts';
import type { GroupCommit } from './store/group-commit.ts';
import {
  type RepeatRow,
  repeatChange,
  repeatRows,
  repeatSeedsChange,
  repeatSeedsOf,
} from './store/repeat-rows.ts';
import type { Change, Rows } from './store/store.ts';

export type RepeatsOptions = {
  readonly store: Rows;
  readonly commits: Pick<GroupCommit, 'written'>;
  readonly frontier: Frontier;
  readonly backups: Pick<Backups, 'alone'>;
  readonly results: {
    folderOf(crawl: string): string;
    isTaken(crawl: string): Promise<boolean>;
  };
  readonly log: Logger;
  readonly onError: (error: unknown) => void;
};

/** A crawl of a series. */
type Member = { readonly crawl: CrawlView; readonly row: RepeatRow };

/** After a failure; and no timer is longer, since clocks are set. */
const againMs = 60_000;
const diskAgainMs = 5_000;
const timerMsMin = 20;
const timerMsMax = 60_000;
/** Of a name, without `-20261123T050000Z`. */
const baseChars = 64 - 17;

export class Repeats implements FrontierListener {
  readonly #options: RepeatsOptions;
  readonly #making: RepeatMaking;
  /** By the numbers of crawls. */
  #rows = new Map<number, RepeatRow>();
  /** Not before these times of the monotonic clock, in ms: something failed. */
  readonly #again = new Map<number, { readonly at: number; readonly why: string }>();
  readonly #aborter = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;
  #isWanted = false;
  /** The name of the crawl that is being made. */
  #made: string | undefined;
  #state: 'new' | 'open' | 'closed' = 'new';

  constructor(options: RepeatsOptions) {
    this.#options = options;
    this.#making = new RepeatMaking(options, this.#aborter.signal);
  }

  /** Some crawl is repeated. */
  get isPlanned(): boolean {
    return [...this.#due()].length > 0;
  }

  /** Of the crawl with this number; undefined: it is of no series. */
  of(id: number): CrawlStatus['repeats'] {
    const row = this.#rows.get(id);
    const crawl = this.#options.frontier.crawls.byId(id);
    if (row === undefined || crawl === undefined) return undefined;
    const { everyMs, keep } = crawl.spec;
    const before = row.before && this.#options.frontier.crawls.byId(row.before)?.name;
    const { base: series, changes, dueAt: nextAt } = row;
    const isNewest = nextAt !== undefined && crawl.state !== 'cancelled';
    return {
      series,
      ...(isNewest && everyMs !== undefined && { everyMs, nextAt, ...(keep && { keep }) }),
      ...(before && changes && { since: before, changes }),
    };
  }

  /** Reads what is on record. Returns the crawl that a start with this name goes on with: the
   *  newest of its series. */
  restore(name: string): string {
    const { frontier, log, store } = this.#options;
    const { crawls } = frontier;
    const rows = [...repeatRows(store)].filter(([id]) => crawls.byId(id) !== undefined);
    this.#rows = new Map(rows.sort(([a], [b]) => a - b));
    const known = crawls.has(name) ? this.#rows.get(crawls.named(name).id) : undefined;
    const named = rows.filter(([, { base }]) => base === name).at(-1)?.[1];
    const row = known ?? (crawls.has(name) ? undefined : named);
    const newest = row === undefined ? undefined : this.#newest(row.series)?.crawl;
    if (newest === undefined || newest.name === name) return name;
    log.info({ crawl: newest.name }, `crawl ${name} goes on as ${newest.name}, its newest repeat`);
    return newest.name;
  }

  /** The crawl of this start has its seeds: from now on the clock runs. */
  async start({ crawl: name, list, crawlFile }: ServeOptions): Promise<void> {
    const { crawls } = this.#options.frontier;
    this.#state = 'open';
    for (const crawl of crawls) {
      const row = this.#rows.get(crawl.id);
      if (crawl.spec.everyMs === undefined || crawl.state === 'cancelled') continue;
      if (row === undefined) await this.#begin(crawl);
      else if (row.dueAt !== undefined) this.#tell(crawl, row);
    }
    if (crawlFile !== undefined && crawls.has(name)) {
      const crawl = crawls.named(name);
      const seeds = this.#rows.has(crawl.id) ? seedsToRepeat(list, crawlFile) : undefined;
      const kept = repeatSeedsOf(this.#options.store, crawl.id);
      const isOther =
        (seeds === undefined) !== (kept === undefined) || !kept?.equals(seeds ?? kept);
      if (isOther) await this.#written([repeatSeedsChange(crawl.id, seeds)]);
    }
    this.#wake();
  }

  crawlMade(crawl: CrawlView): void {
    if (crawl.spec.everyMs === undefined || crawl.name === this.#made) return;
    if (this.#state === 'open') this.#soon(this.#begin(crawl));
  }

  crawlEnded({ id, name, state }: CrawlView): void {
    const row = this.#rows.get(id);
    if (row === undefined) return;
    if (state === 'cancelled' && row.dueAt !== undefined) this.#tellOver(name, 'cancelled');
    // It had ended before, and got more URLs.
    if (row.state === 'done') this.#rows.set(id, { ...row, state: 'open' });
    this.#wake();
  }

  crawlRemoved({ id, name }: CrawlView): void {
    const row = this.#rows.get(id);
    this.#rows.delete(id);
    this.#again.delete(id);
    if (row?.dueAt !== undefined) this.#tellOver(name, 'removed');
  }

  crawlContinued(): void {
    this.#wake();
  }

  crawlChanged(crawl: CrawlView, { changed }: CrawlChange): void {
    if (this.#state !== 'open') return;
    if (!changed.some(({ field }) => field === 'everyMs' || field === 'keep')) return;
    this.#soon(this.#changed(crawl));
  }

  /** Ends what is under way; a start goes on with it. */
  async close(): Promise<void> {
    this.#state = 'closed';
    clearTimeout(this.#timer);
    this.#aborter.abort();
    await this.#looking;
  }

  #tell({ name, spec }: CrawlView, { dueAt = 0 }: RepeatRow): void {
    const every = durationText(spec.everyMs ?? 0);
    const at = new Date(Math.max(dueAt, Date.now())).toISOString();
    this.#options.log.info(
      { crawl: name },
      `crawl ${name} is repeated every ${every}, next at ${at}; \`set ${name} --no-every\` ends that`,
    );
  }

  #tellOver(name: string, how: string): void {
    this.#options.log.info({ crawl: name }, `crawl ${name} was ${how}: it is repeated no more`);
  }

  /** The first crawl of a series. */
  async #begin(crawl: CrawlView): Promise<void> {
    const { id, name, spec, startedAt, state } = crawl;
    const known = this.#rows.get(id);
    const dueAt = startedAt + (spec.everyMs ?? 0);
    const base = known?.base ?? name.slice(0, baseChars);
    const isDone = state === 'finished';
    await this.#keep(id, {
      ...(known ?? { series: id, base, state: isDone ? 'done' : 'open' }),
      dueAt,
    });
    const row = this.#rows.get(id);
    if (row !== undefined) this.#tell(crawl, row);
    this.#wake();
  }

  /** Its `every` or `keep` is another one: that of its whole series. */
  async #changed(crawl: CrawlView): Promise<void> {
    // One that is being made has the values of before.
    if (this.#made !== undefined) await this.#looking;
    const { everyMs, keep } = crawl.spec;
    const row = this.#rows.get(crawl.id);
    const newest = row === undefined ? undefined : this.#newest(row.series)?.crawl;
    if (newest === undefined || newest.id === crawl.id) {
      if (everyMs !== undefined) await this.#begin(crawl);
      this.#again.delete(crawl.id);
      this.#wake();
      return;
    }
    await this.#options.frontier
      .change(newest.name, { everyMs: everyMs ?? null, keep: keep ?? null })
      .catch((error: unknown) => this.#failed(newest, error));
  }

  /** The crawls of a series, oldest first. */
  #members(series: number): Member[] {
    const { crawls } = this.#options.frontier;
    return [...this.#rows].flatMap(([id, row]) => {
      const crawl = row.series === series ? crawls.byId(id) : undefined;
      return crawl === undefined ? [] : [{ crawl, row }];
    });
  }

  #newest(series: number): Member | undefined {
    return this.#members(series).findLast(({ crawl }) => crawl.state !== 'cancelled');
  }

  /** The newest of each series that goes on. */
  *#due(): Generator<Member> {
    for (const [id, row] of [...this.#rows]) {
      const crawl = this.#options.frontier.crawls.byId(id);
      if (row.dueAt === undefined || crawl === undefined || crawl.state === 'cancelled') continue;
      if (crawl.spec.everyMs !== undefined) yield { crawl, row };
    }
  }

  async #keep(id: number, row: RepeatRow): Promise<void> {
    this.#rows.set(id, row);
    await this.#written([repeatChange(id, row)]);
  }

  async #written(changes: readonly Change[]): Promise<void> {
    await this.#options.commits.written([...changes]);
  }

  #soon(work: Promise<void>): void {
    work.catch(this.#options.onError);
  }

  /** Something may be to be done. */
  #wake(): void {
    if (this.#state !== 'open') return;
    this.#isWanted = true;
    if (this.#looking === undefined) this.#arm();
  }

  #arm(): void {
    clearTimeout(this.#timer);
    if (this.#state !== 'open') return;
    const now = Date.now();
    const waits = [...this.#due()].map(({ crawl, row: { dueAt = 0 } }) =>
      Math.max(dueAt - now, this.#againMs(crawl.id), crawl.isAside ? timerMsMax : 0),
    );
    const again = [...this.#again.keys()].map((id) => this.#againMs(id)).filter((ms) => ms > 0);
    const waitMs = Math.min(timerMsMax, ...waits, ...again);
    this.#timer = setTimeout(() => this.#look(), this.#isWanted ? 0 : Math.max(timerMsMin, waitMs));
  }

  #look(): void {
    this.#isWanted = false;
    this.#looking = this.#lookAtAll().then(() => {
      this.#looking = undefined;
      this.#arm();
    }, this.#options.onError);
  }

  async #lookAtAll(): Promise<void> {
    const newest = new Map<number, Member>();
    for (const [id, row] of this.#rows) {
      const crawl = this.#options.frontier.crawls.byId(id);
      if (crawl !== undefined && crawl.state !== 'cancelled')
        newest.set(row.series, { crawl, row });
    }
    for (const member of newest.values()) {
      const { id, isAside } = member.crawl;
      if (this.#state !== 'open') return;
      if (isAside) continue;
      if (this.#againMs(id) > 0) continue;
      try {
        await this.#step(member);
        this.#again.delete(id);
      } catch (error) {
        this.#failed(member.crawl, error);
      }
    }
  }

  /** The next step for the newest crawl of a series. */
  async #step({ crawl, row: { series } }: Member): Promise<void> {
    const { id } = crawl;
    const row = () => this.#rows.get(id);
    if (row()?.state === 'making') await this.#takeOver(crawl);
    if (row()?.state === 'open' && crawl.state === 'finished') await this.#compare(crawl);
    const { everyMs, keep } = crawl.spec;
    const now = row();
    const isOver = now?.state === 'done' && crawl.state === 'finished';
    if (isOver && everyMs !== undefined && keep !== undefined) await this.#prune(series, keep);
    if (everyMs === undefined || now?.dueAt === undefined || this.#state !== 'open') return;
    // The clock was put back.
    if (now.dueAt > Date.now() + everyMs) {
      await this.#keep(id, { ...now, dueAt: Date.now() + everyMs });
    }
    if (now.dueAt > Date.now()) return;
    if (isOver) await this.#next({ crawl, row: now });
    else await this.#skip({ crawl, row: now });
  }

  /** It is not over when the next is due. */
  async #skip({ crawl: { id, name, spec }, row }: Member): Promise<void> {
    const dueAt = timeAfter(row.dueAt ?? 0, spec.everyMs ?? 0);
    await this.#keep(id, { ...row, dueAt });
    const at = new Date(dueAt).toISOString();
    this.#options.log.warn(
      { crawl: name },
      `crawl ${name} is not over, so its repeat is left out this time; next at ${at}`,
    );
  }

  /** Makes the next crawl, and takes the URLs over. */
  async #next({ crawl, row }: Member): Promise<void> {
    const { frontier, store } = this.#options;
    const { series, base, dueAt = 0, next: planned, ...rest } = row;
    const name = await this.#freeName(base, planned);
    // On record before its folder is made, so that a kill leaves none behind.
    if (name !== planned) await this.#keep(crawl.id, { ...row, next: name });
    const { everyMs, keep } = crawl.spec;
    // Ended meanwhile.
    if (everyMs === undefined) return;
    const made: RepeatRow = {
      series,
      base,
      state: 'making',
      before: crawl.id,
      dueAt: timeAfter(dueAt, everyMs),
    };
    const before: RepeatRow = { series, base, ...rest };
    const seeds = repeatSeedsOf(store, crawl.id);
    let id: number | undefined;
    const also = (number: number) => {
      id = number;
      return [
        repeatChange(number, made),
        repeatChange(crawl.id, before),
        ...(seeds === undefined ? [] : [repeatSeedsChange(number, seeds)]),
        repeatSeedsChange(crawl.id, undefined),
      ];
    };
    this.#made = name;
    try {
      const spec = { everyMs, ...(keep !== undefined && { keep }) };
      await frontier.recrawl({ crawl: name, like: crawl.name, spec, urls: [], also });
    } finally {
      this.#made = undefined;
    }
    // Cancelled before it was made.
    if (id === undefined) return;
    this.#rows.set(crawl.id, before);
    this.#rows.set(id, made);
    const next = frontier.crawls.byId(id);
    if (next !== undefined) await this.#takeOver(next);
  }

  /** `planned`: a name that was free; a kill may have left empty files of it. */
  async #freeName(base: string, planned: string | undefined): Promise<string> {
    const { frontier, results } = this.#options;
    if (planned !== undefined && !frontier.crawls.has(planned)) return planned;
    for (let date = dateOf(Date.now()); ; date = dateAfter(date)) {
      const name = `${base}-${date}`;
      if (!frontier.crawls.has(name) && !(await results.isTaken(name))) return name;
    }
  }

  async #takeOver(crawl: CrawlView): Promise<void> {
    const { frontier } = this.#options;
    const { id } = crawl;
    const row = this.#rows.get(id);
    const before = row?.before && frontier.crawls.byId(row.before);
    const isWhole = await this.#making.takeOver(crawl, before || undefined);
    const now = this.#rows.get(id);
    if (isWhole && now !== undefined) await this.#keep(id, { ...now, state: 'open' });
  }

  /** It has finished: says what changed. */
  async #compare(crawl: CrawlView): Promise<void> {
    const { frontier, log, results } = this.#options;
    const { id, name } = crawl;
    const row = this.#rows.get(id);
    if (row === undefined) return;
    const before = row.before === undefined ? undefined : frontier.crawls.byId(row.before);
    let changes: RepeatRow['changes'];
    try {
      if (before !== undefined) {
        const [old, now] = [before.name, name].map((one) => results.folderOf(one));
        changes = await writeChanges(old ?? '', now ?? '', this.#aborter.signal);
        log.info({ crawl: name }, `crawl ${name}: since ${before.name} ${countsText(changes)}`);
      }
    } catch (error) {
      // The next one is not kept waiting by files that were moved away.
      if (!(error instanceof ConfigError)) throw error;
      log.warn({ crawl: name }, `crawl ${name} is not compared: ${messageOf(error)}`);
    }
    const now = this.#rows.get(id);
    if (now === undefined) return;
    await this.#keep(id, { ...now, state: 'done', ...(changes && { changes }) });
  }

  /** Removes what is beyond `keep`: older ones that have ended. */
  async #prune(series: number, keep: number): Promise<void> {
    const { backups, frontier } = this.#options;
    for (const { crawl } of this.#members(series).slice(0, -keep)) {
      if (crawl.isOpen || this.#state !== 'open') continue;
      await backups.alone(() => frontier.remove(crawl.name, true));
    }
  }

  /** Tried again later. */
  #failed(crawl: CrawlView, error: unknown): void {
    if (this.#state !== 'open') return;
    const isFull = isDiskFull(error);
    if (!isFull && !(error instanceof CommandError || error instanceof ConfigError)) throw error;
    const { id, name, spec } = crawl;
    const why = messageOf(error);
    const ms = isFull ? diskAgainMs : Math.min(againMs, spec.everyMs ?? againMs);
    if (this.#again.get(id)?.why !== why) {
      this.#options.log.warn(
        { crawl: name },
        `crawl ${name} cannot be repeated: ${why}; it is tried again every ${ms / 1000} s`,
      );
    }
    this.#again.set(id, { at: performance.now() + ms, why });
  }

  /** Until it is tried again; 0: nothing failed, or that time has come. */
  #againMs(id: number): number {
    const at = this.#again.get(id)?.at;
    return at === undefined ? 0 : Math.max(0, at - performance.now());
  }
}

/** The first time after now, of those that lie `everyMs` apart. */
function timeAfter(dueAt: number, everyMs: number): number {
  const missed = Math.max(0, Math.floor((Date.now() - dueAt) / everyMs));
  return dueAt + (missed + 1) * everyMs;
}
