/** Opens the store of a master at its start, and closes it at its orderly end. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/log.ts';
import { refusalText } from '../machine/disk-room.ts';
import { type NativeStore, openLmdbStore, storeFile } from '../store/lmdb.ts';
import { upgrade } from '../store/upgrade.ts';
import { BackgroundCheck } from './background-check.ts';
import { forgetUnfinished } from './backup.ts';
import { damagedStore, refuseDamagedHead, refuseDamagedStore } from './check.ts';
import { type Compacted, compactStore } from './compact.ts';
import { type Serving as ReadAheadServing, readSeenAhead } from './read-ahead.ts';
import { forgetRead, markRead, startsSinceRead } from './read-mark.ts';
import { forgetReplacement } from './replacement.ts';
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
  readonly path: string;
  readonly outFolder: string;
  /** All of it was read or written just now. */
  readonly isCached: boolean;
  /** Reads it while the master serves. */
  readonly check: BackgroundCheck | undefined;
};

type Serving = ReadAheadServing & {
  readonly master: { fail(error: unknown): void };
  readonly log: Pick<Logger, 'info' | 'warn'>;
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
    forgetReplacement(dataFolder);
    forgetUnfinished(dataFolder);
    const starts = compact || isMarkedWhole(path) ? undefined : startsSinceRead(path);
    const isUnread = starts !== undefined;
    if (isUnread) refuseDamagedHead(path, outFolder);
    const isRead = !isUnread && refuseDamagedStore(path, outFolder, compact);
    const compacted = compact && existsSync(path) ? await compactStore(dataFolder) : undefined;
    const isNew = !existsSync(path);
    try {
      forgetMark(path);
      // Before native code reads it.
      if (!isNew) markRead(path, isUnread ? starts + 1 : 0);
    } catch (error) {
      throw new ConfigError(`cannot write the folder ${folder}: ${refusalText(error)}`, error);
    }
    try {
      const store = await openLmdbStore(folder);
      const reserveBytes = options.diskReserveBytes;
      const check = isUnread ? new BackgroundCheck({ path, store, reserveBytes }) : undefined;
      await upgrade(store);
      if (isNew) markRead(path);
      const isCached = isRead || compacted !== undefined;
      return new OpenStore({ store, compacted, path, outFolder, isCached, check });
    } catch (error) {
      // The next start finds out why.
      if (isUnread) forgetRead(path);
      throw error;
    }
  }

  private constructor({ store, compacted, path, outFolder, isCached, check }: Opened) {
    this.store = store;
    this.compacted = compacted;
    this.#path = path;
    this.#outFolder = outFolder;
    this.#isCached = isCached;
    this.#check = check;
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
    try {
      // From here on any change is somebody else's.
      forgetRead(this.#path);
      await this.store.assertInPlace();
      await markWhole(this.#path);
    } catch {
      // Without the mark the next start reads all of the store.
    }
  }

  /** The disk has failed: it may not have what the kernel has. */
  distrust(): void {
    try {
      forgetRead(this.#path);
    } catch {
      // It fails for this, too.
    }
  }

  /** @throws ConfigError what the operator has to do (as rejection) */
  async #readLater({ crawls, master, log }: Serving): Promise<void> {
    if (!this.#isCached) await readSeenAhead(this.#path, { crawls, master, log });
    const began = performance.now();
    const verdict = await this.#check?.run((why) => {
      log.warn(`the store was not read to its end (${why}); the master tries again in 10 minutes`);
    });
    if (verdict === undefined) return;
    if (verdict.is !== 'whole') {
      this.distrust();
      throw verdict.is === 'damaged'
        ? damagedStore(this.#path, this.#outFolder, verdict.damage)
        : new ConfigError(verdict.message);
    }
    this.#check = undefined;
    try {
      markRead(this.#path);
    } catch {
      // The disk is full. The mark says that some starts have not read it.
    }
    const ms = Math.round(performance.now() - began);
    log.info({ ms }, 'all of the store was read: it is whole');
  }
}
