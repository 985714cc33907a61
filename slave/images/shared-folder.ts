/**
 * A folder that all slaves share (`--images-to`): an image is written there by the slave that has
 * it, under its content, and travels no further. Source: docs/download.md.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { syncFolder } from '../../shared/sync-folder.ts';

/** Writes a file durably, unless it is there in its length. @throws the error of the system */
export async function keepIn(folder: string, name: string, bytes: Uint8Array): Promise<void> {
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
