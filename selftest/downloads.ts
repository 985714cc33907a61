/**
 * Images of known bytes for the crawls of the chaos that download them, and the comparison of what
 * is kept with them: each URL once in images.jsonl, each content once on the disk, and whole. Two
 * neighbours have the same bytes.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { CrawlStatus } from '../shared/protocol.ts';
import { compare, type Violation } from './exact.ts';
import type { Resources, Truth } from './site.ts';

/** How images are kept. */
export type Store = 'files' | 'tar';

/** Small, so that a crawl has several. */
const shardBytes = 100_000;
const blockBytes = 512;
/** Signature and header of a PNG of 8 × 8 pixels. */
const pngHead = Buffer.from('89504e470d0a1a0a0000000d4948445200000008000000080802000000', 'hex');

/** Of a crawl: they are not decoded, since there is nothing to be seen. */
export function downloadsSpec(store: Store) {
  return { download: { images: { store, shardBytes, similar: 'off' } } } as const;
}

/** Gives the images that pages show their bytes. */
export function addPictures(resources: Resources): void {
  for (const resource of [...resources.values()]) {
    if (resource.kind !== 'page') continue;
    for (const path of [...resource.images, ...(resource.srcset ?? [])]) {
      resources.set(path, { kind: 'file', type: 'image/png', body: bytesOf(path) });
    }
  }
}

/** Returns all errors in images.jsonl and in the kept images of a finished crawl. `isOver`: the
 *  programs have ended, so that what a crash left is gone. */
export function verifyDownloads(
  folder: string,
  { images }: Pick<Truth, 'images'>,
  { store, status, isOver }: { store: Store; status: CrawlStatus; isOver: boolean },
): Violation[] {
  const violations: Violation[] = [];
  const add = (kind: Violation['kind'], what: string) => void violations.push({ kind, what });
  const check = (what: string, found: readonly string[], truth: readonly string[]) => {
    const { missing, extra, twice } = compare(found, truth);
    for (const item of missing) add('lost', `${what} ${item}`);
    for (const item of twice) add('duplicated', `${what} ${item}`);
    if (isOver) for (const item of extra) add('wrong', `${what} that is none: ${item}`);
  };
  const path = join(folder, 'images.jsonl');
  const texts = existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [''];
  if (texts.at(-1) !== '') add('wrong', 'images.jsonl ends in a torn line');
  const found = store === 'tar' ? inShards(join(folder, 'images')) : inFiles(folder);
  const urls: string[] = [];
  for (const text of texts.slice(0, -1)) {
    const line = parsed(text);
    if (line?.url === undefined) add('wrong', `line of images.jsonl: ${text.slice(0, 200)}`);
    else {
      urls.push(line.url);
      const hash = nameOf(new URL(line.url).pathname);
      const place = line.entry === undefined ? line.file : `${line.file}/${line.entry}`;
      if (line.sha256 !== hash) add('wrong', `image of ${line.url}: ${text.slice(0, 200)}`);
      else if (!found.some((one) => one.place === place && one.name === hash)) {
        add('lost', `bytes of ${line.url}`);
      }
    }
  }
  check('line of image', urls, images);
  const contents = [...new Set(images.map((url) => nameOf(new URL(url).pathname)))];
  for (const { place, name } of found) {
    if (isOver && !place.includes(name)) add('wrong', `${place} has the bytes of ${name}`);
  }
  const names = found.map(({ name }) => name);
  check('content', names, contents);
  const { stored } = status.downloads ?? {};
  if (stored !== contents.length) add('wrong', `stored is ${stored}, not ${contents.length}`);
  return violations;
}

function bytesOf(path: string): Buffer {
  const [, digits] = /^\/img\/(\d+)/.exec(path) ?? [];
  const content = Math.floor(Number(digits) / 2);
  return Buffer.concat([pngHead, Buffer.alloc(500 + (content % 40) * 50, `picture ${content} `)]);
}

function nameOf(path: string): string {
  return hashOf(bytesOf(path));
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** `place`: as images.jsonl has it; `name`: by its bytes. */
type Found = { readonly place: string; readonly name: string };

function inFiles(folder: string): Found[] {
  const all = existsSync(join(folder, 'images'))
    ? readdirSync(join(folder, 'images'), { recursive: true, encoding: 'utf8' })
    : [];
  return all
    .map((name) => join('images', name))
    .filter((name) => statSync(join(folder, name)).isFile())
    .map((place) => ({ place, name: hashOf(readFileSync(join(folder, place))) }));
}

/** By a reader of its own. Anything but an entry counts as one too many. */
function inShards(folder: string): Found[] {
  const found: Found[] = [];
  for (const shard of existsSync(folder) ? readdirSync(folder).sort() : []) {
    const bytes = readFileSync(join(folder, shard));
    let at = 0;
    while (at + blockBytes <= bytes.length && bytes[at] !== 0) {
      const entry = bytes.toString('latin1', at, at + 100).replace(/\0.*/s, '');
      const length = Number.parseInt(bytes.toString('latin1', at + 124, at + 135), 8);
      const from = at + blockBytes;
      const body = bytes.subarray(from, from + length);
      if (entry.endsWith('.png')) {
        found.push({ place: `images/${shard}/${entry}`, name: hashOf(body) });
      }
      at = from + Math.ceil(length / blockBytes) * blockBytes;
    }
    const end = bytes.subarray(at);
    if (end.length !== 2 * blockBytes || end.some((byte) => byte !== 0)) {
      found.push({ place: `images/${shard}`, name: 'what follows its entries' });
    }
  }
  return found;
}

type ImageLine = {
  readonly url?: string;
  readonly sha256?: string;
  readonly file?: string;
  readonly entry?: string;
};

function parsed(text: string): ImageLine | undefined {
  try {
    return JSON.parse(text) as ImageLine;
  } catch {
    return undefined;
  }
}
