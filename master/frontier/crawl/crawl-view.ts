/**
 * A crawl as the rest of the master sees it: to be read, never changed. `Crawl` is one, and only
 * the verbs of the frontier change it.
 */
import type { CrawlState } from '../../../shared/crawl.ts';
import type { CrawlEnding, CrawlStatus } from '../../../shared/protocol.ts';
import type { CrawlCounters, CrawlRecord } from '../../store/records.ts';

export interface CrawlView {
  readonly id: number;
  readonly name: string;
  readonly spec: CrawlRecord['spec'];
  readonly state: Exclude<CrawlState, 'held'>;
  /** Why nothing of it is written or fetched; undefined: it is not held. */
  readonly held: string | undefined;
  /** It is held, and does not go on by itself. */
  readonly isStuck: boolean;
  /** Left alone by a master with --only, until it is resumed. */
  readonly isAside: boolean;
  /** Unix time in ms. */
  readonly startedAt: number;
  /** Its URLs are handed out. */
  readonly isRunning: boolean;
  /** The time that the delay of its slowest host takes for the URLs that wait there, in ms. */
  readonly slowestHostMs: number;
  /** Hosts from which nothing is fetched, by the operator's word, and the URLs that wait there. */
  readonly blocked: { readonly hosts: number; readonly waiting: number };
  /** Neither finished nor cancelled. */
  readonly isOpen: boolean;
  /** How far its removal is; undefined: nobody has removed it. */
  readonly removal: CrawlRecord['removal'];
  /** Why it ended; undefined: it has not. */
  readonly ending: CrawlEnding | undefined;
  /** Nothing is left to fetch. */
  readonly isFetched: boolean;
  readonly counters: Readonly<CrawlCounters>;
  /** For how long masters had it, in ms. */
  readonly openMs: number;
  /** Work under way: see `OpenWork`. */
  readonly open: {
    readonly offered: number;
    readonly waiting: number;
    readonly leased: number;
    readonly unwritten: number;
  };
  /** No seed of it was answered, and it has no page: it may be started anew. */
  readonly isUnanswered: boolean;
  /** As `crawl.list` shows it. */
  status(): CrawlStatus;
}
