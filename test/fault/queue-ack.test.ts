/** Queues while masters and takers are killed: with acknowledgement nothing is lost, and without it
 *  nothing comes twice. */
import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '../../shared/client.ts';
import { Cluster, root } from '../support/cluster.ts';

const timeout = 90_000;
const count = 240;
/** These are given back each time. */
const poison = 12;

/** Writes down what it got; of the queue `sure` before it says `done`. */
const taker = `import { appendFileSync } from 'node:fs';
import { connect } from 'orbweaver';
const [, , port, authkey, folder] = process.argv;
const how = { ack: true, count: 4, attempts: 6, holdMs: 10_000, timeoutMs: 10 };
const write = (name, value) => appendFileSync(folder + '/' + name, value + '\\n');
while (true) {
  let master;
  try {
    master = await connect({ host: '127.0.0.1', port: Number(port), authkey });
    const [sure, once] = [master.queue('sure'), master.queue('once')];
    while (true) {
      for (const item of await sure.get(how)) {
        if (item.value % ${poison} === 0) await item.release({ delayMs: 20 });
        else {
          write('sure', item.value);
          await item.done();
        }
      }
      const value = await once.get();
      if (value !== undefined) write('once', value);
    }
  } catch {
    await new Promise((resolve) => setTimeout(resolve, 20));
  } finally {
    await master?.close().catch(() => {});
  }
}
`;

test('queues: kill -9 of masters and takers: nothing lost with ack, nothing twice without', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  let master = await cluster.master([]);
  const { address, authkey } = cluster;
  const port = Number(address.split(':').at(-1));
  mkdirSync(join(cluster.folder, 'node_modules'));
  symlinkSync(root, join(cluster.folder, 'node_modules', 'orbweaver'));
  const path = join(cluster.folder, 'taker.mjs');
  writeFileSync(path, taker);
  const numbersIn = (name: string) =>
    readFileSync(join(cluster.folder, name), 'utf8').split('\n').filter(Boolean).map(Number);
  for (const name of ['sure', 'once']) appendFileSync(join(cluster.folder, name), '');
  const all = Array.from({ length: count }, (_, i) => i + 1);
  const there = () => connect({ host: '127.0.0.1', port, authkey });
  const first = await there();
  await Promise.all(['sure', 'once'].map((name) => first.queue(name).put(...all)));
  await first.close();
  const start = () =>
    cluster.run([relative(root, path), String(port), String(authkey), cluster.folder]);
  const takers = [start(), start()];
  for (let kills = 1; kills <= 4; kills++) {
    while (new Set(numbersIn('sure')).size < (count * kills) / 6) await sleep(5);
    const [one] = kills % 2 === 0 ? takers.splice(0, 1, start()) : [master];
    await one?.kill('SIGKILL');
    if (one === master) master = await cluster.master([], { listen: address });
  }
  const dead = all.filter((n) => n % poison === 0);
  const last = await there();
  while ((await last.queue('sure').dead.size()) < dead.length) await sleep(20);
  while (new Set(numbersIn('sure')).size < count - dead.length) await sleep(20);
  while ((await last.queue('once').size()) > 0) await sleep(20);
  await last.close();
  for (const one of takers) await one.kill('SIGKILL');
  await master.kill('SIGKILL');
  await cluster.master([], { listen: address });
  assert.deepEqual(
    [...new Set(numbersIn('sure'))].sort((a, b) => a - b),
    all.filter((n) => n % poison !== 0),
  );
  const once = numbersIn('once');
  assert.equal(new Set(once).size, once.length, 'a value twice');
  assert.ok(once.length > count / 2, `${once.length} of ${count}`);
  const next = await there();
  const letters = await next.queue('sure').dead.get({ count: 2 * count });
  // A kill may leave one in both queues.
  assert.deepEqual(
    [...new Set(letters.map(Number))].sort((a, b) => a - b),
    dead,
  );
  await next.close();
});
