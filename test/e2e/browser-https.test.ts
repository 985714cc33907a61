/** Pages in the browser of an https site whose authority only the slave trusts, or both. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { browserFlags, noBrowser } from '../support/browser.ts';
import { lineOf } from '../support/browser-site.ts';
import { Authority } from '../support/certificates.ts';
import { Cluster } from '../support/cluster.ts';

const timeout = 120_000;
const certutil = '/usr/bin/certutil';

/** Returns its start page. */
async function httpsSite(t: TestContext, authority: Authority): Promise<string> {
  const { cert, key } = authority.issue();
  const server = createServer({ cert, key }, ({ url }, response) => {
    const type = url === '/app.js' ? 'text/javascript' : 'text/html';
    response.setHeader('content-type', type);
    if (url === '/app.js') response.end('app.innerHTML = "<a href=/end>x</a>"');
    else if (url === '/') response.end('<p id=app></p><script src=/app.js></script>');
    else response.writeHead(url === '/end' ? 200 : 404).end('<title>end</title>');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.closeAllConnections());
  t.after(() => server.close());
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

async function crawled(t: TestContext, isTrusted: boolean): Promise<Cluster> {
  const authority = new Authority();
  const url = await httpsSite(t, authority);
  const cluster = new Cluster(t);
  const trusted = join(cluster.folder, 'authority.pem');
  writeFileSync(trusted, authority.cert);
  if (isTrusted) {
    const folder = join(cluster.folder, '.pki/nssdb');
    mkdirSync(folder, { recursive: true });
    const store = ['-d', `sql:${folder}`];
    execFileSync(certutil, [...store, '-N', '--empty-password']);
    execFileSync(certutil, [...store, '-A', '-n', 'own', '-t', 'C,,', '-i', trusted]);
  }
  const master = await cluster.master([
    url,
    '--crawl',
    'c',
    '--render',
    'auto',
    '--exit-when-done',
  ]);
  const env = { NODE_EXTRA_CA_CERTS: trusted, HOME: cluster.folder };
  cluster.slave(browserFlags, cluster.address, { env });
  assert.equal((await master.exited).code, 0, master.output);
  return cluster;
}

test('browser: a page says that Chromium does not trust its host', {
  timeout,
  skip: noBrowser,
}, async (t) => {
  const { links, missed, requests } = lineOf(await crawled(t, false), '/');
  assert.deepEqual([links, missed, requests], [0, ['certificate'], 1]);
});

test("browser: an authority in the user's list is trusted", {
  timeout,
  skip: noBrowser || (existsSync(certutil) ? false : 'NO CERTUTIL: install libnss3-tools'),
}, async (t) => {
  const cluster = await crawled(t, true);
  const { links, missed } = lineOf(cluster, '/');
  assert.deepEqual([links, missed], [1, undefined]);
  assert.equal(cluster.pages('c').length, 2);
});
