/** Frames. Source: PROTOCOL.md [F-1]..[F-8]. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { pack } from '../support/msgpack.ts';
import { answerTo, frameOf, longFrameOf, newNonce, RawPeer } from '../support/raw-peer.ts';
import { page, pushed } from '../support/raw-slave.ts';
import { Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());

const ping = (id: number) => pack({ verb: 'ping', id });

test('[F-1] a frame is a 4-byte big-endian length and its payload', async () => {
  const peer = await target.join();
  const payload = ping(901);
  peer.write(Buffer.concat([Buffer.from([0, 0, 0, payload.length]), payload]));
  assert.deepEqual(await peer.reply(901), { id: 901, ok: true });
  await peer.close();
});

test('[F-2] the long form is taken for any size, before and after authentication', async () => {
  const peer = await RawPeer.dial(target);
  peer.write(longFrameOf(answerTo(await peer.challenge(), target.authkey)));
  await peer.expect('#WELCOME#');
  await peer.challengeBack(target.authkey);
  assert.equal((await peer.hello(target.authkey)).ok, true);
  peer.write(longFrameOf(ping(902)));
  assert.equal((await peer.reply(902)).ok, true);
  await peer.close();
});

test('[F-3] frames cut anywhere and frames joined are the same messages', async () => {
  const peer = await target.join();
  const frames = [frameOf(ping(1)), longFrameOf(ping(2)), frameOf(ping(3))];
  const stream = Buffer.concat(frames);
  for (let cut = 1; cut < stream.length; cut += 3) {
    peer.write(stream.subarray(0, cut));
    await new Promise((resolve) => peer.socket.write(Buffer.alloc(0), resolve));
    peer.write(stream.subarray(cut));
    for (const id of [1, 2, 3]) assert.deepEqual(await peer.reply(id), { id, ok: true });
  }
  for (const byte of stream) {
    await new Promise((resolve) => peer.socket.write(Buffer.from([byte]), resolve));
  }
  peer.write(Buffer.concat([stream, stream, stream]));
  for (let i = 0; i < 4; i++) for (const id of [1, 2, 3]) await peer.reply(id);
  await peer.close();
});

test('[F-4] a frame over 256 bytes before authentication ends the connection', async () => {
  for (const header of [Buffer.from([0, 0, 1, 1]), longFrameOf('').fill(1, 10)]) {
    const peer = await RawPeer.dial(target);
    await peer.challenge();
    peer.write(header);
    await assert.rejects(peer.nextFrame());
    assert.equal(await peer.ended, 'fin');
  }
});

test('[F-4] a frame of 256 bytes before authentication is read', async () => {
  const peer = await RawPeer.dial(target);
  await peer.challenge();
  peer.frame(Buffer.alloc(256));
  await peer.expect('#FAILURE#');
});

test('[F-5] a frame over frameBytesMax is told and ends the session, unread', async () => {
  const peer = await RawPeer.dial(target);
  await peer.shake(target.authkey);
  const { frameBytesMax } = await peer.hello(target.authkey);
  const header = Buffer.alloc(4);
  header.writeInt32BE(Number(frameBytesMax) + 1);
  peer.write(header);
  assert.equal((await peer.push('error'))['error'], 'E_BAD_FRAME');
  assert.equal(await peer.ended, 'fin');
});

test('[F-5] a frame of frameBytesMax is read', async () => {
  const peer = await RawPeer.dial(target);
  await peer.shake(target.authkey);
  const { frameBytesMax } = await peer.hello(target.authkey);
  const head = pack({ verb: 'queue.put', id: 7, queue: '1', items: [], more: '' }).length - 1;
  const more = Buffer.alloc(Number(frameBytesMax) - head - 5);
  const payload = pack({ verb: 'queue.put', id: 7, queue: '1', items: [], more });
  assert.equal(payload.length, frameBytesMax);
  peer.frame(payload);
  assert.equal((await peer.reply(7)).error, 'E_BAD_REQUEST');
  await peer.close();
});

const notPlain: readonly [string, Buffer][] = [
  ['no msgpack (0xc1)', Buffer.from([0xc1])],
  ['an empty payload', Buffer.alloc(0)],
  ['a cut value', ping(5).subarray(0, -1)],
  ['bytes after the value', Buffer.concat([ping(5), Buffer.from([0])])],
  ['a time stamp extension', pack({ verb: 'ping', id: 5 }).fill(0xd6, 0, 1)],
  ['a record definition', Buffer.from([0xd4, 0x72, 0x40, 0x91, 0xa4, 0x76, 0x65, 0x72, 0x62])],
];

for (const [what, payload] of notPlain) {
  test(`[F-6] ${what} is told and ends the session`, async () => {
    const peer = await target.join();
    peer.frame(payload);
    assert.equal((await peer.push('error'))['error'], 'E_BAD_FRAME');
    assert.equal(await peer.ended, 'fin');
  });
}

test('[F-6] an extension inside a message is refused, whatever it holds', async () => {
  const peer = await target.join();
  // {verb: 'ping', id: 5, x: ext(type 0x78: a regular expression in some libraries)}
  const head = pack({ verb: 'ping', id: 5, x: 0 }).subarray(0, -1);
  peer.frame(Buffer.concat([head, Buffer.from([0xd5, 0x78, 0xa1, 0x61])]));
  assert.equal((await peer.push('error'))['error'], 'E_BAD_FRAME');
  assert.equal(await peer.ended, 'fin');
});

test('[F-6] what one session sends does not change how another is read', async () => {
  const victim = await target.join();
  const peer = await target.join();
  // A record definition would give the small integers 64..127 a meaning in some libraries.
  peer.frame(Buffer.from([0xd4, 0x72, 0x40, 0x91, 0xa1, 0x61, 0x01]));
  await peer.ended;
  for (const id of [64, 65, 127]) {
    victim.send({ verb: 'ping', id });
    assert.deepEqual(await victim.reply(id), { id, ok: true });
  }
  await victim.close();
});

test('[F-9] a packed field is one whole msgpack value, else the request alone is refused', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  await target.crawl(slave, [target.seed()]);
  const [task] = await pushed(slave);
  assert.ok(task);
  const { task: name, lease, url } = task;
  const good = { result: pack(page(url)), images: pack([]) };
  const deep = Buffer.concat([Buffer.alloc(100, 0x91), Buffer.of(0xc0)]);
  const long = Buffer.concat([Buffer.from('dd000f4241', 'hex'), Buffer.alloc(1_000_001, 0xc0)]);
  const wrong = [Buffer.alloc(0), Buffer.of(0xc1), Buffer.of(0x90, 0), Buffer.of(0x91), deep, long];
  const report = (fields: object) =>
    slave.request('task.report', { task: name, lease, links: Buffer.alloc(0), ...good, ...fields });
  for (const bytes of [...wrong, Buffer.from('d40100', 'hex')]) {
    for (const field of ['result', 'images']) {
      assert.equal(
        (await report({ [field]: bytes })).error,
        'E_BAD_REQUEST',
        `${field} ${bytes.length}`,
      );
    }
  }
  assert.equal((await report({}))['state'], 'done');
  await slave.close();
});

test('[F-7] a negative length ends the connection', async () => {
  for (const first of [0x80, 0xfe]) {
    const stranger = await RawPeer.dial(target);
    await stranger.challenge();
    stranger.write(Buffer.from([first, 0xff, 0xff, 0xff]));
    assert.equal(await stranger.ended, 'fin');
    const peer = await target.join();
    peer.write(Buffer.from([first, 0xff, 0xff, 0xff]));
    assert.equal((await peer.push('error'))['error'], 'E_BAD_FRAME');
    assert.equal(await peer.ended, 'fin');
  }
});

test('[F-7] a long form of 2^64 - 1 bytes ends the connection', async () => {
  const peer = await target.join();
  peer.write(Buffer.alloc(12, 0xff));
  assert.equal((await peer.push('error'))['error'], 'E_BAD_FRAME');
  assert.equal(await peer.ended, 'fin');
});

const tooMuch: readonly [string, Buffer][] = [
  ['nested 17 deep', Buffer.concat([Buffer.alloc(17, 0x91), Buffer.from([0xc0])])],
  ['nested a million deep', Buffer.concat([Buffer.alloc(1 << 20, 0x91), Buffer.from([0xc0])])],
  [
    'a million and one values',
    Buffer.concat([Buffer.from([0xdd, 0, 0x0f, 0x42, 0x41]), Buffer.alloc(1_000_001, 0x90)]),
  ],
  ['a long array of nothing', Buffer.from([0xdd, 0x01, 0xff, 0xff, 0xff])],
  ['a long map of nothing', Buffer.from([0xdf, 0x01, 0xff, 0xff, 0xff])],
];

for (const [what, payload] of tooMuch) {
  test(`[F-8] ${what} is told and ends the session`, async () => {
    const peer = await target.join();
    peer.frame(payload);
    assert.equal((await peer.push('error'))['error'], 'E_BAD_FRAME');
    assert.equal(await peer.ended, 'fin');
  });
}

test('[F-1] the master sends the short form only', async () => {
  // The raw peer reads nothing else; a reply of many kilobytes shows it for more than small ones.
  const peer = await target.join();
  const queue = target.name();
  await peer.must('queue.put', { queue, items: [Buffer.alloc(200_000)] });
  const { items } = (await peer.must('queue.get', { queue })) as unknown as {
    items: { id: number; value: Buffer }[];
  };
  assert.equal(items[0]?.value.length, 200_000);
  await peer.must('queue.done', { queue, items: items.map(({ id }) => id) });
  await peer.close();
});

test('[H-1] every connection gets a challenge of its own', async () => {
  const seen = new Set<string>();
  for (let i = 0; i < 5; i++) {
    const peer = await RawPeer.dial(target);
    const nonce = await peer.challenge();
    assert.equal(nonce.toString('latin1', 0, 8), '{sha256}');
    assert.equal(nonce.length, newNonce().length);
    seen.add(nonce.toString('hex'));
    peer.abort();
  }
  assert.equal(seen.size, 5);
});
