/** Flow control and limits of number. Source: PROTOCOL.md [P-1]..[P-3], [L-1]. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { after, afterEach, test } from 'node:test';
import { PyDict, PyTuple } from '../../master/python/pickle/values.ts';
import { writePickle } from '../../master/python/pickle/writer.ts';
import { memoryPeak } from '../support/memory.ts';
import { pack } from '../support/msgpack.ts';
import { PythonPeer } from '../support/python-peer.ts';
import { answerTo, frameOf, RawPeer } from '../support/raw-peer.ts';
import { page, pushed } from '../support/raw-slave.ts';
import { Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

const mebi = 1 << 20;

test('[P-1] reports faster than the disk wait in TCP, and all are acknowledged', async (t) => {
  const program = target.process(t);
  const slave = await target.slave(t, 24);
  if (program === undefined || slave === undefined) return;
  const seeds = Array.from({ length: 24 }, () => target.seed());
  await target.crawl(slave, seeds);
  const tasks = await pushed(slave);
  while (tasks.length < 24) tasks.push(...(await pushed(slave)));
  await slave.must('task.credit', { count: 0 });
  const links = Buffer.alloc(15 * mebi, `${seeds[0]}${'x'.repeat(200)}\n`);
  await using memory = memoryPeak(program.pid);
  const replies = tasks.map(({ task, lease, url }) =>
    slave.must('task.report', { task, lease, result: pack(page(url)), images: pack([]), links }),
  );
  for (const reply of await Promise.all(replies)) assert.equal(reply['state'], 'done');
  assert.ok(memory.grownBytes() < 320 * mebi, `${memory.grownBytes() / mebi} MiB`);
  await slave.close();
});

test('[P-2] requests faster than the disk wait in TCP, and all are answered', async (t) => {
  const program = target.process(t);
  if (program === undefined) return;
  const peer = await target.join();
  const queue = target.name();
  const items = new Array(30).fill(Buffer.alloc(mebi, 1));
  await using memory = memoryPeak(program.pid);
  const replies: Promise<unknown>[] = [];
  for (let i = 0; i < 25; i++) replies.push(peer.must('queue.put', { queue, items }));
  await Promise.all(replies);
  // Much less than the 750 MiB that were sent.
  assert.ok(memory.grownBytes() < 500 * mebi, `${memory.grownBytes() / mebi} MiB`);
  assert.equal((await peer.must('queue.size', { queue }))['size'], 750);
  await peer.close();
});

test('[P-2] any number of requests may be sent at once', async () => {
  const peer = await target.join();
  const frames: Buffer[] = [];
  for (let id = 1; id <= 20_000; id++) frames.push(frameOf(pack({ verb: 'ping', id })));
  peer.write(Buffer.concat(frames));
  await Promise.all([peer.reply(1), peer.reply(10_000), peer.reply(20_000)]);
  await peer.close();
});

test('[P-3] a peer that does not take its answers is not read from until it does', async () => {
  const peer = await target.join();
  const other = await target.join();
  const [full, first, second] = [target.name(), target.name(), target.name()];
  await peer.must('queue.put', { queue: full, items: new Array(30).fill(Buffer.alloc(mebi)) });
  peer.socket.pause();
  for (let id = 1001; id <= 1030; id++) peer.send({ verb: 'queue.get', id, queue: full });
  const size = async (queue: string) => (await other.must('queue.size', { queue }))['size'];
  let before = -1;
  for (let same = 0; same < 20; same++) {
    const now = Number(await size(full));
    if (now !== before) same = 0;
    before = now;
  }
  // The first may be read already before the master looks at what is untaken.
  const items = [Buffer.from([1])];
  peer.send({ verb: 'queue.put', id: 1, queue: first, items });
  for (let i = 0; i < 50; i++) await size(first);
  peer.send({ verb: 'queue.put', id: 2, queue: second, items });
  for (let i = 0; i < 50; i++) assert.equal(await size(second), 0);
  peer.socket.resume();
  for (let id = 1001; id <= 1030; id++) await peer.reply(id);
  await peer.reply(2);
  assert.equal(await size(second), 1);
  await peer.close();
  await other.close();
});

test('[L-1] any number of silent connections keeps nobody out', async (t) => {
  if (target.process(t) === undefined) return;
  const strangers: RawPeer[] = [];
  for (let i = 0; i < 2_100; i += 100) {
    strangers.push(...(await Promise.all(Array.from({ length: 100 }, () => RawPeer.dial(target)))));
  }
  for (let i = 0; i < 10; i++) {
    const peer = await target.join();
    await peer.close();
  }
  // The oldest had to go, the youngest are still there.
  await strangers[0]?.ended;
  assert.equal((await strangers.at(-1)?.challenge())?.length, 48);
  for (const stranger of strangers) stranger.abort();
});

test('[L-1] those that had to go are gone, though they keep their side open', async (t) => {
  if (target.process(t) === undefined) return;
  const own = await Target.open();
  t.after(() => own.close());
  const sockets = () => readdirSync(`/proc/${own.program.pid}/fd`).length;
  const before = sockets();
  const strangers: RawPeer[] = [];
  for (let i = 0; i < 2_600; i += 100) {
    strangers.push(...(await Promise.all(Array.from({ length: 100 }, () => RawPeer.dial(own)))));
  }
  await strangers.at(-1)?.challenge();
  const taken = sockets() - before;
  assert.ok(taken <= 2_010, `${taken} sockets`);
  for (const stranger of strangers) stranger.abort();
});

test('[L-1] silent connections of one address push out each other, none of another', async (t) => {
  if (process.platform !== 'linux') return t.skip('only Linux has all of 127/8');
  const own = await Target.own(t, { handshake: 60 });
  if (own === undefined) return;
  const [honest, other] = [await RawPeer.dial(own), await RawPeer.dial(own, '127.0.0.8')];
  const strangers: RawPeer[] = [];
  for (let i = 0; i < 2_100; i += 100) {
    const dials = Array.from({ length: 100 }, () => RawPeer.dial(own, '127.0.0.9'));
    strangers.push(...(await Promise.all(dials)));
  }
  await strangers[0]?.ended;
  await honest.shake(own.authkey);
  assert.equal((await honest.hello(own.authkey)).ok, true);
  await other.shake(own.authkey);
  for (const peer of [honest, other, ...strangers]) peer.abort();
});

test('[L-1] wrong answers make room for each other, not for those who are yet to answer', async (t) => {
  const own = await Target.own(t, { handshake: 60 });
  if (own === undefined) return;
  const sockets = () => readdirSync(`/proc/${own.program.pid}/fd`).length;
  const before = sockets();
  await using memory = memoryPeak(own.program.pid);
  // The oldest, and of the same address.
  const honest = await RawPeer.dial(own);
  const guessers: RawPeer[] = [];
  for (let i = 0; i < 2_600; i += 100) {
    const dials = Array.from({ length: 100 }, () => RawPeer.dial(own));
    for (const peer of await Promise.all(dials)) {
      peer.frame(answerTo(await peer.challenge(), Buffer.from('wrong wrong wrong wrong')));
      guessers.push(peer);
    }
  }
  await (await own.join()).close();
  const taken = sockets() - before;
  assert.ok(taken <= 2_010, `${taken} sockets`);
  assert.ok(memory.grownBytes() < 128 * mebi, `${memory.grownBytes() / mebi} MiB`);
  await honest.shake(own.authkey);
  assert.equal((await honest.hello(own.authkey)).ok, true);
  for (const peer of [honest, ...guessers]) peer.abort();
});

test('[X-2] a ClientHello of 128 KiB is not waited for', { timeout: 25_000 }, async (t) => {
  const patient = await Target.own(t, { handshake: 60 });
  if (patient === undefined) return;
  const peers = await Promise.all(Array.from({ length: 50 }, () => RawPeer.dial(patient)));
  // A ClientHello of 131,000 bytes in records of 16,000, and the last one is missing.
  const body = Buffer.alloc(128_000);
  body.set([1, 1, 0xff, 0xb8, 3, 3]);
  const records: Buffer[] = [];
  for (let at = 0; at < body.length; at += 16_000) {
    records.push(Buffer.from([0x16, 3, 1, 0x3e, 0x80]), body.subarray(at, at + 16_000));
  }
  for (const peer of peers) {
    await peer.challenge();
    peer.write(Buffer.concat(records));
  }
  for (const peer of peers) {
    await peer.ended;
    await peer.close();
  }
  await (await patient.join()).close();
});

test('[P-4] frames that are never ended take no more memory than the limit', async (t) => {
  const small = await Target.own(t, {}, ['--memory-limit', '256']);
  if (small === undefined) return;
  await using memory = memoryPeak(small.program.pid);
  const good = await small.join();
  const peers = await Promise.all(Array.from({ length: 30 }, () => small.join()));
  const ended = Promise.race(peers.map((peer) => peer.ended));
  // All but the last byte of 30 MiB: 900 MiB in all.
  const frame = frameOf(Buffer.alloc(30 * mebi)).subarray(0, -1);
  for (const peer of peers) peer.write(frame);
  await ended;
  for (let i = 0; i < 100; i++) await good.sync();
  assert.ok(memory.grownBytes() < 400 * mebi, `${memory.grownBytes() / mebi} MiB`);
  for (const peer of peers) peer.abort();
  await good.close();
});

test('[P-4] those whose puts wait for room have to go, not others', async (t) => {
  const small = await Target.own(t, {}, ['--memory-limit', '256', '--queues', 'one:1']);
  if (small === undefined) return;
  await using memory = memoryPeak(small.program.pid);
  const good = await small.join();
  const peers = await Promise.all(Array.from({ length: 50 }, () => PythonPeer.attach(small)));
  await peers[0]?.call('one', 'put', 1);
  const request = new PyTuple(['one', 'put', new PyTuple([Buffer.alloc(15 * mebi)]), new PyDict()]);
  const frame = frameOf(writePickle(request));
  // One after the other, so that it is not unfinished frames that take the memory.
  for (const { raw } of peers) {
    await new Promise((resolve) => raw.socket.write(frame, resolve));
    for (let i = 0; i < 20; i++) await good.sync();
  }
  // A large frame of somebody else.
  const items = new Array(12).fill(Buffer.alloc(mebi));
  for (let i = 0; i < 5; i++) await good.must('queue.put', { queue: 'other', items });
  assert.ok(memory.grownBytes() < 400 * mebi, `${memory.grownBytes() / mebi} MiB`);
  for (const peer of peers) peer.kill();
  await good.close();
});

test('[P-4] at the limit those sessions go that hold most, and no others', async (t) => {
  const small = await Target.own(t, {}, ['--memory-limit', '256']);
  if (small === undefined) return;
  const join = (count: number) => Promise.all(Array.from({ length: count }, () => small.join()));
  const [light, heavy] = [await join(5), await join(12)];
  const queue = small.name();
  // A whole put of half a MiB, of which the last byte is missing.
  const items = [Buffer.alloc(mebi / 2, 1)];
  const put = frameOf(pack({ verb: 'queue.put', id: 77, queue, items }));
  for (const peer of light) peer.write(put.subarray(0, -1));
  const ended: number[] = [];
  const first = Promise.race(heavy.map((peer, i) => peer.ended.then(() => ended.push(i))));
  // 360 MiB in all.
  const frame = frameOf(Buffer.alloc(30 * mebi)).subarray(0, -1);
  for (const peer of heavy) peer.write(frame);
  await first;
  for (const peer of light) peer.write(put.subarray(-1));
  for (const peer of light) assert.equal((await peer.reply(77))['ok'], true);
  assert.ok(ended.length < heavy.length, 'not all had to go');
  for (const peer of [...heavy, ...light]) peer.abort();
});

test('[X-1] items that are held, and queues that are full, take little memory', async (t) => {
  const small = await Target.own(t, {}, ['--memory-limit', '256']);
  if (small === undefined) return;
  await using memory = memoryPeak(small.program.pid);
  const items = new Array(8).fill(Buffer.alloc(mebi - 100, 7));
  const peers = await Promise.all(Array.from({ length: 8 }, () => small.join()));
  // 320 MiB that are held, and as much that waits.
  for (let turn = 0; turn < 5; turn++) {
    for (const [i, peer] of peers.entries()) {
      const [held, full] = [`held-${i}`, `full-${i}-${turn}`];
      await peer.must('queue.put', { queue: held, items });
      await peer.must('queue.get', { queue: held, count: 8 });
      await peer.must('queue.put', { queue: full, items });
    }
  }
  assert.ok(memory.grownBytes() < 256 * mebi, `${memory.grownBytes() / mebi} MiB`);
  for (const peer of peers) await peer.sync();
  const [first, second] = peers;
  assert.ok(first && second);
  await first.close();
  // Its items wait again, and are read from the disk.
  const reply = await second.must('queue.get', { queue: 'held-0', count: 8 });
  const values = (reply['items'] as { value: Buffer }[]).map(({ value }) => Buffer.from(value));
  assert.deepEqual(values, items);
  for (const peer of peers) peer.abort();
});
