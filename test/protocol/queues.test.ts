/** User queues. Source: PROTOCOL.md ..[Q-9]. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { connect } from '../../shared/client.ts';
import { pack } from '../support/msgpack.ts';
import { frameOf, type Message, type RawPeer } from '../support/raw-peer.ts';
import { Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());

type Item = { readonly id: number; readonly value: Buffer };

const bytes = (...numbers: number[]) => numbers.map((n) => Buffer.from([n]));

async function get(peer: RawPeer, queue: string, body: Message = {}): Promise<Item[]> {
  return (await peer.must('queue.get', { queue, ...body }))['items'] as Item[];
}

const numbers = (items: readonly Item[]) => items.map(({ value }) => value[0]);

/** Leaves nothing behind on a live master. */
async function empty(peer: RawPeer, queue: string): Promise<void> {
  while (true) {
    const items = await get(peer, queue, { count: 10_000 });
    if (items.length === 0) return;
    await peer.must('queue.done', { queue, items: items.map(({ id }) => id) });
  }
}

async function size(peer: RawPeer, queue: string): Promise<unknown> {
  return (await peer.must('queue.size', { queue }))['size'];
}

test('[Q-1] put appends and answers with the size when it is on the disk', async (t) => {
  const peer = await target.join();
  const queue = target.name();
  const name = `q${queue}`.replaceAll('-', '_');
  assert.equal((await peer.must('queue.put', { queue: name, items: bytes(1, 2) }))['size'], 2);
  assert.equal((await peer.must('queue.put', { queue: name, items: bytes(3) }))['size'], 3);
  if (target.process(t) === undefined) {
    await empty(peer, name);
    await peer.close();
    return;
  }
  await target.restart('SIGKILL');
  const after = await target.join();
  assert.equal(await size(after, name), 3);
  assert.deepEqual(numbers(await get(after, name, { count: 10 })), [1, 2, 3]);
  await after.close();
});

test('[Q-2] get gives the oldest first, to one session each, at most `count`', async () => {
  const [a, b] = [await target.join(), await target.join()];
  const queue = target.name();
  await a.must('queue.put', { queue, items: bytes(1, 2, 3, 4, 5) });
  assert.deepEqual(numbers(await get(a, queue, { count: 2 })), [1, 2]);
  assert.deepEqual(numbers(await get(b, queue)), [3]);
  assert.deepEqual(numbers(await get(a, queue, { count: 100 })), [4, 5]);
  assert.deepEqual(await get(b, queue), []);
  await a.must('queue.done', { queue, items: [1, 2, 4, 5] });
  await b.must('queue.done', { queue, items: [3] });
  await a.close();
  await b.close();
});

test('[Q-2] get waits up to waitMs for the first item', async () => {
  const [a, b] = [await target.join(), await target.join()];
  const queue = target.name();
  const begun = performance.now();
  assert.deepEqual(await get(a, queue, { waitMs: 300 }), []);
  assert.ok(performance.now() - begun >= 290);
  const waiting = get(a, queue, { waitMs: 60_000, count: 5 });
  await a.sync();
  await b.must('queue.put', { queue, items: bytes(7, 8) });
  assert.deepEqual(numbers(await waiting), [7, 8]);
  await a.must('queue.done', { queue, items: [1, 2] });
  await a.close();
  await b.close();
});

test('[Q-2] those that wait are served in the order they asked', async () => {
  const peers = [await target.join(), await target.join(), await target.join()];
  const queue = target.name();
  const order: number[] = [];
  const waiting: Promise<unknown>[] = [];
  for (const [i, peer] of peers.entries()) {
    waiting.push(get(peer, queue, { waitMs: 60_000 }).then((items) => order.push(i, items.length)));
    await peer.sync();
  }
  const putter = await target.join();
  for (let i = 0; i < 3; i++) await putter.must('queue.put', { queue, items: bytes(i) });
  await Promise.all(waiting);
  assert.deepEqual(order, [0, 1, 1, 1, 2, 1]);
  for (const [i, peer] of peers.entries()) {
    await peer.must('queue.done', { queue, items: [i + 1] });
    await peer.close();
  }
  await putter.close();
});

test('[Q-3] done forgets an item for good; one that is not held is ignored', async (t) => {
  const peer = await target.join();
  const queue = target.name();
  await peer.must('queue.put', { queue, items: bytes(1, 2) });
  const [first] = await get(peer, queue);
  const other = await target.join();
  await other.must('queue.done', { queue, items: [first?.id ?? 0, 999] }); // not its own
  await other.must('queue.done', { queue: target.name(), items: [1] }); // no such queue
  await peer.must('queue.done', { queue, items: [first?.id ?? 0, 999] });
  await peer.close();
  let after = other;
  if (target.process(t) !== undefined) {
    await target.restart('SIGKILL');
    after = await target.join();
  }
  const rest = await get(after, queue, { count: 10 });
  assert.deepEqual(numbers(rest), [2]);
  await after.must('queue.done', { queue, items: rest.map(({ id }) => id) });
  await after.close();
});

test('[Q-4] size counts what waits, not what is held; 0 for a queue nobody has used', async () => {
  const peer = await target.join();
  const queue = target.name();
  assert.equal(await size(peer, queue), 0);
  await peer.must('queue.put', { queue, items: bytes(1, 2, 3) });
  await get(peer, queue);
  assert.equal(await size(peer, queue), 2);
  await peer.close();
  const other = await target.join();
  assert.equal(await size(other, queue), 3);
  await empty(other, queue);
  assert.equal(await size(other, queue), 0);
  await other.close();
});

