/**
 * What a crawl is told to do: its spec, fixed when the crawl is added. The master keeps it with
 * the crawl and sends the part that slaves need (`FetchSpec`) with the first task of a crawl.
 */
import * as z from 'zod';

const count = (max: number) => z.int().min(1).max(max);

/** Limits and manners of one fetch; the only part of a spec that a slave sees. */
export const fetchSpecSchema = z.strictObject({
  /** `img`: img[src] alone; `all`: every class of image source that is known. */
  images: z.enum(['img', 'all']).default('all'),
  /** Whole fetch, redirects and body included, in ms. */
  timeoutMs: count(600_000).default(30_000),
  /** Body after decompression; a longer page is cut there and still parsed. */
  bodyBytesMax: count(1 << 30).default(10 << 20),
  redirectsMax: z.int().min(0).max(50).default(10),
  userAgent: z.string().min(1).max(512).default('Orbweaver/0.1'),
});
export type FetchSpec = z.infer<typeof fetchSpecSchema>;

const pattern = z.string().max(1024).refine(isRegExp, { error: 'is not a regular expression' });

export const crawlSpecSchema = z.strictObject({
  /** `host`: the seeds' hosts; `domain`: their registrable domains; `any`: no bound. */
  scope: z.enum(['host', 'domain', 'any']).default('host'),
  /** A URL must match one of these (if there are any) and none of `exclude`. */
  include: z.array(pattern).max(100).default([]),
  exclude: z.array(pattern).max(100).default([]),
  /** Links away from a seed; 0 fetches the seeds alone. */
  maxDepth: z.int().min(0).max(65_535).optional(),
  /** Pages written before the crawl ends. */
  maxPages: count(Number.MAX_SAFE_INTEGER).optional(),
  order: z.enum(['bfs', 'dfs', 'priority']).default('bfs'),
  /** Between two starts of a fetch on one host, in ms; unset: 250, on a loopback host 0. */
  delayMs: z.int().min(0).max(86_400_000).optional(),
  /** Fetches at once on one host; unset: 2, on a loopback host 32. */
  perHost: count(10_000).optional(),
  /** Fetches of one URL before it is buried. */
  attemptsMax: count(100).default(4),
  /** Sizes the first Bloom filter; more URLs than that only add filters. */
  urlsExpected: count(1_000_000_000).default(1_000_000),
  fetch: fetchSpecSchema.prefault({}),
});
export type CrawlSpec = z.infer<typeof crawlSpecSchema>;
export type CrawlSpecInput = z.input<typeof crawlSpecSchema>;

/** Names a folder under `--out`, so it is held to letters, digits, dot, dash and underscore. */
export const crawlNameSchema = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, {
  error: 'must be 1 to 64 letters, digits, dots, dashes or underscores, a letter or digit first',
});

function isRegExp(source: string): boolean {
  try {
    new RegExp(source, 'u');
    return true;
  } catch {
    return false;
  }
}
