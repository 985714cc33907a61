/** Opens the store of a master at its start, and closes it at its orderly end. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type NativeStore, openLmdbStore, storeFile } from '../store/lmdb.ts';
import { upgrade } from '../store/upgrade.ts';
import { refuseDamagedStore } from './check.ts';
import { type Compacted, compactStore, forgetUnfinished } from './compact.ts';
import { readSeenAhead, type Serving } from './read-ahead.ts';
import { forgetMark, markWhole } from './whole-mark.ts';

type OpenOptions = {
  readonly dataFolder: string;
  readonly outFolder: string;
  /** Compact it before. */
  readonly compact: boolean;
};

type Opened = {
  readonly store: NativeStore;
  readonly compacted: Compacted | undefined;
  /** To be called once the master serves; undefined: all of it was read or written just now. */
  readonly readAhead: ((serving: Serving) => Promise<void>) | undefined;
};

/** Opens the store, or makes one. @throws ConfigError what the operator has to do */
export async function openStore({ dataFolder, outFolder, compact }: OpenOptions): Promise<Opened> {
  const folder = join(dataFolder, 'store');
  const path = storeFile(folder);
  forgetUnfinished(dataFolder);
  const isRead = refuseDamagedStore(path, outFolder);
  const compacted = compact && existsSync(path) ? await compactStore(dataFolder) : undefined;
  forgetMark(path);
  const store = await openLmdbStore(folder);
  await upgrade(store);
  const isCached = isRead || compacted !== undefined;
  const readAhead = (serving: Serving) => readSeenAhead(path, serving);
  return { store, compacted, readAhead: isCached ? undefined : readAhead };
}

/** Closes it in order: all of it is on the disk. */
export async function closeStore(store: NativeStore, dataFolder: string): Promise<void> {
  await store.close();
  // Without the mark the next start reads all of the store.
  await markWhole(storeFile(join(dataFolder, 'store'))).catch(() => {});
}
