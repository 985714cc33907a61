/**
 * Pages as plain files: with `--save html` `<out>/<crawl>/html/ab/ab….html`, the body without its
 * content coding, named by its SHA-1, which is `digest` of its line in pages.jsonl. Of a page in a
 * browser it is the HTML then, and `screenshots/ab/ab….png` is how it looked. A file is on the disk
 * before the report of its page is committed, and it is there whole or not at all. Files with the
 * same content are one.
 */
import { createHash } from 'node:crypto';
import { lstat, readdir, rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import * as zlib from 'node:zlib';
import type { CrawlSpec } from '../../shared/crawl.ts';
import { isHtml } from '../../shared/media-types.ts';
import { isPageStatus } from '../../shared/protocol.ts';
import { keepsView, keepsViews, type ViewName, viewPath, views } from '../../shared/render.ts';
import { syncFolder } from '../../shared/sync-folder.ts';
import { isDiskFull } from '../machine/disk-room.ts';
import { makeFolder } from '../machine/make-folder.ts';
import { replaceFile } from '../sinks/result-folder.ts';
import type { FolderRoom } from '../store/group-commit.ts';
import type { Exchange, Upload } from './uploads.ts';

type SavedPagesOptions = {
  /** `<out>`. */
  readonly folder: string;
  readonly room: FolderRoom;
};
type SavingCrawl = {
  readonly id: number;
  readonly name: string;
  readonly spec: Pick<CrawlSpec, 'fetch'>;
};

/** Below the folder of a crawl. */
const savedFolders = ['html', 'screenshots'] as const;
const savedName = /^[0-9a-f]{40}\.(?:html|png)(?:\.part)?$/;
/** Codings that a body may have, one over the other. */
const codingsMax = 4;

export class SavedPages {
  readonly #options: SavedPagesOptions;
  /** By crawl: files that are being written, by their paths. */
  readonly #writing = new Map<number, Map<string, Promise<void>>>();
  /** By crawl: something else is done to its folder. */
  readonly #alone = new Map<number, Promise<unknown>>();

  constructor(options: SavedPagesOptions) {
    this.#options = options;
  }

  /** Resolves when what the crawl keeps of the page of these exchanges is on the disk. */
  async save(crawl: SavingCrawl, { exchanges }: Upload): Promise<void> {
    const { fetch } = crawl.spec;
    let hasHtml = false;
    for (const view of views) {
      const seen = exchanges.find((exchange) => exchange.view === view);
      if (seen === undefined || !keepsView(fetch, view)) continue;
      hasHtml ||= view === 'html';
      await this.#keep(crawl, view, Buffer.concat(await seen.body.read()));
    }
    const last = exchanges.findLast(({ view }) => view === undefined);
    if (fetch.save === undefined || hasHtml || last === undefined || !isPage(last)) return;
    const body = await decoded(await last.body.read(), codingsOf(last), fetch.bodyBytesMax);
    await this.#keep(crawl, 'html', body);
  }

  async #keep(crawl: SavingCrawl, view: ViewName, body: Buffer): Promise<void> {
    for (let other = this.#alone.get(crawl.id); other !== undefined; ) {
      await other;
      other = this.#alone.get(crawl.id);
    }
    const digest = createHash('sha1').update(body).digest('hex');
    const path = join(this.#options.folder, crawl.name, viewPath(view, digest));
    const writing = this.#writing.get(crawl.id) ?? new Map<string, Promise<void>>();
    this.#writing.set(crawl.id, writing);
    const known = writing.get(path);
    if (known !== undefined) {
      await known;
      return;
    }
    const done = this.#write(path, body).finally(() => {
      writing.delete(path);
      if (writing.size === 0) this.#writing.delete(crawl.id);
    });
    writing.set(path, done);
    await done;
  }

  /** Does something to the folder of a crawl while nothing is written there. */
  async alone<T>({ id }: { readonly id: number }, work: () => Promise<T>): Promise<T> {
    const before = [...(this.#writing.get(id)?.values() ?? [])];
    const done = Promise.allSettled(before).then(work);
    const settled = done.then(
      () => {},
      () => {},
    );
    this.#alone.set(id, settled);
    try {
      return await done;
    } finally {
      if (this.#alone.get(id) === settled) this.#alone.delete(id);
    }
  }

  /** Deletes what an earlier master was writing when it ended. */
  async restore(crawl: SavingCrawl): Promise<void> {
    for (const folder of savedFolders) await this.#delete(crawl, folder, /\.part$/);
  }

  /** Deletes the pages of a crawl that is removed, and nothing else. Returns the folders that had
   *  some. */
  async remove(crawl: SavingCrawl): Promise<string[]> {
    const { fetch } = crawl.spec;
    if (fetch.save === undefined && !keepsViews(fetch)) return [];
    const deleted: string[] = [];
    for (const folder of savedFolders) {
      if ((await this.#delete(crawl, folder, savedName)) > 0) deleted.push(folder);
    }
    return deleted;
  }

  /** Deletes files of such names, and folders that are empty then. Returns how many files. */
  async #delete({ name }: SavingCrawl, saved: string, names: RegExp): Promise<number> {
    const folder = join(this.#options.folder, name, saved);
    let count = 0;
    for (const part of await readdir(folder).catch(() => [])) {
      if (!/^[0-9a-f]{2}$/.test(part)) continue;
      const inside = join(folder, part);
      for (const file of await readdir(inside).catch(() => [])) {
        if (!savedName.test(file) || !names.test(file) || !file.startsWith(part)) continue;
        await rm(join(inside, file), { force: true });
        count++;
      }
      await rmdir(inside).catch(() => {});
    }
    await rmdir(folder).catch(() => {});
    return count;
  }

  /** Tries again while the disk is full. */
  async #write(path: string, body: Uint8Array): Promise<void> {
    const { room } = this.#options;
    const found = await lstat(path).catch(() => undefined);
    if (found?.isFile() && found.size === body.length) return;
    const folder = dirname(path);
    for (;;) {
      await room.room();
      try {
        const isNew = (await lstat(folder).catch(() => undefined)) === undefined;
        makeFolder(folder);
        await replaceFile(path, body, `${path}.part`);
        if (isNew) await syncFolder(dirname(folder));
        return;
      } catch (error) {
        if (!isDiskFull(error)) throw error;
        room.refused(folder);
      }
    }
  }
}

/** Is it the answer with a page? */
function isPage(exchange: Exchange): boolean {
  const head = headOf(exchange);
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1]);
  const type = headersOf(head, 'content-type').at(-1)?.split(';')[0]?.trim().toLowerCase() ?? '';
  return isPageStatus(status) && (type === '' || isHtml(type)) && exchange.body.bytes > 0;
}

function codingsOf(exchange: Exchange): string[] {
  const values = headersOf(headOf(exchange), 'content-encoding');
  const codings = values.flatMap((value) => value.toLowerCase().split(','));
  return codings.map((coding) => coding.trim()).filter((one) => one !== '' && one !== 'identity');
}

function headOf({ response }: Exchange): string {
  return Buffer.from(response.buffer, response.byteOffset, response.byteLength).toString('latin1');
}

function headersOf(head: string, name: string): string[] {
  return head.split('\r\n').flatMap((line) => {
    const colon = line.indexOf(':');
    const isIt = line.slice(0, colon).toLowerCase() === name;
    return isIt ? [line.slice(colon + 1).trim()] : [];
  });
}

/** The body without its codings, as far as it can be read; one of an unknown coding as it is. */
async function decoded(
  body: readonly Uint8Array[],
  codings: readonly string[],
  bytesMax: number,
): Promise<Buffer> {
  let bytes: Buffer = Buffer.concat(body);
  for (const coding of codings.slice(0, codingsMax).reverse()) {
    const decoder = decoderOf(coding, bytes);
    if (decoder === undefined) return bytes.subarray(0, bytesMax);
    bytes = await through(decoder, bytes, bytesMax);
  }
  return bytes.subarray(0, bytesMax);
}

function decoderOf(coding: string, bytes: Uint8Array) {
  const finishFlush = zlib.constants.Z_SYNC_FLUSH;
  if (coding === 'gzip' || coding === 'x-gzip') return zlib.createGunzip({ finishFlush });
  if (coding === 'br') return zlib.createBrotliDecompress();
  if (coding === 'zstd') return makeZstd?.();
  if (coding !== 'deflate') return undefined;
  // Some servers leave the head of zlib away. Source: RFC 1950, section 2.2.
  const isZlib = ((bytes[0] ?? 0) & 0x0f) === 8 && (bytes[0] ?? 0) >> 4 <= 7;
  return isZlib ? zlib.createInflate({ finishFlush }) : zlib.createInflateRaw({ finishFlush });
}

/** Of newer versions of Node. */
const makeZstd = Reflect.get(zlib, 'createZstdDecompress') as
  | (() => NodeJS.ReadWriteStream & Readable)
  | undefined;

async function through(
  decoder: NodeJS.ReadWriteStream & AsyncIterable<unknown>,
  bytes: Uint8Array,
  bytesMax: number,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  const source = Readable.from([bytes]);
  try {
    source.pipe(decoder);
    for await (const chunk of decoder) {
      const piece = chunk as Buffer;
      chunks.push(piece);
      length += piece.length;
      if (length >= bytesMax) break;
    }
  } catch {
    // The rest is damaged: the page is what comes before.
  }
  source.destroy();
  return Buffer.concat(chunks);
}
