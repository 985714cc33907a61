/** The request of slaves about the archive of a crawl, as schema. Source: PROTOCOL.md [T-100]. */
import * as z from 'zod';
import { archiveHeadBytesMax, archivePartBytesMax, bodyEnds, isAnswerHead } from './archive.ts';
import { views } from './render.ts';

type Bytes = z.ZodType<Uint8Array, Uint8Array>;
/** Fields that other requests have, too. */
type Fields = {
  readonly bytes: Bytes;
  readonly taskId: Bytes;
  readonly lease: z.ZodInt;
  readonly url: z.ZodString;
};

/** The last moment with a year of four digits. */
const atMax = 253_402_300_799_999;

export const archiveRequests = ({ bytes, taskId, lease, url }: Fields) => {
  const head = bytes.refine((one) => one.length <= archiveHeadBytesMax, { error: 'is too long' });
  return {
    /** A part of an exchange of a task, for the archive of its crawl. [T-100] */
    'task.archive': () =>
      z.strictObject({
        verb: z.literal('task.archive'),
        id: z.int().min(0).optional(),
        task: taskId,
        lease,
        /** From 0 on; part 0 begins anew. */
        part: z.int().min(0),
        /** In the first part of an exchange. */
        head: z
          .strictObject({
            url: url.regex(/^[\x21-\x7e]+$/),
            /** Unix time in ms. */
            at: z.int().min(0).max(atMax),
            request: head,
            response: head.refine(isAnswerHead, { error: 'is not the head of an answer' }),
            /** It is no exchange, but what a browser made of the page. [T-144] */
            view: z.enum(views).optional(),
          })
          .optional(),
        body: bytes.refine((body) => body.length <= archivePartBytesMax, { error: 'is too long' }),
        /** In the last part of an exchange. */
        end: z.enum(bodyEnds).optional(),
      }),
  };
};
