/**
 * Every field that a line about a URL can have, in the order in which lines have them. One entry is
 * all that a further field takes: the schema of what slaves report, the lines of every sink, what a
 * recrawl takes over and the table in docs/output.md (`node scripts/fields.mjs`) follow from it.
 */
import * as z from 'zod';
import { robotsDirectives } from './crawl.ts';
import { fetchErrorSchema, limits } from './protocol.ts';
import { renderLimits, renderMisses } from './render.ts';

/** The subject of a record of the result queue, in the order of their numbers in the store. `link`
 *  is not written yet. */
export const recordKinds = [
  'page',
  'other',
  'redirect',
  'failed',
  'blocked',
  'excluded',
  'sitemap',
  'skipped',
  'image-url',
  'image',
  'item',
  'rejected',
  'link',
] as const;
export type RecordKind = (typeof recordKinds)[number];

/** Of one URL, with the fields below. */
export type LineKind = Exclude<RecordKind, 'image-url' | 'link'>;

type ResultField = {
  /** Its type in a sink with columns; `time`: Unix time in ms, in JSON as RFC 3339. */
  readonly type: 'text' | 'integer' | 'boolean' | 'json' | 'time';
  /** Kinds of lines that may have it. */
  readonly of: readonly LineKind[];
  /** For docs/output.md. */
  readonly meaning: string;
  /** The version that brought it. */
  readonly since: string;
  /** Slaves report it, and it has to be like this; absent: the master knows it. */
  readonly schema?: z.ZodType;
  /** A recrawl takes it over for a page that is unchanged. */
  readonly isCarried?: true;
};

const url = z.string().min(1).max(limits.urlChars);
const short = z.string().max(256).optional();
const count = z.int().min(0).optional();
const flag = z.boolean().optional();

const fetched = ['page', 'other', 'redirect', 'failed', 'excluded', 'sitemap', 'image'] as const;
const read = ['page', 'other', 'failed', 'excluded', 'sitemap', 'image'] as const;
const answered = ['page', 'other', 'excluded'] as const;
const written = [...fetched, 'blocked'] as const;
const rows = ['item', 'rejected'] as const;
const image = ['image'] as const;
const since = '0.1';

