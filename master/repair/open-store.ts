/** Opens the store of a master at its start, and closes it at its orderly end. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/log.ts';
import { type NativeStore, openLmdbStore, storeFile } from '../store/lmdb.ts';
import { upgrade } from '../store/upgrade.ts';
import { BackgroundCheck } from './background-check.ts';
import { damagedStore, refuseDamagedRoots, refuseDamagedStore } from './check.ts';
import { type Compacted, compactStore, forgetUnfinished } from './compact.ts';
import { type Serving as ReadAheadServing, readSeenAhead } from './read-ahead.ts';
import { forgetRead, markRead, startsSinceRead } from './read-mark.ts';
import { forgetMark, isMarkedWhole, markWhole } from './whole-mark.ts';

type OpenOptions = {
  readonly dataFolder: string;
  readonly outFolder: string;
  readonly diskReserveBytes: number;
  /** Compact it before. */
  readonly compact: boolean;
};

type Opened = {
  readonly store: NativeStore;
  readonly compacted: Compacted | undefined;
  /** All of it was read or written just now. */
  readonly isCached: boolean;
  /** It is to be read while the master serves. */
  readonly isUnread: boolean;
};

type Serving = ReadAheadServing & {
  readonly master: { fail(error: unknown): void };
  readonly log: Pick<Logger, 'info'>;
};

export class OpenStore {
  readonly store: NativeStore;
  readonly compacted: Compacted | undefined;
  readonly #path: string;
  readonly #outFolder: string;
  readonly #isCached: boolean;
  /** Of one that was not read since its last master died. */
  #check: BackgroundCheck | undefined;
  #later: Promise<void> | undefined;

  /** Opens the store, or makes one. @throws ConfigError what the operator has to do */
  static async open(options: OpenOptions): Promise<OpenStore> {
    const { dataFolder, outFolder, compact } = options;
    const folder = join(dataFolder, 'store');
    const path = storeFile(folder);
    forgetUnfinished(dataFolder);
    // One that is compacted is read in any case.
    const starts = compact || isMarkedWhole(path) ? undefined : startsSinceRead(path);
    const isRead = starts === undefined && refuseDamagedStore(path, outFolder);
    if (starts !== undefined) refuseDamagedRoots(path, outFolder);
    const compacted = compact && existsSync(path) ? await compactStore(dataFolder) : undefined;
    forgetMark(path);
    const store = await openLmdbStore(folder);
    await upgrade(store);
    markRead(path, starts === undefined ? 0 : starts + 1);
    const isCached = isRead || compacted !== undefined;
    return new OpenStore(options, { store, compacted, isCached, isUnread: starts !== undefined });
  }

  private constructor(
    { dataFolder, outFolder, diskReserveBytes }: OpenOptions,
    { store, compacted, isCached, isUnread }: Opened,
  ) {
    const path = storeFile(join(dataFolder, 'store'));
    this.store = store;
    this.compacted = compacted;
    this.#path = path;
    this.#outFolder = outFolder;
    this.#isCached = isCached;
    if (!isUnread) return;
    this.#check = new BackgroundCheck({ path, store, reserveBytes: diskReserveBytes });
  }

  /** To be called once the master serves. */
  readLater(serving: Serving): void {
    this.#later = this.#readLater(serving).catch((error: unknown) => serving.master.fail(error));
  }

  /** Closes it in order: all of it is on the disk. */
  async close(): Promise<void> {
    this.#check?.close();
    await this.#later;
    await this.store.close();
    if (this.#check !== undefined) return;
    // From here on any change is somebody else's.
    forgetRead(this.#path);
    // Without the mark the next start reads all of the store.
    await markWhole(this.#path).catch(() => {});
  }

  /** @throws ConfigError what the operator has to do (as rejection) */
  async #readLater({ crawls, master, log }: Serving): Promise<void> {
    if (!this.#isCached) await readSeenAhead(this.#path, { crawls, master, log });
    const began = performance.now();
    const verdict = await this.#check?.run();
    if (verdict === undefined) return;
    if (verdict.is !== 'whole') {
      forgetRead(this.#path);
      throw verdict.is === 'damaged'
        ? damagedStore(this.#path, this.#outFolder, verdict.damage)
        : new ConfigError(verdict.message);
    }
    this.#check = undefined;
    markRead(this.#path);
    const ms = Math.round(performance.now() - began);
    log.info({ ms }, 'all of the store was read: it is whole');
  }
}
