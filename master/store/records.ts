/**
 * The meaning of the bytes in the store: keys that order as they should, and the records behind
 * them. A change here is a change of the on-disk format: raise `formatVersion` and read the old
 * one.
 *
 *     crawls   crawl u32                              -> CrawlRecord
 *     spares   crawl u32                              -> CrawlRecord, as it was some commits ago
 *     seeds    crawl u32                              -> hosts of the seeds, with their ports
 *              crawl u32 | host                       -> private blocks where its name was found
 *     seen     crawl u32 | fingerprint 16             -> nothing; since format 4 `runs`: runs.ts
 *     recent   crawl u32 | commit u48                 -> fingerprints, 16 bytes each
 *              crawl u32 | 0                          -> digest of the Bloom file, last commit u48
 *     tasks    crawl u32 | host 8 | rank u32 | seq u48 -> TaskRecord
 *     unsorted the same task by another key           -> TaskRecord: see unsorted-rows.ts
 *     sources  crawl u32 | number u48 of the last one  -> URLs that led to others, a line each
 *     earlier, faults  the same as of tasks           -> EarlierPage, TaskFault
 *     results  crawl u32 | commit u48                 -> records: see result-rows.ts
 *     buried   crawl u32 | fingerprint 16             -> BuriedRecord
 *     robots   host 8                                -> RobotsRecord, the file itself
 *     breakers host 8                                -> BreakerRecord
 *     paces    group 8                               -> PaceRecord
 *     items    queue name | 0 | seq u48 of the first   -> items that follow each other
 *
 * In the file every value but those of `seen` ends with a checksum: see `sums.ts`.
 * Integers in keys are big-endian, so that bytes order as numbers.
 */
import { createHash } from 'node:crypto';
import type { CrawlSpec, CrawlState, TaskRequest } from '../../shared/crawl.ts';
import { decodeValue, encodeValue } from '../../shared/frame.ts';
import type { FetchErrorKind, SkipReason, TaskKind } from '../../shared/protocol.ts';
import type { EarlierPage, FetchErrorBody } from '../../shared/requests.ts';

export const formatVersion = 5;

export type CrawlCounters = {
  waiting: number;
  pages: number;
  images: number;
  others: number;
  failed: number;
  buried: number;
  unchanged: number;
  /** Tasks that ever came with a record in `earlier`. */
  earlier: number;
  /** Left out by robots.txt. */
  excluded: number;
  /** Links that were not taken. */
  skipped: Partial<Record<SkipReason, number>>;
  /** The failed ones. */
  errors: Partial<Record<FetchErrorKind, number>>;
  /** The failed ones with a status. */
  statuses: Record<string, number>;
  /** Final URLs under which pages count, and links that are no URLs. */
  aliases: number;
  malformed: number;
  known: number;
  bytes: number;
  /** Keys in `seen`: URLs, images, and links that were not taken. */
  seen: number;
  /** Sitemaps ever admitted. */
  sitemaps: number;
  /** Tasks that repairs could not save. */
  lost?: number;
};

export type CrawlRecord = {
  /** Its number in the keys of this store, which no later crawl gets. */
  readonly id: number;
  /** 16 random bytes: no other crawl of any master has them. */
  readonly uid: Uint8Array;
  readonly name: string;
  readonly state: Exclude<CrawlState, 'held'>;
  readonly spec: CrawlSpec;
  /** Goes up with every change of the spec; the first has 1. */
  readonly specVersion: number;
  /** Key of the fingerprints. */
  readonly secret: Uint8Array;
  /** Next sequence number of a task, and of a commit. */
  readonly nextSeq: number;
  readonly nextCommit: number;
  /** The same of a record of the result queue. */
  readonly nextRecord: number;
  /** The same of a row in `sources`; what earlier versions wrote lacks it. */
  readonly nextSource?: number;
  readonly counters: CrawlCounters;
  /** See `frontier/crawl/ledger.ts`; a crawl of an earlier version has none. */
  readonly ledger?: readonly (readonly number[])[] | undefined;
  readonly seeds?: SeedRecord | undefined;
  /** Numbers of its rules, see `frontier/crawl/rule-books.ts`; absent: no rule has seen a page. */
  readonly rules?: { readonly [name: string]: readonly number[] } | undefined;
  /** Its keys in `seen`, laid over each other by XOR: four words. */
  readonly seenSum: readonly number[];
  readonly startedAt: number;
  /** For how long masters had it open, by a clock that does not jump; what older ones wrote lacks
   *  it. */
  readonly openMs?: number;
  /** It was removed, and is `cancelled`: how far that is. */
  readonly removal?: Removal;
  /** Its options when it was last started, if they were changed since without a start. */
  readonly asStarted?: SpecMark;
  /** URLs were admitted by other options, which took more. */
  readonly narrowed?: true;
  readonly downloads?: { stored: number; bytes: number } | undefined;
  /** It is getting this name: the folder of its results may have it already. */
  readonly renaming?: string;
};

