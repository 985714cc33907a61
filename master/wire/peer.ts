/** A connected peer, as the verbs that it says and the rest of the master see it. */

import type { ProxyTrouble, Push } from '../../shared/protocol.ts';
import type { Requests } from '../../shared/requests.ts';
import type { LeaseHolder } from '../frontier/dispatch/leases.ts';

/** What a slave takes: see `task.credit`. */
export type Credit = Pick<LeaseHolder, 'slots' | 'trials' | 'takes'> & { readonly count: number };

export interface Peer extends LeaseHolder {
  readonly role: Requests['hello']['role'];
  /** Address and port. */
  readonly peer: string;
  /** Requests of `queue.get` that are not answered yet. */
  waitingGets: number;
  setCredit(credit: Credit): void;
  /** Proxies that do not work for this slave. [T-45] */
  setProxies(troubles: readonly ProxyTrouble[]): void;
  readonly proxies: readonly ProxyTrouble[];
  /** The slave may forget what it keeps for a crawl. [T-30] */
  endCrawl(crawl: number): void;
  send(push: Push): void;
}
