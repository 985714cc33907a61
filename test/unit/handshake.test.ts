import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import test from 'node:test';
import fc from 'fast-check';
import { AuthError, ProtocolError } from '../../shared/errors.ts';
import {
  type Agreement,
  type AuthDigest,
  ClientHandshake,
  roleProof,
  ServerHandshake,
  sameBytes,
} from '../../shared/handshake.ts';

const key = Buffer.from('a key that nobody guesses');
const welcome = Buffer.from('#WELCOME#');
const failure = Buffer.from('#FAILURE#');
const prefix = '#CHALLENGE#';

const hmac = (digest: string, message: Uint8Array, authkey: Buffer = key) =>
  createHmac(digest, authkey).update(message).digest();
const challengeIn = (frame: Buffer) => frame.subarray(prefix.length);
const named = (name: string, mac: Buffer) => Buffer.concat([Buffer.from(`{${name}}`), mac]);

type Ended = { agreement: Agreement | undefined; error: Error | undefined };

/** Lets both sides talk to each other until neither has anything to say. */
function talk(server: ServerHandshake, client: ClientHandshake): { server: Ended; client: Ended } {
  const ended = {
    server: { agreement: undefined, error: undefined } as Ended,
    client: { agreement: undefined, error: undefined } as Ended,
  };
  let toClient: readonly Buffer[] = [server.start()];
  let toServer: readonly Buffer[] = [];
  while (toClient.length + toServer.length > 0) {
    const [forClient, forServer] = [toClient, toServer];
    toClient = forServer.flatMap((frame) => stepOf(server.receive(frame), ended.server));
    toServer = forClient.flatMap((frame) => stepOf(client.receive(frame), ended.client));
  }
  return ended;
}

function stepOf(step: ReturnType<ServerHandshake['receive']>, ended: Ended): readonly Buffer[] {
  ended.agreement ??= step.agreement;
  ended.error ??= step.error;
  return step.send;
}

/** A server that is about to hear the answer to the challenge that is given, too. */
function makeServer(digest: AuthDigest = 'any'): { server: ServerHandshake; challenge: Buffer } {
  const server = new ServerHandshake([key], digest);
  return { server, challenge: challengeIn(server.start()) };
}

test('handshake: both sides of one key agree', () => {
  for (const digest of ['any', 'sha256'] as const) {
    const { server, client } = talk(new ServerHandshake([key], digest), new ClientHandshake(key));
    assert.equal(server.error ?? client.error, undefined);
    assert.deepEqual(server.agreement, client.agreement);
    assert.equal(server.agreement?.server.length, 48);
    assert.notDeepEqual(server.agreement?.server, server.agreement?.client);
  }
});

test('handshake: challenges are new every time and frames stay under 256 bytes', () => {
  const frames = Array.from({ length: 50 }, () => new ServerHandshake([key]).start());
  assert.equal(new Set(frames.map((frame) => frame.toString('hex'))).size, 50);
  assert.ok(frames.every(({ length }) => length === prefix.length + 48));
});

test('handshake: a client answers no digest but SHA-256, whoever asks for it', () => {
  const challenges = ['{md5}', '{sha384}', '{sha3_256}', '{sha1}', ''].map((name) =>
    Buffer.from(name.padEnd(name === '' ? 20 : 48, 'x')),
  );
  for (const challenge of challenges) {
    const step = new ClientHandshake(key).receive(Buffer.concat([Buffer.from(prefix), challenge]));
    assert.deepEqual(step.send, [], challenge.toString());
    assert.ok(step.error instanceof ProtocolError);
  }
});

test('handshake: another key is refused on both sides', () => {
  const other = Buffer.from('another key');
  const { server, client } = talk(new ServerHandshake([key]), new ClientHandshake(other));
  assert.ok(server.error instanceof AuthError);
  assert.ok(client.error instanceof AuthError);
  assert.equal(server.agreement ?? client.agreement, undefined);
});

