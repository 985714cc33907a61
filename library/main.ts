/** The npm package: a crawl as a loop, and the queues of a running master. */
export {
  AuthError,
  CommandError,
  ConnectionError,
  type ConnectOptions,
  connect,
  MasterClient,
  OrbError,
  ProtocolError,
  parseAddress,
  QueueItem,
  SharedQueue,
} from '../shared/client.ts';
export { ConfigError } from '../shared/errors.ts';
export type { PageContext, PageFunction, Selection } from '../shared/page-function.ts';
export type { RecordKind } from '../shared/result-fields.ts';
export { crawl } from './crawl.ts';
export type { CrawlOptions, FollowRule, ImageSettings, OutputEntry, Seed } from './options.ts';
export type { CrawlRecord, ImageUrlRecord, LineRecord } from './records.ts';
export { type Found, type WorkerOptions, type WorkerPage, worker } from './worker.ts';
