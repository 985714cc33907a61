/** A crawl file starts a crawl, alone or beside others. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';

const timeout = 60_000;

async function site(t: TestContext): Promise<string> {
  const port = await httpServer(t, ({ url = '' }, response) => {
    if (url === '/robots.txt') response.writeHead(404).end();
    else response.setHeader('content-type', 'text/html').end(`<a href="${url}x">x</a>`);
  });
  return `http://127.0.0.1:${port}`;
}

test('crawl file: starts a crawl; flags come before it; another one is added', {
  timeout,
}, async (t) => {
  const url = await site(t);
  const cluster = new Cluster(t);
  const write = (name: string, text: string) => {
    const path = join(cluster.folder, name);
    writeFileSync(path, text);
    return path;
  };
  const first = write('first.yaml', `crawl: first\nmax-depth: 2\nseeds: ["${url}/{1..3}"]\n`);
  const master = await cluster.master([first, '--max-depth', '0']);
  cluster.slave();
  await master.said(/crawl first is done/);
  assert.deepEqual(cluster.pages('first').sort(), [`${url}/1`, `${url}/2`, `${url}/3`]);
  const second = { crawl: 'second', 'max-depth': 1, seeds: [`${url}/a`] };
  const answer = await cluster.ask('add', write('second.json', JSON.stringify(second)));
  assert.match(answer, /^1 new, 0 already known/);
  await master.said(/crawl second is done/);
  assert.deepEqual(cluster.pages('second').sort(), [`${url}/a`, `${url}/ax`]);
  // The file again, which has more seeds now: what is known is not asked for again.
  const form = { url: `${url}/b`, method: 'POST', form: { q: 'x' } };
  const longer = JSON.stringify({ ...second, seeds: [...second.seeds, form] });
  const again = await cluster.ask('add', write('second.json', longer));
  assert.match(again, /^1 new, 1 already known/);
  await cluster.grown('pages.jsonl', 2, 'second');
  assert.match(await cluster.ask('add', write('second.json', longer)), /^0 new, 2 already known/);
  const deeper = JSON.stringify({ ...second, 'max-depth': 2 });
  await assert.rejects(
    cluster.ask('add', write('second.json', deeper)),
    /adding seeds changes no options; change them with `set second`/,
  );
});

test('crawl file: 100,000 seeds are taken in whole, over kill -9 in the middle', {
  timeout: 3 * timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const count = 100_000;
  const urls = Array.from({ length: count }, (_, i) => `  - "http://127.0.0.1:1/größe/${i}"\n`);
  const path = join(cluster.folder, 'long.yaml');
  writeFileSync(path, `crawl: long\nmax-depth: 0\nseeds:\n${urls.join('')}`);
  const first = await cluster.master([path]);
  await first.kill('SIGKILL');
  const second = await cluster.master([path]);
  // It listens before it has taken in the first of them.
  const waitingNow = async () =>
    (await cluster.status('long').catch(() => undefined))?.waiting ?? 0;
  for (let waiting = 0; waiting < count; ) {
    const now = await waitingNow();
    assert.ok(now >= waiting && now <= count, `${now}`);
    waiting = now;
  }
  // A status counts what is on the way to the disk; this is answered when all before it is there.
  await cluster.ask('pause', 'long');
  await second.kill('SIGKILL');
  await cluster.master([]);
  assert.equal(await waitingNow(), count);
});
