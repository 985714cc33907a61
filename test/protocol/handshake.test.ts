/** Mutual challenge, dialect switch, versions. Source: PROTOCOL.md [H-2]..[H-8], [D-1], [V-1],
 *  [V-2]. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { connect, parseAddress } from '../../shared/client.ts';
import { Cluster } from '../support/cluster.ts';
import { pack, unpack } from '../support/msgpack.ts';
import { answerTo, frameOf, type Message, newNonce, RawPeer } from '../support/raw-peer.ts';
import { shortLimits, Target } from '../support/target.ts';

const target = await Target.open({ handshake: shortLimits.handshake });
after(() => target.close());

const wrongKey = Buffer.from('not the key, not the key');
const md5 = (key: Buffer, text: Buffer) => createHmac('md5', key).update(text).digest();

for (const name of ['sha256', 'md5', 'sha384', 'sha3_256', 'sha3_384']) {
  test(`[H-2] {${name}} and the HMAC over all of the challenge is welcome`, async () => {
    const peer = await RawPeer.dial(target);
    peer.frame(answerTo(await peer.challenge(), target.authkey, name));
    await peer.expect('#WELCOME#');
    await peer.challengeBack(target.authkey);
    assert.equal((await peer.hello(target.authkey)).ok, true);
    await peer.close();
  });
}

test('[H-3] the 16 bytes of HMAC-MD5 of Python up to 3.11 are welcome', async () => {
  const peer = await RawPeer.dial(target);
  peer.frame(md5(target.authkey, await peer.challenge()));
  await peer.expect('#WELCOME#');
  // Python up to 3.11 challenges with 20 bytes, without a digest's name.
  const nonce = Buffer.from('abcdefghijklmnopqrst');
  peer.frame(Buffer.concat([Buffer.from('#CHALLENGE#'), nonce]));
  assert.deepEqual(await peer.nextFrame(), md5(target.authkey, nonce));
  peer.abort();
});

const wrongAnswers: readonly [string, (challenge: Buffer) => Buffer][] = [
  ['another key', (challenge) => answerTo(challenge, wrongKey)],
  ['another key, MD5', (challenge) => md5(wrongKey, challenge)],
  ['a digest of only the random part', (c) => answerTo(c.subarray(8), target.authkey)],
  ['an unknown digest name', (c) => Buffer.from(`{sha1}${'x'.repeat(20)}${c.length}`)],
  ['no name', (c) => answerTo(c, target.authkey).subarray(8)],
  ['a cut digest', (c) => answerTo(c, target.authkey).subarray(0, -1)],
  ['nothing', () => Buffer.alloc(0)],
  ['the challenge itself', (challenge) => challenge],
];

for (const [what, answer] of wrongAnswers) {
  test(`[H-4] ${what} gets the #FAILURE# frame and then FIN`, async () => {
    const peer = await RawPeer.dial(target);
    peer.frame(answer(await peer.challenge()));
    await peer.expect('#FAILURE#');
    await assert.rejects(peer.nextFrame());
    assert.equal(await peer.ended, 'fin');
    // Else the next tests would wait longer and longer. [H-7]
    await (await target.join()).close();
  });
}

test('[H-5] a challenge before the answer is not answered: no reflection', async () => {
  const attacker = await RawPeer.dial(target);
  const nonce = await attacker.challenge();
  attacker.frame(Buffer.concat([Buffer.from('#CHALLENGE#'), nonce]));
  await attacker.expect('#FAILURE#');
  assert.equal(await attacker.ended, 'fin');
});

test('[H-5] the challenge is answered in the form it has', async () => {
  for (const name of ['sha256', 'md5', 'sha384', 'sha3_256', 'sha3_384']) {
    const peer = await RawPeer.dial(target);
    peer.frame(answerTo(await peer.challenge(), target.authkey));
    await peer.expect('#WELCOME#');
    const nonce = Buffer.concat([Buffer.from(`{${name}}`), newNonce().subarray(8)]);
    peer.frame(Buffer.concat([Buffer.from('#CHALLENGE#'), nonce]));
    assert.deepEqual(await peer.nextFrame(), answerTo(nonce, target.authkey, name));
    peer.abort();
  }
});

test('[H-5] a challenge in no known form ends the connection unanswered', async () => {
  for (const text of ['short', '{sha1}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'x'.repeat(48)]) {
    const peer = await RawPeer.dial(target);
    peer.frame(answerTo(await peer.challenge(), target.authkey));
    await peer.expect('#WELCOME#');
    peer.frame(`#CHALLENGE#${text}`);
    await assert.rejects(peer.nextFrame());
    assert.equal(await peer.ended, 'fin');
  }
});

test('[H-6] a proof for another role, version or connection is refused', async () => {
  const stolen = await RawPeer.dial(target);
  await stolen.shake(target.authkey);
  const proofs: ((peer: RawPeer) => Buffer)[] = [
    (peer) => peer.proof(target.authkey, 'slave'),
    (peer) => peer.proof(target.authkey, 'master'),
    (peer) => peer.proof(target.authkey, 'client', 1),
    (peer) => peer.proof(wrongKey, 'client'),
    () => stolen.proof(target.authkey, 'client'),
    () => Buffer.alloc(0),
  ];
  for (const proof of proofs) {
    const peer = await RawPeer.dial(target);
    await peer.shake(target.authkey);
    const reply = await peer.hello(target.authkey, { role: 'client', proof: proof(peer) });
    assert.equal(reply.error, 'E_AUTH');
    assert.equal(await peer.ended, 'fin');
  }
  stolen.abort();
});

test('[H-6] the reply to hello proves the master', async () => {
  const peer = await RawPeer.dial(target);
  await peer.shake(target.authkey);
  const reply = await peer.hello(target.authkey);
  assert.deepEqual(reply['proof'], peer.proof(target.authkey, 'master'));
  await peer.close();
});

test('[H-7] a peer that has not said hello in time is closed, wherever it stopped', async (t) => {
  if (target.process(t) === undefined) return;
  const silent = await RawPeer.dial(target);
  const half = await RawPeer.dial(target);
  half.write(Buffer.from([0]));
  const welcomed = await RawPeer.dial(target);
  welcomed.frame(answerTo(await welcomed.challenge(), target.authkey));
  const shaken = await RawPeer.dial(target);
  await shaken.shake(target.authkey);
  const begun = performance.now();
  for (const peer of [silent, half, welcomed, shaken]) assert.equal(await peer.ended, 'fin');
  const waited = performance.now() - begun;
  assert.ok(waited > 500 && waited < 3_000, `closed after ${waited} ms`);
});

/** A wrong answer; resolves with how long the verdict took, in ms. */
async function guess(at: Target, key = wrongKey): Promise<number> {
  const peer = await RawPeer.dial(at);
  const challenge = await peer.challenge();
  const answered = performance.now();
  peer.frame(answerTo(challenge, key));
  await peer.expect('#FAILURE#');
  const ms = performance.now() - answered;
  assert.equal(await peer.ended, 'fin');
  await peer.close();
  return ms;
}

