/**
 * The master's notes on a session, for `slaves`: since when it is there, what it said of itself,
 * and its reports. Pure but for its default clocks.
 */
import type { FolderTrouble, ProxyTrouble } from '../../shared/protocol.ts';
import type { Requests } from '../../shared/requests.ts';

type SlaveState = Omit<Requests['slave.state'], 'verb' | 'id'>;

type Bucket = { readonly at: number; count: number };

const bucketMs = 5_000;
const windowMs = 60_000;

export class SlaveRecord {
  /** Unix time in ms. */
  readonly since = Date.now();
  /** As it last said; undefined: it is of a version that says nothing. */
  state: SlaveState | undefined;
  /** It was told to leave. */
  isDraining = false;
  /** Fetches that failed, definitely or not. */
  errors = 0;
  /** Folders of images to which it cannot write. [T-115] */
  folders: readonly FolderTrouble[] = [];
  #proxies: { readonly troubles: readonly ProxyTrouble[]; readonly at: number } | undefined;
  readonly #now: () => number;
  readonly #begin: number;
  /** Reports of the last minute. */
  #buckets: Bucket[] = [];

  /** `now` returns ms, of a clock that does not jump. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#begin = now();
  }

  /** It has ended a fetch. */
  fetched(isError: boolean): void {
    if (isError) this.errors++;
    const now = this.#now();
    const last = this.#buckets.at(-1);
    if (last !== undefined && now - last.at < bucketMs) last.count++;
    else this.#buckets = [...this.#recent(now), { at: now, count: 1 }];
  }

  /** Proxies that do not work for this slave. [T-45] */
  setProxies(troubles: readonly ProxyTrouble[]): void {
    this.#proxies = troubles.length > 0 ? { troubles, at: this.#now() } : undefined;
  }

  /** The proxies that the slave last reported, with the time that is left. */
  get proxies(): ProxyTrouble[] {
    const { troubles = [], at = 0 } = this.#proxies ?? {};
    const passedMs = Math.round(this.#now() - at);
    return troubles.map((one) => ({ ...one, forMs: Math.max(0, one.forMs - passedMs) }));
  }

  /** Over the last minute. */
  get fetchesPerS(): number {
    const now = this.#now();
    const count = this.#recent(now).reduce((sum, bucket) => sum + bucket.count, 0);
    const spanMs = Math.min(windowMs, now - this.#begin);
    return spanMs <= 0 ? 0 : (count * 1_000) / spanMs;
  }

  #recent(now: number): Bucket[] {
    return this.#buckets.filter(({ at }) => now - at < windowMs);
  }
}
