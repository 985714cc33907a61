/** A holder of leases without a connection: it records its messages. */
import type { Lease, LeaseHolder } from '../../master/frontier/dispatch/leases.ts';

export class FakeSlave implements LeaseHolder {
  readonly name: string;
  readonly leases = new Set<Lease>();
  credit: number;
  slots: number;
  lent = 0;
  trials = 0;
  takes: LeaseHolder['takes'] = 'all';
  hasTrains = false;
  /** As of a slave that knows all that there is. */
  abilities: number = ~0;
  /** All leases ever pushed, cancelled, and recalled. */
  readonly pushed: Lease[] = [];
  readonly cancelled: Lease[] = [];
  readonly recalled: Lease[] = [];

  constructor(name: string, credit = 4, slots = credit) {
    this.name = name;
    this.credit = credit;
    this.slots = slots;
  }

  push(leases: readonly Lease[]): void {
    this.pushed.push(...leases);
  }

  cancel(leases: readonly Lease[]): void {
    this.cancelled.push(...leases);
  }

  recall(leases: readonly Lease[]): void {
    this.recalled.push(...leases);
  }

  /** URLs that it holds. */
  get urls(): string[] {
    return [...this.leases].map(({ task }) => task.url);
  }
}
