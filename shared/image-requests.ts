/** The requests of slaves about images, as schemas. Source: PROTOCOL.md [T-110] to [T-114]. */
import * as z from 'zod';
import { imagePartBytesMax } from './images.ts';

type Bytes = z.ZodType<Uint8Array, Uint8Array>;
/** Fields that other requests have, too. */
type Fields<A extends z.ZodType> = {
  readonly bytes: Bytes;
  readonly taskId: Bytes;
  readonly lease: z.ZodInt;
  readonly packed: Bytes;
  readonly archived: A;
};

export const imageRequests = <A extends z.ZodType>({
  bytes,
  taskId,
  lease,
  packed,
  archived,
}: Fields<A>) => ({
  /** The answer to a task of kind `image`; a failed fetch is a release. [T-110] */
  'task.image': () =>
    z.strictObject({
      verb: z.literal('task.image'),
      id: z.int().min(0),
      task: taskId,
      lease,
      /** Fields of `result-fields.ts`. */
      result: packed,
      /** See `ImageFacts`; absent: the answer is no image. */
      image: packed.optional(),
      /** Its bytes were sent before, by task.content. [T-112] */
      sent: z.literal(true).optional(),
      archived,
    }),
  /** Has the crawl an image of these bytes? [T-111] */
  'task.known': () =>
    z.strictObject({
      verb: z.literal('task.known'),
      id: z.int().min(0),
      task: taskId,
      lease,
      /** SHA-256. */
      digest: bytes.refine((digest) => digest.length === 32, { error: 'is not a SHA-256' }),
    }),
  /** A part of an image. [T-112] */
  'task.content': () =>
    z.strictObject({
      verb: z.literal('task.content'),
      id: z.int().min(0),
      task: taskId,
      lease,
      /** From 0 on; part 0 begins anew. */
      part: z.int().min(0),
      body: bytes.refine((body) => body.length <= imagePartBytesMax, { error: 'is too long' }),
    }),
});
