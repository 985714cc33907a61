/** The seeds that a master is started with: of the command line, of files and of a crawl file. */
import type { Logger } from '../shared/log.ts';
import type { Notices } from './cli/notices.ts';
import { countOf, partlyAdded, seedParts } from './cli/seeds.ts';
import type { ServeOptions } from './cli/serve-options.ts';
import type { Frontier } from './frontier/frontier.ts';

/** `stopping`: the operator wants the master to end, also while it starts. */
export type StartOptions = ServeOptions & { readonly stopping: AbortSignal };

type FirstSeedsPorts = {
  readonly frontier: Frontier;
  readonly notices: Notices;
  readonly log: Logger;
  readonly folderOf: (crawl: string) => string;
};

/** Gives the crawl its seeds. A crawl of that name that is there goes on, by this command.
 *  `planned`: its schedule, which is on record with the first of them. A stop does not wait for
 *  all. */
export async function seedFirst(
  { frontier, notices, log, folderOf }: FirstSeedsPorts,
  { crawl: name, spec, given, stopping }: StartOptions,
  further: Parameters<typeof seedParts>[0],
  planned: Uint8Array | undefined,
): Promise<void> {
  if (frontier.crawls.has(name)) {
    await frontier.startAgain(name, spec, given.has('maxPages'));
    notices.otherSpec(frontier.crawls.named(name), spec);
  }
  let admittedCount = 0;
  let schedule = planned;
  let addedCount = 0;
  for (const part of seedParts(further)) {
    if (stopping.aborted) {
      log.warn({ crawl: name }, `stopping: ${partlyAdded(addedCount, further)}`);
      return;
    }
    addedCount += countOf(part);
    const { admitted, refused } = await frontier.seed({
      crawl: name,
      ...part,
      priority: 0,
      schedule,
    });
    schedule = undefined;
    admittedCount += admitted;
    for (const { url, why } of refused) log.warn({ url }, `seed refused: ${why}`);
  }
  const crawl = frontier.crawls.named(name);
  // One of which no seed was answered says so by its ending.
  if (admittedCount === 0 && crawl.state === 'finished' && !crawl.isUnanswered) {
    notices.finishedBefore(crawl, folderOf(name));
  }
}
