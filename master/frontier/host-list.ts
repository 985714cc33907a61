/**
 * The hosts of a frontier, for operators: to be looked at, and to be treated otherwise than their
 * crawls say. Hosts in memory come first, in the wanted order; then those that are parked in the
 * store, in the order of their rows.
 */
import { CommandError } from '../../shared/errors.ts';
import { decodeValue, encodeValue } from '../../shared/frame.ts';
import type { HostRow, HostSort } from '../../shared/protocol.ts';
import type { Replies } from '../../shared/replies.ts';
import type { Requests } from '../../shared/requests.ts';
import { hostKeyOf } from '../../shared/url.ts';
import { clockMs } from '../machine/clock.ts';
import { afterPrefix, crawlKey, decodeTask } from '../store/records.ts';
import type { Store } from '../store/store.ts';
import { parseTaskKey } from '../store/task-keys.ts';
import type { Buried } from './commit/buried.ts';
import type { Crawl } from './crawl/crawl.ts';
import type { Crawls } from './crawl/crawls.ts';
import type { Dispatcher } from './dispatch/dispatcher.ts';
import type { Host } from './politeness/host.ts';
import { hostRowOf, parkedRowOf, waitingOf } from './politeness/host-row.ts';
import type { HostSettings } from './politeness/host-settings.ts';
import type { Politeness } from './politeness/politeness.ts';
import type { HostRecords } from './politeness/records.ts';

type HostListOptions = {
  readonly store: Store;
  readonly crawls: Crawls;
  readonly politeness: Politeness;
  readonly dispatcher: Dispatcher;
  readonly records: HostRecords;
  readonly settings: HostSettings;
  readonly buried: Buried;
};

type Listed = Omit<Requests['host.list'], 'verb' | 'id'>;
type Wish = Omit<Requests['host.set'], 'verb' | 'id'>;

/** Rows that one page may count for parked hosts, and for one of them. */
const countedMax = 20_000;
const countedOfHostMax = 1_000;
/** Hosts of a crawl on which one page spends time, listed or not. */
const parkedLooks = 2_000;
/** Kinds of failures that say that a host was out of reach. */
const unreachableKinds: readonly string[] = ['dns', 'connect', 'tls', 'timeout', 'proxy', 'lost'];

/** Behind which row the next page begins. */
type Place =
  | { readonly at: 'memory'; readonly value: number; readonly key: string }
  | { readonly at: 'parked'; readonly crawl: number; readonly from: Uint8Array };

export class HostList {
  readonly #options: HostListOptions;

  constructor(options: HostListOptions) {
    this.#options = options;
  }

  /** @throws CommandError E_NO_CRAWL, E_BAD_REQUEST `after` is not the `next` of a page */
  list({ crawl: name, sort, after, limit }: Listed): Replies['host.list'] {
    const { crawls } = this.#options;
    const only = name === undefined ? undefined : crawls.named(name);
    const place = after === undefined ? undefined : placeOf(after);
    const page =
      place?.at === 'parked'
        ? this.#parked(only, place, limit)
        : this.#inMemory(only, sort, place, limit);
    const { hosts, next } = page;
    return { hosts, ...(next !== undefined && { next: encodeValue(next) }) };
  }

  /** Changes how hosts are treated; they need not be known. Resolves when it is on the disk.
   *  @throws CommandError E_BAD_REQUEST not a host · E_LIMIT */
  async set(wish: Wish): Promise<Replies['host.set']> {
    const keys = hostKeysOf(wish.host);
    const { delayMs, blocked, wake = false, retry = false } = wish;
    const { settings, politeness, dispatcher } = this.#options;
    for (const key of keys) {
      const before = settings.of(key);
      const delay = delayMs === undefined ? before?.delayMs : (delayMs ?? undefined);
      const isBlocked = blocked ?? before?.blocked ?? false;
      const setting = {
        ...(delay !== undefined && { delayMs: delay }),
        ...(isBlocked && { blocked: true as const }),
      };
      const isChanged = delayMs !== undefined || blocked !== undefined;
      if (isChanged) {
        await settings.set(key, Object.keys(setting).length > 0 ? setting : undefined);
        this.#apply(key);
      }
      if (wake || retry) await this.#wake(key);
    }
    const replayed = retry ? await this.#replay(keys) : undefined;
    dispatcher.dispatchSoon();
    return {
      hosts: keys.map((host) => ({
        host,
        ...settings.of(host),
        known: politeness.known(host) !== undefined,
      })),
      ...(replayed !== undefined && { replayed }),
    };
  }

