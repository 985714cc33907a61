/** Outputs to database servers over TLS: certificates, and URLs that demand it in other words. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { HeldError, UnavailableError } from '../../master/sinks/sink.ts';
import { Authority } from '../support/certificates.ts';
import { Cluster } from '../support/cluster.ts';
import { before, crawlWith, itemsFrom, kindOf } from '../support/columns.ts';
import { httpServer } from '../support/http-server.ts';
import { startPostgres } from '../support/servers.ts';

test('TLS: PostgreSQL with a certificate of an unknown authority is waited for', async (t) => {
  const server = await startPostgres(new Authority().issue());
  if (server === undefined) return t.skip('PostgreSQL is not installed');
  t.after(() => server.close());
  const url = `postgres://postgres@127.0.0.1:${server.port}/postgres?sslmode=`;
  const { kind } = kindOf(t, `${url}require`);
  const sink = await kind.open(crawlWith(before), undefined);
  await sink.write(itemsFrom(1, { title: 'a', n: 1 }));
  await sink.close();
  const { kind: verified } = kindOf(t, `${url}verify-full`);
  await assert.rejects(verified.open(crawlWith(before), undefined), (error) => {
    assert.ok(error instanceof UnavailableError, String(error));
    assert.match(
      error.message,
      /^postgres: unable to verify .*: start the master with NODE_EXTRA_/,
    );
    return true;
  });
});

test('TLS: PostgreSQL at an address has to have a certificate for that', async (t) => {
  const authority = new Authority();
  const server = await startPostgres(authority.issue({ names: ['127.0.0.1'] }));
  if (server === undefined) return t.skip('PostgreSQL is not installed');
  t.after(() => server.close());
  const cluster = new Cluster(t);
  const file = join(cluster.folder, 'ca.pem');
  writeFileSync(file, authority.cert);
  const site = await httpServer(t, (_, response) => response.end('<title>x</title>'));
  const run = async (host: string, crawl: string) => {
    const to = `postgres://postgres@${host}:${server.port}/postgres?sslmode=verify-full`;
    const folders = ['--data', join(cluster.folder, crawl), '--out', join(cluster.folder, 'out')];
    const more = ['--slaves', '1', '--exit-when-done', '--listen', '127.0.0.1:0', ...folders];
    const args = [
      'master.js',
      `http://127.0.0.1:${site}/`,
      '--output',
      to,
      '--crawl',
      crawl,
      ...more,
    ];
    const env = { ...process.env, NODE_EXTRA_CA_CERTS: file };
    const program = cluster.run(args, { env });
    return { code: (await program.exited).code, output: program.output };
  };
  const address = await run('127.0.0.1', 'a');
  assert.equal(address.code, 0, address.output);
  const name = await run('localhost', 'b');
  assert.equal(name.code, 2, name.output);
  assert.match(
    name.output,
    /Host: localhost\. is not cert's CN|does not match certificate's altnames/,
  );
});

test('TLS: a URL that demands it in words of another driver is no plain text', async (t) => {
  const faults = {
    'mysql://a@127.0.0.1:1/b?useSSL=true':
      'its URL has a parameter that is not known: useSSL; leave it out ' +
      '(TLS is ssl-mode=VERIFY_IDENTITY, VERIFY_CA or REQUIRED)',
    'mysql://a@127.0.0.1:1/b?ssl=true':
      'its URL has a parameter that is not known: ssl without {…}; leave it out ' +
      '(TLS is ssl-mode=VERIFY_IDENTITY, VERIFY_CA or REQUIRED)',
    'mysql://a@127.0.0.1:1/b?ssl-mode=on':
      'the ssl-mode of its URL must be one of DISABLED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY',
    'mysql://a@127.0.0.1:1/b?ssl-mode=verify_identity':
      'its ssl-mode VERIFY_IDENTITY needs the name of the host: give no address',
    'redis://127.0.0.1:1/0?tls=true':
      'its URL has parameters behind ?, which Redis has none of; leave them out ' +
      '(rediss://… is with TLS)',
  };
  for (const [url, fault] of Object.entries(faults)) {
    const { kind } = kindOf(t, url);
    await assert.rejects(kind.open(crawlWith(before), undefined), (error) => {
      assert.ok(error instanceof HeldError, String(error));
      assert.equal(error.message.replace(/^\w+: /, ''), fault);
      return true;
    });
  }
});
