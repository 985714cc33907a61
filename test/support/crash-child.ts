/**
 * Runs a stored crawl and kills itself at the n-th boundary between writes: `node crash-child.js
 * <folder> <seed> <pages> <n> <rotate>`. Reports acknowledged work on file descriptor 3, and at its
 * end the number of boundaries. `rotate`: files are rotated after so many reports, 0: never.
 *
 * A boundary is before a commit, after it and before anything follows; before, within and after
 * each write, sync and cut of a file, and around renames and syncs of folders.
 */
import fs, { writeSync } from 'node:fs';
import fsPromises, { type FileHandle, mkdir, open } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import type { Store } from '../../master/store/store.ts';
import { ModelSite, runStoredCrawl } from './stored-crawl.ts';

const [folder = '', seed = '', pages = '', at = '', rotate = ''] = process.argv.slice(2);
const crashAt = Number(at);
let count = 0;

function boundary(): void {
  if (++count === crashAt) process.kill(process.pid, 'SIGKILL');
}

/** The pace of a long crawl would only add waits here. */
const wait = globalThis.setTimeout;
const hasty = (run: () => void, ms = 0) => wait(run, Math.min(ms, 3));
globalThis.setTimeout = hasty as typeof setTimeout;
const now = Date.now;
Date.now = () => now() + count * 20;

function around<K extends string>(owner: Record<K, (...args: never[]) => unknown>, name: K): void {
  const real = owner[name];
  owner[name] = function (this: unknown, ...args: never[]) {
    boundary();
    const result = real.apply(this, args);
    if (!(result instanceof Promise)) {
      boundary();
      return result;
    }
    return result.then((value: unknown) => {
      boundary();
      return value;
    });
  };
}

async function instrumentFiles(): Promise<void> {
  await mkdir(folder, { recursive: true });
  const file = await open(join(folder, 'probe'), 'w');
  const handles = Object.getPrototypeOf(file) as FileHandle & Record<string, never>;
  await file.close();
  type Write = (buffer: Uint8Array, offset: number, length: number, at?: number) => unknown;
  const write = handles.write as unknown as Write;
  // Half of the data first, as after a crash in the middle.
  const writeHalf = async function (this: FileHandle, ...args: Parameters<Write>) {
    const [buffer, offset = 0, length = buffer.byteLength - offset, at] = args;
    boundary();
    const written = await write.call(this, buffer, offset, Math.ceil(length / 2), at);
    boundary();
    return written;
  };
  Object.assign(handles, { write: writeHalf });
  for (const name of ['datasync', 'sync', 'truncate', 'close']) around(handles as never, name);
  for (const name of ['renameSync', 'fsyncSync']) around(fs as never, name);
  around(fsPromises as never, 'rename');
  syncBuiltinESMExports();
}

const wrap = (store: Store): Store => ({
  has: (table, key) => store.has(table, key),
  get: (table, key) => store.get(table, key),
  peek: (table, key) => store.peek(table, key),
  range: (table, range) => store.range(table, range),
  keys: (table, range) => store.keys(table, range),
  snapshot: () => store.snapshot(),
  commit: async (changes) => {
    boundary();
    await store.commit(changes);
    boundary();
  },
  close: () => store.close(),
});

await instrumentFiles();
await runStoredCrawl({
  folder,
  site: new ModelSite(Number(seed), Number(pages)),
  wrap,
  onDone: (url) => writeSync(3, `${url}\n`),
  rotateEvery: Number(rotate),
});
writeSync(3, `boundaries ${count}\n`);
process.exit();