/** A spec, as far as another start is compared with it. */
export type SpecMark = { readonly digest: string; readonly maxPages?: number };

/** The end of a crawl that an operator removes. `writing`, `deleting`: the last results of it are
 *  being written, or its files deleted, and its name is taken. `erasing`: only its rows are left,
 *  and its name is free. */
export type Removal = 'writing' | 'deleting' | 'erasing';

/** The outcome of a crawl's seeds; the first of those that brought no page, and why. */
export type SeedRecord = {
  readonly admitted: number;
  /** Answered with 200 or 304. */
  readonly answered: number;
  readonly faults: readonly { readonly url: string; readonly why: string }[];
};

export const kindNumbers: Record<TaskKind, number> = { page: 0, sitemap: 1, robots: 2, image: 3 };
export const pageKind = kindNumbers.page;

export type TaskRecord = {
  /** A number of `frontier/kinds`. */
  readonly kind: number;
  /** Of a sitemap: how it was found, see `frontier/kinds/sitemap.ts`. Of a page: redirects from a
   *  seed, or that it has a request, see `frontier/tasks/task-requests.ts`. */
  readonly level: number;
  readonly url: string;
  readonly depth: number;
  readonly priority: number;
  /** Failed fetches so far. */
  readonly attempts: number;
  /** Unix time in ms before which it must not be fetched again; 0: at once. */
  readonly notBefore: number;
  /** Number of what first led to it, in `sources`. Undefined: it is a seed, or a version that did
   *  not keep it wrote it. */
  readonly from?: number | undefined;
};

export type BuriedRecord = {
  readonly url: string;
  readonly depth: number;
  readonly priority: number;
  readonly kind: FetchErrorKind;
  readonly message: string;
  readonly attempts: number;
  readonly from?: number | undefined;
  /** Its kind; absent: a page. */
  readonly task?: number;
};

/** The last failure of a task that is tried again. */
type TaskFault = FetchErrorBody & {
  /** Unix time in ms. */
  readonly at: number;
};

/** The record of a host's robots.txt. */
export type RobotsRecord = {
  /** `none`: there is none, all is allowed. `unreachable`: nothing is, for now. */
  readonly access: 'rules' | 'none' | 'unreachable';
  /** Unix time in ms: good until then. */
  readonly askAt: number;
  /** Failures in a row, and the time of the first. */
  readonly failures: number;
  readonly failingSince: number;
  readonly error?: FetchErrorBody;
  /** Failed, but not often enough to give up: to be asked again at `askAt`. */
  readonly isTrying?: boolean;
};

/** The pace of a politeness group, as learned from its answers; times are Unix times in ms. */
export type PaceRecord = {
  /** No fetch before. */
  readonly holdUntil: number;
  /** Refusals in a row (429, 503), counted once for each hold. */
  readonly refusals: number;
  /** A shorter delay was too short; 0: none was. */
  readonly learnedMs: number;
  readonly learnedAt: number;
  /** How often a delay was too short. */
  readonly lessons: number;
};

