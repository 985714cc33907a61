/** The parts that sessions and commands use; made once, by the master. */
import type { Tls } from '../../shared/connection.ts';
import type { OrbError } from '../../shared/errors.ts';
import type { AuthDigest } from '../../shared/handshake.ts';
import type { CrawlStatus } from '../../shared/protocol.ts';
import type { UploadRoom } from '../archive/uploads.ts';
import type { Claim } from '../frontier/dispatch/leases.ts';
import type { Frontier } from '../frontier/frontier.ts';
import type { HostList } from '../frontier/host-list.ts';
import type { Failures } from '../inspect/failures.ts';
import type { Recount } from '../inspect/recount.ts';
import type { UrlAnswers } from '../inspect/url-answers.ts';
import type { Jobs } from '../jobs/jobs.ts';
import type { DiskRoom } from '../machine/disk-room.ts';
import type { MemoryWatch } from '../machine/memory-watch.ts';
import type { Rates } from '../machine/rates.ts';
import type { Manager } from '../python/manager.ts';
import type { UserQueues } from '../queues/queues.ts';
import type { Backups } from '../repair/backup.ts';
import type { Peer } from './peer.ts';

/** The master's time limits, in ms; `hello` announces them to peers. */
export type Timing = {
  readonly leaseMs: number;
  /** Time that a lease lasts beyond the time-out of two fetches. [T-50] */
  readonly leaseMarginMs: number;
  /** A Python program's lease ends after this time without a request. [Y-8] */
  readonly pythonLeaseMs: number;
  readonly heartbeatMs: number;
  readonly silenceMs: number;
  /** From accept to the end of `hello`. */
  readonly handshakeMs: number;
};

/** The services that the verbs of the native dialect act on. */
export type CommandPorts = {
  readonly frontier: Frontier;
  readonly queues: UserQueues;
  readonly jobs: Jobs;
  readonly backups: Backups;
  readonly failures: Failures;
  readonly urls: Pick<UrlAnswers, 'page'>;
  readonly recount: Pick<Recount, 'verify'>;
  readonly hosts: Pick<HostList, 'list' | 'set'>;
  /** Asks what is kept of images. */
  readonly images: {
    knows(claim: Claim, sha256: Uint8Array): 'have' | 'send' | 'lost';
  };
  readonly rates: Pick<Rates, 'of'>;
  readonly disk: Pick<DiskRoom, 'shortage'>;
  /** Sources of seeds that are asked again, and crawls that are repeated. */
  readonly schedules: { of(crawl: number): Pick<CrawlStatus, 'schedule' | 'repeats'> };
  /** The BaseManager dialect. */
  readonly manager: Pick<Manager, 'builtBytesMax'>;
  readonly master: { readonly isDraining: boolean };
  /** Those that have said hello. */
  readonly peers: { readonly sessions: readonly Peer[] };
};

/** The listener of the wire: `Arrivals`. */
export interface WireEvents {
  /** A peer has said hello. */
  joined(peer: Peer): void;
  /** Its session has ended. */
  left(peer: Peer): void;
  /** A connection was closed. `times`: how often its address was refused so far. */
  refused(peer: string, error: OrbError, times: number): void;
  /** A pickle contains something that is not allowed: it had no effect, and the connection goes
   *  on. `times` as above. */
  refusedPickle(peer: string, error: OrbError, times: number): void;
}

export type Services = CommandPorts & {
  /** The keys that the master accepts. */
  readonly authkeys: () => readonly Buffer[];
  readonly authDigest: AuthDigest;
  readonly tls: Tls;
  /** Name and version for the reply to `hello`. */
  readonly version: string;
  readonly timing: Timing;
  readonly memory: MemoryWatch;
  /** Where bodies wait for their reports. */
  readonly uploads: Pick<UploadRoom, 'session'>;
  readonly manager: Manager;
  /** `fail`: a fault of ours while serving a request: the master cannot go on. */
  readonly master: { fail(error: unknown): void };
  readonly events: WireEvents;
};
