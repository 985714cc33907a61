/** A connected peer, as verbs and the rest of the master see it. */

import type { Push } from '../../shared/protocol.ts';
import type { Requests } from '../../shared/requests.ts';
import type { SessionUploads } from '../archive/uploads.ts';
import type { LeaseHolder } from '../frontier/dispatch/leases.ts';
import type { SlaveRecord } from './slave-record.ts';

/** The tasks that a slave takes: see `task.credit`. */
export type Credit = Required<Pick<LeaseHolder, 'slots' | 'lent' | 'trials' | 'takes'>> & {
  readonly count: number;
};

export interface Peer extends LeaseHolder {
  readonly id: number;
  readonly role: Requests['hello']['role'];
  /** Address and port. */
  readonly peer: string;
  /** Number of unanswered `queue.get` requests. */
  waitingGets: number;
  setCredit(credit: Credit): void;
  /** Its abilities beyond those of all slaves. [T-80] [T-105] */
  setAbilities(what: readonly string[]): void;
  readonly hasRules: boolean;
  /** Says that the slave may forget the crawl. [T-30] */
  endCrawl(crawl: number): void;
  send(push: Push): void;
  /** Bytes that it has not read yet. */
  readonly unreadBytes: number;
  /** Gives it no more tasks, and lets it finish and leave. [C-75] */
  drain(): void;
  readonly record: SlaveRecord;
  /** Exchanges that it has sent to be archived and not reported. */
  readonly uploads: SessionUploads;
}
