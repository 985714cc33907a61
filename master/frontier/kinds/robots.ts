/**
 * A host's robots.txt, the first task of every host whose rules are obeyed. All crawls on the host
 * share it, so that it outlives the one that asked, and it may be redirected to any host. What its
 * answer means is the business of `robots/gate.ts`, which makes the task.
 * Source: PROTOCOL.md [T-17]; RFC 9309, section 2.3.
 */
import { robotsKind } from '../../store/records.ts';
import { robotsRedirectsMax } from '../robots/access.ts';
import type { HostKind } from './kind.ts';

export const robots: HostKind = {
  name: 'robots',
  number: robotsKind,
  owner: 'host',
  pushed: { kind: 'robots' },
  answeredBy: 'task.robots',
  takers: 'files',
  // A slave begins it at once; the margin is longer than its time-out.
  fetchesOfLease: 0,
  hopsMax: robotsRedirectsMax,
  hopsTo: 'anywhere',
};
