/** Acknowledged queues: delays, limits of holding, dead letters.
 *  Source: PROTOCOL.md ..[Q-23]. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { connect, QueueItem } from '../../shared/client.ts';
import { memoryPeak } from '../support/memory.ts';
import type { Message, RawPeer } from '../support/raw-peer.ts';
import { Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());

type Item = { readonly id: number; readonly value: Buffer; readonly attempts?: number };

async function get(peer: RawPeer, queue: string, body: Message = {}): Promise<Item[]> {
  return (await peer.must('queue.get', { queue, ...body }))['items'] as Item[];
}

const put = (peer: RawPeer, queue: string, numbers: readonly number[], more: Message = {}) =>
  peer.must('queue.put', { queue, items: numbers.map((n) => Buffer.from([n])), ...more });
const numbers = (items: readonly Item[]) => items.map(({ value }) => value[0]);
const sizes = async (peer: RawPeer, queue: string) => {
  const { size, delayed } = await peer.must('queue.size', { queue });
  return [size, delayed];
};

test('[Q-20] delayed items enter when they are due, also after a kill of the master', async (t) => {
  const peer = await target.join();
  const queue = target.name();
  await put(peer, queue, [1], { delayMs: 3_000 });
  await put(peer, queue, [2]);
  assert.deepEqual(await sizes(peer, queue), [1, 1]);
  assert.deepEqual(numbers(await get(peer, queue, { count: 9 })), [2]);
  assert.deepEqual(numbers(await get(peer, queue, { waitMs: 10_000 })), [1]);
  assert.deepEqual(await sizes(peer, queue), [0, undefined]);
  await peer.close();
  if (target.process(t) === undefined) return;
  const before = await target.join();
  await put(before, `${queue}2`, [3, 4], { delayMs: 1_500 });
  await put(before, `${queue}2`, [5], { delayMs: 86_400_000 });
  await target.restart('SIGKILL');
  const next = await target.join();
  assert.deepEqual(numbers(await get(next, `${queue}2`, { waitMs: 10_000 })), [3]);
  assert.deepEqual(numbers(await get(next, `${queue}2`, { waitMs: 10_000 })), [4]);
  assert.deepEqual(await sizes(next, `${queue}2`), [0, 1]);
  await next.close();
});

test('[Q-21] items that are held for too long return', async () => {
  const [a, b] = [await target.join(), await target.join()];
  const queue = target.name();
  await put(a, queue, [1, 2]);
  const [first, second] = await get(a, queue, { count: 2, holdMs: 200 });
  await a.must('queue.done', { queue, items: [second?.id] });
  const [again] = await get(b, queue, { waitMs: 10_000 });
  assert.equal(again?.id, first?.id);
  // It is no longer its own.
  await a.must('queue.done', { queue, items: [first?.id] });
  await b.close();
  assert.deepEqual(numbers(await get(a, queue, { waitMs: 10_000 })), [1]);
  await a.close();
});

test('[Q-22] returns are counted, and dead letters have a queue of their own', async (t) => {
  const peer = await target.join();
  const queue = target.name();
  await put(peer, queue, [7]);
  const holder = await target.join();
  assert.deepEqual((await get(holder, queue, { attempts: 3 }))[0]?.attempts, undefined);
  await holder.close();
  const [once] = await get(peer, queue, { attempts: 3, waitMs: 10_000 });
  assert.equal(once?.attempts, 1);
  await peer.must('queue.release', { queue, items: [once?.id] });
  const [twice] = await get(peer, queue, { attempts: 3, waitMs: 10_000 });
  assert.equal(twice?.attempts, 2);
  await peer.must('queue.release', { queue, items: [twice?.id] });
  assert.deepEqual(numbers(await get(peer, `${queue}.dead`, { waitMs: 10_000 })), [7]);
  assert.deepEqual(await sizes(peer, queue), [0, undefined]);
  await peer.close();
  if (target.process(t) === undefined) return;
  const before = await target.join();
  await put(before, `${queue}3`, [8]);
  const [one] = await get(before, `${queue}3`, { attempts: 2 });
  await before.must('queue.release', { queue: `${queue}3`, items: [one?.id] });
  await target.restart('SIGKILL');
  const next = await target.join();
  assert.deepEqual((await get(next, `${queue}3`, { attempts: 2 }))[0]?.attempts, 1);
  await next.close();
});

test('[Q-23] a session gives back what it holds, at once or later', async () => {
  const peer = await target.join();
  const queue = target.name();
  await put(peer, queue, [1, 2, 3]);
  const [one, two] = await get(peer, queue, { count: 2 });
  await peer.must('queue.release', { queue, items: [one?.id, 999_999] });
  await peer.must('queue.release', { queue, items: [two?.id], delayMs: 200 });
  assert.deepEqual(await sizes(peer, queue), [2, 1]);
  assert.deepEqual(numbers(await get(peer, queue, { count: 9 })), [1, 3]);
  assert.deepEqual(numbers(await get(peer, queue, { waitMs: 10_000 })), [2]);
  await peer.close();
});

test('[Q-8] the library: at most once by a plain get, at least once with ack', async () => {
  const { host, port, authkey } = target;
  const master = await connect({ host, port, authkey });
  const queue = master.queue(target.name());
  await queue.put('a', 'b', 'c', 'd');
  assert.deepEqual(await queue.get({ count: 2 }), ['a', 'b']);
  const other = await connect({ host, port, authkey });
  const item = await other.queue(queue.name).get({ ack: true, attempts: 2 });
  assert.ok(item instanceof QueueItem);
  assert.deepEqual([item.value, item.attempts], ['c', 0]);
  await other.close();
  const items = await queue.get({ ack: true, attempts: 2, count: 9, timeoutMs: 10_000 });
  assert.deepEqual(
    items.map(({ value, attempts }) => [value, attempts]),
    [
      ['c', 1],
      ['d', 0],
    ],
  );
  await items[0]?.release();
  await items[1]?.done();
  assert.equal(await queue.dead.get({ timeoutMs: 10_000 }), 'c');
  assert.deepEqual(await queue.get({ count: 5 }), []);
  await queue.putLater(100, 'later');
  assert.equal(await queue.get({ timeoutMs: 10_000 }), 'later');
  await master.close();
});

test('[Q-22] counts stay with their items over a kill of the master', async (t) => {
  if (target.process(t) === undefined) return;
  const peer = await target.join();
  const queue = target.name();
  await put(peer, queue, [1, 2, 3, 4]);
  const items = await get(peer, queue, { count: 4, attempts: 5 });
  const ids = items.map(({ id }) => id);
  await peer.must('queue.done', { queue, items: [ids[0], ids[2]] });
  await peer.must('queue.release', { queue, items: [ids[1]] });
  await target.restart('SIGKILL');
  const next = await target.join();
  const again = await get(next, queue, { count: 9, attempts: 5 });
  assert.deepEqual(
    again.map(({ value, attempts }) => [value[0], attempts]),
    [
      [2, 1],
      [4, undefined],
    ],
  );
  await next.close();
});

test('[Q-21] items that are done leave memory before their time is over', async (t) => {
  const program = target.process(t);
  if (program === undefined) return;
  const peer = await target.join();
  const queue = target.name();
  const items = new Array(1_000).fill(Buffer.alloc(8_000, 1));
  await using memory = memoryPeak(program.pid);
  for (let round = 0; round < 40; round++) {
    await peer.must('queue.put', { queue, items });
    const got = await get(peer, queue, { count: 1_000, holdMs: 3_600_000 });
    await peer.must('queue.done', { queue, items: got.map(({ id }) => id) });
  }
  // Of 320 MB.
  assert.ok(memory.grownBytes() < 160e6, `${memory.grownBytes() / 1e6} MB`);
  await peer.close();
});

test('[X-1] a shorter delay before a million longer ones holds up no other', async () => {
  const [peer, other] = [await target.join(), await target.join()];
  const queue = target.name();
  const items = new Array(10_000).fill(Buffer.from([1]));
  for (let n = 0; n < 60; n++) await peer.must('queue.put', { queue, items, delayMs: 86_400_000 });
  const started = performance.now();
  const sent = peer.must('queue.put', { queue, items, delayMs: 3_600_000 });
  await new Promise((resolve) => setTimeout(resolve, 5));
  await other.must('ping');
  const tookMs = performance.now() - started;
  await sent;
  assert.ok(tookMs < 2_000, `${tookMs} ms`);
  await Promise.all([peer.close(), other.close()]);
});
