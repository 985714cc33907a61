/** `why` of images that a crawl downloads. */
import assert from 'node:assert/strict';
import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { UrlFate } from '../../shared/url-fate.ts';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { png } from '../support/pictures.ts';

const timeout = 60_000;

type Told = Omit<UrlFate, 'line'> & { readonly line?: Record<string, unknown> };

async function why(cluster: Cluster, url: string): Promise<Told[]> {
  return JSON.parse(await cluster.ask('why', '--json', url)) as Told[];
}

/** Serves a page that shows these images. */
async function serve(
  t: TestContext,
  paths: readonly string[],
  answer: (path: string, response: Parameters<Parameters<typeof httpServer>[1]>[1]) => void,
): Promise<string> {
  const shown = paths.map((path) => `<img src="${path}">`).join('');
  const port = await httpServer(t, ({ url = '' }, response) => {
    if (url === '/robots.txt') response.writeHead(404).end();
    else if (url === '/') response.setHeader('content-type', 'text/html').end(shown);
    else answer(url, response);
  });
  return `http://127.0.0.1:${port}`;
}

test('why: an image that waits to be downloaded, and one that was', { timeout }, async (t) => {
  const open: (() => void)[] = [];
  const site = await serve(t, ['/1.png', '/2.png', '/3.png', '/4.png'], (path, response) => {
    if (path === '/1.png') response.end(png(2));
    else open.push(() => response.destroy());
  });
  t.after(() => open.map((end) => end()));
  const cluster = new Cluster(t);
  await cluster.master([`${site}/`, '--download', 'images', '--per-host', '1', '--delay', '0']);
  cluster.slave();
  while (open.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  const told = await Promise.all(['/1.png', '/4.png'].map((path) => why(cluster, site + path)));
  const [done, waiting] = told.map(([fate]) => fate);
  assert.deepEqual([done?.kind, done?.state, done?.from], ['image', 'done', `${site}/`]);
  assert.match(String(done?.text), /^it is kept: images\/\w\w\/\w\w\/\w+\.png,at .* by slave/);
  assert.match(String(done?.text), /it is an image of some page: see img_src\.txt/);
  assert.equal(String(done?.line?.['sha256']).length, 64);
  assert.deepEqual(
    [waiting?.kind, waiting?.state, waiting?.from],
    ['image', 'waiting', `${site}/`],
  );
});

test('why: an image elsewhere, one that was given up, and one whose line is gone', {
  timeout,
}, async (t) => {
  const other = await serve(t, [], (_, response) => void response.end(png(3)));
  const site = await serve(t, ['/1.png', '/away.png', '/ill.png'], (path, response) => {
    if (path === '/1.png') response.end(png(2));
    else if (path === '/ill.png') response.writeHead(503).end();
    else response.writeHead(302, { location: `${other}/target.png` }).end();
  });
  const cluster = new Cluster(t);
  const master = await cluster.master([
    ...[`${site}/`, '--download', 'images', '--attempts', '1', '--delay', '0'],
    ...['--allow-private', '127.0.0.0/8'],
  ]);
  cluster.slave();
  await master.said(/crawl default is done/);
  const [away] = await why(cluster, `${site}/away.png`);
  assert.match(String(away?.text), /^it redirects to \S+target\.png/);
  const target = await why(cluster, `${other}/target.png`);
  assert.deepEqual(
    target.map(({ kind, state }) => [kind, state]),
    [['image', 'done']],
  );
  assert.match(String(target[0]?.text), /^it is kept: images/);
  const [ill] = await why(cluster, `${site}/ill.png`);
  assert.deepEqual([ill?.kind, ill?.state, ill?.attempts], ['image', 'buried', 1]);
  assert.match(String(ill?.text), /given up after 1 attempt.*503.*buried default --replay --url/);

  await cluster.ask('buried', 'default', '--replay', '--url', `${site}/ill.png`);
  await master.said(/crawl default is done[\s\S]*crawl default is done/);
  assert.equal((await why(cluster, `${site}/ill.png`))[0]?.state, 'buried');

  // The lines are in a file that a rotation has closed, and then in none that is known.
  const closed = /images-\S+\.jsonl/.exec(await cluster.ask('rotate', 'default'))?.[0] ?? '';
  const kept = () => why(cluster, `${site}/1.png`);
  assert.match(String((await kept())[0]?.text), /^it is kept: images/);
  renameSync(join(cluster.out, 'default', closed), join(cluster.out, 'moved.jsonl'));
  const gone = await kept();
  assert.deepEqual(
    gone.map(({ kind, state }) => [kind, state]),
    [['image', 'gone']],
  );
  assert.match(String(gone[0]?.text), /its line is in a file that was moved or packed/);
});
