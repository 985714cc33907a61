/**
 * The targets that sinks have closed under a date, in `meta`: a *part* of the results of a crawl
 * each, and the date under which one is being closed.
 *
 *     sink/<crawl>/<sink>/<date>   -> the part, in the words of its sink
 *     rotate/<crawl>/<sink>        -> the date: this was begun, and is not done
 *
 * Versions without rotation leave these rows alone.
 */
import { decodeValue, encodeValue } from '../../shared/frame.ts';
import { afterPrefix, cursorKey } from './records.ts';
import type { Rows } from './store.ts';

/** A part of the results of a crawl. */
export type Part = {
  /** `20261122T215501Z`. */
  readonly date: string;
  readonly part: unknown;
};

const rotating = 'rotate/';

/** Prefix of the keys of a sink's parts. */
function partPrefix(crawl: number, sink: string): Buffer {
  return Buffer.concat([cursorKey(crawl, sink), Buffer.from('/')]);
}

export function partKey(crawl: number, sink: string, date: string): Buffer {
  return Buffer.concat([partPrefix(crawl, sink), Buffer.from(date, 'latin1')]);
}

/** The crawl, the sink and the date of such a key; undefined: another key. */
export function parsePartKey(
  key: Buffer,
): { readonly crawl: number; readonly sink: string; readonly date: string } | undefined {
  const [, crawl, sink, date] =
    /^sink\/(\d+)\/([a-z]+)\/(\d{8}T\d{6}Z)$/.exec(key.toString('latin1')) ?? [];
  if (sink === undefined || date === undefined) return undefined;
  return { crawl: Number(crawl), sink, date };
}

export const encodePart = (part: unknown): Buffer => encodeValue(part);
export const decodePart = (value: Uint8Array): unknown => decodeValue(value);

/** The parts that a sink of a crawl has closed, oldest first. */
export function partsOf(store: Rows, crawl: number, sink: string): Part[] {
  const from = partPrefix(crawl, sink);
  const parts: Part[] = [];
  for (const { key, value } of store.range('meta', { from, to: afterPrefix(from) })) {
    const date = parsePartKey(key)?.date;
    if (date !== undefined) parts.push({ date, part: decodePart(value) });
  }
  return parts;
}

/** Where it is on record that a sink closes its targets. */
export function rotatingKey(crawl: number, sink: string): Buffer {
  return Buffer.from(`${rotating}${crawl}/${sink}`);
}

/** Prefix of these keys of a crawl. */
export function rotatingPrefix(crawl: number): Buffer {
  return Buffer.from(`${rotating}${crawl}/`);
}

/** The date under which a sink closes its targets; undefined: it does not. */
export function rotatingDate(store: Rows, crawl: number, sink: string): string | undefined {
  return store.get('meta', rotatingKey(crawl, sink))?.toString('latin1');
}

/** The crawl, the sink and the date of such a row; undefined: another row. */
export function parseRotating(
  key: Buffer,
  value: Uint8Array,
): { readonly crawl: number; readonly sink: string; readonly date: string } | undefined {
  const [, crawl, sink] = /^rotate\/(\d+)\/([a-z]+)$/.exec(key.toString('latin1')) ?? [];
  if (sink === undefined) return undefined;
  return { crawl: Number(crawl), sink, date: Buffer.from(value).toString('latin1') };
}

/** Numbers of the crawls whose rotation an earlier master has not ended. */
export function rotatingCrawls(store: Rows): Set<number> {
  const from = Buffer.from(rotating);
  const rows = store.range('meta', { from, to: afterPrefix(from) });
  return new Set(rows.flatMap(({ key, value }) => parseRotating(key, value)?.crawl ?? []));
}
