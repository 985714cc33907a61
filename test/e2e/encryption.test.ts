/** Encryption and keys as an operator meets them: real masters and slaves. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from '../../shared/client.ts';
import { Cluster, type Exit } from '../support/cluster.ts';
import { startDemo } from '../support/demo.ts';

const timeout = 60_000;

test('an encrypted crawl: --tls on both sides, subcommands by orbs://', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  const site = await startDemo();
  t.after(() => site.close());
  const master = await cluster.master(['--tls', site.url]);
  cluster.slave(['--tls']);
  await master.said(/is done after .* 78 pages, 68 images, 4 failed/);
  const key = ['--authkey-file', join(cluster.data, 'authkey')];
  const status = cluster.run([
    'master.js',
    'status',
    '--master',
    `orbs://${cluster.address}`,
    ...key,
  ]);
  assert.deepEqual(await status.exited, ended(0));
  assert.match(status.stdout, /default +finished/);
  const plain = cluster.run(['master.js', 'status', '--master', cluster.address, ...key]);
  assert.deepEqual(await plain.exited, ended(2));
  assert.match(
    plain.stderr,
    /^master: the master accepts only encrypted connections; give --tls\n$/,
  );
  const slave = cluster.slave([]);
  assert.deepEqual(await slave.exited, ended(2));
});

test('--tls of the master: its own folder and the printed command know it', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const master = await cluster.master(['--tls']);
  const [, call = ''] = await master.said(/start a slave with: node (slave\.js .*)\n/);
  const slave = cluster.run(call.split(' '));
  await slave.said(/joined/);
  symlinkSync(cluster.data, join(cluster.folder, 'orb-data'));
  const status = cluster.run(['master.js', 'status']);
  assert.deepEqual(await status.exited, ended(0));
  const plain = cluster.run(['master.js', 'status', '--no-tls']);
  assert.deepEqual(await plain.exited, ended(2));
  assert.match(
    plain.stderr,
    /^master: the master accepts only encrypted connections; give --tls\n$/,
  );
});

test('a certificate: the slave checks it, whoever has none is not told the key', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const { cert, key } = selfSigned(cluster.folder, 'ours');
  const other = selfSigned(cluster.folder, 'other');
  await cluster.master(['--tls', '--tls-cert', cert, '--tls-key', key]);
  const [host = '', port = ''] = cluster.address.split(':');
  const { authkey } = cluster;
  const ca = readFileSync(cert);
  const master = await connect({ host, port: Number(port), authkey, tls: { ca } });
  assert.equal(await master.queue('x').put(1), 1);
  await master.close();
  // By the authkey still.
  const byKey = await connect({ host, port: Number(port), authkey, tls: true });
  assert.equal(await byKey.queue('x').size(), 1);
  await byKey.close();
  const wrong = cluster.slave(['--tls-ca', other.cert]);
  assert.deepEqual(await wrong.exited, ended(2));
  assert.match(
    wrong.stderr,
    /^slave: the master's certificate is not valid: .*; check --tls-ca\n$/,
  );
});

test('a certificate is replaced while the master runs', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  const shown = selfSigned(cluster.folder, 'shown');
  const first = readFileSync(shown.cert);
  const master = await cluster.master(['--tls-cert', shown.cert, '--tls-key', shown.key]);
  const [host = '', port = ''] = cluster.address.split(':');
  const { authkey } = cluster;
  const join_ = async (tls: true | { ca: Buffer }) =>
    (await connect({ host, port: Number(port), authkey, tls })).close();
  await join_({ ca: first });
  const next = selfSigned(cluster.folder, 'next');
  const ca = readFileSync(next.cert);
  writeFileSync(shown.cert, ca);
  // Its key is not there yet.
  await eventually(async () => {
    await join_({ ca: first });
    assert.match(master.output, /--tls-key is not the key of .*previous certificate stays in use/);
  });
  writeFileSync(shown.key, readFileSync(next.key));
  await eventually(() => join_({ ca }));
  await assert.rejects(join_({ ca: first }), /certificate is not valid/);
  await join_(true);
});

test('a certificate for another name: the line says whose it should be', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  const { cert, key } = selfSigned(cluster.folder, 'ours');
  await cluster.master(['--tls-cert', cert, '--tls-key', key]);
  // Another name of this machine, which the certificate does not have.
  const slave = cluster.slave(
    ['--tls-ca', cert],
    cluster.address.replace('127.0.0.1', 'localhost'),
  );
  assert.equal((await slave.exited).code, 2);
  assert.match(
    slave.stderr,
    /^slave: the master's certificate is not for localhost; use a name .* --master\n$/,
  );
});

test('a master without a certificate says what to do to who asks for one', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const { cert } = selfSigned(cluster.folder, 'ours');
  await cluster.master([]);
  const slave = cluster.slave(['--tls-ca', cert]);
  assert.deepEqual(await slave.exited, ended(2));
  assert.match(
    slave.stderr,
    /^slave: the master shows no certificate; start the master with --tls-cert\n$/,
  );
});

test('a certificate of anybody is no stand-in for the authkey', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  const { cert, key } = selfSigned(cluster.folder, 'imposter');
  const imposter = await cluster.master(['--tls-cert', cert, '--tls-key', key]);
  writeFileSync(join(cluster.folder, 'key'), 'the key of the real master', { mode: 0o600 });
  // Even if this machine trusts who signed it.
  const slave = cluster.run(
    [
      'slave.js',
      '--tls',
      '--master',
      cluster.address,
      '--authkey-file',
      join(cluster.folder, 'key'),
    ],
    { env: { NODE_EXTRA_CA_CERTS: cert, NODE_TLS_REJECT_UNAUTHORIZED: '0' } },
  );
  assert.deepEqual(await slave.exited, ended(3));
  assert.match(slave.stderr, /the master refused the authkey/);
  assert.doesNotMatch(imposter.output, /slave joined/);
});

test('keys are changed while master and slaves run', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  await cluster.master([]);
  const [host = '', port = ''] = cluster.address.split(':');
  const join_ = (authkey: Buffer | string, tls = false) =>
    connect({ host, port: Number(port), authkey, tls }).then((master) => master.close());
  const file = join(cluster.data, 'authkey');
  const old = cluster.authkey;
  const next = 'the key of the time that comes';
  await assert.rejects(join_(next), /refused the authkey/);
  writeFileSync(file, `${next}\n${old}\n`);
  await eventually(() => join_(next));
  await join_(old);
  await join_(next, true);
  await join_(old, true);
  writeFileSync(file, `${next}\n`);
  await eventually(() => assert.rejects(join_(old), /refused the authkey/));
  await assert.rejects(join_(old, true), /refused the authkey/);
  await join_(next);
});

test('an authkey file that others may read is refused, also while the master runs', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const master = await cluster.master([]);
  const { address, authkey } = cluster;
  const [host = '', port = ''] = address.split(':');
  const file = join(cluster.data, 'authkey');
  chmodSync(file, 0o640);
  await eventually(async () => {
    await (await connect({ host, port: Number(port), authkey })).close();
    assert.match(master.output, /open to other users \(mode 0640\).*the previous keys stay valid/);
  });
  const slave = cluster.slave([]);
  assert.deepEqual(await slave.exited, ended(2));
  assert.match(
    slave.stderr,
    /^slave: the authkey file .* is open to other users \(mode 0640\); run: chmod 600 /,
  );
});

function ended(code: number): Exit {
  return { code, signal: null };
}

/** A file is read once a second at most. */
async function eventually(what: () => Promise<unknown>): Promise<void> {
  const giveUpAt = performance.now() + 20_000;
  while (true) {
    try {
      await what();
      return;
    } catch (error) {
      if (performance.now() > giveUpAt) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

function selfSigned(folder: string, name: string): { cert: string; key: string } {
  const [cert, key] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)];
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'],
      ...['-days', '2', '-subj', `/CN=${name}`, '-addext', 'subjectAltName=IP:127.0.0.1'],
      ...['-out', cert, '-keyout', key],
    ],
    { stdio: 'ignore' },
  );
  return { cert, key };
}
