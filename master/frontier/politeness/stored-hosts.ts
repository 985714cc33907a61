/**
 * The hosts that politeness meets, as the store and the DNS know them: their keys in the store,
 * their robots.txt, their state before a restart, and their groups.
 */
import { clockMs } from '../../machine/clock.ts';
import type { Fingerprinter } from '../filter/fingerprint.ts';
import type { Grouping } from './grouping.ts';
import type { Group, Host } from './host.ts';
import type { HostSettings } from './host-settings.ts';
import type { HostSource, Places } from './politeness.ts';
import type { HostRecords } from './records.ts';

export class StoredHosts implements HostSource {
  readonly #records: HostRecords;
  readonly #settings: HostSettings;
  readonly #grouping: Grouping;
  readonly #secret: Buffer;
  readonly #fingerprinter: Fingerprinter;

  /** `secret` keys the hashes, which `fingerprinter` makes. */
  constructor(
    records: HostRecords,
    settings: HostSettings,
    grouping: Grouping,
    secret: Buffer,
    fingerprinter: Fingerprinter,
  ) {
    this.#records = records;
    this.#settings = settings;
    this.#grouping = grouping;
    this.#secret = secret;
    this.#fingerprinter = fingerprinter;
  }

  hashOf(key: string): Buffer {
    const [first = 0, second = 0] = this.#fingerprinter.one(this.#secret, key);
    // Small enough to be in the heap: one of its own outside would cost as much as the hash.
    const hash = Buffer.alloc(8);
    hash.writeUInt32LE(first, 0);
    hash.writeUInt32LE(second, 4);
    return hash;
  }

  groupOf(hostKey: string): string | undefined {
    return this.#grouping.groupOf(hostKey, clockMs());
  }

  robotsFile(hash: Buffer): Uint8Array | undefined {
    return this.#records.robotsFile(hash);
  }

  met(host: Host, places: Places): void {
    host.setting = this.#settings.of(host.key);
    this.#records.restore(host);
    if (host.isUnplaced) void this.#place(host, places);
  }

  metGroup(group: Group): void {
    this.#records.restoreGroup(group);
  }

  /** Its tasks are handed out with the dispatcher's next tick. */
  async #place(host: Host, places: Places): Promise<void> {
    const group = await this.#grouping.find(host.key, clockMs());
    places.place(host, group, clockMs());
  }
}
