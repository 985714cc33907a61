/** A worker of a crawl in a Node program: real sites, a killed worker. */
import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { worker } from 'orbweaver';
import { flatSite } from '../../selftest/site.ts';
import { Cluster, root } from '../support/cluster.ts';
import { siteFor } from '../support/parts.ts';

const timeout = 90_000;

const program = `import { worker } from 'orbweaver';
const [, , master, authkey] = process.argv;
await worker({ master, authkey }, async ({ url, userAgent, signal }) => {
  const answer = await fetch(url, { headers: { 'user-agent': userAgent }, signal });
  const html = await answer.text();
  const links = [...html.matchAll(/href="([^"]+)"/g)].map(([, href]) => href);
  return { status: answer.status, finalUrl: answer.url, links };
});
`;

test('worker: a crawl by workers alone, one of them killed: each page once', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, flatSite(60), { delayMs: 10 });
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--exit-when-done', '--per-host', '4']);
  mkdirSync(join(cluster.folder, 'node_modules'));
  symlinkSync(root, join(cluster.folder, 'node_modules', 'orbweaver'));
  const path = join(cluster.folder, 'worker.mjs');
  writeFileSync(path, program);
  const { address, authkey } = cluster;
  const first = cluster.run([relative(root, path), address, String(authkey)]);
  await site.requested(10);
  await first.kill('SIGKILL');
  const second = cluster.run([relative(root, path), address, String(authkey)]);
  assert.equal((await master.exited).code, 0, master.output);
  assert.equal((await second.exited).code, 0, second.output);
  const urls = cluster
    .lines('pages.jsonl')
    .map((line) => (JSON.parse(line) as { url: string }).url);
  assert.equal(urls.length, new Set(urls).size);
  assert.equal(urls.length, site.truth().pages.length);
});

test('worker: a function that throws has failed, a wrong key ends it', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  await cluster.master(['http://192.0.2.7/', '--attempts', '1', '--ignore-robots']);
  const options = { master: cluster.address, authkey: cluster.authkey };
  const ended = new AbortController();
  const working = worker({ ...options, signal: ended.signal }, ({ url }) => {
    throw new Error(`no ${url}`);
  });
  while ((await cluster.status()).failed < 1) await sleep(50);
  ended.abort();
  await working;
  assert.match(await cluster.ask('failed', '--json'), /no http:\/\/192\.0\.2\.7\//);
  await assert.rejects(
    worker({ ...options, authkey: 'x'.repeat(32) }, () => ({})),
    {
      code: 'E_AUTH',
    },
  );
});

test('worker: a signal that comes while it connects ends it', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  await cluster.master([]);
  const options = { master: cluster.address, authkey: cluster.authkey };
  for (const ms of [0, 1, 3]) {
    const ended = new AbortController();
    const working = worker({ ...options, signal: ended.signal }, () => ({}));
    if (ms === 0) ended.abort();
    else setTimeout(() => ended.abort(), ms);
    const first = await Promise.race([working.then(() => 'ended'), sleep(5_000, 'still there')]);
    assert.equal(first, 'ended', `${ms} ms`);
  }
});
