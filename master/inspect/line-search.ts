/**
 * Searches a result file of a crawl for lines that hold a text: in blocks of bounded size, from any
 * line on. A file may have a hundred million lines, so a caller asks again from where the last
 * search has ended; nothing is kept open in between.
 *
 * Files that were rotated come first, in the order of their dates: the file that is written is
 * always the last part, also when it becomes a dated one between two searches.
 */
import { type FileHandle, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { codeOf } from '../../shared/errors.ts';
import { inOrder } from '../sinks/dated-files.ts';
import { type FileKey, fileNames } from '../sinks/files.ts';

/** The beginning of a line: the number of the part, and a byte of it. */
export type Spot = { readonly part: number; readonly at: number };
export const firstSpot: Spot = { part: 0, at: 0 };

/** Is it a spot that a cursor may hold? */
export function isSpot({ part, at }: Spot): boolean {
  return isCount(part) && isCount(at);
}

/** Is it a number of things? */
export function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

export type SearchedFile = Extract<FileKey, 'pages' | 'skipped' | 'downloads'>;

type FoundLine = {
  /** Without its line feed. */
  readonly text: string;
  /** Where it begins. */
  readonly at: Spot;
  /** Where the next line begins. */
  readonly next: Spot;
};

type Wanted = {
  /** Default: `pages`. */
  readonly file?: SearchedFile;
  /** The lines must hold this text, as JSON writes it; with `behind`, directly behind one of
   *  these. */
  readonly needle: string;
  readonly behind?: readonly string[];
  readonly from: Spot;
  /** About how much is read. */
  readonly bytesMax: number;
  /** Lines found at most. */
  readonly linesMax: number;
  /** Bytes of the last part that count: the rest may be cut. Default: all. */
  readonly lastBytes?: number;
};

type Search = {
  readonly lines: readonly FoundLine[];
  /** Where the next search begins. */
  readonly next: Spot;
  /** There is nothing behind `next` for now. */
  readonly isEnd: boolean;
  /** The last part is not there. */
  readonly isMissing: boolean;
};

const chunkBytes = 1 << 20;
/** No line that the master writes is longer. */
const lineBytesMax = 64 << 20;
const lineFeed = 10;

/** @throws Error of the file system: a file is there and cannot be read */
export async function searchLines(folder: string, wanted: Wanted): Promise<Search> {
  const { from, bytesMax, linesMax, lastBytes = Number.POSITIVE_INFINITY } = wanted;
  const needle = Buffer.from(wanted.needle);
  const behind = wanted.behind?.map((text) => Buffer.from(text));
  const parts = await partNamesOf(folder, wanted.file ?? 'pages');
  const lines: FoundLine[] = [];
  let { part, at } = from;
  let left = bytesMax;
  for (; part < parts.length; part++, at = 0) {
    const isLast = part === parts.length - 1;
    const file = await opened(join(folder, parts[part] ?? ''));
    if (file === undefined) return { lines, next: { part, at }, isEnd: true, isMissing: true };
    try {
      while (true) {
        if (left <= 0 || lines.length >= linesMax) {
          return { lines, next: { part, at }, isEnd: false, isMissing: false };
        }
        const block = await wholeLines(file, at, isLast ? lastBytes : Number.POSITIVE_INFINITY);
        if (block.length === 0) break;
        const max = linesMax - lines.length;
        const begin = at;
        const taken = matching(block, { needle, behind, max }, (offset) => {
          return { part, at: begin + offset };
        });
        lines.push(...taken.lines);
        at += taken.bytes;
        left -= taken.bytes;
        // A read out of the cache of the kernel may end at once.
        await turn();
      }
    } finally {
      await file.close();
    }
    if (isLast) break;
  }
  return { lines, next: { part, at }, isEnd: true, isMissing: false };
}

/** Reads the line that begins at a spot; undefined: it is not there any more. */
export async function lineAt(
  folder: string,
  file: SearchedFile,
  { part, at }: Spot,
): Promise<string | undefined> {
  const name = (await partNamesOf(folder, file))[part];
  const handle = name === undefined ? undefined : await opened(join(folder, name));
  if (handle === undefined) return undefined;
  try {
    const block = await wholeLines(handle, at, Number.POSITIVE_INFINITY);
    const end = block.indexOf(lineFeed);
    return end < 0 ? undefined : block.toString('utf8', 0, end);
  } finally {
    await handle.close();
  }
}

/** The dated files, and the one that is written, which need not be there. */
export async function partNamesOf(folder: string, file: FileKey): Promise<string[]> {
  const names = await readdir(folder).catch(() => []);
  return inOrder(names, fileNames[file]);
}

async function opened(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, 'r');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** The lines that end between `at` and `end`: about a chunk of them, or a longer one; none: there
 *  are no more. */
async function wholeLines(file: FileHandle, at: number, end: number): Promise<Buffer> {
  for (let bytes = chunkBytes; bytes <= lineBytesMax; bytes *= 2) {
    const wanted = Math.max(0, Math.min(bytes, end - at));
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(wanted), 0, wanted, at);
    const last = buffer.subarray(0, bytesRead).lastIndexOf(lineFeed);
    if (last >= 0) return buffer.subarray(0, last + 1);
    if (bytesRead < bytes) break;
  }
  return Buffer.alloc(0);
}

/** The first lines of a block that hold the needle, and the bytes that were searched. */
function matching(
  block: Buffer,
  wanted: {
    readonly needle: Buffer;
    readonly behind: readonly Buffer[] | undefined;
    readonly max: number;
  },
  spotOf: (offset: number) => Spot,
): { lines: FoundLine[]; bytes: number } {
  const { needle, behind, max } = wanted;
  const lines: FoundLine[] = [];
  for (let at = block.indexOf(needle); at >= 0; ) {
    if (behind !== undefined && !behind.some((text) => endsAt(block, at, text))) {
      at = block.indexOf(needle, at + 1);
      continue;
    }
    const begin = block.lastIndexOf(lineFeed, at) + 1;
    const end = block.indexOf(lineFeed, at);
    const text = block.toString('utf8', begin, end);
    lines.push({ text, at: spotOf(begin), next: spotOf(end + 1) });
    if (lines.length >= max) return { lines, bytes: end + 1 };
    at = block.indexOf(needle, end + 1);
  }
  return { lines, bytes: block.length };
}

function endsAt(block: Buffer, at: number, text: Buffer): boolean {
  return at >= text.length && text.equals(block.subarray(at - text.length, at));
}