export const resultFields = {
  url: {
    type: 'text',
    of: [...written, 'skipped', ...rows],
    meaning: 'the requested URL: canonical (WHATWG URL), no fragment',
    since,
  },
  skipped: {
    type: 'text',
    of: ['skipped'],
    meaning: 'the [reason](scope.md#traps) why the link was not followed',
    since,
  },
  rule: {
    type: 'text',
    of: rows,
    meaning: 'the name of the [rule](rules.md)',
    since,
  },
  item: {
    type: 'json',
    of: rows,
    meaning: 'the fields of the row, by their names; missing if the rule failed on the page',
    since,
  },
  why: {
    type: 'text',
    of: ['rejected'],
    meaning: 'what is missing or wrong in the row, or why the rule failed on the page',
    since,
  },
  finalUrl: {
    type: 'text',
    of: [...fetched, 'blocked'],
    meaning:
      'where the redirects within the origin ended; the name of the page; missing if nothing was requested',
    since,
    schema: url,
  },
  status: {
    type: 'integer',
    of: fetched,
    meaning: 'status of the last answer, if there was one',
    since,
    schema: z.int().min(0).max(999),
  },
  unchanged: {
    type: 'boolean',
    of: answered,
    meaning: 'true: the host answered 304 to a recrawl; `status` is then 304',
    since,
  },
  type: {
    type: 'text',
    of: read,
    meaning: 'media type of `Content-Type`, if present; the last of several headers',
    since,
    schema: short,
    isCarried: true,
  },
  charset: {
    type: 'text',
    of: ['page'],
    meaning: 'encoding that the page was decoded with, see [below](#charset)',
    since,
    schema: short,
    isCarried: true,
  },
  method: {
    type: 'text',
    of: written,
    meaning:
      '`POST`, for a [seed with a body](crawl-files.md#requests-with-a-body); its `url` ends with a mark',
    since,
  },
  depth: { type: 'integer', of: [...written, 'skipped'], meaning: 'links away from a seed', since },
  from: {
    type: 'text',
    of: [...written, 'skipped'],
    meaning: 'the page, redirect or sitemap that first led to the URL; missing for a seed',
    since,
  },
  bytes: {
    type: 'integer',
    of: read,
    meaning:
      'for a page, its body after decompression; else the part of the body that was read, about 64 KiB at most',
    since,
    schema: z.int().min(0),
    isCarried: true,
  },
  ms: {
    type: 'integer',
    of: written,
    meaning: 'duration of the whole fetch, redirects included; missing if nothing was requested',
    since,
    // An integer in every output.
    schema: z.number().min(0).max(Number.MAX_SAFE_INTEGER),
  },
  digest: {
    type: 'text',
    of: ['page'],
    meaning:
      'with `--digest`: SHA-1 of the body after decompression, as far as it was read, in hexadecimal; of a rendered page: of its HTML, if that is kept',
    since,
    schema: z
      .string()
      .regex(/^[0-9a-f]{40}$/)
      .optional(),
    isCarried: true,
  },
  title: {
    type: 'text',
    of: ['page'],
    meaning: 'first title, if present, at most 1,024 characters',
    since,
    schema: z.string().max(limits.titleChars).optional(),
    isCarried: true,
  },
  sitemap: {
    type: 'json',
    of: ['sitemap'],
    meaning: '`kind` (`urlset`, `index`, `text`, `feed` or `none`), number of `urls` and `images`',
    since,
  },
  cut: {
    type: 'boolean',
    of: ['page', 'sitemap'],
    meaning:
      'true: longer than `--page-bytes`, or a part (206); for a sitemap, too long, broken or incomplete',
    since,
    schema: flag,
    isCarried: true,
  },
  incomplete: {
    type: 'boolean',
    of: ['page'],
    meaning:
      'true: the connection, the compressed data or `--fetch-timeout` ended before the body did, at the last of `--attempts` tries; the line holds what was read',
    since,
    // [T-60]
    schema: flag,
  },
  images: {
    type: 'json',
    of: ['page'],
    meaning:
      '`src` (absolute), `via` ([class](images.md#classes)), `alt`, `width`, `height` if the page has them, `license` with [`--download`](download.md#opt-out); each pair of `src` and `via` once',
    since,
  },
  imagesCut: {
    type: 'integer',
    of: ['page'],
    meaning:
      'number of dropped images: longer than 4,096 characters, not an http(s) URL, or beyond 50,000 or 8 MiB',
    since,
    schema: count,
    isCarried: true,
  },
  dataImages: {
    type: 'integer',
    of: ['page'],
    meaning: 'number of images that are `data:` URLs, if any; these are not written',
    since,
    schema: count,
    isCarried: true,
  },
  links: {
    type: 'integer',
    of: ['page'],
    meaning:
      'number of distinct http(s) links of `a[href]`, `area[href]`, `frame[src]` (with `--iframes` also `iframe[src]`) and the refresh, in scope or not, without the `nofollowed` ones',
    since,
  },
  linksCut: {
    type: 'integer',
    of: ['page'],
    meaning:
      'number of dropped links: longer than 4,096 characters, or beyond 16 MiB or one million',
    since,
    schema: count,
    isCarried: true,
  },
  pages: {
    type: 'json',
    of: image,
    meaning: 'the pages that were known to show the image when it was taken, at most 100',
    since,
  },
  alt: { type: 'text', of: image, meaning: 'its description on the first of them, if any', since },
  sha256: {
    type: 'text',
    of: image,
    meaning: 'SHA-256 of its bytes, in hexadecimal; missing if it was not kept',
    since,
  },
  file: {
    type: 'text',
    of: image,
    meaning: 'where it is, in the folder of the crawl: its own file, or the shard with its `entry`',
    since,
  },
  entry: {
    type: 'text',
    of: image,
    meaning: 'its name in the tar file that `file` names; missing if it is a file of its own',
    since,
  },
  thumbnail: { type: 'text', of: image, meaning: 'where its thumbnail is, if there is one', since },
  width: { type: 'integer', of: image, meaning: 'its width in pixels, as its head says', since },
  height: { type: 'integer', of: image, meaning: 'its height in pixels', since },
  dhash: {
    type: 'text',
    of: image,
    meaning: 'how it looks: a hash of 64 bits, in hexadecimal; similar images have similar ones',
    since,
  },
  group: {
    type: 'text',
    of: image,
    meaning: 'SHA-256 of the first image that looks like it, or of itself',
    since,
  },
  creator: { type: 'text', of: image, meaning: 'who made it, by its EXIF, IPTC or XMP', since },
  credit: { type: 'text', of: image, meaning: 'the credit line, by its IPTC or XMP', since },
  copyright: { type: 'text', of: image, meaning: 'the notice, by its EXIF, IPTC or XMP', since },
  license: {
    type: 'text',
    of: image,
    meaning: 'the licence: by its XMP, else by `rel=license` of its figure or page',
    since,
  },
  optOut: {
    type: 'text',
    of: image,
    meaning: 'directives of its answer that forbid training: `noai`, `noimageai`',
    since,
  },
  fault: { type: 'text', of: image, meaning: 'why it could not be decoded', since },
  directives: {
    type: 'json',
    of: answered,
    meaning: '[page directives](manners.md#page-directives) for this crawler, if any',
    since,
    // By meta elements and X-Robots-Tag; each once.
    schema: z.array(z.enum(robotsDirectives)).max(robotsDirectives.length).optional(),
    isCarried: true,
  },
  nofollowed: {
    type: 'integer',
    of: answered,
    meaning: 'number of links that page directives removed, if any',
    since,
    schema: count,
    isCarried: true,
  },
  refresh: {
    type: 'text',
    of: answered,
    meaning: 'target of `<meta http-equiv=refresh>` or the `Refresh` header, if it is another URL',
    since,
    schema: url.optional(),
    isCarried: true,
  },
  canonical: {
    type: 'text',
    of: answered,
    meaning: '[preferred URL](scope.md#canonical-pages), if it is another URL',
    since,
    schema: url.optional(),
    isCarried: true,
  },
  excluded: {
    type: 'text',
    of: ['excluded', 'sitemap', 'image'],
    meaning:
      '`robots`, `scope` (since options changed), `noindex` or `canonical`; of an image also the [filter](download.md#filters), or `similar`',
    since,
  },
  redirectedTo: {
    type: 'text',
    of: ['redirect', 'sitemap', 'image'],
    meaning: 'the other URL',
    since,
    schema: url.optional(),
  },
  error: {
    type: 'json',
    of: ['failed', 'blocked', 'sitemap', 'image'],
    meaning:
      '`kind` (`dns connect tls timeout status redirects protocol too-large blocked proxy lost`), `message`, `attempts`',
    since,
    schema: fetchErrorSchema.optional(),
  },
  etag: {
    type: 'text',
    of: answered,
    meaning:
      'validator of the answer, if present; [`recrawl`](operating.md#crawling-again) uses it',
    since,
    // Sent back as it came: [T-31].
    schema: z.string().max(256).optional(),
    isCarried: true,
  },
  lastModified: {
    type: 'text',
    of: answered,
    meaning: 'the same, of the header `Last-Modified`',
    since,
    schema: z.string().max(64).optional(),
    isCarried: true,
  },
  rendered: {
    type: 'boolean',
    of: ['page'],
    meaning: 'true: the page is as it was in a [browser](browser.md)',
    since,
    schema: flag,
    isCarried: true,
  },
  requests: {
    type: 'integer',
    of: ['page'],
    meaning: 'of a rendered page: requests of the browser to the host of the page, if any',
    since,
    // Bounded by `renderLimits`: the host waits for that. [T-142]
    schema: z.int().min(0).max(renderLimits.requests).optional(),
  },
  missed: {
    type: 'json',
    of: ['page'],
    meaning:
      'of a rendered page: `wait`, `click` if there was no such element, `limit` if it wanted more than it may have, `screenshot` if it has no such file, `certificate` if the browser did not trust a host that it loads from',
    since,
    schema: z.array(z.enum(renderMisses)).max(renderMisses.length).optional(),
  },
  screenshot: {
    type: 'text',
    of: ['page'],
    meaning:
      'of a rendered page, if it was wanted: its [screenshot](browser.md), a file below the folder of the crawl',
    since,
    schema: z
      .string()
      .regex(/^screenshots\/[0-9a-f]{2}\/[0-9a-f]{40}\.png$/)
      .optional(),
  },
  slave: {
    type: 'text',
    of: written,
    meaning: 'name of the slave that fetched; missing if nothing was requested',
    since,
  },
  at: {
    type: 'time',
    of: [...written, 'skipped', ...rows],
    meaning: 'time (UTC) when the master took the result',
    since,
  },
} as const satisfies Readonly<Record<string, ResultField>>;

