/**
 * Takes the URLs of a crawl over to the one that repeats it, which is paused until it has all of
 * them: those of the results, asked for only if they changed, and what the sources of seeds have
 * now. Done twice it has the effect of once.
 */
import { CommandError, ConfigError } from '../shared/errors.ts';
import { decodeValue, encodeValue } from '../shared/frame.ts';
import type { Logger } from '../shared/log.ts';
import { requestSchemas } from '../shared/requests.ts';
import { earlierUrls } from './cli/recrawl.ts';
import { gather } from './cli/seed-gathering.ts';
import type { SeedList } from './cli/seed-list.ts';
import { seedParts } from './cli/seeds.ts';
import type { CrawlView } from './frontier/crawl/crawl-view.ts';
import type { Frontier } from './frontier/frontier.ts';
import { repeatSeedsOf } from './store/repeat-rows.ts';
import type { Store } from './store/store.ts';

type MakingOptions = {
  readonly store: Pick<Store, 'get'>;
  readonly frontier: Frontier;
  readonly results: { folderOf(crawl: string): string };
  readonly log: Logger;
};
/** In the row of the seeds of a crawl. */
type SeedsToRepeat = { readonly list: SeedList; readonly file: string };

const seedBytesMax = 8 << 20;
const urlSchema = () => requestSchemas['crawl.recrawl'].shape.urls.element;

/** The seeds of a crawl file that are not in the results of its crawl: sources, whose answers may
 *  be others next time, and requests. Undefined: nothing. @throws ConfigError it is too much */
export function seedsToRepeat(list: SeedList, file: string): Buffer | undefined {
  const parts = list.parts.filter((part) => !('urls' in part));
  if (parts.length === 0) return undefined;
  // The place of a seed in the whole list decides to which shard it belongs.
  const seeds = encodeValue({ file, list: list.shard === undefined ? { ...list, parts } : list });
  if (seeds.length <= seedBytesMax) return seeds;
  throw new ConfigError(
    `${file}: every: the requests of its seeds have more than ${seedBytesMax >> 20} MiB; put the ` +
      'seeds into a file of their own, or into several crawls',
  );
}

export class RepeatMaking {
  readonly #options: MakingOptions;
  readonly #signal: AbortSignal;

  constructor(options: MakingOptions, signal: AbortSignal) {
    this.#options = options;
    this.#signal = signal;
  }

  /** Takes over the URLs of `before` (undefined: it was removed), and lets the crawl begin. False:
   *  the crawl was ended meanwhile, or the master stops. @throws ConfigError its results cannot be
   *  read · CommandError */
  async takeOver({ id }: CrawlView, before: CrawlView | undefined): Promise<boolean> {
    const { frontier, log, results } = this.#options;
    const crawl = () => this.#open(id);
    let count = 0;
    const folder = before && results.folderOf(before.name);
    for await (const urls of folder === undefined ? [] : earlierUrls(undefined, folder)) {
      const now = crawl();
      if (now === undefined) return false;
      // Lines of a file that anybody may have written.
      const valid = urls.flatMap((one) => urlSchema().safeParse(one).data ?? []);
      count += (await frontier.recrawl({ crawl: now.name, urls: valid })).admitted;
    }
    count += await this.#seed(id);
    const now = crawl();
    if (now === undefined) return false;
    try {
      await frontier.resume(now.name);
    } catch (error) {
      // It is held: the operator has to resume it.
      if (!(error instanceof CommandError) || crawl()?.held === undefined) throw error;
    }
    const what = before === undefined ? '' : ` of ${before.name}`;
    log.info({ crawl: now.name }, `crawl ${now.name} begins with ${count} URLs${what}`);
    return true;
  }

  /** Those of the sources as they are now. A source that fails is left out this time. */
  async #seed(id: number): Promise<number> {
    const { frontier, log, store } = this.#options;
    const row = repeatSeedsOf(store, id);
    const crawl = this.#open(id);
    if (row === undefined || crawl === undefined) return 0;
    const { list, file } = decodeValue(row) as SeedsToRepeat;
    const { name, spec } = crawl;
    const warn = (text: string) => log.warn({ crawl: name }, text);
    let count = 0;
    for (const part of list.shard === undefined ? list.parts : [undefined]) {
      const some = part === undefined ? list : { ...list, parts: [part] };
      try {
        const { urls, requests } = await gather(some, file, { spec, warn, signal: this.#signal });
        for (const seeds of seedParts({ seeds: urls, requests })) {
          const now = this.#open(id);
          if (now === undefined) return count;
          const verdict = await frontier.seed({ crawl: now.name, ...seeds, priority: 0 });
          count += verdict.admitted;
        }
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error;
        if (!this.#signal.aborted) warn(`${error.message}; it is left out this time`);
      }
    }
    return count;
  }

  #open(id: number): CrawlView | undefined {
    const crawl = this.#options.frontier.crawls.byId(id);
    if (this.#signal.aborted || crawl?.state === 'cancelled') return undefined;
    return crawl;
  }
}
