/**
 * A host's robots.txt, the first task of every host whose rules are obeyed. All crawls on the host
 * share it, so it outlives the crawl that asked, and it may be redirected to any host.
 * `robots/gate.ts` makes the task and interprets its answer.
 * Source: PROTOCOL.md [T-17]; RFC 9309, section 2.3.
 */
import { kindNumbers } from '../../store/records.ts';
import { robotsRedirectsMax } from '../robots/access.ts';
import type { HostKind } from './kind.ts';

export const robots: HostKind = {
  name: 'robots',
  number: kindNumbers.robots,
  owner: 'host',
  pushed: { kind: 'robots' },
  answeredBy: 'task.robots',
  takers: 'probes',
  // A slave starts it at once; the margin is longer than its time-out.
  fetchesOfLease: 0,
  hopsMax: robotsRedirectsMax,
  hopsTo: 'anywhere',
};
