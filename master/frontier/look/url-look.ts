/**
 * A URL and its crawl, to be looked at: which of its names were admitted, how it stands while it is
 * open, what its crawl would decide about it. Nothing is loaded into memory for it, counted or
 * changed. With a running frontier it also knows what is in memory: hosts, leases. Without one the
 * store is all there is. `inspect/` asks it.
 */
import assert from 'node:assert/strict';
import { amount } from '../../../shared/amount.ts';
import { errorText, type HostRow } from '../../../shared/protocol.ts';
import { hostKeyOf } from '../../../shared/url.ts';
import type { UrlFate } from '../../../shared/url-fate.ts';
import { clockMs } from '../../machine/clock.ts';
import { duration } from '../../machine/progress.ts';
import {
  type CrawlRecord,
  decodeFault,
  decodeHostSetting,
  decodeRobots,
  fingerprintKey,
  hostBytes,
  hostSettingKey,
  secretKey,
  type TaskRecord,
} from '../../store/records.ts';
import type { Rows } from '../../store/store.ts';
import { parseTaskKey, taskKey } from '../../store/task-keys.ts';
import { pictureName } from '../commit/pictures.ts';
import type { ResultsPort } from '../commit/results.ts';
import { skipMarked } from '../commit/skipped.ts';
import { Sources } from '../commit/sources.ts';
import { Crawl } from '../crawl/crawl.ts';
import type { Crawls } from '../crawl/crawls.ts';
import { keptOf } from '../crawl/kept.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import { Filter } from '../filter/filter.ts';
import { Fingerprinter, fingerprintBytes } from '../filter/fingerprint.ts';
import { RecentTable } from '../filter/recent.ts';
import { imageName, pageName } from '../filter/seen-names.ts';
import { WaitingRoom } from '../filter/waiting-room.ts';
import { crawlKindOf, kindOf, namesOfKinds } from '../kinds/kinds.ts';
import type { HostSetting } from '../politeness/host.ts';
import { hostRowOf, parkedRowOf } from '../politeness/host-row.ts';
import type { Politeness } from '../politeness/politeness.ts';
import { keptOfHost } from '../politeness/records.ts';
import { type Judgement, judgeFetch, judgeLink, skipped } from './judge.ts';
import { storedSeen } from './stored-seen.ts';
import { waitsOf } from './waits.ts';

export {
  countedMax as skippedCountedMax,
  listedMax as skippedListedMax,
} from '../commit/skipped.ts';
export { isSkipReason } from './judge.ts';

/** A crawl, as those see it who look at its URLs. */
export type LookedCrawl = Crawl;

/** Crawls that run. */
type Running = {
  readonly crawls: Crawls;
  readonly politeness: Politeness;
  readonly dispatcher: Dispatcher;
  readonly results: Pick<ResultsPort, 'isFull'>;
};

/** The names of a URL that its crawl admitted. */
export type SeenAs = {
  readonly page: boolean;
  readonly sitemap: boolean;
  /** It is the address of an image. */
  readonly image: boolean;
  /** It was to be downloaded as one. */
  readonly download: boolean;
  /** A page has it for its canonical URL. */
  readonly canonical: boolean;
  /** A link to it was skipped. */
  readonly skipped: boolean;
};

const notSeen: SeenAs = {
  page: false,
  sitemap: false,
  image: false,
  download: false,
  canonical: false,
  skipped: false,
};

/** An open task, as it is in the store; `before`: tasks of its host before it. */
type OpenTask = {
  readonly key: Buffer;
  readonly record: TaskRecord;
  readonly before: number;
};

export class UrlLook {
  readonly #store: Rows;
  readonly #running: Running | undefined;
  readonly #fingerprinter = new Fingerprinter();
  readonly #asleep;
  readonly #sources: Sources;

  /** `running`: undefined: no master does. */
  constructor(store: Rows, running?: Running) {
    this.#store = store;
    const [recent, room] = [new RecentTable(1), new WaitingRoom(0)];
    this.#asleep = { store, recent, room, path: undefined };
    this.#running = running;
    this.#sources = new Sources(store);
  }

