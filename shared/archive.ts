/** The messages of slaves and master about the archive of a crawl. Source: PROTOCOL.md,
 *  "task.archive". */
import * as z from 'zod';
import { whole } from './flags.ts';

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

/** A status line first, an empty line last. */
export function isAnswerHead(head: Uint8Array): boolean {
  const text = Buffer.from(head.buffer, head.byteOffset, head.byteLength);
  const first = text.toString('latin1', 0, 13);
  return /^HTTP\/1\.1 \d{3}/.test(first) && text.indexOf('\r\n\r\n') === text.length - 4;
}

/** Fields of a spec, for slaves, too. */
export const archiveFields = {
  archive: z
    .enum(['warc'], { error: 'must be warc' })
    .optional()
    .describe(
      '--archive <format>  keep all requests and answers as they were, in WARC files: warc; default: no archive',
    ),
  archiveBytes: whole(0, archiveBytesMax)
    .optional()
    .describe(
      `--archive-bytes <n>  bytes of a body that the archive keeps; a longer one is cut there; default: ${archiveBytesDefault}`,
    ),
  save: z
    .enum(['html'], { error: 'must be html' })
    .optional()
    .describe('--save <what>  keep each page as a file, named by its digest: html; default: none'),
};

/** The same, for the master alone. */
export const archiveLimits = {
  archiveFileBytes: whole(1_000_000, 1_000_000_000_000)
    .optional()
    .describe(
      '--archive-file-bytes <n>  size at which the archive begins a new file, in bytes; default: 1000000000',
    ),
};
