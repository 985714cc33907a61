/**
 * The statements of a slave about itself, and the requests of operators to slaves, as schemas.
 * Source: PROTOCOL.md [T-45] [T-70] [T-80] [T-94] [C-74] [C-75].
 */
import * as z from 'zod';
import {
  folderTroubleSchema,
  limits,
  loginWhySchema,
  peerNameSchema,
  peerVersionSchema,
  proxyTroubleSchema,
} from './protocol.ts';

/** `id`: of a request that may have no answer. */
export const slaveRequests = ({ id }: { readonly id: z.ZodOptional<z.ZodInt> }) => ({
  /** The proxies that do not work for this slave, all of them each time. [T-45] */
  'proxy.state': () =>
    z.strictObject({
      verb: z.literal('proxy.state'),
      id,
      proxies: z.array(proxyTroubleSchema).max(limits.proxiesMax),
    }),
  /** The folders of `--images-to` to which this slave cannot write, all of them each time.
   *  [T-115] */
  'images.state': () =>
    z.strictObject({
      verb: z.literal('images.state'),
      id,
      folders: z.array(folderTroubleSchema).max(limits.foldersMax),
    }),
  /** How a slave is, every 10 s. [T-70] */
  'slave.state': () =>
    z.strictObject({
      verb: z.literal('slave.state'),
      id,
      version: peerVersionSchema,
      memoryBytes: z.int().min(0),
      /** Fetches under way. */
      fetching: z.int().min(0).max(limits.creditMax),
    }),
  /** Abilities beyond those of all slaves, declared before the first credit. [T-80] */
  'slave.can': () =>
    z.strictObject({
      verb: z.literal('slave.can'),
      id,
      /** `rules`: it evaluates the rules of a crawl; `archive`: it sends task.archive [T-105]. What
       *  a newer slave can is ignored. */
      what: z.array(z.string().max(32)).max(32),
    }),
  /** No identity of this slave could log in for a crawl: the crawl is held. [T-94] */
  'login.failed': () =>
    z.strictObject({
      verb: z.literal('login.failed'),
      id,
      crawl: z.int().min(0),
      round: z.int().min(0),
      why: loginWhySchema,
    }),
  /** Connected slaves, up to `limit` at a time, from the session after `after`. [C-74] */
  'slave.list': () =>
    z.strictObject({
      verb: z.literal('slave.list'),
      id: z.int().min(0),
      after: z.int().min(0).optional(),
      limit: z.int().min(1).max(1000).default(1000),
    }),
  /** Lets the slaves of that name finish and leave. [C-75] */
  'slave.drain': () =>
    z.strictObject({
      verb: z.literal('slave.drain'),
      id: z.int().min(0),
      slave: peerNameSchema,
    }),
});
