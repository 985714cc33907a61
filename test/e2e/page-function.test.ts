/** A page function: the slave's own module, called with each page beside the rules of the crawl. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import Database from 'libsql';
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
  follow($('link[rel=next]').first().attr('href'));
  follow('mailto:nobody');
  const odd = { '/object': {}, '/number': 5, '/list': ['a'], '/element': $('title') };
  follow(odd[new URL(url).pathname]);
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
      '/object': '<title>x</title>',
      '/number': '<title>x</title>',
      '/list': '<title>x</title>',
      '/element': '<title>x</title>',
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
    assert.ok(!asked.some((path) => path.endsWith('undefined')), 'no link is none');
    const rejected = itemLines(cluster, 'rejected');
    const failed = rejected.map((line) => [line.url, line.why]).sort();
    const no = 'follow: a link is a text,';
    assert.deepEqual(failed, [
      [`${url}element`, `${no} an element's is .attr('href'); this one is of type object`],
      [`${url}list`, `${no} such as '/page/2'; this one is an array`],
      [`${url}number`, `${no} such as '/page/2'; this one is of type number`],
      [`${url}object`, `${no} such as '/page/2'; this one is of type object`],
      [`${url}wrong`, 'no such shelf'],
    ]);
    assert.ok(!asked.some((path) => path.includes('object%20') || path.endsWith('/5')));
    const { rules: counts = {}, errors } = await cluster.status('shop');
    assert.equal(counts['page']?.rows, 5);
    assert.equal(errors.rule, 5);
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

  test('page function: a rule of its name keeps its own rows and failures in the counts', {
    timeout,
  }, async (t) => {
    const { url } = await shop(t, {
      '/silent': '<title>x</title>',
      '/wrong': '<title>x</title>',
      '/loop': '<title>x</title>',
      '/unequal': '<title>x</title><i>1</i>',
    });
    const code = `${exported} async function ({ url, emit }) {
  const { pathname } = new URL(url);
  if (pathname === '/wrong' || pathname === '/unequal') throw new Error('no such shelf');
  if (pathname === '/loop') for (;;);
  if (pathname !== '/silent') emit({ status: 1 });
}
`;
    const rules = 'items: { page: { fields: { t: title }, zip: { a: i, b: b } } }';
    const { cluster } = await crawledWith(t, `seeds: ["${url}"]\n${rules}\n`, code, []);
    const lines = itemLines(cluster, 'items').length;
    const rejected = itemLines(cluster, 'rejected').length;
    const { rules: counts = {}, errors } = await cluster.status('shop');
    assert.equal(counts['page']?.rows, lines);
    assert.deepEqual([counts['page']?.failed, errors.rule], [rejected, rejected]);
    const verified = await cluster.ask('status', '--ledger', '--verify');
    assert.doesNotMatch(verified, /differs|instead/);
  });

  test('page function: rows under names without end count, too', { timeout }, async (t) => {
    const { url } = await shop(t, { '/shelf/1': shelf('a', 2) });
    const code = `${exported} async function ({ url, emit }) {
  const page = new URL(url).pathname.length;
  for (let i = 0; i < 6000; i++) emit({ i }, \`r\${page}-\${i}\`);
}
`;
    const { cluster } = await crawledWith(t, `seeds: ["${url}"]\n`, code, []);
    const lines = itemLines(cluster, 'items').length;
    const { rules = {} } = await cluster.status('shop');
    assert.equal(rules['others']?.rows, lines - 10_050);
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
      ['leaves.mjs', 'process.exit(3);', /its process ended \(exit code 3\)/],
      ['hangs.mjs', 'await new Promise(() => {});', /hangs.mjs: took longer than 15 s$/m],
    ] as const;
    const slaves = wrong.map(([name, code]) => {
      if (code !== undefined) writeFileSync(join(cluster.folder, name), code);
      return cluster.slave(['--page', name]);
    });
    for (const [index, [, , expected]] of wrong.entries()) {
      const slave = slaves[index];
      assert.equal((await slave?.exited)?.code, 2, slave?.output);
      assert.match(slave?.output ?? '', expected);
      assert.doesNotMatch(slave?.output ?? '', /a page took/);
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

  test('page function: its fields as columns, chosen, the rest as JSON, or refused', {
    timeout,
  }, async (t) => {
    const { url } = await shop(t, { '/shelf/1': shelf('a', 2) });
    const code = `${exported} function page({ $, url, emit }) {
      for (const one of $('article')) {
        const name = one.find('h3').text();
        emit({ name, price: 2.5, tags: ['x'], more: { n: 1 } });
      }
      emit({ page: url }, 'seen');
    }`;
    const cluster = new Cluster(t);
    writeFileSync(join(cluster.folder, 'own.mjs'), code);
    const file = join(cluster.folder, 'shop.json');
    const seeds = { seeds: [url], delay: 0, 'max-depth': 1 };
    const outputs = [
      { csv: 'all.csv', records: 'items' },
      { csv: 'page.csv', rule: 'page', columns: ['price', 'name', 'item'], delimiter: ';' },
      { sqlite: 'page.db', rule: 'page', columns: ['name', 'tags'], key: ['name'] },
    ];
    writeFileSync(file, JSON.stringify({ crawl: 'shop', ...seeds, outputs }));
    const master = await cluster.master([file]);
    cluster.slave(['--page', 'own.mjs']);
    await master.said(/crawl shop is done/);
    const linesOf = (name: string, crawl = 'shop') =>
      readFileSync(join(cluster.out, crawl, name), 'utf8')
        .trimEnd()
        .split('\n');
    const quoted = (values: object) => `"${JSON.stringify(values).replaceAll('"', '""')}"`;
    const first = { name: 'a 0', price: 2.5, tags: ['x'], more: { n: 1 } };
    const [head, ...all] = linesOf('all.csv');
    assert.equal(head, 'rule,item');
    assert.ok(all.includes(`page,${quoted(first)}`), all.join('\n'));
    assert.ok(all.includes(`seen,${quoted({ page: url })}`));
    const rest = quoted({ tags: ['x'], more: { n: 1 } });
    assert.deepEqual(linesOf('page.csv'), [
      ...['price;name;item', `2.5;a 0;${rest}`, `2.5;a 1;${rest}`],
    ]);
    const db = new Database(join(cluster.out, 'shop/page.db'));
    const rows = db.prepare('SELECT name, tags FROM page ORDER BY name').all();
    db.close();
    assert.deepEqual(rows, [
      { name: 'a 0', tags: '["x"]' },
      { name: 'a 1', tags: '["x"]' },
    ]);
    // Beside rules, whose fields are the columns, the others are not lost.
    const items = { title: { match: 'shelf', fields: { t: 'title' } } };
    const both = [{ csv: 'mixed.csv' }, { sqlite: 'mixed.db', table: 'rows' }];
    const mixed = { crawl: 'mixed', ...seeds, items, outputs: both };
    writeFileSync(file, JSON.stringify(mixed));
    await cluster.ask('add', file);
    await master.said(/crawl mixed is done/);
    const stored = new Database(join(cluster.out, 'mixed/mixed.db'));
    const found = stored.prepare('SELECT t, item FROM rows ORDER BY _seq').all();
    stored.close();
    assert.equal(found.length, 5);
    const has = (t: string | null, item: object | null) =>
      found.some((row) => {
        const { item: text, ...own } = row as { t: string | null; item: string | null };
        const rest = JSON.stringify(item === null ? null : item);
        return own.t === t && (text ?? 'null') === rest;
      });
    assert.ok(
      has('a', null) && has(null, first) && has(null, { page: url }),
      JSON.stringify(found),
    );
    const [titles, ...lines] = linesOf('mixed.csv', 'mixed');
    assert.equal(titles, 't,item');
    assert.equal(lines.length, itemLines(cluster, 'items', 'mixed').length);
    assert.ok(
      lines.includes('a,') && lines.includes(`,${quoted({ page: url })}`),
      lines.join('\n'),
    );
  });
});
