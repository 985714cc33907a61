/**
 * Pages as plain files (`--save html`): `<out>/<crawl>/html/ab/ab….html`, the body without its
 * content coding, named by its SHA-1, which is `digest` of its line in pages.jsonl. A page is on the
 * disk before its report is committed, and a file is there whole or not at all. Pages with the same
 * content are one file.
 */
import { createHash } from 'node:crypto';
import { lstat, readdir, rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import * as zlib from 'node:zlib';
import { isHtml } from '../../shared/media-types.ts';
import { isPageStatus } from '../../shared/protocol.ts';
import { isDiskFull } from '../machine/disk-room.ts';
import { makeFolder } from '../machine/make-folder.ts';
import { replaceFile, syncFolder } from '../sinks/result-folder.ts';
import type { Room } from '../store/group-commit.ts';
import type { Exchange, Upload } from './uploads.ts';

type SavedPagesOptions = {
  /** `<out>`. */
  readonly folder: string;
  readonly room: Room & { refused(): void };
};
type SavingCrawl = { readonly id: number; readonly name: string };

/** Below the folder of a crawl. */
export const savedFolder = 'html';
const savedName = /^[0-9a-f]{40}\.html(?:\.part)?$/;
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

  /** Resolves when the page of these exchanges is on the disk; at once, if the last is none.
   *  `bytesMax`: of the decoded body. */
  async save(crawl: SavingCrawl, { exchanges }: Upload, bytesMax: number): Promise<void> {
    const last = exchanges.at(-1);
    if (last === undefined || !isPage(last)) return;
    const body = await decoded(await last.body.read(), codingsOf(last), bytesMax);
    for (let other = this.#alone.get(crawl.id); other !== undefined; ) {
      await other;
      other = this.#alone.get(crawl.id);
    }
    const digest = createHash('sha1').update(body).digest('hex');
    const folder = join(this.#options.folder, crawl.name, savedFolder, digest.slice(0, 2));
    const path = join(folder, `${digest}.html`);
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

  /** Deletes the pages of a crawl that is removed, and nothing else. Returns how many. */
  async remove({ name }: SavingCrawl): Promise<number> {
    const folder = join(this.#options.folder, name, savedFolder);
    let count = 0;
    for (const part of await readdir(folder).catch(() => [])) {
      if (!/^[0-9a-f]{2}$/.test(part)) continue;
      const inside = join(folder, part);
      for (const file of await readdir(inside).catch(() => [])) {
        if (!savedName.test(file) || !file.startsWith(part)) continue;
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
        room.refused();
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
