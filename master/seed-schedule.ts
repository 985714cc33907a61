/**
 * Sources of seeds that are asked again and again (`every: 15m` in a crawl file), while the master
 * runs. They are kept with their crawl, so that a master that was killed goes on with them, and
 * asks those first whose time has passed. New seeds start a finished crawl again; a crawl that is
 * cancelled or removed has no sources any more.
 */

import { amount } from '../shared/amount.ts';
import { CommandError, ConfigError } from '../shared/errors.ts';
import { decodeValue, encodeValue } from '../shared/frame.ts';
import type { Logger } from '../shared/log.ts';
import type { CrawlStatus } from '../shared/protocol.ts';
import { type Gathered, gather, gatherSource } from './cli/seed-gathering.ts';
import type { SeedList, SeedPart, SeedSource } from './cli/seed-list.ts';
import { partsOf } from './cli/seeds.ts';
import type { ServeOptions } from './cli/serve-options.ts';
import type { StartOptions } from './first-seeds.ts';
import type { CrawlView } from './frontier/crawl/crawl-view.ts';
import type { Frontier } from './frontier/frontier.ts';
import type { FrontierListener } from './frontier/frontier-events.ts';
import type { GroupCommit } from './store/group-commit.ts';
import { scheduleKey } from './store/records.ts';
import type { Store } from './store/store.ts';

type Entry = {
  readonly source: SeedSource;
  /** Where it stands in which file, for log lines. */
  readonly what: string;
  readonly everyMs: number;
  /** Unix time in ms. */
  readonly dueAt: number;
};

type ScheduleOptions = {
  readonly store: Pick<Store, 'get'>;
  readonly commits: Pick<GroupCommit, 'written'>;
  readonly frontier: Frontier;
  readonly log: Logger;
  readonly onError: (error: unknown) => void;
};

/** A crawl that cannot take seeds now is looked at again then; and no timer is longer, since clocks
 *  are set. */
const againMs = 5_000;
const timerMsMax = 60_000;
/** Sources that take longer are named in the log: nobody can ask the master meanwhile. */
const slowMs = 1_000;
const none: Gathered = { urls: [], requests: [] };

type Repeated = Extract<SeedPart, { source: SeedSource }> & { readonly everyMs: number };

function isRepeated(part: SeedPart): part is Repeated {
  return 'source' in part && part.everyMs !== undefined;
}

/** After the clock was put back, a source does not wait until it is that late again. */
function dueInTime(entries: readonly Entry[]): Entry[] {
  const now = Date.now();
  return entries.map((entry) => {
    const latest = now + Math.max(entry.everyMs, againMs);
    return { ...entry, dueAt: Math.min(entry.dueAt, latest) };
  });
}

export class SeedSchedule implements FrontierListener {
  readonly #options: ScheduleOptions;
  /** By the number of their crawl. */
  readonly #entries = new Map<number, readonly Entry[]>();
  readonly #aborter = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  /** The crawl of this start is. */
  #isNew = false;
  #ended: Promise<unknown> = Promise.resolve();
  #state: 'new' | 'open' | 'closed' = 'new';

  constructor(options: ScheduleOptions) {
    this.#options = options;
  }

  /** Some crawl will get further seeds. */
  get isPlanned(): boolean {
    return this.#entries.size > 0;
  }

  /** Of the crawl with this number; undefined: it has none. */
  of(crawl: number): CrawlStatus['schedule'] {
    const entries = this.#entries.get(crawl);
    if (entries === undefined) return undefined;
    const nextAt = Math.min(...entries.map(({ dueAt }) => dueAt));
    return { sources: entries.length, nextAt };
  }

