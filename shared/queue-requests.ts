/** The requests about user queues, as schemas; see `requests.ts`. */
import * as z from 'zod';
import { limits } from './protocol.ts';

const id = z.int().min(0).optional();
const bytes = z.custom<Uint8Array>((value) => value instanceof Uint8Array, {
  error: 'is not bytes',
});
const queueName = z.string().regex(/^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/);
const delayMs = z.int().min(0).max(limits.queueDelayMsMax);

export const queueRequests = {
  'queue.put': () =>
    z.strictObject({
      verb: z.literal('queue.put'),
      id: z.int().min(0),
      queue: queueName,
      /** Each item is a msgpack value, encoded by the sender. */
      items: z.array(bytes).min(1).max(limits.queueItemsMax),
      /** They are in the queue after this time. */
      delayMs: delayMs.optional(),
    }),
  /** Take up to `count` items, waiting up to `waitMs` for the first. */
  'queue.get': () =>
    z.strictObject({
      verb: z.literal('queue.get'),
      id: z.int().min(0),
      queue: queueName,
      count: z.int().min(1).max(limits.queueItemsMax).default(1),
      waitMs: z.int().min(0).max(limits.waitMsMax).default(0),
      /** Items that are not done by then return. Default: the end of the session. */
      holdMs: z.int().min(1).max(limits.queueHoldMsMax).optional(),
      /** One that has returned so often goes to the dead letters. Default: never. */
      attempts: z.int().min(1).max(limits.queueAttemptsMax).optional(),
    }),
  /** Gives items back that the session holds. */
  'queue.release': () =>
    z.strictObject({
      verb: z.literal('queue.release'),
      id: z.int().min(0),
      queue: queueName,
      items: z.array(z.int().min(0)).max(limits.queueItemsMax),
      delayMs: delayMs.optional(),
    }),
  /** Deletes the items; until then the session's end puts them back. */
  'queue.done': () =>
    z.strictObject({
      verb: z.literal('queue.done'),
      id,
      queue: queueName,
      items: z.array(z.int().min(0)).max(limits.queueItemsMax),
    }),
  'queue.size': () =>
    z.strictObject({
      verb: z.literal('queue.size'),
      id: z.int().min(0),
      queue: queueName,
    }),
} as const;
