/** The result files that a store of a crawl names, and that are not there: for repair, which reads
 *  them. */
import { ConfigError } from '../../shared/errors.ts';
import { filesName, type Lengths } from '../sinks/files.ts';
import { parseRotating } from '../store/parts.ts';
import type { Salvage } from './salvage.ts';
import { savedCrawls } from './saved-crawls.ts';
import { missingFiles, recordedLengths, resultsOf } from './written.ts';

/** Result files that are not there, or shorter than they were, each in a few words. A cancelled
 *  crawl needs none. */
export function missingResults(salvage: Salvage, outFolder: string): string[] {
  const { crawls } = savedCrawls(salvage);
  const known = new Map<number, Lengths>();
  const dates = new Map<number, string>();
  const { damage } = salvage.table('meta', (key, value) => {
    const said = recordedLengths(key, Buffer.from(value));
    if (said !== undefined) known.set(said.crawl, said.lengths);
    const rotating = parseRotating(key, value);
    if (rotating?.sink === filesName) dates.set(rotating.crawl, rotating.date);
  });
  return [...crawls.values()]
    .filter(({ state }) => state !== 'cancelled')
    .flatMap((crawl) => {
      const lengths = known.get(crawl.id);
      // Without a record nothing was written, unless the record is lost.
      if (lengths === undefined && damage.length === 0) return [];
      return missingFiles(resultsOf(outFolder, crawl), lengths, dates.get(crawl.id));
    });
}

/** @throws ConfigError */
export function refuseMissing(missing: readonly string[], outFolder: string): void {
  const [first] = missing;
  if (first === undefined) return;
  const more = missing.length > 1 ? ` (and ${missing.length - 1} more)` : '';
  throw new ConfigError(
    `no results are at ${outFolder} as the store has them on record: ${first}${more}; name their ` +
      'folder with --out (packed files must be unpacked there), or give --without-results: ' +
      'what they list may then be fetched and written again',
  );
}