  /** A crawl of a running master. @throws CommandError E_NO_CRAWL */
  named(name: string): LookedCrawl {
    assert.ok(this.#running, 'no master runs');
    return this.#running.crawls.named(name);
  }

  /** A crawl of the store. */
  crawlOf(record: CrawlRecord): LookedCrawl {
    const { id } = record;
    const { urlsExpected } = record.spec;
    const seenCount = () => record.counters.seen;
    const { store, recent, room, path } = this.#asleep;
    // It stays asleep: all look-ups here go to the store.
    const filter = new Filter({ crawl: id, store, recent, room, urlsExpected, path, seenCount });
    return new Crawl(record, filter, () => keptOf(store, id));
  }

  /** A cancelled crawl has forgotten everything: its rows are erased bit by bit. */
  seenAs(crawl: LookedCrawl, url: URL): SeenAs {
    if (crawl.state === 'cancelled') return notSeen;
    const words = this.#words(crawl, url.href);
    const named = namesOfKinds(url.href);
    const names = [
      named.page,
      named.sitemap,
      imageName(url.href),
      pageName(url.href),
      pictureName(url.href),
    ];
    const all = [...names.map((name) => this.#words(crawl, name)), skipMarked(words, 0)];
    const seen = storedSeen(this.#store, crawl.id, all);
    const [page, sitemap, image, canonical, download, skipped] = seen;
    return {
      page: page === true,
      sitemap: sitemap === true,
      image: image === true,
      download: download === true,
      canonical: canonical === true,
      skipped: skipped === true,
    };
  }

  buriedKey(crawl: LookedCrawl, url: URL): Buffer {
    return fingerprintKey(crawl.id, this.#words(crawl, url.href), 0);
  }

  /** The same of an image that was to be downloaded. */
  buriedImageKey(crawl: LookedCrawl, url: URL): Buffer {
    return fingerprintKey(crawl.id, this.#words(crawl, pictureName(url.href)), 0);
  }

  /** Where the tasks of a URL's host are. */
  tasksOf(crawl: LookedCrawl, url: URL): { readonly from: Buffer; readonly to: Buffer } {
    const hash = this.#hashOf(hostKeyOf(url));
    const to = taskKey(crawl.id, hash, 0xffffffff, 2 ** 48 - 1);
    return { from: taskKey(crawl.id, hash, 0, 0), to };
  }

  /** The URL of what led to a task; undefined: it is a seed. */
  sourceOf(crawl: LookedCrawl, number: number | undefined): string | undefined {
    return this.#sources.urlOf({ queue: { crawl: crawl.id }, from: number });
  }

  /** How an open URL stands. */
  openFate(crawl: LookedCrawl, { key, record, before }: OpenTask): UrlFate {
    const now = clockMs();
    const url = new URL(record.url);
    const parts = parseTaskKey(key);
    const queue = parts && crawl.queues.get(parts.host.toString('latin1'))?.queue;
    const task = parts && queue?.inMemory(parts.seq);
    const fault = this.#store.get('faults', key);
    const row = this.#hostRow(crawl, url, now);
    const { kind } = kindOf(record).pushed;
    const fate: UrlFate = {
      state: stateOf(task?.state),
      ...(kind !== undefined && { kind: kind as NonNullable<UrlFate['kind']> }),
      text: [],
      depth: record.depth,
      ...(record.priority !== 0 && { priority: record.priority }),
      attempts: record.attempts,
      attemptsMax: crawl.spec.attemptsMax,
      ...(fault !== undefined && { error: decodeFault(fault) }),
      host: row,
    };
    const from = this.sourceOf(crawl, record.from);
    if (from !== undefined) fate.from = from;
    if (fate.state === 'leased' && task !== undefined) {
      const slave = this.#running?.dispatcher.slaveOf(task);
      if (slave !== undefined) fate.slave = slave;
      fate.text.push(`it is being fetched${slave === undefined ? '' : ` by slave ${slave}`}`);
      return fate;
    }
    if (fate.state === 'reported') {
      fate.text.push('its answer came, and is being stored');
      return fate;
    }
    fate.before = before;
    this.#addLeavingOut(fate, crawl, record, url);
    this.#addWaits(fate, crawl, { record, url, before, row }, now);
    return fate;
  }

  /** Why the crawl would leave a URL out, by a link at this depth or by any; undefined: it would
   *  not. */
  judge(crawl: LookedCrawl, url: URL, depth?: number): Judgement | undefined {
    const hasSeen = (name: string) =>
      storedSeen(this.#store, crawl.id, [this.#words(crawl, name)])[0] === true;
    return judgeLink(crawl, url, hasSeen, depth) ?? this.judgeFetch(crawl, url);
  }

  /** The same of a URL that is admitted. */
  judgeFetch(crawl: LookedCrawl, url: URL): Judgement | undefined {
    const key = hostKeyOf(url);
    const value = this.#store.get('robots', this.#hashOf(key));
    const robots = value && decodeRobots(value, clockMs());
    const isBlocked = this.#settingOf(key)?.blocked === true;
    return judgeFetch(crawl, url, { robots, isBlocked });
  }

  /** A reason for which a link was skipped, in words. */
  readonly skipped = skipped;

  /** Options that were set since the URL was admitted may leave it out. */
  #addLeavingOut(fate: UrlFate, crawl: LookedCrawl, record: TaskRecord, url: URL): void {
    if (!crawl.isNarrowed || !crawlKindOf(record).leavesOut(crawl, record)) return;
    const judged = judgeLink(crawl, url, () => false, record.depth);
    if (judged !== undefined) fate.rule = judged.rule;
    const why = judged === undefined ? '' : `: it is ${judged.text}`;
    fate.text.push(`it will be left out when its turn comes, by what was set since${why}`);
  }

  #addWaits(
    fate: UrlFate,
    crawl: LookedCrawl,
    {
      record,
      url,
      before,
      row,
    }: {
      readonly record: TaskRecord;
      readonly url: URL;
      readonly before: number;
      readonly row: HostRow;
    },
    now: number,
  ): void {
    const { notBefore } = record;
    const running = this.#running;
    const host = running?.politeness.known(hostKeyOf(url));
    const master = running && {
      hasSlaves: running.dispatcher.hasSlaves,
      isFull: running.results.isFull,
    };
    const open = { crawl, hostname: url.host, notBefore, before, row, host, master };
    const waits = waitsOf(open, now);
    fate.waitsFor = waits;
    const untils = waits.flatMap(({ until }) => until ?? []);
    const [first, ...others] = waits;
    fate.text.push(first === undefined ? 'it waits, and comes next' : `it waits: ${first.text}`);
    for (const { text } of others) fate.text.push(text);
    const known = waits.every(({ what, until }) => until !== undefined || what === 'queue');
    if (known) {
      const queueMs = before * (row.delayMs ?? 0);
      fate.dueAt = Math.round(Math.max(now, ...untils) + queueMs);
      if (fate.dueAt > now) fate.text.push(`due in ${duration(fate.dueAt - now)} at the earliest`);
    }
    if (record.attempts > 0) {
      const tries = `${amount(record.attempts, 'attempt')} of ${crawl.spec.attemptsMax} failed`;
      const { error } = fate;
      fate.text.push(error === undefined ? tries : `${tries}, the last: ${errorText(error)}`);
    }
    const judged = this.judgeFetch(crawl, url);
    if (judged === undefined || judged.rule.by === 'blocked') return;
    fate.rule = judged.rule;
    fate.text.push(`when its turn comes, it is ${judged.text}`);
  }

  /** The state of a URL's host. */
  #hostRow(crawl: LookedCrawl, url: URL, now: number): HostRow {
    const running = this.#running;
    const key = hostKeyOf(url);
    const host = running?.politeness.known(key);
    if (running !== undefined && host !== undefined) {
      const nameOf = (id: number) => running.crawls.byId(id)?.name ?? String(id);
      return hostRowOf(host, crawl.id, nameOf, now);
    }
    const hash = this.#hashOf(key);
    const kept = { ...keptOfHost(this.#store, hash, now), setting: this.#settingOf(key) };
    const row = parkedRowOf(
      { key, crawl: crawl.name, waiting: { count: 0, isMore: true }, kept },
      now,
    );
    return crawl.spec.ignoreRobots || row.robots ? row : { ...row, robots: { state: 'unknown' } };
  }

  #settingOf(hostKey: string): HostSetting | undefined {
    const value = this.#store.get('meta', hostSettingKey(hostKey));
    return value && decodeHostSetting(value);
  }

  #words({ secret }: LookedCrawl, name: string): Uint32Array {
    return this.#fingerprinter.one(secret, name);
  }

  #hashOf(hostKey: string): Buffer {
    const secret = this.#store.get('meta', secretKey) ?? Buffer.alloc(fingerprintBytes);
    return Buffer.from(this.#fingerprinter.one(secret, hostKey).buffer, 0, hostBytes);
  }
}

function stateOf(state: 'waiting' | 'leased' | 'committing' | undefined): UrlFate['state'] {
  if (state === 'committing') return 'reported';
  return state ?? 'waiting';
}