/** A host that does not answer. */
export type BreakerRecord = {
  /** Times that it slept since its last answer. */
  readonly sleeps: number;
  /** Unix time in ms: it sleeps, or is dead, until then. */
  readonly until: number;
  /** It is dead, for this reason. */
  readonly error?: FetchErrorBody;
};

/** As deep as a record can tell; what lies deeper counts as this. */
export const depthMax = 0xffff;
export const hostBytes = 8;
const taskHeadBytes = 22;
/** Of its kind: six bytes with `from` follow the head. */
const hasFrom = 0x80;
const fromBytes = 6;
const waitMsMax = 2 ** 32 - 1;

export function crawlKey(crawl: number): Buffer {
  const key = Buffer.allocUnsafe(4);
  key.writeUInt32BE(crawl, 0);
  return key;
}

/** `host`: of a seed, with its port. Without such a row its name has not been resolved, as in
 *  stores of before there were any; a version of before reads over them. */
export function seedHostKey(crawl: number, host: string): Buffer {
  return Buffer.concat([crawlKey(crawl), Buffer.from(host, 'latin1')]);
}

/** The host of such a key; undefined for the key of all hosts of a crawl. */
export function seedHostOf(key: Buffer): string | undefined {
  return key.length > 4 ? key.toString('latin1', 4) : undefined;
}

export const fingerprintKeyBytes = 20;

/** `words` holds fingerprints; `at` is the first word of one. */
export function fingerprintKey(crawl: number, words: Uint32Array, at: number): Buffer {
  const key = Buffer.allocUnsafe(fingerprintKeyBytes);
  key.writeUInt32BE(crawl, 0);
  for (let i = 0; i < 4; i++) key.writeUInt32LE(words[at + i] ?? 0, 4 + i * 4);
  return key;
}

export function commitKey(crawl: number, commit: number): Buffer {
  const key = Buffer.allocUnsafe(10);
  key.writeUInt32BE(crawl, 0);
  key.writeUIntBE(commit, 4, 6);
  return key;
}

/** `last`: number of the last one of the row. */
export function sourceKey(crawl: number, last: number): Buffer {
  return commitKey(crawl, last);
}

export function lastOfSource(key: Buffer): number {
  return commitOf(key);
}

export function commitOf(key: Buffer): number {
  return key.readUIntBE(4, 6);
}

/** `now`: when it is written, so that its wait is known beside its end. */
export function encodeTask(task: TaskRecord, now = 0): Buffer {
  const { from } = task;
  const head = taskHeadBytes + (from === undefined ? 0 : fromBytes);
  const value = Buffer.allocUnsafe(head + task.url.length);
  value.writeUInt16BE(task.depth, 0);
  value.writeInt16BE(task.priority, 2);
  value.writeUInt32BE(task.attempts, 4);
  value.writeDoubleBE(task.notBefore, 8);
  value.writeUInt8(from === undefined ? task.kind : task.kind | hasFrom, 16);
  value.writeUInt8(task.level, 17);
  const waitMs = Math.ceil(Math.max(0, task.notBefore - now));
  value.writeUInt32BE(Math.min(waitMs, waitMsMax), 18);
  if (from !== undefined) value.writeUIntBE(from, taskHeadBytes, fromBytes);
  value.write(task.url, head, 'latin1');
  return value;
}

/** With `now` a task waits from then on at most its own delay, so that a clock that was put back
 *  does not hold it. */
export function decodeTask(value: Buffer, now = Number.POSITIVE_INFINITY): TaskRecord {
  const kind = value.readUInt8(16);
  const isFrom = (kind & hasFrom) !== 0;
  return {
    depth: value.readUInt16BE(0),
    priority: value.readInt16BE(2),
    attempts: value.readUInt32BE(4),
    notBefore: Math.min(value.readDoubleBE(8), now + value.readUInt32BE(18)),
    kind: kind & ~hasFrom,
    level: value.readUInt8(17),
    url: value.toString('latin1', taskHeadBytes + (isFrom ? fromBytes : 0)),
    ...(isFrom && { from: value.readUIntBE(taskHeadBytes, fromBytes) }),
  };
}