  /** The seeds of the crawl file of this start. A source that cannot be asked is an error for a new
   *  crawl; one that is there goes on with what it has. A stop ends the asking: no seed is used
   *  then. @throws ConfigError */
  async first({
    crawl,
    list,
    crawlFile = '',
    spec,
    seeds: given,
    stopping,
  }: StartOptions): Promise<Gathered> {
    const { frontier, log } = this.#options;
    const warn = (text: string) => log.warn({ crawl }, text);
    const asking = { spec, warn, signal: stopping };
    const ask = async (some: SeedList) => {
      const text = `asks the sources of seeds in ${crawlFile} first, and listens when they have answered`;
      const slow = setTimeout(() => log.info({ crawl }, text), slowMs);
      try {
        return await gather(some, crawlFile, asking);
      } catch (error) {
        if (stopping.aborted) return none;
        throw error;
      } finally {
        clearTimeout(slow);
      }
    };
    this.#isNew = !frontier.crawls.has(crawl);
    if (this.#isNew) {
      const seeds = await ask(list);
      const count = seeds.urls.length + seeds.requests.length + given.length;
      const isFound = count > 0 || list.parts.some(isRepeated);
      if (isFound || list.parts.length === 0 || stopping.aborted) return seeds;
      throw new ConfigError(`${crawlFile} makes no seed at the moment: nothing is to be crawled`);
    }
    // Those on a schedule are asked when their time has come.
    const parts = list.parts.filter((part) => !isRepeated(part));
    try {
      return await ask({ ...list, parts });
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      warn(`${error.message}; crawl ${crawl} goes on with the seeds that it has`);
      return none;
    }
  }

  /** The crawl of this start has its seeds; from now on its schedule is that of its file. What
   *  other crawls have is read, and the clock runs. */
  async start({ crawl: name, list, crawlFile }: ServeOptions): Promise<void> {
    const { frontier, store } = this.#options;
    for (const { id, state } of frontier.crawls) {
      const row = state === 'cancelled' ? undefined : store.get('meta', scheduleKey(id));
      if (row !== undefined) this.#entries.set(id, decodeValue(row) as Entry[]);
    }
    if (crawlFile !== undefined) await this.#replace(name, crawlFile, list);
    this.#state = 'open';
    this.#arm();
    for (const [id, entries] of this.#entries) this.#tell(id, entries);
  }

  /** Records that the first seeds of a new crawl take along, so that no kill comes between them and
   *  the schedule; undefined: the crawl is there already, or has no such sources. */
  planned({ crawlFile = '', list }: ServeOptions): Uint8Array | undefined {
    if (!this.#isNew) return undefined;
    const entries = this.#entriesOf(crawlFile, list, []);
    return entries.length > 0 ? encodeValue(entries) : undefined;
  }

  /** The crawl gets the schedule of this file. */
  async #replace(name: string, file: string, list: SeedList): Promise<void> {
    const { frontier } = this.#options;
    // No source has said anything yet.
    if (list.parts.some(isRepeated) && !frontier.crawls.has(name)) {
      const schedule = encodeValue(this.#entriesOf(file, list, []));
      await frontier.seed({ crawl: name, seeds: [], priority: 0, schedule });
    }
    if (!frontier.crawls.has(name)) return;
    const { id } = frontier.crawls.named(name);
    const known = this.#entries.get(id) ?? [];
    const entries = this.#entriesOf(file, list, known);
    if (entries.length > 0 || known.length > 0) await this.#keep(id, entries);
  }

  #entriesOf(file: string, { parts }: SeedList, known: readonly Entry[]): Entry[] {
    const now = Date.now();
    return parts.filter(isRepeated).map(({ source, everyMs, at }): Entry => {
      const text = JSON.stringify(source);
      const before = known.find((one) => JSON.stringify(one.source) === text);
      const dueAt = this.#isNew ? now + everyMs : Math.min(before?.dueAt ?? now, now + everyMs);
      return { source, what: `${file}: ${at}`, everyMs, dueAt };
    });
  }

  crawlEnded(crawl: CrawlView): void {
    if (crawl.state === 'cancelled') this.#forget(crawl);
  }

  crawlRemoved(crawl: CrawlView): void {
    this.#entries.delete(crawl.id);
  }

  /** Asks nobody any more; a command that runs is killed. */
  async close(): Promise<void> {
    this.#state = 'closed';
    clearTimeout(this.#timer);
    this.#aborter.abort();
    await this.#ended;
  }

  #forget({ id }: CrawlView): void {
    if (!this.#entries.has(id)) return;
    this.#keep(id, []).catch(this.#options.onError);
  }

  #tell(id: number, entries: readonly Entry[]): void {
    const crawl = this.#crawlOf(id);
    if (crawl === undefined) return;
    const [first] = [...entries].sort((a, b) => a.dueAt - b.dueAt);
    const at = new Date(Math.max(first?.dueAt ?? 0, Date.now())).toISOString();
    this.#options.log.info(
      { crawl: crawl.name },
      `crawl ${crawl.name} gets seeds of ${amount(entries.length, 'source')} on a schedule, next at ` +
        `${at}; cancel the crawl to end that`,
    );
  }

