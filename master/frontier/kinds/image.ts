/**
 * An image that a page shows, of a crawl with `download: {images: …}`. Its bytes are kept once,
 * however many URLs they have. It is wherever the page says, in the scope that the crawl has for
 * images, and goes before the pages of its host. A redirect to another origin is another task.
 * Source: PROTOCOL.md [T-110] to [T-114].
 */
import {
  entryName,
  type ImageFacts,
  imagePath,
  shardName,
  thumbnailPath,
} from '../../../shared/images.ts';
import type { Values } from '../../../shared/rule-results.ts';
import { parseCanonical } from '../../../shared/url.ts';
import type { KeptImage, Naming, Place } from '../../store/image-rows.ts';
import { kindNumbers } from '../../store/records.ts';
import type { ResultRecord } from '../../store/result-rows.ts';
import type { CommitBatch } from '../commit/commit-batch.ts';
import { imageValues, isOptedOut, pictureName } from '../commit/pictures.ts';
import type { Task } from '../tasks/tasks.ts';
import type { PictureKind } from './kind.ts';

const number = kindNumbers.image;

export const image: PictureKind = {
  name: 'image',
  number,
  owner: 'crawl',
  pushed: { kind: 'image' },
  answeredBy: 'task.image',
  takers: 'pages',
  fetchesOfLease: 2,
  hopsMax: 'crawl',
  hopsTo: 'origin',
  goesFirst: true,

  seenName: pictureName,

  namesIn: () => undefined,

  /** Bytes that are neither here nor on record were not sent, whatever the slave says. */
  picture(batch, task, { result, facts, sentBytes, place }, { pictures, slave, at }) {
    const { crawl } = batch;
    const { books, spec } = crawl;
    const { download } = spec.fetch;
    const { sha256, type } = facts ?? {};
    const before = sha256 && pictures.kept(crawl, sha256);
    const isElsewhere = spec.fetch.imagesTo !== undefined || download?.images.store === 'none';
    const isWhole = sha256 !== undefined && type !== undefined;
    const isHere = before !== undefined || sentBytes !== undefined || isElsewhere;
    if (isWhole && (sentBytes === 'lost' || !isHere)) {
      batch.release(task);
      return false;
    }
    const namings = pictures.namingsOf(batch, task);
    const record = recordOf(batch, task, namings, { slave, at });
    const reported = { result };
    const bytes = typeof sentBytes === 'number' ? sentBytes : result.bytes;
    const write = (more: Partial<ResultRecord> = {}) =>
      batch.write({ kind: 'image', record: { ...record, ...more }, reported });
    books.received(result.bytes);
    if (result.redirectedTo !== undefined) {
      pictures.moved(batch, task, result.redirectedTo);
      books.other(number, 'redirects');
      write();
    } else if (result.error !== undefined) {
      books.failed(number, result.error, task.url, result.status);
      write({ attempts: task.attempts + 1 });
    } else if (facts === undefined || facts.excluded !== undefined || !isWhole) {
      books.excluded(number);
      write({ excluded: facts?.excluded ?? 'type', image: imageValues(facts ?? {}) });
    } else if (download !== undefined && isOptedOut(result.directives, download)) {
      books.excluded(number);
      write({ excluded: 'opt-out', image: imageValues(facts) });
    } else {
      const image = keptOf(type, bytes, facts, place);
      const kept = pictures.keep(batch, sha256, image, before);
      const values = { ...imageValues(facts), ...placeOf(batch, sha256, kept) };
      const [license] = namings.flatMap((naming) => naming.license ?? []);
      if (kept.isDropped) {
        books.excluded(number);
        // Also where another slave has just sent it.
        if (sentBytes !== undefined) batch.dropped.push({ sha256, image: kept });
      } else books.other(number, 'others');
      const excluded = kept.isDropped && ({ excluded: 'similar' } as const);
      write({ ...excluded, image: { ...(license !== undefined && { license }), ...values } });
    }
    pictures.ended(batch, task);
    batch.remove(task);
    return true;
  },

  /** The pages that show it are kept, since it may be tried again. */
  fail(batch, task, { error, attempts, slave, at }) {
    batch.bury(task, error, attempts, pictureName(task.url));
    const head = recordOf(batch, task, [], { slave, at });
    batch.write({ kind: 'image', record: { ...head, error: { ...error, attempts } } });
    batch.remove(task);
  },

  leavesOut(crawl, { url: text }) {
    const url = parseCanonical(text);
    return url !== undefined && !crawl.images.takes(url);
  },

  exclude(batch, task, { excluded, at }) {
    const head = recordOf(batch, task, [], { slave: '', at });
    batch.write({ kind: 'image', record: { ...head, excluded } });
    batch.crawl.books.excluded(number);
    batch.remove(task);
  },
};

function recordOf(
  batch: CommitBatch,
  task: Task,
  namings: readonly Naming[],
  { slave, at }: { readonly slave: string; readonly at: number },
): ResultRecord {
  const { url, depth, seq } = task;
  const from = batch.fromOf(task);
  const pages = namings.map(({ page }) => page);
  const [alt] = namings.flatMap((naming) => naming.alt ?? []);
  return {
    url,
    depth,
    from,
    task: seq,
    at,
    slave: slave || undefined,
    ...(pages.length > 0 ? { pages } : from !== undefined && { pages: [from] }),
    ...(alt !== undefined && { alt }),
  };
}

function keptOf(
  type: NonNullable<ImageFacts['type']>,
  bytes: number,
  { dhash, thumbnail }: ImageFacts,
  place: Place | undefined,
): Omit<KeptImage, 'group'> {
  return { bytes, type, dhash, hasThumbnail: thumbnail !== undefined, place };
}

/** Where its bytes are. */
function placeOf({ crawl }: CommitBatch, sha256: Uint8Array, kept: KeptImage): Values {
  const { download, imagesTo } = crawl.spec.fetch;
  const name = hex(sha256);
  const folder = imagesTo ?? 'images';
  const isElsewhere = imagesTo === undefined && download?.images.store === 'none';
  const { place, type, hasThumbnail } = kept;
  const isFile = !isElsewhere && !kept.isDropped && place === undefined;
  const shard = place && { file: `${folder}/${shardName(place.shard)}` };
  return {
    sha256: name,
    ...(shard && { ...shard, entry: entryName(name, type) }),
    ...(isFile && { file: `${folder}/${imagePath(name, type)}` }),
    ...(isFile && hasThumbnail && { thumbnail: `${folder}/${thumbnailPath(name)}` }),
    ...(kept.group && { group: hex(kept.group) }),
  };
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
