/**
 * Keys of the table `tasks`: the tasks of a crawl by host, and in the order in which they are to be
 * fetched.
 *
 *     crawl u32 | host 8 | rank u32 | seq u48
 */
import { hostBytes } from './records.ts';

export const taskKeyBytes = 4 + hostBytes + 4 + 6;

export function taskKey(crawl: number, host: Uint8Array, rank: number, seq: number): Buffer {
  const key = Buffer.allocUnsafe(taskKeyBytes);
  writeTaskKey(key, 0, crawl, { host: { hash: host }, rank, seq });
  return key;
}

type TaskPlace = {
  readonly host: { readonly hash: Uint8Array };
  readonly rank: number;
  readonly seq: number;
};

/** The keys of tasks, one behind the other in one piece of memory: an object for each would be
 *  copied by the collector for as long as their commit is under way. */
export function taskKeys(crawl: number, tasks: readonly TaskPlace[]): Buffer {
  const keys = Buffer.allocUnsafeSlow(tasks.length * taskKeyBytes);
  for (const [i, task] of tasks.entries()) writeTaskKey(keys, i * taskKeyBytes, crawl, task);
  return keys;
}

function writeTaskKey(
  into: Buffer,
  at: number,
  crawl: number,
  { host: { hash }, rank, seq }: TaskPlace,
): void {
  into.writeUInt32BE(crawl, at);
  for (let i = 0; i < hostBytes; i++) into[at + 4 + i] = hash[i] ?? 0;
  into.writeUInt32BE(rank, at + 4 + hostBytes);
  into.writeUIntBE(seq, at + 8 + hostBytes, 6);
}

type TaskKeyParts = { crawl: number; host: Buffer; rank: number; seq: number };

/** Undefined when the bytes cannot be a task key. */
export function parseTaskKey(key: Buffer): TaskKeyParts | undefined {
  if (key.length !== taskKeyBytes) return undefined;
  return {
    crawl: key.readUInt32BE(0),
    host: key.subarray(4, 4 + hostBytes),
    rank: key.readUInt32BE(4 + hostBytes),
    seq: key.readUIntBE(8 + hostBytes, 6),
  };
}
