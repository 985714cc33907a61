/**
 * The crawls of a series (`every: 24h`), in `meta`: a row for each of them, and one for the sources
 * of seeds that the next one asks. Versions without series leave these rows alone.
 *
 *     repeat/<crawl>         -> RepeatRow
 *     repeat-seeds/<crawl>   -> what its owner keeps there; the newest crawl of a series has it
 */
import { decodeValue, encodeValue } from '../../shared/frame.ts';
import { afterPrefix } from './records.ts';
import type { Change, Rows } from './store.ts';

/** `making`: its URLs are being taken over; `open`: it is crawled; `done`: it has ended, and was
 *  compared with the one before. */
type RepeatState = 'making' | 'open' | 'done';

export type RepeatRow = {
  /** The number of the first crawl of the series. */
  readonly series: number;
  /** Prefix of the names of the others. */
  readonly base: string;
  readonly state: RepeatState;
  /** Number of the crawl that it was made of; absent: it is the first. */
  readonly before?: number;
  /** Unix time in ms when the next is due; only the newest crawl of a series has it. */
  readonly dueAt?: number;
  /** The name that the next one gets; on record before anything of that name is made. */
  readonly next?: string;
  /** Pages by what became of them since the one before. */
  readonly changes?: Readonly<Record<ChangeCount, number>>;
};
type ChangeCount = 'came' | 'went' | 'changed' | 'same' | 'unknown';

const prefix = 'repeat/';

function repeatKey(crawl: number): Buffer {
  return Buffer.from(`${prefix}${crawl}`);
}

function repeatSeedsKey(crawl: number): Buffer {
  return Buffer.from(`repeat-seeds/${crawl}`);
}

/** All keys of a crawl. */
export function repeatKeys(crawl: number): Buffer[] {
  return [repeatKey(crawl), repeatSeedsKey(crawl)];
}

export function repeatChange(crawl: number, row: RepeatRow): Change {
  return { table: 'meta', key: repeatKey(crawl), value: encodeValue(row) };
}

/** `seeds`: a plain value; undefined: it has none. */
export function repeatSeedsChange(crawl: number, seeds: Uint8Array | undefined): Change {
  return { table: 'meta', key: repeatSeedsKey(crawl), value: seeds };
}

export function repeatSeedsOf(store: Pick<Rows, 'get'>, crawl: number): Buffer | undefined {
  return store.get('meta', repeatSeedsKey(crawl));
}

/** The rows of all crawls, by their numbers. */
export function repeatRows(store: Rows): Map<number, RepeatRow> {
  const from = Buffer.from(prefix);
  const rows = store.range('meta', { from, to: afterPrefix(from) });
  return new Map(
    rows.map(({ key, value }) => [
      Number(key.toString('latin1', prefix.length)),
      decodeValue(value) as RepeatRow,
    ]),
  );
}
