/**
 * Adds, changes, ends and moves tasks over a real store until it is killed: `node tasks-child.js
 * <folder> <seed>`. It goes on from what is in the store, with two commits under way like a master,
 * and writes the number of each commit that is on the disk to descriptor 3.
 */
import { writeSync } from 'node:fs';
import { type NewTask, TaskRows } from '../../master/frontier/tasks/task-rows.ts';
import { openLmdbStore } from '../../master/store/lmdb.ts';
import { decodeTask, encodeTask, pageKind } from '../../master/store/records.ts';
import type { Row } from '../../master/store/store.ts';
import { taskKey } from '../../master/store/task-keys.ts';
import { randomUint32s } from './random.ts';

export const limits = { hostsMin: 20, perHost: 4, countMax: 300 };
export const doneKey = Buffer.from('commits');
const blank = { kind: pageKind, level: 0, depth: 0, priority: 0, notBefore: 0 };
const tasksCount = 60;
const hostsCount = 100;

/** The tasks that commit `at` adds, as they are after commit `done`: every fifth is changed three
 *  commits later, and every third has ended after six. */
export function tasksOf(seed: number, at: number, done: number): Row[] {
  return newTasksOf(seed, at, done).map(({ host, rank, seq, record }) => {
    return { key: taskKey(1, host.hash, rank, seq), value: encodeTask(record) };
  });
}

function newTasksOf(seed: number, at: number, done: number): NewTask[] {
  if (at < 1) return [];
  const random = randomUint32s(seed * 100_000 + at);
  const tasks: NewTask[] = [];
  for (let i = 0; i < tasksCount; i++) {
    const hash = Buffer.alloc(8);
    // The multiple of an odd number: spread over all hashes.
    hash.writeUInt32BE(Math.imul(random() % hostsCount, 0x9e3779b1) >>> 0);
    const host = { hash };
    const [rank, seq] = [random() % 3, at * tasksCount + i];
    const isEnded = i % 3 === 0 && at + 6 <= done;
    const isChanged = i % 5 === 0 && at + 3 <= done;
    const url = `http://a/${at}/${i}/${'.'.repeat(random() % 90)}`;
    const record = { ...blank, attempts: isChanged ? 1 : 0, url };
    if (!isEnded) tasks.push({ host, rank, seq, record });
  }
  return tasks;
}

async function main([folder = '', seedText = '1']: readonly string[]): Promise<void> {
  const seed = Number(seedText);
  const store = await openLmdbStore(folder);
  const rows = new TaskRows(store, limits);
  rows.restore(1);
  const ended: Promise<void>[] = [];
  for (let at = (store.get('meta', doneKey)?.readUInt32BE(0) ?? 0) + 1; ; at++) {
    const { changes, landed } = rows.added(1, newTasksOf(seed, at, at));
    const left: Buffer[] = [];
    for (const { key, value } of tasksOf(seed, at - 3, at)) {
      if (decodeTask(value).attempts === 0) continue;
      changes.push(...rows.changed(key, value));
      left.push(key);
    }
    const still = new Set(tasksOf(seed, at - 6, at).map(({ key }) => key.toString('hex')));
    for (const { key } of tasksOf(seed, at - 6, at - 1)) {
      if (still.has(key.toString('hex'))) continue;
      changes.push(rows.removed(key));
      left.push(key);
    }
    const move = rows.move(tasksCount);
    const number = Buffer.alloc(4);
    number.writeUInt32BE(at);
    changes.push(...(move?.changes ?? []), { table: 'meta', key: doneKey, value: number });
    ended.push(
      store.commit(changes).then(() => {
        for (const key of left) rows.gone(key);
        landed();
        move?.done();
        writeSync(3, `${at}\n`);
      }),
    );
    if (ended.length > 1) await ended.shift();
  }
}

if (process.argv[1] === new URL(import.meta.url).pathname) await main(process.argv.slice(2));
