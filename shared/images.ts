/**
 * Images that a crawl downloads: what it keeps (`download: {images: …}` of a crawl file), what a
 * slave finds out about one, and the limits of both. Source: docs/download.md; PROTOCOL.md,
 * "task.image".
 */
import * as z from 'zod';

/** By their first bytes. The names are those of their files. */
const imageTypes = [
  'png',
  'jpg',
  'gif',
  'webp',
  'avif',
  'heic',
  'bmp',
  'tiff',
  'ico',
  'jxl',
  'svg',
] as const;
export type ImageType = (typeof imageTypes)[number];

/** Their media types. */
export const imageMediaTypes: Readonly<Record<ImageType, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  avif: 'image/avif',
  heic: 'image/heic',
  bmp: 'image/bmp',
  tiff: 'image/tiff',
  ico: 'image/vnd.microsoft.icon',
  jxl: 'image/jxl',
  svg: 'image/svg+xml',
};

/** Bytes of an image that is kept, where its crawl does not say. */
export const imageBytesDefault = 20_000_000;
export const imageBytesMax = 64_000_000;
/** Bytes of an image in one message. [T-112] */
export const imagePartBytesMax = 1 << 20;
/** Bytes of a thumbnail. */
export const thumbnailBytesMax = 256 << 10;
/** Images whose bytes one slave sends at once. [T-112] */
export const imagesUnderWayMax = 4;
/** Redirects from origin to origin that one image may take. */
export const imageHopsMax = 5;
/** Bits in which two images that look the same may differ. */
export const likenessBits = 8;

/** Bytes of a tar file, where its crawl does not say. */
export const shardBytesDefault = 1_000_000_000;
const [shardBytesMin, shardBytesMax] = [65_536, 1_000_000_000_000];

const sideMax = 1_000_000;
const whole = (min: number, max: number, what: string) =>
  z
    .int({ error: `must be ${what}` })
    .min(min, { error: `must be ${what}` })
    .max(max, {
      error: `must be ${what}`,
    });
const side = whole(1, sideMax, `a number of pixels, 1 to ${sideMax}`).optional();

/** Which images are kept, and how. A key that is absent excludes nothing. */
const imagesSchema = z.strictObject({
  types: z
    .array(z.enum(imageTypes, { error: `must be some of: ${imageTypes.join(', ')}` }), {
      error: `must be a list of: ${imageTypes.join(', ')}`,
    })
    .min(1, { error: 'must name a type' })
    .optional(),
  minBytes: whole(1, imageBytesMax, `bytes, at most ${imageBytesMax}`).optional(),
  /** Default: `imageBytesDefault`. */
  maxBytes: whole(1, imageBytesMax, `bytes, at most ${imageBytesMax}`).optional(),
  minWidth: side,
  minHeight: side,
  maxWidth: side,
  maxHeight: side,
  /** The longer side by the shorter one, at most. */
  maxAspect: z
    .number({ error: 'must be a number of at least 1' })
    .min(1, { error: 'must be a number of at least 1' })
    .max(sideMax)
    .optional(),
  /** Where images may be: default `any`, wherever the page's images are. */
  scope: z.enum(['any', 'host', 'domain'], { error: 'must be any, host or domain' }).optional(),
  /** Look for images that look the same: default `auto`, by slaves that can. `drop`: and keep only
   *  the first of a group. */
  similar: z
    .enum(['auto', 'on', 'off', 'drop'], { error: 'must be auto, on, off or drop' })
    .optional(),
  /** Longer side of the thumbnail of each image, in pixels; absent: none is made. */
  thumbnails: whole(16, 1024, 'a number of pixels, 16 to 1024').optional(),
  /** How they are kept: default `files`. `tar`: in shards. `none`: in the archive of the crawl
   *  alone. */
  store: z.enum(['files', 'tar', 'none'], { error: 'must be files, tar or none' }).optional(),
  /** Of a shard: the next one begins before it gets longer. Default: `shardBytesDefault`. */
  shardBytes: whole(
    shardBytesMin,
    shardBytesMax,
    `bytes, ${shardBytesMin} to ${shardBytesMax}`,
  ).optional(),
  /** Take images although a page or an answer says noai or noimageai. */
  ignoreOptOut: z.boolean({ error: 'must be true or false' }).optional(),
});
export type ImagesSpec = z.infer<typeof imagesSchema>;

export const downloadSchema = z.strictObject({ images: imagesSchema });
export type Download = z.infer<typeof downloadSchema>;

/** Fields of a spec, for the master alone. */
export const imageLimits = {
  maxImages: z
    .int()
    .min(1)
    .max(Number.MAX_SAFE_INTEGER)
    .optional()
    .describe('--max-images <n>  maximum number of images to download; default: no limit'),
};

