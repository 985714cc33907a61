/**
 * The result queue of format 2, which held the lines of three files as text: read by the upgrade of
 * a store, and by the repair of one that is damaged before its upgrade.
 *
 *     bytes of pages u32 | bytes of images u32 | pages | images | skipped
 */
import type { Image, Result } from '../../shared/requests.ts';
import { type RecordKind, resultSchema } from '../../shared/result-fields.ts';
import { type Reported, type ResultRecord, ResultRow } from './result-rows.ts';

type Line = Readonly<Record<string, unknown>>;
const reportedNames = Object.keys(resultSchema.shape);

/** The lines of pages.jsonl and img_src.txt in such a row. */
export function linesOfRow(row: Buffer): { pages: string[]; images: string[]; skipped: string[] } {
  const pagesEnd = 8 + row.readUInt32BE(0);
  const imagesEnd = pagesEnd + row.readUInt32BE(4);
  const lines = (from: number, to?: number) =>
    row.toString('utf8', from, to).split('\n').slice(0, -1);
  return {
    pages: lines(8, pagesEnd),
    images: lines(pagesEnd, imagesEnd),
    skipped: lines(imagesEnd),
  };
}

/** The records that such a row stands for. */
export function rowOfLines(row: Buffer): ResultRow {
  const { pages, images, skipped } = linesOfRow(row);
  const made = new ResultRow();
  for (const text of [...pages, ...skipped]) {
    const line = JSON.parse(text) as Line;
    const { record, reported } = contentOf(line);
    made.add(kindOf(line), record, reported);
  }
  for (const image of images) made.addImage(image);
  return made;
}

function kindOf({ skipped, sitemap, images, redirectedTo, excluded, error }: Line): RecordKind {
  if (skipped !== undefined) return 'skipped';
  if (sitemap !== undefined) return 'sitemap';
  if (images !== undefined) return 'page';
  if (redirectedTo !== undefined) return 'redirect';
  if (excluded !== undefined) return 'excluded';
  if (error === undefined) return 'other';
  return (error as { kind: string }).kind === 'blocked' ? 'blocked' : 'failed';
}

function contentOf(line: Line): { record: ResultRecord; reported?: Reported } {
  const { unchanged: _, images, at, ...rest } = line;
  const record: Record<string, unknown> = { ...rest, at: Date.parse(String(at)) };
  // Without a final URL nothing was fetched.
  if (line['finalUrl'] === undefined) return { record: record as ResultRecord };
  const result: Record<string, unknown> = { status: 0, bytes: 0 };
  for (const name of reportedNames) {
    if (line[name] !== undefined) result[name] = line[name];
    delete record[name];
  }
  if (line['error'] !== undefined) {
    const { attempts, ...error } = line['error'] as Record<string, unknown>;
    result['error'] = error;
    record['attempts'] = attempts;
  }
  // The master's own word, for a page that was moved.
  record['redirectedTo'] = line['redirectedTo'];
  const reported = { result: result as Result, images: images as Image[] | undefined };
  return { record: record as ResultRecord, reported };
}
