/** The answer to each verb of requests. Source: PROTOCOL.md. */

import type { CrawlState } from './crawl.ts';
import type { JobOutput, JobRow, JobsStatus } from './jobs.ts';
import type { LedgerCheck } from './ledger.ts';
import type { SinkStatus } from './outputs.ts';
import type {
  ChangedField,
  CrawlStatus,
  FailedUrl,
  FetchErrorKind,
  FolderTrouble,
  HostRow,
  ProxyTrouble,
  SkipReason,
  SlaveRow,
} from './protocol.ts';
import type { UrlFate } from './url-fate.ts';

/** The reply to each verb. */
export type Replies = {
  hello: {
    protocol: number;
    server: string;
    session: number;
    heartbeatMs: number;
    silenceMs: number;
    leaseMs: number;
    frameBytesMax: number;
    proof: Uint8Array;
  };
  ping: Record<never, never>;
  bye: Record<never, never>;
  'task.credit': Record<never, never>;
  'task.report': { state: 'done' | 'stale' };
  'task.started': Record<never, never>;
  'task.hop': { state: 'go' | 'robots' | 'scope' | 'later' | 'lost'; timed?: true };
  'task.robots': { state: 'done' | 'stale' };
  'task.sitemap': { state: 'done' | 'stale' };
  'task.release': { state: 'done' | 'stale' };
  'task.extend': { lost: number[] };
  'task.archive': Record<never, never>;
  'task.image': { state: 'done' | 'stale' };
  'task.known': { state: 'have' | 'send' | 'lost' };
  'task.content': Record<never, never>;
  'proxy.state': Record<never, never>;
  'images.state': Record<never, never>;
  'crawl.add': { admitted: number; known: number; refused: { url: string; why: string }[] };
  'crawl.recrawl': { admitted: number; known: number; refused: number };
  'crawl.list': {
    crawls: CrawlStatus[];
    /** Of all crawls, by state, without zeros. */
    counts?: Partial<Record<CrawlState, number>>;
    /** There are more. */
    next?: Uint8Array;
    sessions: {
      name: string;
      role: string;
      leases: number;
      proxies?: readonly ProxyTrouble[];
      folders?: readonly FolderTrouble[];
    }[];
    /** Absent: there is none that has not ended. */
    jobs?: JobsStatus;
    /** Removed crawls whose rows are being erased: how many, and the first names. */
    removing?: { count: number; names: string[] };
    /** There is no room on its disk: it waits, and acknowledges nothing. */
    diskFull?: {
      readonly folder: string;
      readonly freeBytes: number;
      /** Inodes that are left, if they are few. Absent: bytes are missing. */
      readonly freeFiles?: number;
    };
  };
  /** `state`: the state of the crawl now. */
  'crawl.pause': { state: CrawlState };
  /** `begun`: files that were started anew, with the sizes of the old ones. `records`: it is a
   *  database that goes on behind a gap. */
  'crawl.resume': {
    state: CrawlState;
    begun?: {
      file: string;
      bytes: number;
      lines?: number;
      movedTo?: string;
      records?: { written: number; found: number };
    }[];
  };
  'crawl.cancel': Record<never, never>;
  /** `state`, `waiting`: of the crawl now. `reopened`: it had ended, and goes on. `narrower`: URLs
   *  that wait are judged once more. `full`: it has all the pages that it may have, and ends.
   *  `skipped`: links that it would take now, by the reason for which it did not. */
  'crawl.set': {
    state: CrawlState;
    changed: ChangedField[];
    waiting: number;
    reopened?: true;
    narrower?: true;
    full?: true;
    skipped?: Partial<Record<SkipReason, number>>;
  };
  'crawl.rename': Record<never, never>;
  /** `files`: those that were closed, and their names from now on. */
  'crawl.rotate': { files: { file: string; as: string; bytes: number; lines?: number }[] };
  'crawl.sinks': { sinks: SinkStatus[] };
  /** With `files`: names of its result files, by what became of them. */
  'crawl.remove': { deleted?: string[]; kept?: string[] };
  'crawl.buried': {
    urls: { url: string; kind: FetchErrorKind; message: string; attempts: number }[];
    next?: Uint8Array;
  };
  /** `missing`: the file with the definite failures is not there. */
  'crawl.failed': { urls: readonly FailedUrl[]; next?: Uint8Array; missing?: true };
  'crawl.replay': { replayed: number };
  /** `next`: it is not found yet; ask on. */
  'crawl.verify': LedgerCheck;
  'crawl.why': { url: string; fates: readonly UrlFate[]; next?: Uint8Array };
  'slave.state': Record<never, never>;
  'slave.can': Record<never, never>;
  'login.failed': Record<never, never>;
  'slave.list': { slaves: SlaveRow[]; next?: number };
  'slave.drain': { slaves: SlaveRow[] };
  'host.list': { hosts: HostRow[]; next?: Uint8Array };
  'host.set': {
    hosts: { host: string; delayMs?: number; blocked?: true; known: boolean }[];
    replayed?: number;
  };
  backup: { bytes: number };
  'queue.put': { size: number };
  /** `attempts`: how often it has returned; absent: never. */
  'queue.get': { items: { id: number; value: Uint8Array; attempts?: number }[] };
  'queue.release': Record<never, never>;
  'queue.done': Record<never, never>;
  /** `delayed`: those that are not in the queue yet; absent: none. */
  'queue.size': { size: number; delayed?: number };
  /** With the name of its slave, where it was given one. */
  'job.add': { jobs: { job: number; slave?: string }[] };
  /** `ended`: those that have, or whose record is no longer kept. */
  'job.watch': { ended: number[] };
  'job.list': { jobs: JobRow[]; next?: number };
  /** The output is there when it has ended. */
  'job.get': JobRow & { stdout?: JobOutput; stderr?: JobOutput };
  /** `ended`: it had ended before, or had not begun. */
  'job.cancel': { state: 'cancelling' | 'ended' };
  /** `lost`: of those that it holds, what is no longer its own. */
  'exec.can': { lost: Uint8Array[] };
  'exec.output': Record<never, never>;
  'exec.report': { state: 'done' | 'stale' };
};