/** The same, for slaves, too. */
export const downloadFields = {
  /** The files to download besides pages. Tasks of such a crawl go only to slaves that can.
   *  [T-110] */
  download: downloadSchema
    .optional()
    .describe(
      '--download <what>  download what pages show, and write images.jsonl: images; default: nothing',
    ),
  imagesTo: z
    .string()
    .max(1024)
    .regex(/^\/[^\0]*$/, { error: 'must be the absolute path of a folder' })
    .optional()
    .describe(
      '--images-to <folder>  folder that all slaves share, to which they write images themselves; default: images of the crawl',
    ),
};

/** The crawl needs slaves that decode. [T-113] */
export function mustBeDecoded(download: Download | undefined): boolean {
  const { similar, thumbnails } = download?.images ?? {};
  return similar === 'on' || similar === 'drop' || thumbnails !== undefined;
}

/** False: the bytes of images would be where the master can neither put them into shards nor delete
 *  them. */
export function keepsAsAsked(spec: {
  download?: Download | undefined;
  imagesTo?: string | undefined;
}) {
  const { store, similar } = spec.download?.images ?? {};
  const isShared = spec.imagesTo !== undefined;
  return (
    !(isShared && (store === 'tar' || similar === 'drop')) &&
    !(store === 'tar' && similar === 'drop')
  );
}
export const keepingFault = {
  path: ['download'],
  error: 'cannot have two of: store: tar, similar: drop, --images-to',
};

/** Reads `download` of a crawl file, or the value of `--download`. Keys are written with dashes. */
export function downloadFrom(value: unknown): unknown {
  if (value === 'images') return { images: {} };
  if (!isRecord(value)) return value;
  const { images, ...rest } = value;
  if (images === true || images === null) return { ...rest, images: {} };
  if (!isRecord(images)) return value;
  const entries = Object.entries(images).map(([key, one]) => [camelOf(key), yesOrNo(key, one)]);
  return { ...rest, images: Object.fromEntries(entries) };
}

/** The keys of `download.images`, as people write them. */
export const imageKeys = Object.keys(imagesSchema.shape).map((key) =>
  key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
);

/** A key with capitals stays as it is, and is refused. */
function camelOf(key: string): string {
  if (!imageKeys.includes(key)) return /[A-Z]/.test(key) ? `${key} ` : key;
  return key.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** YAML reads `on` as text or as true. */
function yesOrNo(key: string, value: unknown): unknown {
  return key === 'similar' && typeof value === 'boolean' ? (value ? 'on' : 'off') : value;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Why an image is not kept. `opt-out`: its answer says noai or noimageai. */
const imageExclusions = ['type', 'bytes', 'width', 'height', 'aspect', 'opt-out'] as const;
export type ImageExclusion = (typeof imageExclusions)[number];

const text = z.string().min(1).max(512).optional();
const bytes = (length: number) =>
  z.custom<Uint8Array>((value) => value instanceof Uint8Array && value.length === length, {
    error: `is not ${length} bytes`,
  });

/** A slave's findings about an image. [T-110] */
export const imageFactsSchema = z.strictObject({
  type: z.enum(imageTypes).optional(),
  width: z.int().min(0).max(0xffffffff).optional(),
  height: z.int().min(0).max(0xffffffff).optional(),
  /** Of a kept image. */
  sha256: bytes(32).optional(),
  /** How it looks: its dHash. */
  dhash: bytes(8).optional(),
  /** WebP. */
  thumbnail: z
    .custom<Uint8Array>(
      (value) => value instanceof Uint8Array && value.length <= thumbnailBytesMax,
      { error: 'is too long' },
    )
    .optional(),
  /** Why it could not be decoded. */
  fault: z.string().max(200).optional(),
  excluded: z.enum(imageExclusions).optional(),
  /** Of EXIF, IPTC and XMP. */
  credit: text,
  creator: text,
  copyright: text,
  license: text,
  /** The directives of its answer that forbid training. */
  optOut: text,
});
export type ImageFacts = z.infer<typeof imageFactsSchema>;

/** Where an image is in its folder: `ab/cd/<sha256>.<type>`. */
export function imagePath(sha256: string, type: ImageType): string {
  return `${sha256.slice(0, 2)}/${sha256.slice(2, 4)}/${sha256}.${type}`;
}

/** Where its thumbnail is, beside it. */
export function thumbnailPath(sha256: string): string {
  return `${sha256.slice(0, 2)}/${sha256.slice(2, 4)}/${sha256}.thumb.webp`;
}

/** The name of a shard, in the folder of images. */
export function shardName(number: number): string {
  return `${String(number).padStart(6, '0')}.tar`;
}

/** The name of an image in its shard. */
export function entryName(sha256: string, type: ImageType): string {
  return `${sha256}.${type}`;
}
