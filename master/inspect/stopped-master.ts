/**
 * The data folder of a master that does not run, to be asked: its store, its crawls, and where
 * their result files are. Nothing is made or changed in it, and no lock is taken: a master may
 * start meanwhile, and LMDB lets both read.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../../shared/errors.ts';
import type { LedgerCheck } from '../../shared/ledger.ts';
import type { CrawlStatus } from '../../shared/protocol.ts';
import type { Replies } from '../../shared/replies.ts';
import { UrlLook } from '../frontier/look/url-look.ts';
import { masterOf } from '../machine/data-folder.ts';
import { refuseDamagedStore } from '../repair/check.ts';
import { openStoppedStore, storeFile } from '../store/lmdb.ts';
import {
  afterPrefix,
  type CrawlRecord,
  crawlKey,
  decodeCrawl,
  formatKey,
  formatVersion,
} from '../store/records.ts';
import { batches, type ReadableStore } from '../store/store.ts';
import { otherFormat } from '../store/upgrade.ts';
import { Recount } from './recount.ts';
import { UrlAnswers } from './url-answers.ts';

/** Crawls read at once. */
const batchRows = 1_000;

export type Folders = { readonly dataFolder: string; readonly outFolder: string };

/** True: there is the store of a master. */
export function hasStore(dataFolder: string): boolean {
  return existsSync(storeFile(join(dataFolder, 'store')));
}

export class StoppedMaster {
  readonly store: ReadableStore;
  readonly #outFolder: string;
  readonly #look: UrlLook;
  readonly #answers: UrlAnswers;
  readonly #recount: Recount;
  /** Names that crawls were to get when a crash came, by their own. */
  #renaming: ReadonlyMap<string, string> | undefined;

  private constructor(store: ReadableStore, outFolder: string) {
    this.store = store;
    this.#outFolder = outFolder;
    const look = new UrlLook(store);
    const folderOf = (crawl: string) => this.folderOf(crawl);
    this.#look = look;
    this.#answers = new UrlAnswers({ store, look, folderOf });
    this.#recount = new Recount({ store, look, folderOf });
  }

  /** Reads the whole store once, to check it: 0.3 s for a million URLs.
   *  @throws ConfigError a master uses the folder, there is no store, or it cannot be read */
  static async open({ dataFolder, outFolder }: Folders): Promise<StoppedMaster> {
    refuseRunning(dataFolder);
    if (!hasStore(dataFolder)) {
      throw new ConfigError(`there is no store in ${dataFolder}; give its folder with --data`);
    }
    const folder = join(dataFolder, 'store');
    try {
      refuseDamagedStore(storeFile(folder), outFolder);
    } catch (error) {
      // A master that has just begun to write looks like damage.
      refuseRunning(dataFolder);
      throw error;
    }
    const store = await openStoppedStore(folder);
    const format = store.get('meta', formatKey)?.[0];
    if (format !== formatVersion) {
      await store.close();
      if (format === undefined || format > formatVersion) {
        throw otherFormat(format ?? 0, formatVersion);
      }
      throw new ConfigError(
        `the store in ${dataFolder} is of an older version: start this version's master on it once`,
      );
    }
    return new StoppedMaster(store, outFolder);
  }

  /** Its crawls, in the order in which they were made. */
  *crawls(): Generator<CrawlRecord> {
    const range = { from: crawlKey(0), to: afterPrefix(crawlKey(2 ** 32 - 1)) };
    for (const rows of batches(this.store, 'crawls', range, batchRows)) {
      for (const { value } of rows) {
        const record = decodeCrawl(value);
        // A removed one has rows until they are erased.
        if (record.removal === undefined) yield record;
      }
    }
  }

  /** @throws ConfigError there is none of that name */
  crawl(name: string): CrawlRecord {
    let found: CrawlRecord | undefined;
    for (const record of this.crawls()) if (record.name === name) found = record;
    if (found === undefined) throw new ConfigError(`there is no crawl "${name}"`);
    return found;
  }

  /** Answers why a URL was fetched, or was not: see `UrlAnswers`. */
  async why(crawl: CrawlRecord, url: string, after?: Uint8Array): Promise<Replies['crawl.why']> {
    return await this.#answers.slice(this.#look.crawlOf(crawl), url, after);
  }

  /** Counts rows and lines: see `Recount`. */
  async verify({ id, name }: CrawlRecord): Promise<LedgerCheck> {
    return await this.#recount.verify({ id, name });
  }

  /** As its master would show it. */
  statusOf(crawl: CrawlRecord): CrawlStatus {
    return this.#look.crawlOf(crawl).status();
  }

  /** The folder of a crawl's result files. A crash may have come while it got another name. */
  folderOf(name: string): string {
    this.#renaming ??= this.#renamed();
    const folder = join(this.#outFolder, name);
    const to = this.#renaming.get(name);
    return to === undefined || existsSync(folder) ? folder : join(this.#outFolder, to);
  }

  #renamed(): Map<string, string> {
    const names = new Map<string, string>();
    for (const { name, renaming } of this.crawls()) {
      if (renaming !== undefined) names.set(name, renaming);
    }
    return names;
  }

  close(): Promise<void> {
    return this.store.close();
  }
}

/** @throws ConfigError */
function refuseRunning(dataFolder: string): void {
  const pid = masterOf(dataFolder);
  if (pid === undefined) return;
  throw new ConfigError(
    `the data folder ${dataFolder} is in use by the master with process id ${pid}: ask it, ` +
      'without --data and --out',
  );
}
