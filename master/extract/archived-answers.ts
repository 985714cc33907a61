/**
 * The answers in the WARC files of an archive, in their order: those of our own archives, whose
 * metadata say what each was to its task, and those of other programs, where each answer counts.
 * Source: docs/archive.md; ISO 28500 (WARC 1.1).
 */
import { hash } from 'node:crypto';
import { lstat, readdir, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { type BodyEnd, bodyEnds } from '../../shared/archive.ts';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import { isPageStatus } from '../../shared/protocol.ts';
import type { ArchivedAnswer } from '../../shared/rule-results.ts';
import { answerOf } from '../archive/records.ts';
import { type WarcRecord, warcRecords } from '../archive/warc-reader.ts';

/** Where a record begins: the name of a file in the folder, and a byte. */
export type Place = { readonly file: string; readonly offset: number };

/** Why an answer cannot be a page, as it is counted. */
type Passed = 'failed' | 'other' | 'unchanged' | 'missing';

/** One answer of the archive. `next`: where to go on behind it. */
export type Step = {
  readonly next: Place;
  /** When it was asked for: `WARC-Date`. */
  readonly date: string;
  readonly answer: ArchivedAnswer | Passed;
};

/** As many as the master remembers, and pages can be revisits of. */
const originalsMax = 30_000;
const pageTypes = /html|xml|json/i;

export class ArchivedAnswers {
  readonly folder: string;
  readonly #only: string | undefined;
  /** Pages that were archived whole, by their record ids. */
  readonly #originals = new Map<string, Place>();
  #tasks: Promise<ReadonlySet<string>> | undefined;
  /** Where this run began, if it was not at the beginning. */
  #begin: Place | undefined;
  /** The last file ended in the middle of a record. */
  cutAt: Place | undefined;

  private constructor(folder: string, only: string | undefined) {
    this.folder = folder;
    this.#only = only;
  }

  /** `path`: the folder of an archive, that of its crawl, or one file. @throws ConfigError */
  static async open(path: string): Promise<ArchivedAnswers> {
    const found = await stat(path).catch((error: unknown) => {
      throw new ConfigError(`cannot read the archive ${path}: ${messageOf(error)}`, error);
    });
    const only = found.isFile() ? basename(path) : undefined;
    const folder = resolve(only === undefined ? path : dirname(path));
    for (const at of only === undefined ? [folder, join(folder, 'archive')] : [folder]) {
      const answers = new ArchivedAnswers(at, only);
      if ((await answers.#files()).length > 0) return answers;
    }
    throw new ConfigError(
      `${path} has no files *.warc.gz; give the folder of an archive, such as crawl-data/default`,
    );
  }

  /** The argument that names the archive. */
  get path(): string {
    return join(this.folder, this.#only ?? '');
  }

  /** All answers from a place on; undefined: from the beginning. @throws ConfigError */
  async *from(place: Place | undefined): AsyncGenerator<Step> {
    this.#begin = place;
    for (const { file, offset, isLast } of await this.#ranges(place)) {
      let held: WarcRecord | undefined;
      for await (const record of this.#records(file, offset, isLast)) {
        const { type, fields } = record;
        if (type === 'response' || type === 'revisit') {
          if (held !== undefined) yield await this.#step(held, undefined, file, record.offset);
          held = record;
        } else if (type === 'metadata' && held !== undefined && refersTo(fields, held)) {
          yield await this.#step(held, record, file, record.offset + record.length);
          held = undefined;
        }
      }
      if (held === undefined) continue;
      // The record that says what the answer was to its task is not written yet.
      if (isLast && (await this.#isOurs(file))) {
        this.cutAt ??= { file, offset: held.offset };
        return;
      }
      yield await this.#step(held, undefined, file, held.offset + held.length);
    }
  }

  /** In our own archives metadata follow each answer. */
  async #isOurs(file: string): Promise<boolean> {
    for await (const { type, block } of this.#records(file, 0, true)) {
      return type === 'warcinfo' && /^Orbweaver\//.test(fieldsIn(block).get('software') ?? '');
    }
    return false;
  }

  /** Is the URL a task of its own in this archive? Reads all of it, the first time. */
  async isTask(url: string): Promise<boolean> {
    this.#tasks ??= this.#findTasks();
    return (await this.#tasks).has(hashOf(url));
  }

  async #findTasks(): Promise<ReadonlySet<string>> {
    const tasks = new Set<string>();
    for (const { file, offset, isLast } of await this.#ranges(undefined)) {
      for await (const { type, fields, block } of this.#records(file, offset, isLast)) {
        if (type !== 'metadata') continue;
        const said = fieldsIn(block);
        if (!isOfPages(said.get('kind') ?? '') || said.has('task')) continue;
        tasks.add(hashOf(fields.get('warc-target-uri') ?? ''));
      }
    }
    return tasks;
  }

  /** The files that are left, and where each begins. */
  async #ranges(place: Place | undefined) {
    const files = await this.#files();
    const left = files.filter((file) => file >= (place?.file ?? ''));
    const ranges = left.map((file) => ({
      file,
      offset: file === place?.file ? place.offset : 0,
      isLast: file === files.at(-1),
    }));
    const [first] = ranges;
    if (first === undefined) return ranges;
    const found = await lstat(join(this.folder, first.file)).catch(() => undefined);
    if (found !== undefined && found.size < first.offset) {
      throw new ConfigError(
        `${join(this.folder, first.file)} has ${found.size} bytes, and ${first.offset} were read ` +
          'of it before; give another --as to begin again',
      );
    }
    return ranges;
  }

  async #files(): Promise<string[]> {
    const names = await readdir(this.folder).catch(() => []);
    const wanted = (name: string) =>
      this.#only === undefined ? name.endsWith('.warc.gz') : name === this.#only;
    return names.filter(wanted).sort();
  }

  async *#records(file: string, offset: number, isLast: boolean): AsyncGenerator<WarcRecord> {
    const path = join(this.folder, file);
    const onCut = (at: number) => {
      this.cutAt = { file, offset: at };
    };
    try {
      yield* warcRecords(path, { offset, ...(isLast && { onCut }) });
    } catch (error) {
      if (error instanceof ConfigError || !isOfSystem(error)) throw error;
      throw new ConfigError(`cannot read the archive ${path}: ${messageOf(error)}`, error);
    }
  }

  async #step(
    record: WarcRecord,
    metadata: WarcRecord | undefined,
    file: string,
    next: number,
  ): Promise<Step> {
    const date = record.fields.get('warc-date') ?? '';
    const said = fieldsIn(metadata?.block);
    const answer = await this.#answer(record, said, file);
    return { date, answer, next: { file, offset: next } };
  }

  async #answer(
    { type, fields, block, offset }: WarcRecord,
    said: ReadonlyMap<string, string>,
    file: string,
  ): Promise<ArchivedAnswer | Passed> {
    // As wget writes it: <http://…>.
    const url = (fields.get('warc-target-uri') ?? '').replace(/^<(.*)>$/, '$1');
    const isHttp = /^https?:/.test(url) && /^HTTP\//.test(block.toString('latin1', 0, 5));
    const { kind = 'page', answer = 'yes', task = url, depth = '0' } = Object.fromEntries(said);
    if (!isHttp || !URL.canParse(url) || !isOfPages(kind)) return 'other';
    const { head, payload } = partsOf(block);
    const { status } = answerOf(Buffer.from(`${head}\r\n`, 'latin1'));
    const place = { file, offset };
    if (type === 'response' && isPageStatus(status)) this.#remember(fields, place);
    if (answer === 'no') return 'failed';
    if (status === 304) return 'unchanged';
    const types = [...head.matchAll(/\r\ncontent-type:([^\r]*)/gi)].map(([, text = '']) => text);
    const mayBePage = types.length === 0 || types.some((text) => pageTypes.test(text));
    if (!isPageStatus(status)) return 'failed';
    if (!mayBePage) return 'other';
    const found = type === 'revisit' ? await this.#bodyOf(fields) : payload;
    if (found === undefined) return 'missing';
    const isChunked = /\r\ntransfer-encoding:[^\r]*chunked/i.test(head);
    const body = isChunked ? unchunked(found) : found;
    return { url, task, depth: Number(depth) || 0, head, body, end: endOf(fields) };
  }

  #remember(fields: WarcRecord['fields'], place: Place): void {
    this.#originals.set(fields.get('warc-record-id') ?? '', place);
    if (this.#originals.size <= originalsMax) return;
    const [oldest] = this.#originals.keys();
    if (oldest !== undefined) this.#originals.delete(oldest);
  }

  /** The body that a revisit has in common with an earlier answer. */
  async #bodyOf(fields: WarcRecord['fields']): Promise<Buffer | undefined> {
    const id = fields.get('warc-refers-to') ?? '';
    if (!this.#originals.has(id)) await this.#learnEarlier();
    const place = this.#originals.get(id);
    if (place === undefined) return undefined;
    const path = join(this.folder, place.file);
    for await (const { block } of warcRecords(path, { offset: place.offset })) {
      return partsOf(block).payload;
    }
    return undefined;
  }

  /** Remembers what an earlier run has passed; once. */
  async #learnEarlier(): Promise<void> {
    const begin = this.#begin;
    this.#begin = undefined;
    if (begin === undefined) return;
    for (const { file, isLast } of await this.#ranges(undefined)) {
      for await (const { type, fields, offset } of this.#records(file, 0, isLast)) {
        if (file > begin.file || (file === begin.file && offset >= begin.offset)) return;
        if (type === 'response') this.#remember(fields, { file, offset });
      }
    }
  }
}

