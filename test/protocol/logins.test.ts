/** --cookie, --cookie-file and --header reach the hosts that they are for, and no other. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Cluster } from '../support/cluster.ts';
import { assertLeaves } from '../support/parts.ts';

const timeout = 60_000;

type Sent = Pick<IncomingHttpHeaders, 'cookie'> & { path: string; mine: string | undefined };

/** Two hosts of this machine, each with its own name; the first links to the second. */
async function hosts(t: TestContext) {
  const sent: Sent[] = [];
  const server = createServer(({ url = '', headers }, response) => {
    const mine = headers['x-mine'];
    sent.push({ path: `${headers.host} ${url}`, cookie: headers.cookie, mine: String(mine ?? '') });
    const other = String(headers.host).replace('127.0.0.1', 'localhost');
    const links = { '/': `<a href="/next"></a><a href="http://${other}/elsewhere"></a>` };
    response.writeHead(url === '/robots.txt' ? 404 : 200, {
      'content-type': 'text/html',
      ...(url === '/' && { 'set-cookie': 'from=host; Path=/' }),
    });
    response.end((links as Record<string, string>)[url] ?? '');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const of = (path: string) => sent.find((one) => one.path.endsWith(path));
  return { url: `http://127.0.0.1:${port}/`, of };
}

test('[T-56] cookies and headers go to the hosts that they are for', { timeout }, async (t) => {
  const { url, of } = await hosts(t);
  const cluster = new Cluster(t);
  const file = join(cluster.folder, 'cookies.txt');
  const lines = [
    '#HttpOnly_localhost\tFALSE\t/elsewhere\tFALSE\t0\tfile\t2',
    '127.0.0.1\tFALSE\t/next\tFALSE\t0\tnext\t3',
    'other.example\tTRUE\t/\tFALSE\t0\tnever\t4',
  ];
  writeFileSync(file, lines.join('\n'));
  const given = ['--cookie', 'seed=1', '--cookie-file', file, '--header', 'X-Mine: yes'];
  const scope = ['--scope', 'any', '--allow-private', '--per-host', '1', '--exit-when-done'];
  const master = await cluster.master([url, ...scope, ...given, '--slaves', '1']);
  await assertLeaves(master);
  assert.deepEqual([of(' /')?.cookie, of(' /')?.mine], ['seed=1', 'yes']);
  assert.deepEqual([of('/next')?.cookie, of('/next')?.mine], ['next=3; seed=1; from=host', 'yes']);
  assert.deepEqual([of('/elsewhere')?.cookie, of('/elsewhere')?.mine], ['file=2', '']);
  assert.deepEqual([of('/robots.txt')?.cookie, of('/robots.txt')?.mine], [undefined, '']);
});

test('[T-56] --header-everywhere sends headers to all hosts', { timeout }, async (t) => {
  const { url, of } = await hosts(t);
  const cluster = new Cluster(t);
  const scope = ['--scope', 'any', '--allow-private', '--per-host', '1', '--exit-when-done'];
  const given = ['--header', 'X-Mine: yes', '--header-everywhere'];
  const master = await cluster.master([url, ...scope, ...given, '--slaves', '1']);
  await assertLeaves(master);
  assert.equal(of('/elsewhere')?.mine, 'yes');
});
