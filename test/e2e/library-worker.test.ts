/** A worker of a crawl in a Node program: real sites, a killed worker. */
import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConfigError, connect, worker } from 'orbweaver';
import { flatSite } from '../../selftest/site.ts';
import { parseAddress } from '../../shared/client.ts';
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
  const seeds = [1, 2].map((n) => `http://192.0.2.7/${n}`);
  await cluster.master([...seeds, '--attempts', '1', '--ignore-robots']);
  const options = { master: cluster.address, authkey: cluster.authkey };
  const ended = new AbortController();
  const thrown: unknown[] = [Object.create(null), new Error('no page')];
  const working = worker({ ...options, signal: ended.signal }, () => {
    throw thrown.pop();
  });
  while ((await cluster.status()).failed < 2) await sleep(50);
  ended.abort();
  await working;
  const failed = await cluster.ask('failed', '--json');
  assert.match(failed, /no page/);
  assert.match(failed, /a thrown object without a text/);
  await assert.rejects(
    worker({ ...options, authkey: 'x'.repeat(32) }, () => ({})),
    {
      code: 'E_AUTH',
    },
  );
});

test('worker: a key may be all that the key file holds', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  await cluster.master([]);
  const key = Buffer.from(cluster.authkey);
  const second = `${'y'.repeat(32)}\n`;
  const { host, port } = parseAddress(cluster.address);
  for (const file of [`${key}\n`, `${key}\r\n`, `\n${key}\n${second}`]) {
    for (const authkey of [file, Buffer.from(file)]) {
      const master = await connect({ host, port, authkey });
      await master.close();
    }
  }
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

test('worker: what no master can mend is refused before a page is asked for', async () => {
  const given = { master: '127.0.0.1:1', authkey: 'x'.repeat(32) };
  const refused = (options: object, visit: unknown, says: RegExp) =>
    assert.rejects(worker({ ...given, ...options }, visit as () => undefined), (error) => {
      assert.ok(error instanceof ConfigError);
      assert.match(error.message, says);
      return true;
    });
  await refused({}, undefined, /^worker takes a function/);
  for (const concurrency of [0, 2.5, Number.NaN]) {
    await refused({ concurrency }, () => ({}), /^concurrency: It must be a whole number from 1/);
  }
  await refused({ concurency: 2 }, () => ({}), /^concurency: there is no such key; the keys are /);
  await refused({ signal: new AbortController() }, () => ({}), /^signal must be an AbortSignal/);
  await refused({ authkey: undefined }, () => ({}), /^authkey: give it, or run in the folder of /);
});

test('worker: a page with a key that is not known has failed; what is no text is no address', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const seeds = [1, 2, 3, 4].map((n) => `http://192.0.2.7/${n}`);
  await cluster.master([...seeds, '--attempts', '1', '--ignore-robots', '--max-depth', '0']);
  const ended = new AbortController();
  const found: Record<string, unknown> = {
    '/1': { lnks: ['/a'] },
    '/2': { links: '/a' },
    '/3': 'text',
    '/4': { images: ['a.png', null, undefined, 5] },
  };
  const { address: master, authkey } = cluster;
  const working = worker({ master, authkey, signal: ended.signal }, ({ url }) => {
    return found[new URL(url).pathname] as Record<string, never>;
  });
  const over = ({ failed, pages }: { failed: number; pages: number }) => failed + pages === 4;
  while (!over(await cluster.status())) await sleep(50);
  ended.abort();
  await working;
  const lines = cluster.lines('pages.jsonl').map((line) => JSON.parse(line));
  const said = lines.map(({ url, images, error }) => [url.at(-1), images ?? error.message]);
  assert.deepEqual(said.sort(), [
    [
      '1',
      'lnks: there is no such key; the keys are links, images, status, title, type, finalUrl, bytes, items',
    ],
    ['2', 'links must be a list'],
    ['3', 'what the function returns must be an object'],
    ['4', [{ src: 'http://192.0.2.7/a.png', via: 'img' }]],
  ]);
});