/** Short enough to keep one for each URL. */
export function hashOf(name: string): string {
  return hash('sha1', name, 'base64').slice(0, 16);
}

/** `kind` of metadata: robots.txt and sitemaps are no pages. */
function isOfPages(kind: string): boolean {
  return !['robots', 'sitemap'].includes(kind);
}

function refersTo(fields: WarcRecord['fields'], record: WarcRecord): boolean {
  const id = record.fields.get('warc-record-id');
  return fields.get('warc-refers-to') === id || fields.get('warc-concurrent-to') === id;
}

function fieldsIn(block: Buffer | undefined): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  for (const line of block?.toString('utf8').split('\r\n') ?? []) {
    const [, name, value] = /^([\w-]+): ?(.*)$/.exec(line) ?? [];
    if (name !== undefined && value !== undefined) fields.set(name, value);
  }
  return fields;
}

/** The head of an answer, without the empty line at its end, and what follows. Other programs keep
 *  the line ends of a host, which may be line feeds alone. Source: RFC 9112, 2.2. */
function partsOf(block: Buffer): { readonly head: string; readonly payload: Buffer } {
  const usual = block.indexOf('\n\r\n');
  const odd = (usual < 0 ? block : block.subarray(0, usual + 1)).indexOf('\n\n');
  const [end, begin] = odd < 0 ? [usual, usual + 3] : [odd, odd + 2];
  const lines = block.toString('latin1', 0, Math.max(0, end)).split('\n');
  const head = lines.map((line) => line.replace(/\r$/, '')).join('\r\n');
  return { head, payload: block.subarray(begin) };
}

function endOf(fields: WarcRecord['fields']): BodyEnd {
  const said = fields.get('warc-truncated') ?? 'whole';
  return bodyEnds.find((end) => end === said) ?? 'unspecified';
}

/** Other programs keep the chunks of a body. Anything else ends it. Source: RFC 9112, 7.1. */
function unchunked(body: Buffer): Buffer {
  const chunks: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const lineEnd = body.indexOf('\r\n', at);
    const [, size] = /^([0-9a-f]{1,8})\s*(?:;|$)/i.exec(body.toString('latin1', at, lineEnd)) ?? [];
    if (lineEnd < 0 || size === undefined) return at === 0 ? body : Buffer.concat(chunks);
    const bytes = Number.parseInt(size, 16);
    if (bytes === 0) break;
    chunks.push(body.subarray(lineEnd + 2, lineEnd + 2 + bytes));
    at = lineEnd + 2 + bytes + 2;
  }
  return Buffer.concat(chunks);
}

function isOfSystem(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error;
}
