/** What slaves and master say to each other about the archive of a crawl. Source: PROTOCOL.md,
 *  "task.archive". */

/** How the archived body of an answer ends: whole, or why it does not. The reasons are those of
 *  WARC-Truncated. Source: ISO 28500 (WARC 1.1), 5.13. */
export const bodyEnds = ['whole', 'length', 'time', 'disconnect', 'unspecified'] as const;
export type BodyEnd = (typeof bodyEnds)[number];

/** Bytes of a body that are kept, where its crawl does not say. */
export const archiveBytesDefault = 10_000_000;
export const archiveBytesMax = 64_000_000;
/** Bytes of a body in one message. */
export const archivePartBytesMax = 256 << 10;
/** Bytes of one head, of a request or an answer. */
export const archiveHeadBytesMax = 1 << 20;
/** Exchanges of one fetch: redirects, and further ways to ask. */
export const archiveExchangesMax = 256;
