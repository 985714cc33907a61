/**
 * `changes.jsonl` of a crawl that repeats another one: the pages that came, went and changed since,
 * a line each, as `diff --json` has them. It is there whole or not at all.
 */
import { open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { syncFolder } from '../shared/sync-folder.ts';
import { visibleJson } from '../shared/visible.ts';
import { changes, type DiffCounts, noChanges } from './inspect/page-diff.ts';
import { changesName } from './sinks/files-kind.ts';

const writeChars = 1 << 20;

/** Compares the results in the folders of two crawls and writes the list to that of the later one.
 *  `signal`: ends it with an AbortError. @throws ConfigError the results cannot be read */
export async function writeChanges(
  before: string,
  after: string,
  signal: AbortSignal,
): Promise<DiffCounts> {
  const counts = { ...noChanges };
  const path = join(after, changesName);
  const unfinished = `${path}.unfinished`;
  const file = await open(unfinished, 'w');
  try {
    let text = '';
    for await (const one of changes(before, after, counts)) {
      signal.throwIfAborted();
      text += `${visibleJson(JSON.stringify(one))}\n`;
      if (text.length < writeChars) continue;
      await file.appendFile(text);
      text = '';
    }
    await file.appendFile(text);
    await file.sync();
    await file.close();
    await rename(unfinished, path);
  } catch (error) {
    await file.close().catch(() => {});
    await rm(unfinished, { force: true });
    throw error;
  }
  await syncFolder(after);
  return counts;
}
