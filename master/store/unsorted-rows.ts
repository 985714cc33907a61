/**
 * Rows of the table `unsorted`: new tasks of crawls with many hosts. In `tasks` each host has a
 * leaf of its own, so that a commit of 4,000 links to as many hosts would rewrite 4,000 leaves.
 * Here the tasks are in order of arrival on 64 *shelves*, and go to `tasks` later, many of a host
 * at once.
 *
 *     crawl u32 | shelf u8 | seq u48 | host 8 | rank u32 -> TaskRecord
 *
 * The shelf is the first six bits of the host's hash, so that the tasks of a host are close to each
 * other. A task is in one of both tables; its move is part of one transaction. A reader of both
 * must read `unsorted` first: a move in between shows a task twice rather than never. Everything
 * else names a task by its key in `tasks`, wherever it is.
 */
import { crawlKey, hostBytes } from './records.ts';
import { batches, type Row, type Rows } from './store.ts';
import { taskKey, taskKeyBytes } from './task-keys.ts';

/** Where open tasks are, in the order in which they are to be read. */
export const taskTables = ['unsorted', 'tasks'] as const;

const keyBytes = 4 + 1 + 6 + hostBytes + 4;
/** Of the first byte of a host's hash, six bits are the shelf. */
const shelfShift = 2;
const [seqAt, hostAt, rankAt] = [5, 11, 11 + hostBytes];

/** The key in `unsorted` of a task, by its key in `tasks`. */
export function unsortedKey(key: Uint8Array): Buffer {
  const made = Buffer.allocUnsafe(keyBytes);
  // By hand: each `subarray` would be one more object of each new link.
  for (let i = 0; i < 4; i++) made[i] = key[i] ?? 0;
  made[4] = (key[4] ?? 0) >>> shelfShift;
  for (let i = 0; i < 6; i++) made[seqAt + i] = key[taskKeyBytes - 6 + i] ?? 0;
  for (let i = 0; i < hostBytes + 4; i++) made[hostAt + i] = key[4 + i] ?? 0;
  return made;
}

/** The same of a new task. */
export function newUnsortedKey(crawl: number, host: Buffer, rank: number, seq: number): Buffer {
  const key = Buffer.allocUnsafe(keyBytes);
  key.writeUInt32BE(crawl, 0);
  key[4] = (host[0] ?? 0) >>> shelfShift;
  key.writeUIntBE(seq, seqAt, 6);
  for (let i = 0; i < hostBytes; i++) key[hostAt + i] = host[i] ?? 0;
  key.writeUInt32BE(rank, rankAt);
  return key;
}

/** Undefined: it is no key of the table. */
function parseUnsortedKey(key: Buffer) {
  if (key.length !== keyBytes || key[4] !== (key[hostAt] ?? 0) >>> shelfShift) return undefined;
  return {
    crawl: key.readUInt32BE(0),
    host: key.subarray(hostAt, rankAt),
    rank: key.readUInt32BE(rankAt),
    seq: key.readUIntBE(seqAt, 6),
  };
}

/** The key in `tasks` of a task, by its key here; undefined: it is none. */
export function taskKeyOf(key: Buffer): Buffer | undefined {
  const parts = parseUnsortedKey(key);
  return parts && taskKey(parts.crawl, parts.host, parts.rank, parts.seq);
}

/** Returns the record of an open task; undefined: it is done. */
export function readTask(rows: Pick<Rows, 'get'>, key: Uint8Array): Buffer | undefined {
  return rows.get('unsorted', unsortedKey(key)) ?? rows.get('tasks', key);
}

/** The tasks of a host in `unsorted`, by a key of it in `tasks`, in the order of such keys. It
 *  reads a shelf: the master that runs has an index, see `frontier/tasks/task-rows.ts`. */
export function unsortedOf(rows: Rows, of: Uint8Array): Row[] {
  const shelf = unsortedKey(of).subarray(0, seqAt);
  const host = of.subarray(4, 4 + hostBytes);
  const all = { from: shelf, to: Buffer.concat([shelf, Buffer.alloc(keyBytes, 0xff)]) };
  const found: Row[] = [];
  for (const key of rows.keys('unsorted', all)) {
    if (!key.subarray(hostAt, rankAt).equals(host)) continue;
    const [named, value] = [taskKeyOf(key), rows.get('unsorted', key)];
    if (named !== undefined && value !== undefined) found.push({ key: named, value });
  }
  return found.sort((a, b) => a.key.compare(b.key));
}

/** Two lists of rows as one, in the order of keys. A row of both counts once. */
export function merged(a: readonly Row[], b: readonly Row[]): Row[] {
  const rows: Row[] = [];
  let [i, j] = [0, 0];
  for (let [x, y] = [a[i], b[j]]; x !== undefined || y !== undefined; x = a[i], y = b[j]) {
    const order = x === undefined ? 1 : y === undefined ? -1 : x.key.compare(y.key);
    const next = order <= 0 ? x : y;
    if (order <= 0) i++;
    if (order >= 0) j++;
    if (next !== undefined) rows.push(next);
  }
  return rows;
}

/** All open tasks of a crawl, in batches, in no particular order. In a store that is written
 *  meanwhile, some may come twice: give a snapshot. */
export function* taskBatches(rows: Rows, crawl: number, limit: number): Generator<Row[]> {
  const all = { from: crawlKey(crawl), to: crawlKey(crawl + 1) };
  for (const found of batches(rows, 'unsorted', all, limit)) {
    yield found.map(({ key, value }) => ({ key: taskKeyOf(key) ?? key, value }));
  }
  yield* batches(rows, 'tasks', all, limit);
}