  /** A host in memory follows its setting from now on. */
  #apply(key: string): void {
    const { politeness, settings, dispatcher } = this.#options;
    const host = politeness.known(key);
    if (host === undefined) return;
    host.setting = settings.of(key);
    politeness.agreeAnew(host.group, clockMs());
    dispatcher.recallHasty();
    // Tasks that wait in a slave would still be fetched.
    if (host.setting?.blocked) dispatcher.takeBack((one) => one.host === host);
    politeness.wake(host, clockMs());
  }

  /** Ends the sleep of a host, and the hold of its group. */
  async #wake(key: string): Promise<void> {
    const { politeness, records } = this.#options;
    const host = politeness.known(key);
    if (host === undefined) {
      await records.wake(politeness.hashOf(key));
      return;
    }
    const now = clockMs();
    host.retry();
    records.saveBreaker(host);
    if (host.group.pace.goOn()) records.savePace(host.group);
    politeness.wake(host, now);
    politeness.paced(host.group, now);
  }

  /** Puts the URLs back that were given up because the hosts were out of reach. */
  async #replay(keys: readonly string[]): Promise<number> {
    const { crawls, buried } = this.#options;
    let replayed = 0;
    for (const crawl of [...crawls]) {
      if (crawl.counters.buried === 0) continue;
      replayed += await buried.replayWhere(crawl, ({ url, kind, message }) => {
        const isLost = unreachableKinds.includes(kind) || message.includes('robots.txt');
        return isLost && keys.includes(hostKeyOf(new URL(url)));
      });
    }
    return replayed;
  }

  #inMemory(
    only: Crawl | undefined,
    sort: HostSort,
    place: Extract<Place, { at: 'memory' }> | undefined,
    limit: number,
  ): { hosts: HostRow[]; next?: Place } {
    const { politeness, crawls } = this.#options;
    const found: { host: Host; value: number }[] = [];
    for (const host of politeness) {
      if (only !== undefined && !host.clients.has(only.id)) continue;
      const one = { host, value: amountOf(host, sort, only) };
      if (place === undefined || isBehind(one, place)) found.push(one);
    }
    found.sort((a, b) => (isBehind(a, { value: b.value, key: b.host.key }) ? 1 : -1));
    const now = clockMs();
    const page = found.slice(0, limit);
    const nameOf = (id: number) => crawls.byId(id)?.name ?? String(id);
    const hosts = page.map(({ host }) => hostRowOf(host, only?.id, nameOf, now));
    const last = page.at(-1);
    if (last !== undefined && found.length > page.length) {
      return { hosts, next: { at: 'memory', value: last.value, key: last.host.key } };
    }
    const first = only ?? [...crawls][0];
    if (first === undefined) return { hosts };
    return { hosts, next: { at: 'parked', crawl: first.id, from: crawlKey(first.id) } };
  }

  /** One row of the store a host; those in memory were listed. */
  #parked(
    only: Crawl | undefined,
    place: Extract<Place, { at: 'parked' }>,
    limit: number,
  ): { hosts: HostRow[]; next?: Place } {
    const { crawls, records, settings } = this.#options;
    const { rows } = crawls.queues;
    const crawl = crawls.byId(place.crawl);
    const hosts: HostRow[] = [];
    const now = clockMs();
    let from: Buffer = Buffer.from(place.from);
    let counted = 0;
    for (let looks = 0; crawl !== undefined && crawl.open.waiting > 0; looks++) {
      if (hosts.length >= limit || looks >= parkedLooks || counted >= countedMax) {
        return { hosts, next: { at: 'parked', crawl: place.crawl, from } };
      }
      const row = rows.firstFrom(crawl.id, from);
      const parts = row && parseTaskKey(row.key);
      if (row === undefined || parts === undefined) break;
      const { host: hash } = parts;
      from = afterPrefix(Buffer.concat([crawlKey(crawl.id), hash]));
      if (crawl.queues.has(hash.toString('latin1'))) continue;
      const ofHost = { from: row.key, limit: countedOfHostMax };
      const count = rows.ofHost(crawl.id, hash, ofHost).length;
      counted += count;
      const key = hostKeyOf(new URL(decodeTask(row.value).url));
      const kept = { ...records.look(hash), setting: settings.of(key) };
      const waiting = { count, isMore: count === countedOfHostMax };
      hosts.push(parkedRowOf({ key, crawl: crawl.name, waiting, kept }, now));
    }
    const next = only === undefined ? nextOf([...crawls], place.crawl) : undefined;
    if (next === undefined) return { hosts };
    return { hosts, next: { at: 'parked', crawl: next.id, from: crawlKey(next.id) } };
  }
}

/** The crawl made after this one. */
function nextOf(crawls: readonly Crawl[], id: number): Crawl | undefined {
  let next: Crawl | undefined;
  for (const crawl of crawls) {
    if (crawl.id > id && crawl.id < (next?.id ?? Number.POSITIVE_INFINITY)) next = crawl;
  }
  return next;
}

/** The key that orders hosts, the largest first. */
function amountOf(host: Host, sort: HostSort, only: Crawl | undefined): number {
  if (sort === 'failed') return host.failed;
  const waiting = waitingOf(host, only?.id).count;
  return sort === 'slow' ? waiting * host.group.delayMs : waiting;
}

function isBehind(
  { host, value }: { readonly host: Host; readonly value: number },
  place: { readonly value: number; readonly key: string },
): boolean {
  return value === place.value ? host.key > place.key : value < place.value;
}

/** The hosts that a text names: one, or without a scheme, those of http and https.
 *  @throws CommandError E_BAD_REQUEST */
function hostKeysOf(text: string): string[] {
  const schemes = /^https?:\/\//i.test(text) ? [''] : ['http://', 'https://'];
  return schemes.map((scheme) => {
    const url = URL.canParse(scheme + text) ? new URL(scheme + text) : undefined;
    const isHost = url !== undefined && /^https?:$/.test(url.protocol) && url.username === '';
    const isBare = isHost && url.password === '' && url.pathname === '/' && url.search === '';
    if (isBare && url.hash === '') return hostKeyOf(url);
    throw new CommandError(
      'E_BAD_REQUEST',
      `"${text}" is not a host; write it as example.org, example.org:8080 or https://example.org`,
    );
  });
}

/** @throws CommandError */
function placeOf(after: Uint8Array): Place {
  try {
    const place = decodeValue(after) as Place;
    if (place.at === 'memory' && Number.isFinite(place.value) && typeof place.key === 'string') {
      return place;
    }
    const isFrom = place.at === 'parked' && place.from instanceof Uint8Array;
    if (isFrom && isCrawl(place.crawl) && place.from.length <= 64) return place;
  } catch {
    // not msgpack, or of another shape
  }
  throw new CommandError('E_BAD_REQUEST', '`after` is not the `next` of an earlier reply');
}

function isCrawl(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) < 2 ** 32 - 1;
}
