/**
 * The index beside a WARC file: in the order of the records until that file is complete, then
 * sorted. All that it says is in the WARC file. So it is no loss if it cannot be written, or if
 * somebody takes it away or changes it: it is made again of the records.
 */
import { constants } from 'node:fs';
import { type FileHandle, lstat, open, readFile, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { isSameFile } from '../machine/same-file.ts';
import { replaceFile } from '../sinks/result-folder.ts';
import { cdxjLine, type Indexed, revisitMime, sortedLines } from './cdxj.ts';
import { answerOf } from './records.ts';
import { type WarcRecord, warcRecords } from './warc-reader.ts';

/** Between two attempts, so that an index that goes away again and again takes little time. */
const pauseMs = 10_000;
const pausesPerMake = 20;

/** `000001.cdxj` of `000001.warc.gz`. */
export function indexName(warc: string): string {
  return warc.replace(/\.warc\.gz$/, '.cdxj');
}

/** Its methods take the path of the WARC file: a crawl may be renamed. */
export class WarcIndex {
  #handle: FileHandle | undefined;
  /** Bytes that it has, if nobody else wrote to it. */
  #bytes = 0;
  /** It has a line for each record before those that are added next. */
  #isWhole: boolean;
  #notBefore = Number.NEGATIVE_INFINITY;

  /** `isNew`: the WARC file has no record yet. */
  constructor(isNew: boolean) {
    this.#isWhole = isNew;
  }

  /** Adds lines, with which it covers `length` bytes of the WARC file. Returns whether it had to
   *  be made again for that; undefined: that was tried a moment ago.
   *  @throws the error of the system */
  async add(warc: string, lines: readonly Indexed[], length: number): Promise<boolean | undefined> {
    if (this.#isWhole && (await this.#isAsLeft(warc))) {
      await this.#append(warc, lines.map(cdxjLine).join(''));
      return false;
    }
    this.#isWhole = false;
    if (performance.now() < this.#notBefore) return undefined;
    await this.make(warc, await linesOf(warc, length));
    return true;
  }

  /** Makes it of these lines, which are those of all records. @throws the error of the system */
  async make(warc: string, lines: readonly string[]): Promise<void> {
    const began = performance.now();
    try {
      await this.close();
      const text = lines.join('');
      await replace(warc, text);
      const { O_WRONLY, O_APPEND, O_NOFOLLOW } = constants;
      this.#handle = await open(indexName(warc), O_WRONLY | O_APPEND | O_NOFOLLOW);
      this.#bytes = Buffer.byteLength(text);
      this.#isWhole = true;
    } finally {
      const now = performance.now();
      this.#notBefore = now + pauseMs + pausesPerMake * (now - began);
    }
  }

  /** The WARC file is complete: puts the lines in order, durably. Returns whether the index had to
   *  be made again for that. @throws the error of the system */
  async finish(warc: string, length: number): Promise<boolean> {
    const isAsLeft = this.#isWhole && (await this.#isAsLeft(warc));
    const text = isAsLeft && this.#bytes > 0 ? await readFile(indexName(warc), 'utf8') : '';
    const lines = isAsLeft ? text : (await linesOf(warc, length)).join('');
    await replace(warc, sortedLines(lines));
    await this.close();
    return !isAsLeft;
  }

  async close(): Promise<void> {
    await this.#handle?.close().catch(() => {});
    this.#handle = undefined;
    this.#isWhole = false;
  }

  /** Is it at its path, and as long as it was left? */
  async #isAsLeft(warc: string): Promise<boolean> {
    const found = await lstat(indexName(warc)).catch(() => undefined);
    if (this.#handle === undefined) return found === undefined;
    const own = await this.#handle.stat();
    return isSameFile(found, own) && found?.size === this.#bytes;
  }

  async #append(warc: string, text: string): Promise<void> {
    // A part of the lines may be written.
    this.#isWhole = false;
    this.#handle ??= await open(indexName(warc), 'ax');
    await this.#handle.appendFile(text);
    this.#bytes += Buffer.byteLength(text);
    this.#isWhole = true;
  }
}

/** The lines of all records of a WARC file, in their order. `onRecord` is called for
 *  each that has one. @throws ConfigError the file is damaged · the error of the system */
export async function linesOf(
  warc: string,
  length: number,
  onRecord: (record: WarcRecord) => void = () => {},
): Promise<string[]> {
  const lines: string[] = [];
  for await (const record of warcRecords(warc, { end: length })) {
    const { type, fields, block, offset, length: bytes } = record;
    if (type !== 'response' && type !== 'revisit') continue;
    const url = fields.get('warc-target-uri') ?? '';
    const date = fields.get('warc-date') ?? '';
    const digest = fields.get('warc-payload-digest') ?? '-';
    const { status, mime } = answerOf(block);
    const place = { length: bytes, offset, filename: basename(warc) };
    const shown = type === 'revisit' ? revisitMime : mime;
    lines.push(cdxjLine({ url, date, digest, status, mime: shown, ...place }));
    onRecord(record);
  }
  return lines;
}

async function replace(warc: string, text: string): Promise<void> {
  const path = indexName(warc);
  const made = `${path}.new`;
  try {
    await replaceFile(path, text, made);
  } catch (error) {
    await rm(made, { force: true }).catch(() => {});
    throw error;
  }
}