  #crawlOf(id: number): CrawlView | undefined {
    return [...this.#options.frontier.crawls].find((crawl) => crawl.id === id);
  }

  /** Resolves when that is on the disk. */
  async #keep(id: number, entries: readonly Entry[]): Promise<void> {
    if (entries.length > 0) this.#entries.set(id, entries);
    else this.#entries.delete(id);
    const value = entries.length > 0 ? encodeValue(entries) : undefined;
    await this.#options.commits.written([{ table: 'meta', key: scheduleKey(id), value }]);
  }

  #arm(): void {
    clearTimeout(this.#timer);
    if (this.#state !== 'open') return;
    for (const [id, entries] of this.#entries) this.#entries.set(id, dueInTime(entries));
    const due = [...this.#entries.values()].flat().map(({ dueAt }) => dueAt);
    const waitMs = Math.min(...due, Number.MAX_SAFE_INTEGER) - Date.now();
    const ms = Math.max(0, Math.min(waitMs, timerMsMax));
    this.#timer = setTimeout(() => this.#look(), ms);
  }

  #look(): void {
    this.#ended = this.#askDue().then(() => this.#arm(), this.#options.onError);
  }

  /** One source after the other, each at its time. */
  async #askDue(): Promise<void> {
    for (const [id, entries] of [...this.#entries]) {
      for (const entry of entries) {
        if (this.#state !== 'open' || entry.dueAt > Date.now()) continue;
        const crawl = this.#crawlOf(id);
        const isOpen = crawl !== undefined && !crawl.isAside && crawl.held === undefined;
        const mayTake = isOpen && crawl.state !== 'paused' && crawl.state !== 'cancelled';
        const nextAt = Date.now() + (mayTake ? entry.everyMs : againMs);
        if (mayTake) await this.#ask(crawl, entry);
        if (this.#state !== 'open') return;
        const now = this.#entries.get(id);
        if (now === undefined) break;
        const next = now.map((one) => (one.what === entry.what ? { ...one, dueAt: nextAt } : one));
        // A crawl that is paused is looked at again soon, which need not be on record.
        if (mayTake) await this.#keep(id, next);
        else this.#entries.set(id, next);
      }
    }
  }

  /** Makes seeds of the URLs that are new in a source. */
  async #ask(crawl: CrawlView, { source, what }: Entry): Promise<void> {
    const { frontier, log } = this.#options;
    const { name, spec } = crawl;
    const warn = (text: string) => log.warn({ crawl: name }, text);
    try {
      const asking = { spec, warn, signal: this.#aborter.signal };
      const seeds = await gatherSource(source, what, asking);
      let admitted = 0;
      for (const part of partsOf(seeds)) {
        const verdict = await frontier.seed({ crawl: crawl.name, seeds: part, priority: 0 });
        admitted += verdict.admitted;
        for (const { url, why } of verdict.refused) log.warn({ url }, `seed refused: ${why}`);
      }
      log.info(
        { crawl: name },
        `crawl ${name}: ${what} has ${amount(seeds.length, 'seed')}, ${admitted} new`,
      );
    } catch (error) {
      if (!(error instanceof ConfigError || error instanceof CommandError)) throw error;
      if (this.#state === 'open') warn(`crawl ${name}: ${error.message}; it is asked again later`);
    }
  }
}