test('[Q-5] an item is any bytes, 1 MiB at most, and comes back as it was', async () => {
  const peer = await target.join();
  const queue = target.name();
  // The third one begins as a pickle does.
  const odd = [Buffer.from([0xc1, 0xff]), Buffer.from([0x80, 0])];
  const items = [Buffer.alloc(0), ...odd, Buffer.alloc(1 << 20, 9)];
  await peer.must('queue.put', { queue, items });
  const got = await get(peer, queue, { count: 4 });
  assert.deepEqual(
    got.map(({ value }) => value),
    items,
  );
  await peer.must('queue.done', { queue, items: got.map(({ id }) => id) });
  const tooLong = [Buffer.from([1]), Buffer.alloc((1 << 20) + 1)];
  assert.equal((await peer.request('queue.put', { queue, items: tooLong })).error, 'E_BAD_REQUEST');
  assert.equal(await size(peer, queue), 0);
  await peer.close();
});

test('[Q-6] a reply to get is at most 16 MiB of items', async () => {
  const peer = await target.join();
  const queue = target.name();
  const items = new Array(20).fill(Buffer.alloc(1 << 20, 1));
  await peer.must('queue.put', { queue, items });
  await peer.must('queue.put', { queue, items });
  let total = 0;
  while (total < 40) {
    const got = await get(peer, queue, { count: 10_000 });
    assert.ok(got.length >= 1 && got.length <= 16, `${got.length} MiB`);
    await peer.must('queue.done', { queue, items: got.map(({ id }) => id) });
    total += got.length;
  }
  await peer.close();
});

test('[Q-7] a session that holds 64 MiB gets E_QUEUE_FULL until it says done', async () => {
  const peer = await target.join();
  const queue = target.name();
  const items = new Array(30).fill(Buffer.alloc(1 << 20, 1));
  for (let i = 0; i < 3; i++) await peer.must('queue.put', { queue, items });
  const held: number[] = [];
  let refused: string | undefined;
  while (refused === undefined) {
    const reply = await peer.request('queue.get', { queue, count: 100 });
    refused = reply.error;
    held.push(...((reply['items'] ?? []) as Item[]).map(({ id }) => id));
  }
  assert.equal(refused, 'E_QUEUE_FULL');
  assert.ok(held.length >= 60 && held.length < 90, `${held.length} MiB`);
  await peer.must('queue.done', { queue, items: held });
  await empty(peer, queue);
  await peer.close();
});

test('[Q-7] at most 256 requests of a session wait', async () => {
  const peer = await target.join();
  const queue = target.name();
  const frames: Buffer[] = [];
  for (let id = 1001; id <= 1257; id++) {
    frames.push(frameOf(pack({ verb: 'queue.get', id, queue, waitMs: 60_000 })));
  }
  peer.write(Buffer.concat(frames));
  assert.equal((await peer.reply(1257)).error, 'E_QUEUE_FULL');
  await peer.must('queue.put', { queue, items: bytes(1) });
  assert.equal(((await peer.reply(1001))['items'] as Item[]).length, 1);
  await peer.must('queue.done', { queue, items: [1] });
  await peer.close();
});

test('[Q-8] the library: put, get with a time-out, size, over sessions of its own', async () => {
  const { host, port, authkey } = target;
  await using a = await connect({ host, port, authkey });
  await using b = await connect({ host, port, authkey });
  const queue = target.name();
  const values = [{ n: 1 }, 'text', 7, null, [1, [2]], Buffer.from('bytes')];
  assert.equal(await a.queue(queue).put(...values), values.length);
  assert.equal(await b.queue(queue).size(), values.length);
  const got: unknown[] = [];
  for (let i = 0; i < values.length; i++) got.push(await b.queue(queue).get());
  assert.deepEqual(got, values);
  assert.equal(await a.queue(queue).get({ timeoutMs: 50 }), undefined);
  const waiting = a.queue(queue).get({ timeoutMs: Number.POSITIVE_INFINITY });
  await b.queue(queue).put('late');
  assert.equal(await waiting, 'late');
  // More than the master takes in one frame goes in several.
  const many = new Array(40).fill(Buffer.alloc(1_000_000));
  assert.equal(await a.queue(queue).put(...many), 40);
  for (let i = 0; i < 40; i++) await b.queue(queue).get();
  // A single request that is too long is refused here, and the session goes on.
  await assert.rejects(a.request('queue.put', { queue, items: many }), { code: 'E_BAD_REQUEST' });
  assert.equal(await a.queue(queue).size(), 0);
});

test('[Q-9] a master that stops answers those that wait, and takes no more items', async (t) => {
  const program = target.process(t);
  if (program === undefined) return;
  const peer = await target.join();
  const queue = target.name();
  const waiting = get(peer, queue, { waitMs: 60_000 });
  await peer.sync();
  program.child.kill('SIGTERM');
  assert.deepEqual(await waiting, []);
  assert.equal(await peer.ended, 'fin');
  assert.deepEqual(await program.exited, { code: 0, signal: null });
  await target.restart();
});