test('[H-7] the verdict on wrong answers waits longer and longer, until a right one', async (t) => {
  // A live one would keep others of this address waiting, too.
  const own = await Target.own(t);
  if (own === undefined) return;
  for (let i = 0; i < 4; i++) await guess(own);
  // A timer may fire a millisecond early.
  assert.ok((await guess(own)) >= 499, 'the fifth');
  assert.ok((await guess(own)) >= 999, 'the sixth');
  await (await own.join()).close();
  assert.ok((await guess(own)) < 999, 'after a right one');
});

test('[H-7] a challenge never waits, nor does a right answer', async (t) => {
  const own = await Target.own(t);
  if (own === undefined) return;
  const waiting: RawPeer[] = [];
  for (let i = 0; i < 200; i++) {
    const peer = await RawPeer.dial(own);
    peer.frame(answerTo(await peer.challenge(), wrongKey));
    waiting.push(peer);
  }
  const began = performance.now();
  await (await own.join()).close();
  const ms = performance.now() - began;
  assert.ok(ms < 1_000, `${ms} ms beside ${waiting.length} wrong answers`);
  for (const peer of waiting) peer.abort();
});

test('[H-7] who speaks on before the verdict is closed', async (t) => {
  const own = await Target.own(t);
  if (own === undefined) return;
  for (let i = 0; i < 6; i++) {
    const peer = await RawPeer.dial(own);
    peer.frame(answerTo(await peer.challenge(), wrongKey));
    if (i < 3) await peer.ended;
    else {
      // The right answer comes too late.
      peer.frame(answerTo(peer.serverNonce, own.authkey));
      await assert.rejects(peer.nextFrame());
    }
    peer.abort();
  }
});

