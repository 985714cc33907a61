/** Reads back what a crawl has found, from its files and the result queue: for repair. */
import { closeSync, existsSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { decodeValue } from '../../shared/frame.ts';
import type { RecordKind } from '../../shared/result-fields.ts';
import type { WrittenLine } from '../frontier/kinds/kind.ts';
import { datedName, inOrder, isDated } from '../sinks/dated-files.ts';
import { filesOfPart } from '../sinks/file-rotation.ts';
import {
  type FileKey,
  fileNames,
  filesName,
  isPlainKey,
  type Lengths,
  noLengths,
} from '../sinks/files.ts';
import { valuesOf } from '../sinks/result-lines.ts';
import { linesOfRow } from '../store/line-rows.ts';
import { decodePart, parsePartKey } from '../store/parts.ts';
import { type CrawlRecord, decodeCursor, parseCursorKey } from '../store/records.ts';
import { imageUrlsOf, isRowKind, sectionsOf } from '../store/result-rows.ts';

const chunkBytes = 1 << 20;

export type Written = {
  readonly onLine?: (line: WrittenLine) => void;
  readonly onImage?: (src: string) => void;
  /** A line of images.jsonl. */
  readonly onPicture?: (line: WrittenLine) => void;
};

/** Records whose lines are in files of their own. */
const visitorOf: { readonly [K in RecordKind]?: 'onPicture' } = { image: 'onPicture' };

/** A name in the folder of a crawl, and how many bytes of that file count. */
export type RecordedFile = { readonly name: string; readonly length: number };

/** The files that the file sink of a crawl has written: earlier parts, too, as far as they are
 *  there. `lengths`: how much of its files counts; undefined: all of it. */
export function readWritten(
  folder: string,
  { onLine, onImage, onPicture }: Written,
  lengths?: Lengths,
): void {
  const all = (file: FileKey, visit: (text: string) => void) => {
    const open = join(folder, fileNames[file]);
    for (const path of filesIn(folder, fileNames[file])) {
      const bytesMax = path === open && lengths !== undefined ? (lengths[file] ?? 0) : undefined;
      eachLine(path, visit, bytesMax);
    }
  };
  if (onLine !== undefined) all('pages', parsed(onLine));
  if (onImage !== undefined) all('images', onImage);
  if (onPicture !== undefined) all('downloads', parsed(onPicture));
}

function parsed(visit: (line: WrittenLine) => void): (text: string) => void {
  return (text) => {
    let line: WrittenLine;
    try {
      line = JSON.parse(text) as WrittenLine;
    } catch {
      return; // torn by the crash; it is written again
    }
    visit(line);
  };
}

/** A result file, and those that were closed under a date. */
function filesIn(folder: string, name: string): string[] {
  const names = existsSync(folder) ? readdirSync(folder) : [];
  return inOrder(names, name).map((one) => join(folder, one));
}

/** A record that is still to be written: a row of the result queue, in that format of the store. */
export function readUnwritten(row: Buffer, format: number, visit: Written): void {
  const { onLine, onImage } = visit;
  if (format < 3) {
    const { pages, images } = linesOfRow(row);
    for (const line of pages) onLine?.(JSON.parse(line) as WrittenLine);
    for (const src of images) onImage?.(src);
    return;
  }
  for (const section of sectionsOf(row)) {
    const { kind } = section;
    if (kind === 'image-url') for (const src of imageUrlsOf(section)) onImage?.(src);
    else if (kind !== 'skipped' && !isRowKind(kind))
      visit[visitorOf[kind] ?? 'onLine']?.(valuesOf(section) as WrittenLine);
  }
}

/** How much of a crawl's files counts. `commit`: they have the results up to this one. */
export type RecordedLengths = {
  readonly crawl: number;
  readonly lengths: Lengths;
  readonly commit: number;
};

/** The files of a crawl by a row of `meta`, in any format; undefined: it is another row. */
export function recordedLengths(key: Buffer, value: Buffer): RecordedLengths | undefined {
  const [, crawl] = /^sink\/(\d+)$/.exec(key.toString('latin1')) ?? [];
  if (crawl !== undefined) {
    return { crawl: Number(crawl), lengths: decodeValue(value) as Lengths, commit: 0 };
  }
  const cursor = parseCursorKey(key);
  if (cursor?.sink !== filesName) return undefined;
  const { mark, commit } = decodeCursor(value);
  return { crawl: cursor.crawl, lengths: (mark ?? noLengths) as Lengths, commit };
}

/** The files that a rotation has closed, by a row of `meta`; undefined: it is another row. */
export function recordedPart(
  key: Buffer,
  value: Buffer,
): { readonly crawl: number; readonly files: readonly RecordedFile[] } | undefined {
  const parsed = parsePartKey(key);
  if (parsed?.sink !== filesName) return undefined;
  const files = filesOfPart(decodePart(value), parsed.date);
  return {
    crawl: parsed.crawl,
    files: files.map(({ name, mark }) => ({ name, length: mark.length })),
  };
}

/** Bytes of the whole lines in each file. */
export function lengthsOfFiles(folder: string): Lengths {
  const names = Object.entries(fileNames).map(([file, name]) => {
    return [file, eachLine(join(folder, name), () => {})];
  });
  return { ...noLengths, ...(Object.fromEntries(names) as Partial<Lengths>) };
}

/** The files that have less than these lengths, with what they have, or are not there. Lengths that
 *  nobody knows: all must be there. `date`: of a rotation that a crash has cut off. */
export function missingFiles(
  folder: string,
  lengths: Lengths | undefined,
  date: string | undefined,
): string[] {
  return Object.entries(fileNames).flatMap(([file, name]) => {
    const path = join(folder, name);
    const dated = date === undefined ? path : join(folder, datedName(name, date));
    // Those of items and images are there only if the crawl has some.
    const length = lengths?.[file as keyof Lengths] ?? (isPlainKey(file) ? undefined : 0);
    const found = existsSync(dated) ? dated : path;
    const size = statSync(found, { throwIfNoEntry: false })?.size;
    if (length === undefined ? size !== undefined : (size ?? 0) >= length) return [];
    return [lackText(path, size, length)];
  });
}

function lackText(path: string, size: number | undefined, length: number | undefined): string {
  return size === undefined ? path : `${path} (${size} bytes of ${length})`;
}

/** Those of the closed files that are not there, or shorter. Skipped links need not be read. */
export function missingParts(folder: string, files: readonly RecordedFile[]): string[] {
  const wanted = files.filter(({ name }) => !isDated(name, fileNames.skipped));
  return wanted.flatMap(({ name, length }) => {
    const path = join(folder, name);
    const size = statSync(path, { throwIfNoEntry: false })?.size;
    return size !== undefined && size >= length ? [] : [lackText(path, size, length)];
  });
}

/** Of a text that ends with a line feed, or is empty. */
function linesIn(text: Buffer): string[] {
  return text.toString('utf8').split('\n').slice(0, -1);
}

/** Gives the bytes of the whole lines. */
function eachLine(
  path: string,
  visit: (line: string) => void,
  bytesMax = Number.POSITIVE_INFINITY,
): number {
  if (!existsSync(path)) return 0;
  const file = openSync(path, 'r');
  try {
    const chunk = Buffer.alloc(chunkBytes);
    let rest = Buffer.alloc(0);
    let bytes = 0;
    while (true) {
      const left = Math.min(chunkBytes, bytesMax - bytes - rest.length);
      const count = left <= 0 ? 0 : readSync(file, chunk, 0, left, null);
      if (count === 0) return bytes;
      const text = Buffer.concat([rest, chunk.subarray(0, count)]);
      const end = text.lastIndexOf(10) + 1;
      bytes += end;
      rest = text.subarray(end);
      for (const line of linesIn(text.subarray(0, end))) visit(line);
    }
  } finally {
    closeSync(file);
  }
}

/** The folder of a crawl's results. A crash may have come while they got another name. */
export function resultsOf(outFolder: string, { name, renaming }: CrawlRecord): string {
  const folder = join(outFolder, name);
  const isMoved = renaming !== undefined && !existsSync(folder);
  return isMoved ? join(outFolder, renaming) : folder;
}
