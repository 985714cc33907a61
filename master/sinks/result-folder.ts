/** The folder of a crawl's result files: what stands in it, and what is done to its names. */
import { lstat, readdir, rename, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { syncFolder } from '../../shared/sync-folder.ts';
import { unusable } from './out-file.ts';

/** Also a link that leads nowhere. */
export async function exists(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined)) !== undefined;
}

/** Puts a file in its place whole: after a crash the old one stands there, or the new one. `made`:
 *  its name meanwhile. @throws the error of the system */
export async function replaceFile(
  path: string,
  content: string | Uint8Array,
  made = `${path}.new`,
): Promise<void> {
  await writeFile(made, content, { flush: true });
  await rename(made, path);
  await syncFolder(dirname(path));
}

/** Moves what stands at a path to a free name beside it; undefined: nothing is there, or an empty
 *  file, which can be gone on with. @throws HeldError, ConfigError it cannot be moved */
export async function moveAside(path: string): Promise<string | undefined> {
  if (!(await exists(path))) return undefined;
  const found = await stat(path).catch(() => undefined);
  if (found?.isFile() && found.size === 0) return undefined;
  for (let n = 1; ; n++) {
    const aside = `${path}.old-${n}`;
    if (await exists(aside)) continue;
    try {
      await rename(path, aside);
      await syncFolder(dirname(path));
      return aside;
    } catch (error) {
      throw unusable(path, error);
    }
  }
}

/** Does what makes the first files of a crawl. If it throws, those that it has made are removed
 *  again, while they are empty: a crawl that is not begun leaves nothing, not even its name. */
export async function orNothing(folder: string, work: () => Promise<void>): Promise<void> {
  const before = await readdir(folder).catch(() => undefined);
  try {
    await work();
  } catch (error) {
    for (const name of await readdir(folder).catch(() => [])) {
      const path = join(folder, name);
      const isNew = before?.includes(name) !== true;
      const found = isNew ? await lstat(path).catch(() => undefined) : undefined;
      if (found?.isFile() && found.size === 0) await rm(path, { force: true });
    }
    // Not empty: it holds other files.
    if (before === undefined) await rmdir(folder).catch(() => {});
    throw error;
  }
}