test('handshake: CPython 3.12 and later, byte for byte', () => {
  const { server, challenge } = makeServer();
  assert.equal(challenge.subarray(0, 8).toString(), '{sha256}');
  const answered = server.receive(named('sha256', hmac('sha256', challenge)));
  assert.deepEqual(answered, { send: [welcome] });
  const own = Buffer.concat([Buffer.from('{sha256}'), Buffer.alloc(40, 0x5a)]);
  const proved = server.receive(Buffer.concat([Buffer.from(prefix), own]));
  assert.deepEqual(proved, { send: [named('sha256', hmac('sha256', own))] });
  const { agreement, send } = server.receive(welcome);
  assert.deepEqual(send, []);
  assert.deepEqual(agreement, { authkey: key, server: challenge, client: own });
});

test('handshake: CPython up to 3.11, byte for byte', () => {
  const { server, challenge } = makeServer();
  assert.deepEqual(server.receive(hmac('md5', challenge)), { send: [welcome] });
  const own = Buffer.alloc(20, 0x41);
  const proved = server.receive(Buffer.concat([Buffer.from(prefix), own]));
  assert.deepEqual(proved, { send: [hmac('md5', own)] });
  assert.deepEqual(server.receive(welcome).agreement, {
    authkey: key,
    server: challenge,
    client: own,
  });
});

test('handshake: every digest of CPython is accepted and answered in kind', () => {
  const digests = { md5: 'md5', sha256: 'sha256', sha384: 'sha384' } as Record<string, string>;
  digests['sha3_256'] = 'sha3-256';
  digests['sha3_384'] = 'sha3-384';
  for (const [name, digest] of Object.entries(digests)) {
    const { server, challenge } = makeServer();
    const step = server.receive(named(name, hmac(digest, challenge)));
    assert.deepEqual(step, { send: [welcome] }, name);
    const own = Buffer.concat([Buffer.from(`{${name}}`), Buffer.alloc(40, 9)]);
    const { send } = server.receive(Buffer.concat([Buffer.from(prefix), own]));
    assert.deepEqual(send, [named(name, hmac(digest, own))], name);
  }
});

test('handshake: a server of sha256 alone takes nothing else', () => {
  const answers: ((challenge: Buffer) => Buffer)[] = [
    (challenge) => hmac('md5', challenge),
    (challenge) => named('md5', hmac('md5', challenge)),
    (challenge) => named('sha384', hmac('sha384', challenge)),
  ];
  for (const answer of answers) {
    const { server, challenge } = makeServer('sha256');
    const step = server.receive(answer(challenge));
    assert.ok(step.error instanceof AuthError);
    assert.deepEqual(step.send, [failure]);
  }
  const { server, challenge } = makeServer('sha256');
  assert.deepEqual(server.receive(named('sha256', hmac('sha256', challenge))).send, [welcome]);
});

test('handshake: wrong answers get #FAILURE# and end it', () => {
  const answers: ((challenge: Buffer) => Buffer)[] = [
    () => Buffer.alloc(0),
    () => Buffer.alloc(16),
    () => Buffer.alloc(300),
    () => welcome,
    (challenge) => hmac('sha256', challenge),
    (challenge) => named('sha256', hmac('sha256', challenge).subarray(0, 31)),
    (challenge) => named('sha256', Buffer.concat([hmac('sha256', challenge), Buffer.alloc(1)])),
    (challenge) => named('sha256', hmac('md5', challenge)),
    (challenge) => named('sha1', hmac('sha1', challenge)),
    (challenge) => named('sha512', hmac('sha512', challenge)),
    (challenge) => named('SHA256', hmac('sha256', challenge)),
    (challenge) => named('__proto__', hmac('sha256', challenge)),
    (challenge) => named('', hmac('sha256', challenge)),
    // Without the {sha256} that belongs to the challenge.
    (challenge) => named('sha256', hmac('sha256', challenge.subarray(8))),
    (challenge) => hmac('md5', challenge.subarray(8)),
    (challenge) => hmac('md5', challenge).subarray(0, 15),
    // The challenge itself, sent back.
    (challenge) => challenge,
    (challenge) => Buffer.concat([Buffer.from(prefix), challenge]),
  ];
  for (const [i, answer] of answers.entries()) {
    const { server, challenge } = makeServer();
    const step = server.receive(answer(challenge));
    assert.ok(step.error instanceof AuthError, `answer ${i}`);
    assert.deepEqual(step.send, [failure], `answer ${i}`);
    assert.ok(server.receive(named('sha256', hmac('sha256', challenge))).error);
  }
});

