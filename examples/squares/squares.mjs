// 24 numbers squared by 2 processes x 3 threads x 4 coroutines that share two queues of a master:
// node squares.mjs. A number whose taker is killed goes to another.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isMainThread, Worker } from 'node:worker_threads';
import { connect } from 'orbweaver';

const program = fileURLToPath(import.meta.url);
const join = () =>
  connect({
    host: '127.0.0.1',
    port: 6666,
    authkey: readFileSync('orb-data/authkey', 'utf8').trim(),
  });

async function coroutine(master) {
  while (true) {
    const item = await master.queue('numbers').get({ ack: true, timeoutMs: 60_000 });
    if (item === undefined) return;
    const { value } = item;
    if (value !== 'end') await master.queue('squares').put({ value, square: value * value });
    await item.done();
    if (value === 'end') return;
  }
}

if (!isMainThread) {
  const master = await join();
  await Promise.all([1, 2, 3, 4].map(() => coroutine(master)));
  await master.close();
} else if (process.send) {
  const threads = [1, 2, 3].map(() => new Worker(program));
  await Promise.all(threads.map((thread) => once(thread, 'exit')));
  process.disconnect();
} else {
  const master = await join();
  const processes = [1, 2].map(() => fork(program));
  await master.queue('numbers').put(...Array.from({ length: 24 }, (_, i) => i + 1));
  const squares = new Map();
  while (squares.size < 24) {
    const { value, square } = await master.queue('squares').get({ timeoutMs: 60_000 });
    squares.set(value, square);
  }
  await master.queue('numbers').put(...Array.from({ length: 24 }, () => 'end'));
  await Promise.all(processes.map((one) => once(one, 'exit')));
  const sum = [...squares.values()].reduce((a, b) => a + b);
  console.log(`${squares.size} squares, their sum is ${sum}`);
  await master.close();
}
