/** The sessions that watch jobs: they are told what a job says, and when it has ended. */
import type { JobStream } from '../../shared/jobs.ts';
import type { Push } from '../../shared/protocol.ts';
import type { JobPeer } from './executors.ts';

/** A session that reads too slowly misses pieces, and gets the whole at the end. */
const unreadBytesMax = 4 << 20;

export class JobWatchers {
  readonly #peers = new Map<number, Set<JobPeer>>();

  add(peer: JobPeer, job: number): void {
    const peers = this.#peers.get(job) ?? new Set();
    this.#peers.set(job, peers);
    peers.add(peer);
  }

  leave(peer: JobPeer): void {
    for (const [job, peers] of this.#peers) {
      if (peers.delete(peer) && peers.size === 0) this.#peers.delete(job);
    }
  }

  started(job: number, slave: string, attempt: number): void {
    this.#tell(job, { verb: 'job.started', job, slave, attempt });
  }

  output(job: number, stream: JobStream, at: number, data: Uint8Array): void {
    for (const peer of this.#peers.get(job) ?? []) {
      if (peer.unreadBytes > unreadBytesMax) continue;
      peer.send({ verb: 'job.output', job, stream, at, data });
    }
  }

  ended(job: number): void {
    this.#tell(job, { verb: 'job.ended', job });
    this.#peers.delete(job);
  }

  #tell(job: number, push: Push): void {
    for (const peer of this.#peers.get(job) ?? []) peer.send(push);
  }
}