test('[H-7] a short key is guarded by challenges that wait', async (t) => {
  if (process.env['MASTER']) return t.skip('needs a master of its own');
  const cluster = new Cluster(t);
  const key = Buffer.from('short');
  await cluster.master([], { env: { ORB_AUTHKEY: key.toString() } });
  const { host, port } = parseAddress(cluster.address);
  const challengeMs = async () => {
    // The wait begins when the master accepts, which may be before this process hears of it.
    const dialled = performance.now();
    const peer = await RawPeer.dial({ host, port });
    const challenge = await peer.challenge();
    const ms = performance.now() - dialled;
    peer.frame(answerTo(challenge, wrongKey));
    await peer.expect('#FAILURE#');
    await peer.ended; // and so it is counted
    await peer.close();
    return ms;
  };
  for (let i = 0; i < 5; i++) await challengeMs();
  assert.ok((await challengeMs()) >= 499, 'after five wrong ones');
  // Any TLS that is no ClientHello is answered by an alert, and an answer by a verdict: neither
  // comes before the challenge.
  const early = [
    Buffer.from('16030100050100000100', 'hex'),
    frameOf(answerTo(newNonce(), wrongKey)),
  ];
  const peers = await Promise.all(early.map(() => RawPeer.dial({ host, port })));
  peers.forEach((peer, index) => {
    peer.write(early[index] ?? Buffer.alloc(0));
  });
  for (const peer of peers) {
    assert.equal((await peer.challenge()).length, 48);
    await peer.ended;
    await peer.close();
  }
});

test('[H-7] bytes that drip do not put the deadline off', async (t) => {
  if (target.process(t) === undefined) return;
  const peer = await RawPeer.dial(target);
  const drip = setInterval(() => peer.write(Buffer.from([0])), 100);
  try {
    assert.equal(await peer.ended, 'fin');
  } finally {
    clearInterval(drip);
  }
});

test('[H-8] a client refuses a master that cannot answer its challenge', async () => {
  await using fake = await FakeMaster.listen(async (peer) => {
    peer.frame(Buffer.concat([Buffer.from('#CHALLENGE#'), newNonce()]));
    await peer.frames(1);
    peer.frame('#WELCOME#');
    const challenge = (await peer.frames(2))[1]?.subarray(11) ?? Buffer.alloc(0);
    peer.frame(answerTo(challenge, wrongKey));
    assert.equal((await peer.frames(3))[2]?.toString(), '#FAILURE#');
  });
  const joining = connect({ host: '127.0.0.1', port: fake.port, authkey: target.authkey });
  await assert.rejects(joining, { code: 'E_AUTH' });
  await fake.served;
});

test('[D-1] a pickle after the handshake is answered with a pickle', async () => {
  const peer = await RawPeer.dial(target);
  await peer.shake(target.authkey, 'frames');
  // pickle.dumps((None, 'dummy', (), {}), 4)
  const pickle = '8004951000000000000000284e8c0564756d6d7994297d9474942e';
  peer.frame(Buffer.from(pickle, 'hex'));
  const reply = (await peer.nextFrame()).toString('hex');
  // ('#RETURN', None), byte for byte; one request a connection.
  assert.equal(reply, '800358070000002352455455524e4e862e');
  assert.equal(await peer.ended, 'fin');
});