test('handshake: the server answers no challenge before the key is proved', () => {
  const { server } = makeServer();
  const own = Buffer.concat([Buffer.from(`${prefix}{sha256}`), Buffer.alloc(40, 1)]);
  const step = server.receive(own);
  assert.deepEqual(step.send, [failure]);
  assert.deepEqual(server.receive(own).send, []);
});

test('handshake: challenges that cannot be answered end it', () => {
  const challenges = [
    '',
    'hello',
    prefix,
    `${prefix}{sha256}short`,
    `${prefix}${'x'.repeat(19)}`,
    `${prefix}${'x'.repeat(48)}`,
    `${prefix}{sha1}${'x'.repeat(40)}`,
  ];
  for (const text of challenges) {
    const { server, challenge } = makeServer();
    server.receive(hmac('md5', challenge));
    const step = server.receive(Buffer.from(text));
    assert.ok(step.error instanceof ProtocolError, text);
    assert.deepEqual(step.send, [], text);
    assert.equal(server.receive(welcome).agreement, undefined, text);
    const client = new ClientHandshake(key);
    assert.ok(client.receive(Buffer.from(text)).error instanceof ProtocolError, text);
    assert.equal(client.receive(welcome).agreement, undefined, text);
  }
});

test('handshake: a client that refuses our digest is not welcome', () => {
  for (const verdict of ['#FAILURE#', '', '#WELCOME', '#WELCOME##']) {
    const { server, challenge } = makeServer();
    server.receive(hmac('md5', challenge));
    server.receive(Buffer.concat([Buffer.from(prefix), Buffer.alloc(20)]));
    const step = server.receive(Buffer.from(verdict));
    assert.ok(step.error instanceof AuthError);
    assert.equal(step.agreement, undefined);
  }
});

/** A client that has met the server's challenge and was welcomed; and its own challenge. */
function welcomedClient(): { client: ClientHandshake; challenge: Buffer } {
  const client = new ClientHandshake(key);
  client.receive(new ServerHandshake([key]).start());
  const [frame] = client.receive(welcome).send;
  assert.ok(frame);
  return { client, challenge: challengeIn(frame) };
}

test('handshake: a client trusts no server without the key', () => {
  const answers: ((challenge: Buffer) => Buffer)[] = [
    (challenge) => named('sha256', hmac('sha256', challenge, Buffer.from('other'))),
    (challenge) => hmac('md5', challenge),
    (challenge) => named('md5', hmac('md5', challenge)),
    (challenge) => challenge,
    () => welcome,
    () => Buffer.alloc(0),
  ];
  for (const answer of answers) {
    const { client, challenge } = welcomedClient();
    const step = client.receive(answer(challenge));
    assert.ok(step.error instanceof AuthError);
    assert.deepEqual(step.send, [failure]);
    assert.equal(step.agreement, undefined);
  }
  const { client, challenge } = welcomedClient();
  const step = client.receive(named('sha256', hmac('sha256', challenge)));
  assert.deepEqual(step.send, [welcome]);
  assert.deepEqual(step.agreement?.client, challenge);
});

test('handshake: a client that is told to go leaves with AuthError', () => {
  const client = new ClientHandshake(key);
  client.receive(new ServerHandshake([key]).start());
  assert.ok(client.receive(failure).error instanceof AuthError);
});

