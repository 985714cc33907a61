/** A page function: the slave's own module, called with each page beside the rules of the crawl. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { Cluster } from '../support/cluster.ts';
import { itemLines, shelf, shop } from '../support/items.ts';

const timeout = 60_000;
/** Of the modules under test; those of the project have none. */
const exported = ['export', 'default'].join(' ');

const own = `${exported} async function page({ url, status, headers, html, $, json, follow, emit }) {
  if (url.endsWith('/wrong')) throw new Error('no such shelf');
  if (json !== undefined) emit({ total: json.total, type: headers['content-type'] }, 'answer');
  for (const article of $('article')) {
    const price = article.find('.price');
    emit({ name: article.find('h3').text(), price: price.length ? price.text() : undefined });
  }
  const next = $('link[rel=next]').first().attr('href');
  if (next) follow(next);
  follow('mailto:nobody');
  emit({ status, chars: html.length, at: new Date(0) }, 'seen');
}
`;

async function crawledWith(t: TestContext, file: string, code: string, args: readonly string[]) {
  const cluster = new Cluster(t);
  writeFileSync(join(cluster.folder, 'shop.yaml'), `crawl: shop\ndelay: 0\n${file}`);
  writeFileSync(join(cluster.folder, 'own.mjs'), code);
  const master = await cluster.master([join(cluster.folder, 'shop.yaml')]);
  const slave = cluster.slave(['--page', 'own.mjs', ...args]);
  await master.said(/crawl shop is done/);
  return { cluster, master, slave };
}

describe('page function', { concurrency: 2 }, () => {
  test('page function: rows, links and failures, with and without rules', {
    timeout,
  }, async (t) => {
    const { url, asked } = await shop(t, {
      '/shelf/1': `<link rel=next href="2">${shelf('a', 5)}`,
      '/api': ['application/json', '{"total":7}'],
      '/wrong': '<title>x</title>',
    });
    const rules = 'items: { titles: { match: /shelf, fields: { t: title } } }';
    const { cluster, master } = await crawledWith(t, `seeds: ["${url}"]\n${rules}\n`, own, []);
    const items = itemLines(cluster, 'items');
    const of = (name: string) => items.filter(({ rule }) => rule === name).map(({ item }) => item);
    assert.deepEqual(of('page').slice(3), [{ name: 'a 3', price: '£3.50' }, { name: 'a 4' }]);
    assert.deepEqual(of('answer'), [{ total: 7, type: 'application/json' }]);
    assert.deepEqual(of('titles'), [{ t: 'a' }]);
    const [seen] = of('seen');
    assert.deepEqual([seen?.['status'], seen?.['at']], [200, '1970-01-01T00:00:00.000Z']);
    // The link that it followed is fetched; a 404 has no page.
    assert.ok(asked.includes('/shelf/2'));
    const [failed, ...more] = itemLines(cluster, 'rejected');
    assert.deepEqual([failed?.url, failed?.why], [`${url}wrong`, 'no such shelf']);
    assert.equal(more.length, 0);
    const { rules: counts = {}, errors } = await cluster.status('shop');
    assert.equal(counts['page']?.rows, 5);
    assert.equal(errors.rule, 1);
    assert.doesNotMatch(master.output, /never matched/);
  });

  test('page function: a crawl without items has rows, too, over two processes', {
    timeout,
  }, async (t) => {
    const { url } = await shop(t, { '/shelf/1': shelf('a', 2) });
    const { cluster } = await crawledWith(t, `seeds: ["${url}"]\n`, own, ['--processes', '2']);
    const names = itemLines(cluster, 'items').map(({ rule }) => rule);
    assert.deepEqual(names.sort(), ['page', 'page', 'seen', 'seen']);
    const verified = await cluster.ask('status', '--ledger', '--verify');
    assert.doesNotMatch(verified, /differs|instead/);
  });

  test('page function: one that cannot be loaded ends the slave with one line', {
    timeout,
  }, async (t) => {
    const cluster = new Cluster(t);
    const master = await cluster.master([]);
    const wrong = [
      ['missing.mjs', undefined, /cannot be loaded: Cannot find module/],
      ['broken.mjs', `${exported} function (`, /cannot be loaded: /],
      ['none.mjs', 'export const page = 1;', /its default export is not a function/],
    ] as const;
    for (const [name, code, expected] of wrong) {
      if (code !== undefined) writeFileSync(join(cluster.folder, name), code);
      const slave = cluster.slave(['--page', name]);
      assert.equal((await slave.exited).code, 2, slave.output);
      assert.match(slave.output, expected);
    }
    assert.ok(master.isAlive);
  });

  test('page function: one that loops or eats memory costs its page, and nothing else', {
    timeout,
  }, async (t) => {
    const { url } = await shop(t, {
      '/loop': '<title>loop</title>',
      '/memory': '<title>memory</title>',
      '/never': '<title>never</title>',
      '/leave': '<title>leave</title>',
      '/fine': '<title>fine</title>',
    });
    const hostile = `const kept = [];
${exported} async function ({ url, $, emit }) {
  if (url.endsWith('/loop')) for (;;);
  if (url.endsWith('/memory')) for (;;) kept.push(Buffer.alloc(8 << 20, 1));
  if (url.endsWith('/never')) await new Promise(() => {});
  if (url.endsWith('/leave')) process.exit(0);
  emit({ title: $('title').text() });
}
`;
    const { cluster, slave } = await crawledWith(t, `seeds: ["${url}"]\n`, hostile, []);
    const titles = itemLines(cluster, 'items').map(({ item }) => item?.['title']);
    assert.deepEqual(titles.sort(), ['fine', 'home']);
    const why = itemLines(cluster, 'rejected').map(
      (line) => `${line.url.slice(url.length)} ${line.why}`,
    );
    assert.match(
      why.sort().join('\n'),
      /^leave .*ended.*\nloop took longer.*\nmemory took more.*\nnever took longer/,
    );
    assert.equal((await cluster.status('shop')).pages, 6);
    assert.ok(slave.isAlive);
  });
});
