/** Sessions: hello, requests and replies, errors, bye. Source: PROTOCOL.md [S-1]..[S-12],
 *  [V-2], [E-1], [E-2]. */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import { type Message, RawPeer } from '../support/raw-peer.ts';
import { requests } from '../support/requests.ts';
import { type Status, Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

test('[S-1] anything but hello first is refused and ends the session', async () => {
  const firsts: readonly [Message, string][] = [
    [{ verb: 'ping' }, 'E_BAD_REQUEST'],
    [{ verb: 'queue.put', queue: 'q', items: [Buffer.from([1])] }, 'E_BAD_REQUEST'],
    [{ verb: 'greetings' }, 'E_UNKNOWN_VERB'],
    [{ verb: 'hello', protocol: 2, role: 'king', name: 'x' }, 'E_BAD_REQUEST'],
  ];
  for (const [{ verb, ...body }, code] of firsts) {
    const peer = await RawPeer.dial(target);
    await peer.shake(target.authkey);
    assert.equal((await peer.request(verb, body)).error, code);
    assert.equal((await peer.push('error'))['verb'], 'error');
    assert.equal(await peer.ended, 'fin');
  }
});

test('[S-2] the reply to hello names the master, the session and every limit', async () => {
  const peer = await RawPeer.dial(target);
  await peer.shake(target.authkey);
  const { id: _, ...reply } = await peer.hello(target.authkey);
  const { session, proof, server, ...rest } = reply;
  assert.ok(Number.isSafeInteger(session));
  assert.ok(Buffer.isBuffer(proof));
  assert.match(String(server), /^orbweaver\/\d/);
  assert.deepEqual(Object.keys(rest).sort(), [
    'frameBytesMax',
    'heartbeatMs',
    'leaseMs',
    'ok',
    'protocol',
    'silenceMs',
  ]);
  assert.equal(rest['protocol'], 2);
  if (target.cluster) {
    const { heartbeatMs, silenceMs, leaseMs, frameBytesMax } = rest;
    assert.deepEqual([heartbeatMs, silenceMs, leaseMs], [10_000, 25_000, 120_000]);
    assert.equal(frameBytesMax, 33_554_432);
  }
  await peer.close();
});

test('[S-2] a name is 1 to 64 printable characters', async () => {
  for (const name of ['', 'x'.repeat(65), 'a\u001b[2J', 'a\nb', 7]) {
    const peer = await RawPeer.dial(target);
    await peer.shake(target.authkey);
    assert.equal((await peer.hello(target.authkey, { name })).error, 'E_BAD_REQUEST');
    assert.equal(await peer.ended, 'fin');
  }
  const peer = await target.join('client', 'Rechner № 7 – ok');
  const { sessions } = (await peer.must('crawl.list')) as unknown as Status;
  assert.ok(sessions.some(({ name }) => name === 'Rechner № 7 – ok'));
  await peer.close();
});

test('[S-3] a reply carries the id of its request; without an id there is none', async () => {
  const peer = await target.join();
  for (const id of [0, 1, 2 ** 32, Number.MAX_SAFE_INTEGER]) {
    peer.send({ verb: 'ping', id });
    assert.deepEqual(await peer.reply(id), { id, ok: true });
  }
  peer.send({ verb: 'ping' });
  peer.send({ verb: 'nonsense' });
  peer.send({ verb: 'crawl.list' }); // its id is required: refused, and nobody to tell
  peer.send({ verb: 'ping', id: -1 });
  peer.send({ verb: 'ping', id: 1.5 });
  peer.send({ verb: 'ping', id: '1' });
  await peer.sync();
  assert.deepEqual(
    peer.unread.filter(({ verb }) => verb !== 'ping'),
    [],
  );
  await peer.close();
});

test('[S-4] hello said again is refused and the session goes on', async () => {
  const peer = await target.join();
  assert.equal((await peer.hello(target.authkey)).error, 'E_BAD_REQUEST');
  await peer.sync();
  await peer.close();
});

test('[S-5] requests are begun in the order sent, and a reply that waits holds up no other', async () => {
  const peer = await target.join();
  const queue = target.name();
  peer.send({ verb: 'queue.get', id: 501, queue, waitMs: 60_000 });
  peer.send({ verb: 'ping', id: 502 });
  await peer.reply(502);
  peer.send({ verb: 'queue.put', id: 503, queue, items: [Buffer.from([1])] });
  const got = (await peer.reply(501)) as unknown as { items: { id: number }[] };
  assert.equal(got.items.length, 1);
  await peer.reply(503);
  await peer.must('queue.done', { queue, items: got.items.map(({ id }) => id) });
  await peer.close();
});

test('[S-6] an unknown verb is E_UNKNOWN_VERB and the session goes on', async () => {
  const peer = await target.join();
  const verbs = ['nonsense', '', 'hasOwnProperty', '__proto__', 'x'.repeat(10_000), 'PING'];
  const notText: unknown[] = [
    7,
    null,
    [],
    {},
    Buffer.from('ping'),
    { toString: 1 },
    { toString: { x: 1 } },
  ];
  for (const verb of [...verbs, ...notText]) {
    const reply = await peer.request(verb);
    assert.equal(reply.error, 'E_UNKNOWN_VERB');
    assert.ok((reply.message ?? '').length < 512);
  }
  await peer.sync();
  await peer.close();
});

for (const { verb, good, bad } of requests) {
  test(`[S-7] ${verb}: every wrong field is E_BAD_REQUEST and the session goes on`, async () => {
    const peer = await target.join('slave');
    for (const fields of bad) {
      const body = { ...good, ...fields };
      const reply = await peer.request(verb, body);
      assert.equal(reply.error, 'E_BAD_REQUEST', `${verb} ${JSON.stringify(fields)}`);
      assert.ok((reply.message ?? '').length <= 512 + verb.length);
    }
    await peer.sync();
    await peer.close();
  });

  test(`[V-2] ${verb}: a field it does not know is E_BAD_REQUEST`, async () => {
    const peer = await target.join('slave');
    const reply = await peer.request(verb, { ...good, more: 1 });
    assert.equal(reply.error, 'E_BAD_REQUEST');
    await peer.sync();
    await peer.close();
  });
}

test('[S-8] what is no map with a verb is told and ends the session', async () => {
  for (const message of [7, 'ping', null, [], ['verb', 'ping'], {}, { id: 1 }, Buffer.alloc(3)]) {
    const peer = await target.join();
    peer.send(message);
    assert.equal((await peer.push('error'))['error'], 'E_BAD_FRAME');
    assert.equal(await peer.ended, 'fin');
  }
});

test('[S-9] ping is answered, and pings of the master need no answer', async () => {
  const peer = await target.join();
  assert.deepEqual(Object.keys(await peer.request('ping')).sort(), ['id', 'ok']);
  await peer.close();
});

test('[S-10] bye is answered and then the master closes', async () => {
  const peer = await target.join();
  assert.equal((await peer.request('bye')).ok, true);
  assert.equal(await peer.ended, 'fin');
  const silent = await target.join();
  silent.send({ verb: 'bye' });
  assert.equal(await silent.ended, 'fin');
});

test('[S-11] only a slave speaks the verbs of tasks', async () => {
  const peer = await target.join('client');
  for (const { verb, good } of requests) {
    if (!/^(task|proxy)\./.test(verb)) continue;
    assert.equal((await peer.request(verb, good)).error, 'E_BAD_REQUEST', verb);
  }
  await peer.sync();
  await peer.close();
});

for (const how of ['FIN', 'RST', 'bye', 'a broken frame'] as const) {
  test(`[S-12] a session that ends by ${how} gives its leases and items back at once`, async (t) => {
    const slave = await target.slave(t, 1);
    if (slave === undefined) return;
    const queue = target.name();
    await slave.must('queue.put', { queue, items: [Buffer.from([1]), Buffer.from([2])] });
    await slave.must('queue.get', { queue });
    await target.crawl(slave, [target.seed()]);
    await slave.push('task.push');
    const heir = await target.join('slave', 'conformance-heir');
    await heir.must('task.credit', { count: 1 });
    if (how === 'FIN') await slave.close();
    else if (how === 'RST') slave.abort();
    else if (how === 'bye') await slave.must('bye');
    else slave.write(Buffer.from([0x80, 0, 0, 0]));
    const { tasks } = (await heir.push('task.push')) as unknown as { tasks: Message[] };
    assert.equal(tasks.length, 1);
    assert.equal(tasks[0]?.['attempt'], 1);
    const { items } = (await heir.must('queue.get', { queue, count: 2 })) as unknown as {
      items: { id: number; value: Buffer }[];
    };
    assert.deepEqual(
      items.map(({ value }) => value[0]),
      [1, 2],
    );
    await heir.must('queue.done', { queue, items: items.map(({ id }) => id) });
    await heir.close();
  });
}

test('[E-1] a refusal is a code and one short line, without paths or stacks', async () => {
  const peer = await target.join();
  const refusals = [
    await peer.request('nonsense'),
    await peer.request('crawl.pause', { crawl: target.name() }),
    await peer.request('queue.size', {}),
  ];
  for (const { ok, error, message } of refusals) {
    assert.equal(ok, false);
    assert.match(error ?? '', /^E_[A-Z_]+$/);
    assert.match(message ?? '', /^[^\n]{1,512}$/);
    assert.doesNotMatch(message ?? '', /\/work\/|node:|\.js|\.ts/);
  }
  await peer.close();
});

test('[E-2] the last word of a fatal error is the push `error`, after the reply', async () => {
  const peer = await RawPeer.dial(target);
  await peer.shake(target.authkey);
  const reply = await peer.hello(target.authkey, { proof: Buffer.alloc(32) });
  assert.equal(reply.error, 'E_AUTH');
  const { verb, error, message, ...more } = await peer.push('error');
  assert.deepEqual([verb, typeof error, typeof message, more], ['error', 'string', 'string', {}]);
  assert.equal(await peer.ended, 'fin');
  assert.deepEqual(peer.unread, []);
});