/** How far a sink of a crawl has come. */
export type SinkCursor = {
  /** It has the records of this commit, and of all before it. */
  readonly commit: number;
  /** Where it stands in its target, in its own words; undefined: it has written nothing. */
  readonly mark: unknown;
};

/** Where it is, in `meta`. `sink`: what the sink calls itself. */
export function cursorKey(crawl: number, sink: string): Buffer {
  return Buffer.from(`sink/${crawl}/${sink}`);
}

/** Prefix of the keys of all cursors of a crawl. */
export function cursorPrefix(crawl: number): Buffer {
  return Buffer.from(`sink/${crawl}/`);
}

/** The crawl and the sink of such a key; undefined: another key. */
export function parseCursorKey(key: Buffer): { crawl: number; sink: string } | undefined {
  const [, crawl, sink] = /^sink\/(\d+)\/([a-z]+)$/.exec(key.toString('latin1')) ?? [];
  return sink === undefined ? undefined : { crawl: Number(crawl), sink };
}

export const encodeCursor = (cursor: SinkCursor): Buffer => encodeValue(cursor);
export const decodeCursor = (value: Buffer): SinkCursor => decodeValue(value) as SinkCursor;

/** In `meta`: the format version, and the secret of the host hashes. */
export const formatKey = Buffer.from('format');
export const secretKey = Buffer.from('secret');

/** In `meta`: what an operator set for a host. */
export function hostSettingKey(hostKey: string): Buffer {
  return Buffer.from(`host/${hostKey}`, 'latin1');
}

type HostSettingRecord = { readonly delayMs?: number; readonly blocked?: true };
export const encodeHostSetting = (setting: HostSettingRecord): Buffer => encodeValue(setting);
export const decodeHostSetting = (value: Buffer) => decodeValue(value) as HostSettingRecord;

/** In `meta`: the highest number that a crawl ever had. */
export const lastCrawlKey = Buffer.from('last-crawl');
export const encodeLastCrawl = (crawl: number): Buffer => crawlKey(crawl);
export const decodeLastCrawl = (value: Buffer): number => value.readUInt32BE(0);

/** Where the counts of a crawl's trap rules are, in `meta`. */
export function trapsKey(crawl: number): Buffer {
  return Buffer.from(`traps/${crawl}`);
}

/** Prefix of the keys of the requests that a crawl's seeds are, in `meta`. */
export function requestPrefix(crawl: number): Buffer {
  return Buffer.from(`request/${crawl}/`);
}

/** In the name of a task that has a request: behind its URL, before a digest of the body. */
export const requestMark = '#POST-';

/** Where the request of a task is; `name`: of the task, a URL with a mark. */
export function requestKey(crawl: number, name: string): Buffer {
  const digest = createHash('sha256').update(name).digest();
  return Buffer.concat([requestPrefix(crawl), digest]);
}

export const encodeRequest = (request: TaskRequest): Buffer => encodeValue(request);
export const decodeRequest = (value: Buffer) => decodeValue(value) as TaskRequest;

/** Where the sources of seeds that a crawl has on a schedule are, in `meta`. */
export function scheduleKey(crawl: number): Buffer {
  return Buffer.from(`schedule/${crawl}`);
}

export type TrapCounts = [string, number][];
export const encodeTrapCounts = (counts: TrapCounts): Buffer => encodeValue(counts);
export const decodeTrapCounts = (value: Buffer) => decodeValue(value) as TrapCounts;

export const encodeCrawl = (crawl: CrawlRecord): Buffer => encodeValue(crawl);
export const decodeCrawl = (value: Buffer): CrawlRecord => decodeValue(value) as CrawlRecord;

/** Of a damaged store. Returns undefined for a row of another table, whose checksum is right. */
export function crawlOfRow(key: Buffer, value: Buffer): CrawlRecord | undefined {
  try {
    const crawl = decodeCrawl(value);
    return crawlKey(crawl.id).equals(key) ? crawl : undefined;
  } catch {
    return undefined;
  }
}