test('handshake: nothing is taken after its end', () => {
  const { server, challenge } = makeServer();
  server.receive(hmac('md5', challenge));
  server.receive(Buffer.concat([Buffer.from(prefix), Buffer.alloc(20)]));
  assert.ok(server.receive(welcome).agreement);
  for (const frame of [welcome, hmac('md5', challenge), Buffer.alloc(0)]) {
    const step = server.receive(frame);
    assert.ok(step.error instanceof ProtocolError);
    assert.equal(step.agreement, undefined);
    assert.deepEqual(step.send, []);
  }
});

test('handshake: random frames without the key never open either side', () => {
  const frame = fc.oneof(
    fc.uint8Array({ maxLength: 80 }).map((bytes) => Buffer.from(bytes)),
    fc.constantFrom(welcome, failure, Buffer.alloc(16), Buffer.from(`${prefix}{sha256}`)),
    fc.uint8Array({ minLength: 20, maxLength: 20 }).map((bytes) => {
      return Buffer.concat([Buffer.from(prefix), bytes]);
    }),
  );
  fc.assert(
    fc.property(fc.array(frame, { maxLength: 8 }), (frames) => {
      const sides = [new ServerHandshake([key]), new ClientHandshake(key)];
      for (const side of sides) {
        for (const bytes of frames) assert.equal(side.receive(bytes).agreement, undefined);
      }
    }),
  );
});

test('handshake: a role proof binds key, role, version, both challenges and the channel', () => {
  const agreement = { authkey: key, server: Buffer.alloc(48, 1), client: Buffer.alloc(48, 2) };
  const swapped = { authkey: key, server: agreement.client, client: agreement.server };
  const plain = Buffer.alloc(0);
  const proofs = [
    roleProof(agreement, 'slave', 1, plain),
    roleProof({ ...agreement, authkey: Buffer.from('other') }, 'slave', 1, plain),
    roleProof(agreement, 'master', 1, plain),
    roleProof(agreement, 'client', 1, plain),
    roleProof(agreement, 'slave', 2, plain),
    roleProof(swapped, 'slave', 1, plain),
    roleProof({ ...agreement, client: Buffer.alloc(48, 3) }, 'slave', 1, plain),
    roleProof(agreement, 'slave', 1, Buffer.alloc(32, 4)),
    roleProof(agreement, 'slave', 1, Buffer.alloc(32, 5)),
  ];
  assert.equal(new Set(proofs.map((proof) => proof.toString('hex'))).size, proofs.length);
  assert.deepEqual(roleProof(agreement, 'slave', 1, plain), proofs[0]);
});

test('handshake: any of the keys of a server lets in, and the agreement says which', () => {
  const older = Buffer.from('the key of last year, still good');
  for (const authkey of [key, older]) {
    const { server, client } = talk(
      new ServerHandshake([key, older]),
      new ClientHandshake(authkey),
    );
    assert.equal(server.error ?? client.error, undefined);
    assert.deepEqual(server.agreement?.authkey, authkey);
    assert.deepEqual(server.agreement, client.agreement);
  }
  const other = talk(new ServerHandshake([key, older]), new ClientHandshake(Buffer.from('other')));
  assert.equal(other.server.error?.message, 'the authkey was refused');
});

test('handshake: a role proof is nothing that a challenge could be answered with', () => {
  // The first bytes of what is signed are no `{name}`, and it is never 20 bytes long.
  const stolen = Buffer.concat([Buffer.from(`${prefix}orbweaver 2 master\0`), Buffer.alloc(96)]);
  assert.ok(new ClientHandshake(key).receive(stolen).error instanceof ProtocolError);
});

test('handshake: bytes are the same only in full', () => {
  assert.ok(sameBytes(Buffer.from('ab'), Buffer.from('ab')));
  assert.ok(!sameBytes(Buffer.from('ab'), Buffer.from('ac')));
  assert.ok(!sameBytes(Buffer.from('ab'), Buffer.from('abc')));
  assert.ok(sameBytes(Buffer.alloc(0), Buffer.alloc(0)));
});
