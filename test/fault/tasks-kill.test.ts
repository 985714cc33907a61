/** Kills a process that fills the tables of tasks, again and again, while it moves tasks. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { TaskRows } from '../../master/frontier/tasks/task-rows.ts';
import { checkStore } from '../../master/repair/check.ts';
import { openLmdbStore, storeFile } from '../../master/store/lmdb.ts';
import { afterPrefix, crawlKey } from '../../master/store/records.ts';
import type { Row } from '../../master/store/store.ts';
import { parseTaskKey, taskKey } from '../../master/store/task-keys.ts';
import { taskBatches } from '../../master/store/unsorted-rows.ts';
import { doneKey, limits, tasksOf } from '../support/tasks-child.ts';

const program = fileURLToPath(new URL('../support/tasks-child.js', import.meta.url));
const rounds = Number(process.env['KILL_ROUNDS'] ?? 5);
const seed = Number(process.env['SEED'] ?? randomInt(1 << 14));

test(`tasks: kill -9 leaves each in one table, in ${rounds} rounds (seed ${seed})`, {
  timeout: 170_000,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orb-tasks-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  for (let round = 0; round < rounds; round++) {
    const acknowledged = await killed(folder, 10 + ((seed + round * 7) % 20));
    assert.equal(checkStore(storeFile(folder)), undefined, `round ${round}`);
    const store = await openLmdbStore(folder);
    const done = store.get('meta', doneKey)?.readUInt32BE(0) ?? 0;
    assert.ok(done >= acknowledged, 'what is acknowledged is on the disk');
    const expected = Array.from({ length: done }, (_, i) => tasksOf(seed, i + 1, done)).flat();
    const rows = new TaskRows(store, limits);
    rows.restore(1);
    assert.deepEqual(texts([...taskBatches(store, 1, 100)].flat()), texts(expected));
    assert.deepEqual(texts(byHost(rows)), texts(expected), `round ${round}: by their hosts`);
    const unsorted = store.keys('unsorted', { from: crawlKey(1), to: crawlKey(2) }).length;
    assert.ok(unsorted > 0 && unsorted < limits.countMax * 3, `${unsorted} are not sorted`);
    await store.close();
  }
});

/** All tasks, as the queues of their hosts read them. */
function byHost(rows: TaskRows): Row[] {
  const found: Row[] = [];
  for (let from = crawlKey(1); ; ) {
    const host = parseTaskKey(rows.firstFrom(1, from)?.key ?? Buffer.alloc(0))?.host;
    if (host === undefined) return found;
    found.push(...rows.ofHost(1, host, { from: taskKey(1, host, 0, 0), limit: 1e6 }));
    from = afterPrefix(Buffer.concat([crawlKey(1), host]));
  }
}

function texts(rows: readonly Row[]): string[] {
  return rows.map(({ key, value }) => `${key.toString('hex')} ${value.toString()}`).sort();
}

/** Runs the child until so many more commits are on the disk. Returns the number of the last. */
async function killed(folder: string, commits: number): Promise<number> {
  const args = [program, folder, `${seed}`];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit', 'pipe'] });
  let last = 0;
  let said = 0;
  child.stdio[3]?.on('data', (text: Buffer) => {
    for (const line of text.toString('latin1').split('\n').filter(Boolean)) {
      last = Number(line);
      if (++said === commits) child.kill('SIGKILL');
    }
  });
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  assert.equal(signal, 'SIGKILL', `it ended by ${code}`);
  return last;
}