/** Hosts in the scope of a crawl, with their ports. */
export type KeptHosts = {
  /** Of its seeds. */
  readonly named: readonly string[];
  /** Where seeds redirect to. */
  readonly followed: readonly string[];
};

/** Where no seed redirects to another host, the list of the first alone, as in older versions. */
export function encodeSeedHosts(hosts: KeptHosts): Buffer {
  return encodeValue(hosts.followed.length === 0 ? hosts.named : hosts);
}

export function decodeSeedHosts(value: Buffer): KeptHosts {
  const hosts = decodeValue(value) as KeptHosts | string[];
  return Array.isArray(hosts) ? { named: hosts, followed: [] } : hosts;
}
export const encodeBlocks = (blocks: readonly string[]): Buffer => encodeValue(blocks);
export const decodeBlocks = (value: Buffer): string[] => decodeValue(value) as string[];
export const encodeEarlier = (page: EarlierPage): Buffer => encodeValue(page);
export const decodeEarlier = (value: Buffer): EarlierPage => decodeValue(value) as EarlierPage;
export const encodeFault = (fault: TaskFault): Buffer => encodeValue(fault);
export const decodeFault = (value: Buffer): TaskFault => decodeValue(value) as TaskFault;
export const encodeBuried = (buried: BuriedRecord): Buffer => encodeValue(buried);
export const decodeBuried = (value: Buffer): BuriedRecord => decodeValue(value) as BuriedRecord;

// A hold on a host is recorded with the time `at` which it was written. If the clock was put back
// since, its times are, too: nothing waits longer.

export const encodeRobots = (record: RobotsRecord, file: Uint8Array, at: number): Buffer =>
  encodeValue({ record, file, at });

export function decodeRobots(
  value: Buffer,
  now: number,
): { record: RobotsRecord; file: Uint8Array } {
  const { record, file, at } = decodeValue(value) as Dated<RobotsRecord> & { file: Uint8Array };
  const backMs = Math.max(0, at - now);
  const { askAt, failingSince } = record;
  return {
    record: { ...record, askAt: askAt - backMs, failingSince: failingSince - backMs },
    file,
  };
}

export const encodePace = (record: PaceRecord, at: number): Buffer => encodeValue({ record, at });

export function decodePace(value: Buffer, now: number): PaceRecord {
  const { record, at } = decodeValue(value) as Dated<PaceRecord>;
  const backMs = Math.max(0, at - now);
  const { holdUntil, learnedAt } = record;
  return { ...record, holdUntil: holdUntil - backMs, learnedAt: learnedAt - backMs };
}

export const encodeBreaker = (record: BreakerRecord, at: number): Buffer =>
  encodeValue({ record, at });

export function decodeBreaker(value: Buffer, now: number): BreakerRecord {
  const { record, at } = decodeValue(value) as Dated<BreakerRecord>;
  return { ...record, until: record.until - Math.max(0, at - now) };
}

type Dated<T> = { readonly record: T; readonly at: number };

const itemPrefix = (queue: string) => Buffer.from(`${queue}\0`, 'latin1');

/** Makes the keys of a queue's items. */
export function itemKeys(queue: string): (seq: number) => Buffer {
  const prefix = itemPrefix(queue);
  return (seq) => {
    const key = Buffer.allocUnsafe(prefix.length + 6);
    key.set(prefix);
    key.writeUIntBE(seq, prefix.length, 6);
    return key;
  };
}

export function parseItemKey(key: Buffer): { queue: string; seq: number } {
  return {
    queue: key.toString('latin1', 0, key.length - 7),
    seq: key.readUIntBE(key.length - 6, 6),
  };
}

/** Values of items, one or more, in their order. */
export const encodeItemRow = (values: readonly Uint8Array[]): Buffer => encodeValue(values);

export const decodeItemRow = (value: Buffer): Uint8Array[] => decodeValue(value) as Uint8Array[];

/** The first key after every key that begins with `prefix`. */
export function afterPrefix(prefix: Uint8Array): Buffer {
  return Buffer.concat([prefix, Buffer.alloc(32, 0xff)]);
}
