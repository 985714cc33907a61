/**
 * A process to be killed: commits to a store as fast as it can, and says what was acknowledged.
 * Before the commit `pauseAt` it waits for SIGUSR2.
 */
import { once } from 'node:events';
import { openLmdbStore } from '../../master/store/lmdb.ts';
import type { Change } from '../../master/store/store.ts';

const [folder = '', from = '0', pauseAt = 'NaN'] = process.argv.slice(2);
const alive = setInterval(() => {}, 1_000);
const goOn = once(process, 'SIGUSR2').then(() => clearInterval(alive));
const store = await openLmdbStore(folder);
const keysPerCommit = 40;

async function commit(n: number): Promise<void> {
  const changes: Change[] = Array.from({ length: keysPerCommit }, (_, i) => ({
    table: i % 2 === 0 ? 'items' : 'tasks',
    key: Buffer.from(`${String(n).padStart(8, '0')}/${i}`),
    value: Buffer.alloc(i * 37, n & 0xff),
  }));
  await store.commit(changes);
  process.stdout.write(`${n}\n`);
}

// Three under way at any time, as in a master.
let next = Number(from);
await Promise.all(
  [0, 1, 2].map(async () => {
    while (true) {
      if (next === Number(pauseAt)) await goOn;
      await commit(next++);
    }
  }),
);