export type FieldName = keyof typeof resultFields;
type Fields = typeof resultFields;
type Reported = {
  -readonly [N in FieldName as Fields[N] extends { schema: z.ZodType }
    ? N
    : never]: Fields[N] extends {
    schema: infer S extends z.ZodType;
  }
    ? S
    : never;
};
type Carried = Pick<
  Reported,
  { [N in keyof Reported]: Fields[N] extends { isCarried: true } ? N : never }[keyof Reported]
>;

const all: readonly (readonly [string, ResultField])[] = Object.entries(resultFields);

/** The result of one fetch, as a slave reports it. */
export const resultSchema = z.strictObject(schemasOf(() => true) as Reported);

/** The fields that a recrawl takes over from the line of a page. */
export const carriedSchema = z.strictObject(
  schemasOf(({ isCarried = false }) => isCarried) as Carried,
);
export const carriedFields = Object.keys(carriedSchema.shape) as (keyof Carried)[];

/** The fields of each kind of line, in their order. */
export function fieldsOf(kind: LineKind): FieldName[] {
  return all.filter(([, field]) => field.of.includes(kind)).map(([name]) => name as FieldName);
}

function schemasOf(isWanted: (field: ResultField) => boolean): Record<string, z.ZodType> {
  return Object.fromEntries(
    all.flatMap(([name, field]) =>
      field.schema !== undefined && isWanted(field) ? [[name, field.schema]] : [],
    ),
  );
}
