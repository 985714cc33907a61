/**
 * A folder that all slaves share (`--images-to`): an image is written there by the slave that has
 * it, under its content, and travels no further. While this slave cannot write to it, the images of
 * that folder go back to the master, and every few seconds one of them finds out:
 *
 *     writable --write failed--> away --some seconds--> tried by one --written--> writable
 *                                  ^                         |
 *                                  +------ write failed -----+
 *
 * Source: docs/download.md.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { messageOf } from '../../shared/errors.ts';
import type { Logger } from '../../shared/log.ts';
import { type FolderTrouble, limits } from '../../shared/protocol.ts';
import { syncFolder } from '../../shared/sync-folder.ts';
import { visible } from '../../shared/visible.ts';

/** How long images wait for a folder that cannot be written. */
const againMs = 10_000;

type Away = { readonly againAt: number; readonly isTried: boolean; readonly reason: string };

export class SharedFolders {
  /** Those that cannot be written, and when each is tried again. */
  readonly #away = new Map<string, Away>();
  /** They are others now, or say something else. */
  onChange: () => void = () => {};
  /** Is there a crawl whose images are kept there? */
  isWanted: (folder: string) => boolean = () => true;

  /** Those that cannot be written, as the master takes them. */
  get troubles(): FolderTrouble[] {
    return [...this.#away].slice(0, limits.foldersMax).map(([folder, { reason }]) => ({
      folder: visible(folder).slice(0, 1024),
      reason: visible(reason).slice(0, 512),
    }));
  }

  /** How long what is for this folder has to wait, in ms; 0: it may go on. */
  waitMs(folder: string, now = performance.now()): number {
    const away = this.#away.get(folder);
    if (away === undefined) return 0;
    if (away.againAt > now) return away.againAt - now;
    // One finds out, while the others wait: each costs its host a request.
    this.#away.set(folder, { ...away, againAt: now + againMs, isTried: true });
    return 0;
  }

  /** Writes these files. Returns how long to wait before it is tried again, in ms; 0: written. The
   *  operator hears once of a folder that cannot be written, and once of its return. */
  async keep(
    folder: string,
    files: readonly (readonly [name: string, bytes: Uint8Array])[],
    log: Pick<Logger, 'warn' | 'info'>,
  ): Promise<number> {
    try {
      for (const [name, bytes] of files) await keepIn(folder, name, bytes);
    } catch (error) {
      // Its crawl has ended meanwhile.
      if (!this.isWanted(folder)) return againMs;
      const reason = messageOf(error);
      const before = this.#away.get(folder);
      if (before === undefined) {
        const why = `cannot write to --images-to ${folder}: ${reason}`;
        log.warn(`${why}; its images wait and none is lost: mend that, and they go on`);
      }
      this.#away.set(folder, { againAt: performance.now() + againMs, isTried: false, reason });
      if (before?.reason !== reason) this.onChange();
      return againMs;
    }
    // On a full disk small ones fit for a while: what was under way proves nothing.
    if (this.#away.get(folder)?.isTried === true) {
      this.#away.delete(folder);
      log.info(`can write to --images-to ${folder} again`);
      this.onChange();
    }
    return 0;
  }

  /** A crawl has ended: a folder that no other one wants is no trouble any more. */
  crawlEnded(): void {
    const unwanted = [...this.#away.keys()].filter((folder) => !this.isWanted(folder));
    for (const folder of unwanted) this.#away.delete(folder);
    if (unwanted.length > 0) this.onChange();
  }
}

/** Writes a file durably, unless it is there in its length. @throws the error of the system */
async function keepIn(folder: string, name: string, bytes: Uint8Array): Promise<void> {
  const path = join(folder, name);
  const found = await stat(path).catch(() => undefined);
  if (found?.isFile() && found.size === bytes.length) return;
  const into = dirname(path);
  await mkdir(into, { recursive: true });
  const part = join(into, `.part-${randomBytes(8).toString('hex')}`);
  try {
    const handle = await open(part, 'wx');
    try {
      await handle.writeFile(bytes);
      await handle.datasync();
    } finally {
      await handle.close();
    }
    await rename(part, path);
  } catch (error) {
    await rm(part, { force: true }).catch(() => {});
    throw error;
  }
  await syncFolder(into);
}
