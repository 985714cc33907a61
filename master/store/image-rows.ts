/**
 * Images that a crawl downloads, in the store. Versions that download none leave these rows alone.
 *
 *     contents   crawl u32 | SHA-256 32                      -> KeptImage
 *     namings    crawl u32 | fingerprint 16 | sequence u48   -> Naming
 *
 * A naming is a page that shows an image which waits to be fetched: the fingerprint is that of the
 * image's task, the sequence that of the page. It goes with the task.
 */
import { decodeValue, encodeValue } from '../../shared/frame.ts';
import type { ImageType } from '../../shared/images.ts';
import { crawlKey } from './records.ts';

/** An image whose bytes are kept. */
export type KeptImage = {
  readonly bytes: number;
  readonly type: ImageType;
  /** How it looks, 8 bytes. */
  readonly dhash?: Uint8Array | undefined;
  /** SHA-256 of the first image that looks like it, or of itself. */
  readonly group?: Uint8Array | undefined;
  readonly hasThumbnail?: boolean | undefined;
  /** It looks like the first of its group, so its bytes were deleted. */
  readonly isDropped?: boolean | undefined;
  /** In which shard; undefined: it is a file. */
  readonly place?: Place | undefined;
};

/** Where the bytes of an image begin in a shard. */
export type Place = { readonly shard: number; readonly at: number };

export type Naming = {
  readonly page: string;
  readonly alt?: string | undefined;
  readonly license?: string | undefined;
};

export function contentKey(crawl: number, sha256: Uint8Array): Buffer {
  return Buffer.concat([crawlKey(crawl), sha256]);
}

const thumbnailFlag = 1;
const droppedFlag = 2;

export function encodeContent(image: KeptImage): Buffer {
  const { bytes, type, dhash = null, group = null, hasThumbnail, isDropped, place } = image;
  const flags = (hasThumbnail ? thumbnailFlag : 0) | (isDropped ? droppedFlag : 0);
  const row = [bytes, type, dhash, group, flags];
  return encodeValue(place === undefined ? row : [...row, place.shard, place.at]);
}

export function decodeContent(value: Buffer): KeptImage {
  const [bytes, type, dhash, group, flags, shard, at] = decodeValue(value) as [
    ...[number, ImageType, Uint8Array | null, Uint8Array | null, number],
    ...[number | undefined, number | undefined],
  ];
  return {
    bytes,
    type,
    hasThumbnail: (flags & thumbnailFlag) !== 0,
    ...((flags & droppedFlag) !== 0 && { isDropped: true }),
    ...(shard !== undefined && at !== undefined && { place: { shard, at } }),
    // Copies: those of the row would keep all of it in memory.
    ...(dhash && { dhash: Uint8Array.from(dhash) }),
    ...(group && { group: Uint8Array.from(group) }),
  };
}

/** Prefix of the keys of all pages that show an image; `words`: its fingerprint. */
export function namingPrefix(crawl: number, fingerprint: Uint8Array): Buffer {
  return Buffer.concat([crawlKey(crawl), fingerprint]);
}

export function namingKey(prefix: Uint8Array, page: number): Buffer {
  const key = Buffer.alloc(prefix.length + 6);
  key.set(prefix);
  key.writeUIntBE(page, prefix.length, 6);
  return key;
}

/** The sequence of the page. */
export function pageOfNaming(key: Buffer): number {
  return key.readUIntBE(key.length - 6, 6);
}

export function encodeNaming({
  page,
  alt = null,
  license = null,
}: { -readonly [N in keyof Naming]: unknown }): Buffer {
  return encodeValue([page, alt, license]);
}

export function decodeNaming(value: Buffer): Naming {
  const [page, alt, license] = decodeValue(value) as [string, string | null, string | null];
  return { page, ...(alt && { alt }), ...(license && { license }) };
}
