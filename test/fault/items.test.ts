/** Rows are exact through kill -9 of masters and slaves: each row of each page once. */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { randomOf } from '../../selftest/site.ts';
import { Cluster } from '../support/cluster.ts';
import { itemLines, shelf, shop } from '../support/items.ts';
import { assertLeaves } from '../support/parts.ts';

const timeout = 90_000;
const seed = Number(process.env['SEED'] ?? randomInt(1 << 30));
const pages = 300;
const rowsOfPage = 10;

test(`items: kill -9 the master and the slaves, each row once (seed ${seed})`, {
  timeout,
}, async (t) => {
  const random = randomOf(seed);
  const paths = Array.from({ length: pages }, (_, i) => `/shelf/${i}`);
  const answers = Object.fromEntries(paths.map((path) => [path, shelf(path, rowsOfPage)]));
  const { url, asked } = await shop(t, answers);
  const cluster = new Cluster(t);
  const path = join(cluster.folder, 'shop.yaml');
  writeFileSync(
    path,
    `crawl: shop\nseeds: ["${url}"]\nper-host: 4\nitems:\n  book:\n    match: /shelf\n    each: article
    fields: { title: h3, price: { css: .price, required: true } }\n`,
  );
  const start = async (listen?: string) =>
    await cluster.master([path, '--exit-when-done'], listen === undefined ? {} : { listen });
  let master = await start();
  const { address } = cluster;
  let slaves = [cluster.slave(), cluster.slave()];
  for (let kill = 0; kill < 3 && master.isAlive; kill++) {
    const until = asked.length + 20 + random() * 60;
    while (asked.length < until && master.isAlive) await sleep(5);
    if (!master.isAlive) break;
    const killed = kill === 1 ? [...slaves] : [master, ...(kill === 2 ? slaves : [])];
    await Promise.all(killed.map((program) => program.kill('SIGKILL')));
    if (kill !== 1) master = await start(address);
    if (kill > 0) slaves = [cluster.slave([], address), cluster.slave([], address)];
  }
  await assertLeaves(master);
  const lines = itemLines(cluster, 'items');
  const titles = lines.map(({ item }) => String(item?.['title']));
  assert.equal(new Set(titles).size, titles.length, 'a row twice');
  assert.equal(lines.length, pages * rowsOfPage * 0.8);
  assert.equal(itemLines(cluster, 'rejected').length, pages * rowsOfPage * 0.2);
});

test('items: a file that is taken away holds the crawl, and a new one goes on', {
  timeout,
}, async (t) => {
  const paths = Array.from({ length: 120 }, (_, i) => `/shelf/${i}`);
  const { url } = await shop(t, Object.fromEntries(paths.map((path) => [path, shelf(path, 5)])));
  const cluster = new Cluster(t);
  const path = join(cluster.folder, 'shop.yaml');
  writeFileSync(
    path,
    `crawl: shop\nseeds: ["${url}"]\ndelay: 40\nitems: { b: { each: article, fields: { t: h3 } } }\n`,
  );
  const master = await cluster.master([path]);
  cluster.slave();
  const isMore = async (than: number) => {
    while (itemLines(cluster, 'items').length <= than) await sleep(20);
  };
  await isMore(20);
  // A second write: the first is on record by now, so the file that goes is missed.
  await isMore(itemLines(cluster, 'items').length);
  rmSync(join(cluster.out, 'shop', 'items.jsonl'));
  await master.said(/crawl shop is held: .*items\.jsonl is gone/);
  const { held } = await cluster.status('shop');
  assert.match(held ?? '', /items\.jsonl is gone/);
  assert.match(await cluster.ask('resume', 'shop', '--new-files'), /started a new items\.jsonl/);
  await master.said(/crawl shop is done/);
  const titles = itemLines(cluster, 'items').map(({ item }) => String(item?.['t']));
  assert.equal(new Set(titles).size, titles.length);
  // Rows of a write that was under way when the file went are written again, into the new one.
  assert.ok(titles.length > 0 && titles.length < 600, `${titles.length} rows`);
  const backup = await cluster.ask('backup', 'one');
  assert.match(backup, /backed up/);
  const copy = join(cluster.data, 'backups', 'one', 'out', 'shop', 'items.jsonl');
  assert.equal(readFileSync(copy, 'utf8').split('\n').length - 1, titles.length);
});