test('[V-1] another version is told E_VERSION, whatever else its hello holds', async () => {
  for (const fields of [{}, { role: 'conductor' }, { more: 1, proof: null, name: 7 }]) {
    const peer = await RawPeer.dial(target);
    await peer.shake(target.authkey);
    const reply = await peer.request('hello', {
      role: 'client',
      name: 'x',
      proof: Buffer.alloc(32),
      ...fields,
      protocol: 1,
    });
    assert.equal(reply.error, 'E_VERSION');
    assert.match(reply.message ?? '', /protocol 2, the peer speaks 1/);
    assert.equal(await peer.ended, 'fin');
  }
});

test('[V-2] a client ignores fields and pushes that it does not know', async () => {
  const { authkey } = target;
  const pushes: unknown[] = [];
  await using fake = await FakeMaster.listen(async (peer) => {
    const ours = newNonce();
    peer.frame(Buffer.concat([Buffer.from('#CHALLENGE#'), ours]));
    await peer.frames(1);
    peer.frame('#WELCOME#');
    const theirs = (await peer.frames(2))[1]?.subarray(11) ?? Buffer.alloc(0);
    peer.frame(answerTo(theirs, authkey));
    const message = async (index: number) =>
      unpack((await peer.frames(index + 1))[index] ?? Buffer.alloc(0)) as Message;
    const hello = await message(3);
    const mac = createHmac('sha256', authkey).update('orbweaver 2 master\0').update(ours);
    const limits = { heartbeatMs: 1e4, silenceMs: 3e4, leaseMs: 1e5, frameBytesMax: 1e6 };
    const proof = mac.update(theirs).digest();
    peer.frame(pack({ id: hello['id'], ok: true, protocol: 2, ...limits, proof, weather: 'fine' }));
    peer.frame(pack({ verb: 'news', text: 'of a later version' }));
    peer.frame(pack({ id: 999_999, ok: true }));
    peer.frame(pack({ id: (await message(4))['id'], ok: true, more: [1] }));
    peer.frame(pack({ id: (await message(5))['id'], ok: true }));
  });
  const onPush = (push: unknown) => pushes.push(push);
  const client = await connect({ host: '127.0.0.1', port: fake.port, authkey, onPush });
  await client.request('ping', {});
  await client.close();
  assert.equal(pushes.length, 1);
});

/** Enough of a server to say wrong things to a client. */
class FakeMaster {
  readonly port: number;
  readonly served: Promise<void>;
  readonly #close: () => void;

  static async listen(serve: (peer: FakePeer) => Promise<void>): Promise<FakeMaster> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const served = once(server, 'connection').then(([socket]) => serve(new FakePeer(socket)));
    return new FakeMaster((server.address() as AddressInfo).port, served, () => server.close());
  }

  private constructor(port: number, served: Promise<void>, close: () => void) {
    this.port = port;
    this.served = served;
    this.#close = close;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.served;
    this.#close();
  }
}

class FakePeer {
  readonly #socket: Socket;
  #bytes = Buffer.alloc(0);

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => {
      this.#bytes = Buffer.concat([this.#bytes, chunk]);
    });
  }

  frame(payload: Buffer | string): void {
    this.#socket.write(frameOf(payload));
  }

  /** All frames so far, when there are `count`. */
  async frames(count: number): Promise<Buffer[]> {
    while (true) {
      const frames: Buffer[] = [];
      for (let at = 0; at + 4 <= this.#bytes.length; ) {
        const end = at + 4 + this.#bytes.readInt32BE(at);
        if (end > this.#bytes.length) break;
        frames.push(this.#bytes.subarray(at + 4, end));
        at = end;
      }
      if (frames.length >= count) return frames;
      await once(this.#socket, 'data');
    }
  }
}
