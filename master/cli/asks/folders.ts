/** Where a subcommand that may need no master finds what it reads: folders, or a running master. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { MasterClient } from '../../../shared/client.ts';
import { type Folders, hasStore } from '../../inspect/stopped-master.ts';
import { masterOf } from '../../machine/data-folder.ts';
import type { Command, Values } from './asking.ts';

export type { Folders } from '../../inspect/stopped-master.ts';

/** Folders that the operator named are read. Those of this folder are read if no master uses them,
 *  unless they name another master. `crawl`: may be read although nothing but its results is left. */
export function foldersOf(command: Command, crawl?: string): Folders | undefined {
  const { data, out, master, authkeyFile } = command.opts() as Values;
  const folders = { dataFolder: String(data), outFolder: String(out) };
  const isGiven = (name: string) => command.getOptionValueSource(name) === 'cli';
  if (isGiven('data') || isGiven('out')) return folders;
  if (master !== undefined) return undefined;
  const isStopped = hasStore(folders.dataFolder) && masterOf(folders.dataFolder) === undefined;
  const isLeft =
    crawl !== undefined &&
    authkeyFile === undefined &&
    !existsSync(folders.dataFolder) &&
    existsSync(join(folders.outFolder, crawl, 'pages.jsonl'));
  return isStopped || isLeft ? folders : undefined;
}

/** The names of all crawls of a master, open ones first. */
export async function crawlNamesOf(master: MasterClient): Promise<string[]> {
  const names = new Set<string>();
  let after: Uint8Array | undefined;
  do {
    const cursor = after === undefined ? {} : { after };
    const { crawls, next } = await master.request('crawl.list', cursor);
    for (const { name } of crawls) names.add(name);
    after = next;
  } while (after !== undefined);
  return [...names];
}
