/** Rules with `article: true`: rows of articles in running crawls, slaves that lack the packages, and
 *  pages that are none. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import Database from 'libsql';
import { bareFolder, storyPage } from '../support/articles.ts';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { itemLines } from '../support/items.ts';

const timeout = 120_000;
const items = `items:
  story:
    match: /story/
    article: true
    fields: { page: { value: url } }
`;

/** A site of these pages; all others link to them. */
async function siteOf(t: TestContext, pages: Readonly<Record<string, string>>): Promise<string> {
  const port = await httpServer(t, ({ url = '' }, response) => {
    const text = pages[url];
    const links = Object.keys(pages).map((path) => `<a href="${path}">${path}</a>`);
    if (url === '/robots.txt') response.writeHead(404).end();
    else {
      response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
      response.end(text ?? links.join(' '));
    }
  });
  return `http://127.0.0.1:${port}`;
}

function fileFor(cluster: Cluster, site: string, more = ''): string {
  const path = join(cluster.folder, 'news.yaml');
  const head = `crawl: news\nseeds: ["${site}/"]\nmax-depth: 1\nsitemaps: none\n`;
  writeFileSync(path, `${head}${items}${more}`);
  return path;
}

describe('articles', { concurrency: 1 }, () => {
  test('article: a row with title, author, date, language, text and Markdown', {
    timeout,
  }, async (t) => {
    const pages = { '/story/1': storyPage('One'), '/story/2': storyPage('Two'), '/tag/0': 'x' };
    const site = await siteOf(t, pages);
    const cluster = new Cluster(t);
    const outputs = 'outputs: [csv: news.csv, {sqlite: news.db, key: [page]}]\narchive: warc\n';
    const file = fileFor(cluster, site, outputs);
    const master = await cluster.master([file, '--slaves', '1', '--exit-when-done']);
    assert.equal((await master.exited).code, 0, master.output);
    const rows = itemLines(cluster, 'items', 'news').map(({ item }) => item ?? {});
    const one = rows.find(({ page }) => page === `${site}/story/1`) ?? {};
    const names = ['title', 'author', 'date', 'language', 'text', 'markdown', 'page'];
    assert.deepEqual(Object.keys(one), names);
    const { title, author, date, language, text, markdown } = one as Record<string, string>;
    assert.equal(title, 'One');
    assert.equal(author, 'Ann Author');
    assert.equal(date, '2026-11-20T09:00:00.000Z');
    assert.equal(language, 'en-GB');
    assert.match(text ?? '', /^0: A sentence of the story/m);
    assert.doesNotMatch(text ?? '', /Tag 3|Imprint/);
    assert.match(markdown ?? '', /^## More$/m);
    const link = `[the **other** one](${site}/story/other)`;
    assert.ok(markdown?.includes(`See ${link}, A sentence`), markdown);
    assert.match(markdown ?? '', /^- A sentence[^\n]*\n- A sentence/m);
    const [head] = readFileSync(join(cluster.out, 'news/news.csv'), 'utf8').split('\n');
    assert.equal(head?.trim(), names.join(','));
    const db = new Database(join(cluster.out, 'news/news.db'));
    const stored = db.prepare('SELECT title, text FROM story WHERE page = ?').all(one['page']);
    db.close();
    assert.deepEqual(stored, [{ title, text }]);
    // The same of the archive.
    const args = ['extract', file, '--from', join(cluster.out, 'news'), '--as', 'again'];
    const extract = cluster.run(['master.js', ...args, '--out', cluster.out]);
    assert.equal((await extract.exited).code, 0, extract.output);
    const again = itemLines(cluster, 'items', 'again').map(({ item }) => item ?? {});
    const byPage = (all: typeof rows) => all.map((row) => JSON.stringify(row)).sort();
    assert.deepEqual(byPage(again), byPage(rows));
    // `check` explains it, `try` shows it.
    const check = cluster.run(['master.js', 'check', file]);
    assert.equal((await check.exited).code, 0, check.output);
    assert.match(
      check.stdout,
      /story: pages whose URL has \/story\/; the article of a page: title,/,
    );
    assert.doesNotMatch(check.output, /warning/);
    const tried = cluster.run(['master.js', 'try', file, `${site}/story/2`]);
    assert.equal((await tried.exited).code, 0, tried.output);
    assert.match(tried.stdout, /story: 1 row[\s\S]*author\s+1 of 1 {2}"Ann Author"/);
  });

  test('article: a slave without the packages says so and gets no pages; status has the reason', {
    timeout,
  }, async (t) => {
    const site = await siteOf(t, { '/story/1': storyPage('One') });
    const cluster = new Cluster(t);
    const bare = new Cluster(t);
    const lean = new Cluster(t, undefined, bareFolder(join(bare.folder, 'bare')));
    const file = fileFor(cluster, site, 'archive: warc\n');
    const master = await cluster.master([file, '--exit-when-done']);
    assert.doesNotMatch(master.output, /npm install/);
    const key = ['--authkey-file', join(cluster.data, 'authkey')];
    const poor = lean.run(['slave.js', '--master', cluster.address, ...key, '--name', 'poor']);
    const install = /npm install @mozilla\/readability@0\.6\.0 linkedom@0\.18\.12 in the folder of/;
    await poor.said(new RegExp(`gets no pages of this crawl: article needs.*${install.source}`));
    assert.equal((await cluster.status('news')).wantsArticles, true);
    const text = await cluster.ask('status');
    assert.match(text, /news: waits for a slave that finds articles: run npm install/);
    assert.deepEqual(cluster.pages('news'), []);
    const rich = cluster.slave();
    assert.equal((await master.exited).code, 0, master.output);
    assert.equal(itemLines(cluster, 'items', 'news').length, 1);
    assert.equal((await rich.exited).code, 0);
    assert.equal((await poor.exited).code, 0);
    const lines = cluster.fetched('news');
    assert.ok(lines.every((line) => line['slave' as never] !== 'poor'));
    // Here nothing can be tried or extracted, but the file is valid.
    const check = lean.run(['master.js', 'check', file]);
    assert.equal((await check.exited).code, 0, check.output);
    assert.match(
      check.stdout,
      new RegExp(`warning: .*:\\d+: items.story.article: .*${install.source}`),
    );
    const tried = lean.run(['master.js', 'try', file, `${site}/story/1`]);
    assert.equal((await tried.exited).code, 2, tried.output);
    assert.match(tried.output, install);
    const args = ['--from', join(cluster.out, 'news'), '--as', 'again', '--out', cluster.out];
    const extract = lean.run(['master.js', 'extract', file, ...args]);
    assert.equal((await extract.exited).code, 2, extract.output);
    assert.match(extract.output, install);
    const started = await lean.master([file, '--exit-when-done', '--slaves', '1']);
    await started.said(/items.story.article: .*; slaves on this machine get no pages of the crawl/);
  });

  test('article: a crawl that is added later is told to slaves that lack the packages', {
    timeout,
  }, async (t) => {
    const site = await siteOf(t, { '/story/1': storyPage('One') });
    const bare = new Cluster(t);
    const lean = new Cluster(t, undefined, bareFolder(join(bare.folder, 'bare')));
    const master = await lean.master([]);
    const slave = lean.slave();
    await master.said(/slave-1 joined|slave joined|joined/);
    const file = fileFor(lean, site);
    await lean.ask('add', file);
    await slave.said(/gets no pages of this crawl/);
    // Another crawl is not held up by it.
    await lean.ask('add', `${site}/`, '--crawl', 'plain', '--max-depth', '1');
    await master.said(/crawl plain is done/);
    assert.deepEqual(lean.pages('news'), []);
  });

  test('article: hostile pages cost a failure or nothing, and the slave lives', {
    timeout,
  }, async (t) => {
    const words = 'word, and words, ';
    const site = await siteOf(t, {
      '/story/nothing': ' ',
      '/story/links': '<div><a href="/story/links">A link, and its text</a></div>'.repeat(5_000),
      '/story/deep': '<div>'.repeat(1_000_000) + words,
      '/story/nested': `${'<div>'.repeat(1_500)}${words.repeat(50)}`,
      '/story/long': `<p>${words.repeat(1_200_000)}`,
      '/story/many': `<p>${words.repeat(50)}${'<b>x</b>'.repeat(100_000)}`,
      '/story/spaces': `<p>${words.repeat(50)}${'\u00a0 '.repeat(1_000_000)}x`,
      '/story/good': storyPage('Good'),
    });
    const cluster = new Cluster(t);
    const file = fileFor(cluster, site, 'page-bytes: 32000000\n');
    const master = await cluster.master([file, '--slaves', '1', '--exit-when-done']);
    assert.equal((await master.exited).code, 0, master.output);
    const rows = itemLines(cluster, 'items', 'news');
    assert.deepEqual(
      rows.map(({ url }) => url),
      [`${site}/story/good`],
    );
    const failures = itemLines(cluster, 'rejected', 'news').map(({ url, why }) => [
      url.slice(`${site}/story/`.length),
      why,
    ]);
    const reasons = Object.fromEntries(failures) as Record<string, string>;
    assert.match(reasons['deep'] ?? '', /nested more than 2000 elements deep/);
    assert.match(reasons['nested'] ?? '', /nested 15\d\d elements deep; articles .* up to 500/);
    assert.match(reasons['long'] ?? '', /has \d+ characters; an article has up to 4194304/);
    assert.match(reasons['many'] ?? '', /has 1000\d\d elements; articles .* up to 30000/);
    assert.match(reasons['spaces'] ?? '', /took longer than 5 s|Maximum call stack|memory/);
    assert.equal(Object.keys(reasons).length, 5);
    assert.match(master.output, /rule story: 8 pages tried, 1 matched, 2 empty, 5 failed, 1 row/);
    assert.equal(cluster.pages('news').length, 9);
  });
});
