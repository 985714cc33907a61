/** A crawl as a loop over its records. */
import { type CrawlOptions, type Seed, startOf } from './options.ts';
import type { CrawlRecord } from './records.ts';
import { Run } from './run.ts';

/**
 * Crawls from these URLs with a master and slaves of its own, on this machine, and yields the
 * records in the order in which they were written.
 *
 *     for await (const record of crawl('https://site/', { slaves: 2, maxDepth: 3 })) { … }
 *
 * A record counts as done when the loop asks for the next one. `break`, `return` and a throw stop
 * the crawl; the same call goes on with the record that was not done, also after a crash.
 * @throws ConfigError an option is wrong, or the data folder is in use · ConnectionError the master
 * died
 */
export async function* crawl(
  seeds: Seed | readonly Seed[],
  options: CrawlOptions = {},
): AsyncGenerator<CrawlRecord, void, undefined> {
  const { signal, kinds } = options;
  const start = startOf(seeds, options);
  signal?.throwIfAborted();
  const run = new Run(start, options);
  try {
    while (true) {
      const next = await run.next();
      if (next === undefined) return;
      if (kinds?.includes(next.record.kind) ?? true) yield next.record;
      run.done(next.seq);
    }
  } finally {
    await run.close();
  }
}
