/** What sessions and commands work with; made once, in main. */
import type { Tls } from '../../shared/connection.ts';
import type { OrbError } from '../../shared/errors.ts';
import type { AuthDigest } from '../../shared/handshake.ts';
import type { Admission } from '../frontier/crawl/admission.ts';
import type { Crawl } from '../frontier/crawl/crawl.ts';
import type { Frontier } from '../frontier/frontier.ts';
import type { MemoryWatch } from '../machine/memory-watch.ts';
import type { Managed } from '../python/managed.ts';
import type { UserQueues } from '../queues/queues.ts';
import type { Backups } from '../repair/backup.ts';
import type { ResultQueue, Resumed } from '../sinks/result-queue.ts';
import type { Peer } from './peer.ts';

/** This master's patience, in ms; `hello` tells every peer what it needs of it. */
export type Timing = {
  readonly leaseMs: number;
  /** How much longer than two fetches may take a lease lasts. [T-50] */
  readonly leaseMarginMs: number;
  /** A Python program's lease ends this long after it was heard last. [Y-8] */
  readonly pythonLeaseMs: number;
  readonly heartbeatMs: number;
  readonly silenceMs: number;
  /** From accept to the end of `hello`. */
  readonly handshakeMs: number;
};

export type Services = {
  /** Any of them lets a peer in. */
  readonly authkeys: () => readonly Buffer[];
  readonly authDigest: AuthDigest;
  readonly tls: Tls;
  /** Name and version, as `hello` tells it. */
  readonly version: string;
  readonly timing: Timing;
  readonly admission: Admission;
  readonly memory: MemoryWatch;
  readonly frontier: Frontier;
  readonly results: ResultQueue;
  readonly queues: UserQueues;
  readonly backups: Backups;
  /** What Python's managers see. */
  readonly managed: Managed;
  /** Sessions that have said hello. */
  readonly sessions: () => readonly Peer[];
  readonly isDraining: () => boolean;
  readonly onReady: (peer: Peer) => void;
  readonly onGone: (peer: Peer) => void;
  /** A crawl that was held is written again. */
  readonly onResumed: (crawl: Crawl, how: Resumed) => void;
  /** A fault of ours while serving a request: the master cannot go on. */
  readonly onFault: (error: unknown) => void;
  /** A pickle that holds what is not allowed: nothing of it was done, the connection goes on. */
  readonly onRefusedPickle: (peer: string, error: OrbError) => void;
  /** `times`: so often was its address refused by now. */
  readonly onRefused: (peer: string, error: OrbError, times: number) => void;
};
