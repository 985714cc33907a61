/**
 * Settings of an operator for single hosts: a delay in place of the crawls', or that nothing is
 * fetched there. All of them are in memory, since every host that is met may have one; each is a
 * row of `meta`, which versions without them read over. Owned by the frontier's rooms.
 */
import { CommandError } from '../../../shared/errors.ts';
import type { GroupCommit } from '../../store/group-commit.ts';
import { decodeHostSetting, encodeHostSetting, hostSettingKey } from '../../store/records.ts';
import type { Store } from '../../store/store.ts';
import type { HostSetting } from './host.ts';

const countMax = 10_000;

export class HostSettings {
  readonly #commits: GroupCommit;
  readonly #settings = new Map<string, HostSetting>();

  constructor(store: Store, commits: GroupCommit) {
    this.#commits = commits;
    const prefix = hostSettingKey('');
    const to = Buffer.concat([prefix, Buffer.from([0xff])]);
    for (const { key, value } of store.range('meta', { from: prefix, to })) {
      this.#settings.set(key.toString('latin1', prefix.length), decodeHostSetting(value));
    }
  }

  [Symbol.iterator](): IterableIterator<[hostKey: string, HostSetting]> {
    return this.#settings[Symbol.iterator]();
  }

  of(hostKey: string): HostSetting | undefined {
    return this.#settings.get(hostKey);
  }

  /** Resolves when it is on the disk; undefined: nothing is set any more.
   *  @throws CommandError E_LIMIT there are too many */
  async set(hostKey: string, setting: HostSetting | undefined): Promise<void> {
    if (setting === undefined) this.#settings.delete(hostKey);
    else {
      if (!this.#settings.has(hostKey) && this.#settings.size >= countMax) {
        throw new CommandError(
          'E_LIMIT',
          `${countMax} hosts have settings of their own already; take some back with --no-delay ` +
            'or --unblock',
        );
      }
      this.#settings.set(hostKey, setting);
    }
    const value = setting && encodeHostSetting(setting);
    await this.#commits.written([{ table: 'meta', key: hostSettingKey(hostKey), value }]);
  }
}
