/** Peers come and go: starts and ends their share of tasks, and logs it. */
import type { OrbError } from '../shared/errors.ts';
import type { Notices } from './cli/notices.ts';
import type { Frontier } from './frontier/frontier.ts';
import type { Jobs } from './jobs/jobs.ts';
import type { LocalSlaves } from './machine/local-slaves.ts';
import type { UserQueues } from './queues/queues.ts';
import type { Peer } from './wire/peer.ts';
import type { WireEvents } from './wire/services.ts';

type ArrivalsParts = {
  readonly frontier: Frontier;
  readonly queues: UserQueues;
  readonly jobs: Pick<Jobs, 'left'>;
  readonly localSlaves: LocalSlaves;
  readonly notices: Notices;
};

export class Arrivals implements WireEvents {
  readonly #parts: ArrivalsParts;

  constructor(parts: ArrivalsParts) {
    this.#parts = parts;
  }

  joined(peer: Peer): void {
    if (peer.role !== 'slave') return;
    const { frontier, localSlaves, notices } = this.#parts;
    notices.slaveJoined(peer.name, peer.peer);
    if (peer.name !== localSlaves.robotsName) localSlaves.retireRobots();
    frontier.give(peer);
  }

  left(peer: Peer): void {
    const { frontier, queues, jobs, notices } = this.#parts;
    queues.removeHolder(peer);
    jobs.left(peer);
    if (peer.role !== 'slave') return;
    const released = peer.leases.size;
    frontier.leave(peer);
    notices.slaveLeft(peer.name, released);
  }

  refused(peer: string, error: OrbError, times: number): void {
    this.#parts.notices.refused(peer, error, times);
  }

  refusedPickle(peer: string, error: OrbError, times: number): void {
    this.#parts.notices.refusedPickle(peer, error, times);
  }
}
