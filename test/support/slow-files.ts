/**
 * Makes the files of a process slow: `node --import …/slow-files.js`, so that a `datasync` or
 * `sync` of a file handle takes SLOW_SYNC_MS longer. It does not slow the store, which is native
 * code.
 */
import { open } from 'node:fs/promises';

const ms = Number(process.env['SLOW_SYNC_MS'] ?? 0);
const handle = await open('/dev/null');
const files = Object.getPrototypeOf(handle) as Record<'sync' | 'datasync', () => Promise<void>>;
await handle.close();
for (const name of ['sync', 'datasync'] as const) {
  const original = files[name];
  files[name] = async function slow(this: unknown) {
    await new Promise((resolve) => setTimeout(resolve, ms));
    await original.call(this);
  };
}
