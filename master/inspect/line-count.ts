/**
 * Counts the lines of a crawl's result files by what they say became of their URLs, so that its
 * ledger can be verified. Files are read in blocks, up to the length that is on record.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { codeOf } from '../../shared/errors.ts';
import type { FileKey } from '../sinks/files.ts';
import { type LineOutcome, outcomeOf } from '../sinks/line-outcome.ts';
import { partNamesOf } from './line-search.ts';
import { parsedLine } from './url-lines.ts';

/** Lines by kind of task and outcome, and skipped links by reason. */
export class LineCounts {
  readonly #ended = new Map<string, number>();
  readonly skipped = new Map<string, number>();
  readonly rows = { items: 0, rejected: 0 };
  lines = 0;
  images = 0;
  /** No object of JSON, or one without a URL. */
  torn = 0;

  add(text: string): void {
    this.lines++;
    const line = parsedLine(text);
    if (line === undefined) this.torn++;
    else if (line['skipped'] !== undefined) bump(this.skipped, String(line['skipped']));
    else
      bump(this.#ended, `${line['sitemap'] === undefined ? 'page' : 'sitemap'} ${outcomeOf(line)}`);
  }

  /** A line of images.jsonl. */
  addImage(text: string): void {
    this.lines++;
    const line = parsedLine(text);
    if (line === undefined) this.torn++;
    else bump(this.#ended, `image ${outcomeOf(line)}`);
  }

  /** `text`: its line, if that was read from a file. */
  addRow(of: 'items' | 'rejected', text?: string): void {
    this.lines++;
    if (text !== undefined && parsedLine(text) === undefined) this.torn++;
    else this.rows[of]++;
  }

  /** Rows that are in no file yet. */
  addRows(of: 'items' | 'rejected', count: number): void {
    this.lines += count;
    this.rows[of] += count;
  }

  of(kind: string, outcome: LineOutcome): number {
    return this.#ended.get(`${kind} ${outcome}`) ?? 0;
  }
}

/** Blocks that are parsed at once: some ms. */
const blockBytes = 256 << 10;
const lineFeed = 10;

export type OpenParts = {
  readonly parts: readonly { readonly name: string; readonly file: FileHandle | undefined }[];
  close(): Promise<void>;
};

/** Opens the parts of a result file, so that they can be read whatever becomes of their names.
 *  A part that is not there has no file. */
export async function openParts(folder: string, file: FileKey): Promise<OpenParts> {
  const names = await partNamesOf(folder, file);
  const parts: { name: string; file: FileHandle | undefined }[] = [];
  for (const name of names) {
    const handle = await open(join(folder, name), 'r').catch((error: unknown) => {
      if (codeOf(error) === 'ENOENT') return undefined;
      throw error;
    });
    parts.push({ name, file: handle });
  }
  return {
    parts,
    async close() {
      for (const { file: handle } of parts) await handle?.close();
    },
  };
}

/** Calls `onLine` with each line up to `bytes`. Returns the bytes that were there. */
export async function eachLine(
  file: FileHandle,
  bytes: number,
  onLine: (text: string) => void,
): Promise<number> {
  let rest = Buffer.alloc(0);
  let at = 0;
  while (at < bytes) {
    const wanted = Math.min(blockBytes, bytes - at);
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(wanted), 0, wanted, at);
    if (bytesRead === 0) break;
    at += bytesRead;
    const block = Buffer.concat([rest, buffer.subarray(0, bytesRead)]);
    let begin = 0;
    for (let end = block.indexOf(lineFeed); end >= 0; end = block.indexOf(lineFeed, begin)) {
      onLine(block.toString('utf8', begin, end));
      begin = end + 1;
    }
    rest = block.subarray(begin);
    await turn();
  }
  if (rest.length > 0) onLine(rest.toString('utf8'));
  return at;
}

function bump(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}
