/**
 * The buried: URLs that were given up, kept for inspection and replay. A commit writes them; this
 * file reads them and puts them back into the filter queue.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { CommandError } from '../../../shared/errors.ts';
import type { Replies } from '../../../shared/replies.ts';
import {
  type BuriedRecord,
  crawlKey,
  decodeBuried,
  fingerprintKeyBytes,
} from '../../store/records.ts';
import type { Row, Store } from '../../store/store.ts';
import type { Crawl } from '../crawl/crawl.ts';
import { smallEntryBytes } from './entry.ts';
import type { Pipeline } from './pipeline.ts';

/** Rows read, and put back, at once. */
const replayBatch = 1_000;

export class Buried {
  readonly #store: Store;
  readonly #pipeline: Pipeline;
  #replaying: Promise<unknown> = Promise.resolve();

  constructor(store: Store, pipeline: Pipeline) {
    this.#store = store;
    this.#pipeline = pipeline;
  }

  /** Returns `limit` of them after `after`, in the order of their fingerprints.
   *  @throws CommandError `after` is not a key of this crawl */
  list(crawl: Crawl, after: Uint8Array | undefined, limit: number): Replies['crawl.buried'] {
    if (after !== undefined && !isKeyOf(crawl, after)) {
      throw new CommandError('E_BAD_REQUEST', '`after` is not the `next` of an earlier reply');
    }
    const rows = this.#rows(crawl, after, limit);
    const urls = rows.map(({ value }) => {
      const { url, kind, message, attempts } = decodeBuried(value);
      return { url, kind, message, attempts };
    });
    const last = rows.at(-1);
    return last !== undefined && rows.length === limit ? { urls, next: last.key } : { urls };
  }

  /** Puts one or all back into the task queue. Returns their number. */
  replay(crawl: Crawl, url: string | undefined): Promise<number> {
    const isOnly = url === undefined ? undefined : (one: BuriedRecord) => one.url === url;
    return this.#inTurn(() => this.#replay(crawl, isOnly, url !== undefined));
  }

  /** The same for those that are wanted. */
  replayWhere(crawl: Crawl, isWanted: (buried: BuriedRecord) => boolean): Promise<number> {
    return this.#inTurn(() => this.#replay(crawl, isWanted, false));
  }

  /** One after the other: two would read the same rows and admit their URLs twice. */
  #inTurn(replay: () => Promise<number>): Promise<number> {
    const replayed = this.#replaying.then(replay);
    this.#replaying = replayed.catch(() => {});
    return replayed;
  }

  /** Without `isWanted`, all; `isOne`: none follows the first. */
  async #replay(
    crawl: Crawl,
    isWanted: ((buried: BuriedRecord) => boolean) | undefined,
    isOne: boolean,
  ): Promise<number> {
    let replayed = 0;
    let after: Uint8Array | undefined;
    while (crawl.state !== 'cancelled') {
      const page = this.#rows(crawl, after, replayBatch);
      const rows = isWanted ? page.filter(({ value }) => isWanted(decodeBuried(value))) : page;
      if (rows.length > 0) {
        const bytes = rows.length * smallEntryBytes;
        await new Promise<void>((done) =>
          this.#pipeline.put({ kind: 'replay', crawl, bytes, rows, done }),
        );
      } else await turn();
      replayed += rows.length;
      after = page.at(-1)?.key;
      if (after === undefined || (isOne && rows.length > 0)) break;
    }
    return replayed;
  }

  #rows(crawl: Crawl, after: Uint8Array | undefined, limit: number): Row[] {
    return this.#store.range('buried', {
      from: after ?? crawlKey(crawl.id),
      after: after !== undefined,
      to: crawlKey(crawl.id + 1),
      limit,
    });
  }
}

function isKeyOf(crawl: Crawl, key: Uint8Array): boolean {
  return key.length === fingerprintKeyBytes && crawlKey(crawl.id).equals(key.subarray(0, 4));
}
