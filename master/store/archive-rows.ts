/**
 * How far the archive of a crawl is, in `meta`: a row for each of its WARC files. Versions without
 * archives leave these rows alone.
 *
 *     archive/<crawl>/<number of the file, 6 digits>   -> ArchiveMark
 */
import { decodeValue, encodeValue } from '../../shared/frame.ts';
import { afterPrefix } from './records.ts';
import type { Change, Rows } from './store.ts';

/** The part of a file that counts. */
export type ArchiveMark = {
  /** Its number, from 1 on. */
  readonly file: number;
  /** Bytes of it; what stands behind them was never committed. */
  readonly length: number;
  /** Records of the whole archive up to there: the next one has this number. */
  readonly records: number;
  /** It is complete, and its index is sorted. */
  readonly isClosed?: true;
};

/** Prefix of the keys of all files of a crawl. */
export function archivePrefix(crawl: number): Buffer {
  return Buffer.from(`archive/${crawl}/`);
}

function archiveKey(crawl: number, file: number): Buffer {
  return Buffer.from(`archive/${crawl}/${String(file).padStart(6, '0')}`);
}

/** Puts a mark on record. */
export function archiveChange(crawl: number, mark: ArchiveMark): Change {
  const { file, length, records, isClosed } = mark;
  const value = encodeValue(isClosed ? [length, records, 1] : [length, records]);
  return { table: 'meta', key: archiveKey(crawl, file), value };
}

/** The crawl and the mark of such a row; undefined: another row. */
export function parseArchiveRow(
  key: Uint8Array,
  value: Uint8Array,
): { readonly crawl: number; readonly mark: ArchiveMark } | undefined {
  const text = Buffer.from(key).toString('latin1');
  const [, crawl, file] = /^archive\/(\d+)\/(\d{6,})$/.exec(text) ?? [];
  if (crawl === undefined || file === undefined) return undefined;
  const [length = 0, records = 0, closed] = decodeValue(value) as number[];
  const mark = { file: Number(file), length, records, ...(closed === 1 && { isClosed: true }) };
  return { crawl: Number(crawl), mark: mark as ArchiveMark };
}

/** The files of a crawl, in their order. */
export function archiveMarks(store: Rows, crawl: number): ArchiveMark[] {
  const from = archivePrefix(crawl);
  return store
    .range('meta', { from, to: afterPrefix(from) })
    .flatMap(({ key, value }) => parseArchiveRow(key, value)?.mark ?? []);
}
