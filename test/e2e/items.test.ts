/** Rules in running crawls: rows in items.jsonl, rejected ones, counts and warnings, in real
 *  masters and slaves. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { Cluster } from '../support/cluster.ts';
import { itemLines, shelf, shop } from '../support/items.ts';
import { assertLeaves } from '../support/parts.ts';

const timeout = 60_000;

/** A crawl of the file that has ended; `more`: arguments of the start. */
async function crawled(t: TestContext, file: string, more: readonly string[] = []) {
  const cluster = new Cluster(t);
  writeFileSync(join(cluster.folder, 'shop.yaml'), `crawl: shop\ndelay: 0\n${file}`);
  const master = await cluster.master([join(cluster.folder, 'shop.yaml'), ...more]);
  const slave = cluster.slave();
  await master.said(/crawl shop is done/);
  return { cluster, master, slave };
}

const bookItems = `items:
  book:
    match: /shelf
    each: article
    fields:
      title: h3
      price: { css: .price, regex: "[\\\\d.]+", type: number, required: true }
      page: { value: url }
`;

describe('items', { concurrency: 2 }, () => {
  test('items: rows, rejected rows and counts of a crawl by its file', { timeout }, async (t) => {
    const { url } = await shop(t, { '/shelf/1': shelf('a', 5), '/shelf/2': shelf('b', 5) });
    const { cluster, master, slave } = await crawled(t, `seeds: ["${url}"]\n${bookItems}`);
    const items = itemLines(cluster, 'items');
    assert.equal(items.length, 8);
    assert.deepEqual(Object.keys(items[0] ?? {}), ['url', 'rule', 'item', 'at']);
    const first = items.find(({ item }) => item?.['title'] === 'a 0');
    const page = `${url}shelf/1`;
    assert.deepEqual(first?.item, { title: 'a 0', price: 0.5, page });
    assert.equal(first?.url, page);
    const rejected = itemLines(cluster, 'rejected');
    assert.equal(rejected.length, 2);
    assert.equal(rejected[0]?.why, 'price: is missing');
    assert.equal(rejected[0]?.item?.['price'], null);
    const { rules = {}, pages } = await cluster.status('shop');
    assert.equal(pages, 3);
    assert.deepEqual(rules['book'], {
      pages: 2,
      matched: 2,
      empty: 0,
      wrong: 0,
      failed: 0,
      rows: 8,
      rejected: 2,
    });
    assert.equal(rules['book.price']?.matched, 2);
    const text = await cluster.ask('status');
    assert.match(text, /shop: rule book: 2 pages tried, 2 matched, 8 rows, 2 rows rejected/);
    assert.match(master.output, /crawl shop: rule book: 2 pages tried, 2 matched, 8 rows/);
    assert.doesNotMatch(master.output, /never/);
    assert.match(await cluster.ask('status', '--ledger', '--verify'), /agrees|as counted|right/i);
    for (const program of [master, slave]) program.signal('SIGTERM');
    await assertLeaves(master, slave);
  });

  test('items: a rule and a field that never match are warnings at the end', {
    timeout,
  }, async (t) => {
    const { url } = await shop(t, { '/shelf/1': shelf('a', 2) });
    const items = `items:
  gone: { match: /nowhere, fields: { t: title } }
  none: { match: /shelf, each: section, fields: { t: h3 } }
  some: { match: /shelf, each: article, fields: { t: h3, isbn: .isbn } }
`;
    const { cluster, master } = await crawled(t, `seeds: ["${url}"]\n${items}`);
    await master.said(/see \S+pages\.jsonl, \S+items\.jsonl and \S+img_src\.txt/);
    // The warnings come after the line of the end.
    await master.said(/the rule gone never matched: no page of the crawl/);
    await master.said(/the rule none never matched: 1 page tried, 0 matched, 1 empty/);
    await master.said(/the field isbn of the rule some never had a value/);
    assert.doesNotMatch(master.output, /field t of/);
    assert.equal(itemLines(cluster, 'items').length, 2);
    assert.equal((await cluster.status('shop')).rules?.['none']?.empty, 1);
  });

  test('items: JSON and XML answers are pages where a rule asks for them, and only there', {
    timeout,
  }, async (t) => {
    const json = 'application/json';
    const { url } = await shop(t, {
      '/api/1': [json, '{"books":[{"t":"x"},{"t":"y"}]}'],
      '/other/1': [json, '{"books":[{"t":"no"}]}'],
      '/feed': ['application/rss+xml', '<rss><item><title>é</title></item></rss>'],
      '/api/broken': [json, '{"books":['],
    });
    const items = `items:
  api: { match: /api/, each: "$.books[*]", fields: { t: $.t } }
  feed: { match: /feed$, each: //item, fields: { t: title } }
`;
    const { cluster } = await crawled(t, `seeds: ["${url}"]\n${items}`);
    const values = itemLines(cluster, 'items').map(({ rule, item }) => `${rule} ${item?.['t']}`);
    assert.deepEqual(values.sort(), ['api x', 'api y', 'feed é']);
    const status = await cluster.status('shop');
    assert.deepEqual([status.pages, status.others, status.errors.rule], [4, 1, 1]);
    const [rejected] = itemLines(cluster, 'rejected');
    assert.equal(rejected?.url, `${url}api/broken`);
    assert.match(rejected?.why ?? '', /JSON/);
    assert.equal(rejected?.item, undefined);
  });

  test('items: a picture in XML is no page, whatever rules select', { timeout }, async (t) => {
    const svg = '<svg xmlns="http://www.w3.org/2000/svg"><title>s</title></svg>';
    const { url } = await shop(t, { '/shelf/1': shelf('a', 1), '/pic': ['image/svg+xml', svg] });
    const items = 'items: { all: { fields: { t: title } } }';
    const { cluster } = await crawled(t, `seeds: ["${url}"]\n${items}\n`);
    const { pages, others } = await cluster.status('shop');
    assert.deepEqual([pages, others], [2, 1]);
    assert.ok(!itemLines(cluster, 'items').some((line) => line.url.endsWith('/pic')));
  });

  test('items: a file with a wrong rule is refused with line and key before a crawl is made', {
    timeout,
  }, async (t) => {
    const cluster = new Cluster(t);
    const file = 'seeds: ["http://127.0.0.1/"]\nitems:\n  p:\n    fields:\n      t: "//a["\n';
    writeFileSync(join(cluster.folder, 'bad.yaml'), file);
    const program = cluster.run(['master.js', 'bad.yaml', '--data', cluster.data]);
    const { code } = await program.exited;
    assert.equal(code, 2, program.output);
    assert.match(program.output, /bad\.yaml:5: items\.p\.fields\.t: /);
  });

  test('items: added to a running master, kept by recrawl, and not changed by a start', {
    timeout,
  }, async (t) => {
    const { url } = await shop(t, { '/shelf/1': shelf('a', 3) });
    const cluster = new Cluster(t);
    const path = join(cluster.folder, 'shop.yaml');
    writeFileSync(path, `crawl: shop\ndelay: 0\nseeds: ["${url}"]\n${bookItems}`);
    const master = await cluster.master([]);
    cluster.slave();
    await cluster.ask('add', path);
    await master.said(/crawl shop is done/);
    assert.equal(itemLines(cluster, 'items').length, 3);
    const pages = join(cluster.out, 'shop', 'pages.jsonl');
    await cluster.ask('recrawl', 'shop', '--as', 'again', '--pages', pages);
    await master.said(/crawl again is done/);
    assert.equal(itemLines(cluster, 'items', 'again').length, 3);
    await cluster.ask('rotate', 'again');
    assert.equal(itemLines(cluster, 'items', 'again').length, 0);
    await cluster.ask('rename', 'again', 'later');
    const gone = await cluster.ask('remove', 'later', '--files');
    assert.match(gone, /items-\d+T\d+Z\.jsonl/);
    master.signal('SIGTERM');
    await assertLeaves(master);
    writeFileSync(path, `crawl: shop\nseeds: ["${url}"]\nitems: { x: { fields: { t: title } } }\n`);
    const second = await cluster.master([path]);
    await second.said(/items cannot change: choose another --crawl/);
  });
});
