/** Heartbeats, silence, leases that run out. Source: PROTOCOL.md [B-1]..[B-5], [T-4]. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, afterEach, describe, test } from 'node:test';
import { connect } from '../../shared/client.ts';
import { RawPeer } from '../support/raw-peer.ts';
import { nextTask, report } from '../support/raw-slave.ts';
import { shortLimits, Target } from '../support/target.ts';

const target = await Target.open(shortLimits);
after(() => target.close());

async function joined(): Promise<{ peer: RawPeer; hello: Record<string, unknown> }> {
  const peer = await RawPeer.dial(target);
  await peer.shake(target.authkey);
  const hello = await peer.hello(target.authkey, { role: 'slave', name: 'conformance-times' });
  return { peer, hello };
}

/** Pings like a good peer until it is disposed of. */
function beating(peer: RawPeer): Disposable {
  const timer = setInterval(() => peer.send({ verb: 'ping' }), shortLimits.heartbeat * 500);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

// They wait most of the time, so they wait together.
describe('heartbeats', { concurrency: true }, () => {
  test('[B-1] a peer that hears nothing else hears a ping every heartbeatMs', async (t) => {
    const begun = performance.now();
    const { peer, hello } = await joined();
    if (!target.isShort(t, hello['heartbeatMs'])) return peer.abort();
    using _ = beating(peer);
    for (let count = 0; count < 3; count++) {
      assert.deepEqual(await peer.push('ping'), { verb: 'ping' });
    }
    // However late they are heard, they were not sent sooner.
    const waited = performance.now() - begun;
    assert.ok(waited >= Number(hello['heartbeatMs']) * 3, `${waited} ms`);
    await peer.close();
  });

  test('[B-2] a peer that is silent for silenceMs is closed', async (t) => {
    const begun = performance.now();
    const { peer, hello } = await joined();
    if (!target.isShort(t, hello['silenceMs'])) return peer.abort();
    assert.equal(await peer.ended, 'fin');
    const waited = performance.now() - begun;
    assert.ok(waited >= Number(hello['silenceMs']), `${waited} ms`);
  });

  test('[B-2] pings alone keep a session, and so do bytes of an unfinished frame', async (t) => {
    const { peer, hello } = await joined();
    if (!target.isShort(t, hello['silenceMs'])) return peer.abort();
    const until = performance.now() + Number(hello['silenceMs']) * 2;
    const { peer: slow } = await joined();
    slow.write(Buffer.from([0, 0, 1, 0]));
    while (performance.now() < until) {
      await peer.push('ping');
      peer.send({ verb: 'ping' });
      slow.write(Buffer.from([0xc0]));
    }
    await peer.sync();
    assert.equal(await Promise.race([slow.ended, Promise.resolve('open')]), 'open');
    slow.abort();
    await peer.close();
  });

  test('[B-3] a client keeps to the limits that hello announces', async (t) => {
    if (target.process(t) === undefined) return;
    // Idle for more than this master's silenceMs: the client of the product pings in time.
    const ends: unknown[] = [];
    const { host, port, authkey } = target;
    const onClose = (error: unknown) => ends.push(error);
    await using client = await connect({ host, port, authkey, onClose });
    const { silenceMs } = client.hello;
    const { peer } = await joined();
    using _ = beating(peer);
    const until = performance.now() + silenceMs * 2;
    while (performance.now() < until) await peer.push('ping');
    assert.deepEqual(ends, []);
    await client.request('ping', {});
    await peer.close();
  });

  test('[B-4] hello announces what the master was started with', async (t) => {
    if (target.process(t) === undefined) return;
    const { peer, hello } = await joined();
    const { heartbeatMs, silenceMs, leaseMs } = hello;
    assert.deepEqual([heartbeatMs, silenceMs, leaseMs], [400, 3_000, 1_000]);
    await peer.close();
  });

  test('[B-5] a peer that does not take what it is sent is closed', async (t) => {
    const { peer, hello } = await joined();
    if (!target.isShort(t, hello['silenceMs'])) return peer.abort();
    const queue = target.name();
    const item = Buffer.alloc(1 << 20, 1);
    using _ = beating(peer);
    await peer.must('queue.put', { queue, items: new Array(30).fill(item) });
    // Asks for far more than it reads: taken and given back again and again.
    peer.socket.pause();
    for (let i = 0; i < 60; i++) peer.send({ verb: 'queue.get', id: 1000 + i, queue, count: 1 });
    const closed = once(peer.socket, 'close');
    const heir = await target.join('client');
    using __ = beating(heir);
    // Its items come back when its session is closed, and only then.
    for (let count = 0; count < 30; ) {
      const got = await heir.must('queue.get', { queue, count: 30, waitMs: 10_000 });
      count += (got['items'] as unknown[]).length;
    }
    peer.socket.resume();
    await closed;
    await heir.close();
  });

  test('[B-5] a peer that reads slowly stays, however long one write takes', async (t) => {
    const { peer, hello } = await joined();
    const silenceMs = Number(hello['silenceMs']);
    if (!target.isShort(t, silenceMs)) return peer.abort();
    const queue = target.name();
    using _ = beating(peer);
    const items = new Array(8).fill(Buffer.alloc(1 << 20, 1));
    await peer.must('queue.put', { queue, items });
    // A megabyte a second; the kernel takes some of the 8 at once.
    const slow = (chunk: Buffer) => {
      peer.socket.pause();
      setTimeout(() => peer.socket.resume(), chunk.length / 1_000);
    };
    peer.socket.on('data', slow);
    const begun = performance.now();
    const got = await peer.must('queue.get', { queue, count: 8, waitMs: 10_000 });
    assert.equal((got['items'] as unknown[]).length, 8);
    assert.ok(performance.now() - begun > silenceMs * 2);
    peer.socket.off('data', slow).resume();
    await peer.close();
  });
});

describe('leases', () => {
  afterEach(() => target.clear());

  test('[T-4] a lease ends leaseMs after it was given: cancelled, and offered again', async (t) => {
    const { peer, hello } = await joined();
    if (!target.isShort(t, hello['leaseMs'])) return peer.abort();
    using _ = beating(peer);
    await peer.must('task.credit', { count: 1 });
    const begun = performance.now();
    await target.crawl(peer, [target.seed()]);
    const task = await nextTask(peer);
    assert.deepEqual((await peer.push('task.cancel'))['leases'], [task.lease]);
    const waited = performance.now() - begun;
    const leaseMs = Number(hello['leaseMs']);
    assert.ok(waited > leaseMs * 0.9 && waited < leaseMs + 2_000, `${waited} ms`);
    const again = await nextTask(peer);
    assert.deepEqual([again.url, again.attempt], [task.url, 1]);
    // Late, but the task is open: it counts.
    assert.equal((await report(peer, task))['state'], 'done');
    await peer.close();
  });

  test('[T-7] an extended lease runs leaseMs from then', async (t) => {
    const { peer, hello } = await joined();
    if (!target.isShort(t, hello['leaseMs'])) return peer.abort();
    using _ = beating(peer);
    await peer.must('task.credit', { count: 1 });
    await target.crawl(peer, [target.seed()]);
    const task = await nextTask(peer);
    const until = performance.now() + Number(hello['leaseMs']) * 2.5;
    while (performance.now() < until) {
      await peer.push('ping');
      assert.deepEqual((await peer.must('task.extend', { leases: [task.lease] }))['lost'], []);
    }
    assert.equal(
      peer.unread.find(({ verb }) => verb === 'task.cancel'),
      undefined,
    );
    assert.equal((await report(peer, task))['state'], 'done');
    await peer.close();
  });
});
