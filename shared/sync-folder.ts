/** Names of files that are to be there after a power cut. */
import { open } from 'node:fs/promises';

/** A file that is new is not there after a power cut unless its folder is on the disk, too. */
export async function syncFolder(folder: string): Promise<void> {
  try {
    const handle = await open(folder, 'r');
    await handle.sync().finally(() => handle.close());
  } catch {
    // Some file systems cannot; then it is as safe as they make it.
  }
}
