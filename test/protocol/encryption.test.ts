/** TLS on the port of the plain dialects. Source: PROTOCOL.md [K-1]..[K-7], [H-7]. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { connect } from '../../shared/client.ts';
import { answerTo, frameOf, newNonce, RawPeer } from '../support/raw-peer.ts';
import { Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());

const wrongKey = Buffer.from('not the key, not the key');

/** Between a client and the master: sees what goes by, and may change it. */
async function between(
  change: (chunk: Buffer, from: 'client' | 'master') => Buffer = (chunk) => chunk,
): Promise<{ port: number; seen: { client: Buffer; master: Buffer }; close: () => void }> {
  const seen = { client: Buffer.alloc(0), master: Buffer.alloc(0) };
  const sockets: Socket[] = [];
  const server = createServer((client) => {
    const master = createConnection({ host: target.host, port: target.port });
    sockets.push(client, master);
    const carry = (from: Socket, to: Socket, who: 'client' | 'master') => {
      from.on('data', (chunk: Buffer) => {
        seen[who] = Buffer.concat([seen[who], chunk]);
        to.write(change(chunk, who));
      });
      from.on('end', () => to.end());
      from.on('error', () => to.destroy());
    };
    carry(client, master, 'client');
    carry(master, client, 'master');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

test('[K-1] an encrypted client sends nothing but TLS, and nothing of it can be read', async (t) => {
  const { port, seen, close } = await between();
  t.after(close);
  const { host, authkey } = target;
  const master = await connect({ host, port, authkey, tls: true, name: 'a-telling-name' });
  await master.queue('a-telling-queue').put('a telling value');
  await master.close();
  assert.deepEqual(
    [...seen.client.subarray(0, 3)],
    [0x16, 3, 1],
    'its first bytes are a ClientHello',
  );
  for (const told of ['telling', '{sha256}', 'hello']) {
    assert.equal(seen.client.includes(told), false, told);
  }
  // The master's first frame is plain: a length and the challenge.
  const afterChallenge = seen.master.subarray(4 + seen.master.readInt32BE(0));
  for (const told of ['telling', '#WELCOME#', 'orbweaver']) {
    assert.equal(afterChallenge.includes(told), false, told);
  }
});

test('[K-1] a client that wants TLS is not talked down by anything that comes instead', async (t) => {
  for (const instead of ['#WELCOME#', '#FAILURE#', '#TLS#']) {
    const { port, seen, close } = await between((chunk, from) =>
      from === 'master' ? frameOf(instead) : chunk,
    );
    t.after(close);
    const { host, authkey } = target;
    await assert.rejects(connect({ host, port, authkey, tls: true, timeoutMs: 5_000 }));
    assert.equal(seen.client.length === 0 || seen.client[0] === 0x16, true, instead);
  }
});

test('[K-2] plain and encrypted peers are served on one port', async () => {
  const plain = await target.join();
  const peer = await RawPeer.dial(target);
  await peer.shakeEncrypted(target.authkey);
  assert.equal((await peer.hello(target.authkey)).ok, true);
  await peer.sync();
  await plain.sync();
  await Promise.all([peer.close(), plain.close()]);
});

test('[K-3] TLS 1.3 by the authkey and an ephemeral key exchange', async () => {
  const peer = await RawPeer.dial(target);
  await peer.challenge();
  const socket = await peer.encrypt(target.authkey);
  assert.equal(socket.getProtocol(), 'TLSv1.3');
  // An object without a type where there was none.
  const exchange = socket.getEphemeralKeyInfo() as { type?: string };
  assert.notEqual(exchange.type, undefined);
  await peer.close();
});

test('[K-3] an older TLS is refused', async () => {
  const peer = await RawPeer.dial(target);
  await peer.challenge();
  const old = { minVersion: 'TLSv1.2', maxVersion: 'TLSv1.2', ciphers: 'PSK' } as const;
  await assert.rejects(peer.encrypt(target.authkey, old));
});

test('[K-4] a master that speaks twice before TLS is left', async (t) => {
  const { port, seen, close } = await between((chunk, from) =>
    from === 'master' && seen.master.length === chunk.length
      ? Buffer.concat([chunk, frameOf('#WELCOME#')])
      : chunk,
  );
  t.after(close);
  const { host, authkey } = target;
  await assert.rejects(
    connect({ host, port, authkey, tls: true }),
    /not an Orbweaver master|twice/,
  );
  assert.equal(seen.client.length, 0);
});

test('[K-4] a challenge that was changed on the way only fails the handshake', async (t) => {
  const { port, seen, close } = await between((chunk, from) =>
    from === 'master' && seen.master.length === chunk.length
      ? frameOf(Buffer.concat([Buffer.from('#CHALLENGE#'), newNonce()]))
      : chunk,
  );
  t.after(close);
  const { host, authkey } = target;
  await assert.rejects(connect({ host, port, authkey, tls: true }), /refused the authkey/);
});

test('[K-5] a master with --tls tells plain peers so, and serves encrypted ones', async (t) => {
  if (target.cluster === undefined) {
    t.skip('needs a master of its own');
    return;
  }
  const strict = await Target.open({}, ['--tls']);
  t.after(() => strict.close());
  const peer = await RawPeer.dial(strict);
  peer.frame(answerTo(await peer.challenge(), strict.authkey));
  await peer.expect('#TLS#');
  assert.equal(await peer.ended, 'fin');
  const { host, port, authkey } = strict;
  await assert.rejects(connect({ host, port, authkey }), /only encrypted connections; give --tls/);
  const master = await connect({ host, port, authkey, tls: true });
  assert.equal(await master.queue('x').size(), 0);
  await master.close();
});

test('[K-6] a hello inside TLS without the binding of this connection is refused', async () => {
  const peer = await RawPeer.dial(target);
  await peer.shakeEncrypted(target.authkey);
  const proof = peer.proof(target.authkey, 'client');
  proof[0] = (proof[0] ?? 0) ^ 1;
  const answer = await peer.hello(target.authkey, { proof });
  assert.equal(answer.error, 'E_AUTH');
  // A proof that would be right in plain is wrong here.
  const other = await RawPeer.dial(target);
  await other.shakeEncrypted(target.authkey);
  const plain = other.plainProof(target.authkey, 'client');
  assert.equal((await other.hello(target.authkey, { proof: plain })).error, 'E_AUTH');
});

test('[K-7] a wrong key ends TLS, on either side', async () => {
  const peer = await RawPeer.dial(target);
  await peer.challenge();
  await assert.rejects(peer.encrypt(wrongKey));
  const { host, port } = target;
  const error = await connect({ host, port, authkey: wrongKey, tls: true }).catch((e) => e);
  assert.equal(error.code, 'E_AUTH');
});

test('[K-7] garbage after the ClientHello is no verdict on the key', async (t) => {
  const garbage = [
    'garbage garbage garbage',
    'HTTP/1.1 400 Bad Request\r\n\r\n',
    frameOf('#FAILURE#'),
    Buffer.from(`160303003a02${'00'.repeat(57)}`, 'hex'),
    Buffer.from(`1603031000${'ab'.repeat(4096)}`, 'hex'),
    // The alerts internal_error and protocol_version.
    Buffer.from('15030300020250', 'hex'),
    Buffer.from('15030300020246', 'hex'),
  ];
  for (const bytes of garbage) {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.write(frameOf(Buffer.concat([Buffer.from('#CHALLENGE#'), newNonce()])));
      socket.once('data', () => socket.write(bytes));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.close());
    const { port } = server.address() as AddressInfo;
    for (const tls of [true, { ca: '' }]) {
      const joining = connect({ host: '127.0.0.1', port, authkey: target.authkey, tls });
      await assert.rejects(joining, { code: 'E_CLOSED', retryable: true });
    }
  }
});

test('[K-7] a slave goes on after garbage, and joins when the master is back', async (t) => {
  if (target.cluster === undefined) return t.skip('needs a master of its own');
  let isBroken = true;
  let broken = 0;
  const server = createServer((client) => {
    const master = createConnection({ host: target.host, port: target.port });
    for (const socket of [client, master]) socket.on('error', () => {});
    client.on('close', () => master.destroy());
    master.pipe(client);
    if (!isBroken) client.pipe(master);
    else {
      client.once('data', () => {
        if (++broken === 2) isBroken = false;
        client.write('garbage garbage garbage');
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const slave = target.cluster.slave([], `orbs://127.0.0.1:${port}`);
  await slave.said(/joined/);
  assert.equal(broken, 2);
  await slave.kill('SIGKILL');
  server.close();
});

test('[K-7] what is no TLS does not count as a wrong key', async (t) => {
  const own = await Target.own(t);
  if (own === undefined) return;
  // A peer without TLS is not counted as a wrong key: a verdict would wait. Half of them send a
  // whole record, half the beginning of one.
  await Promise.all(
    [300, 300, 300, 40, 40, 40].map(async (length) => {
      const peer = await RawPeer.dial(own);
      await peer.challenge();
      peer.write(Buffer.from(`16030100${'ff'.repeat(length)}`, 'hex'));
      await peer.ended;
      peer.abort();
    }),
  );
  const peer = await RawPeer.dial(own);
  const challenge = await peer.challenge();
  const answered = performance.now();
  peer.frame(answerTo(challenge, wrongKey));
  await peer.expect('#FAILURE#');
  assert.ok(performance.now() - answered < 900);
  await peer.close();
});
