/** Follow rules in a crawl of real processes: only their links are followed, in their order. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';

const timeout = 60_000;

/** Pages by their paths. */
async function site(t: TestContext, pageOf: (path: string) => string | undefined) {
  const port = await httpServer(t, ({ url = '' }, response) => {
    const text = url === '/robots.txt' ? undefined : pageOf(url);
    if (text === undefined) response.writeHead(404).end();
    else response.setHeader('content-type', 'text/html').end(text);
  });
  return `http://127.0.0.1:${port}`;
}

/** The paths of the pages, in the order in which they were fetched. */
async function crawled(t: TestContext, url: string, file: object) {
  const cluster = new Cluster(t);
  const path = join(cluster.folder, 'c.json');
  writeFileSync(path, JSON.stringify({ crawl: 'c', seeds: [`${url}/`], ...file }));
  const master = await cluster.master([path, '--slaves', '1', '--exit-when-done']);
  const { code } = await master.exited;
  assert.equal(code, 0, master.output);
  return { pages: cluster.pages('c').map((page) => page.replace(url, '')), cluster };
}

describe('follow rules', { concurrency: 2 }, () => {
  test('follow: only their links, in scope, within the depth', { timeout }, async (t) => {
    const url = await site(t, (path) => {
      const links = [
        'thread-1.html',
        'thread-2.html',
        'about.html',
        'http://127.0.0.2/thread-3.html',
      ];
      if (path === '/') return links.map((to) => `<a href="${to}">x</a>`).join('');
      return path.startsWith('/thread')
        ? '<a class=next href="next-1.html">n</a><a href=/no>'
        : 'x';
    });
    const follow = [{ href: 'href="(thread-.+?html)"' }, { css: 'a.next' }];
    const { pages } = await crawled(t, url, { follow, 'per-host': 1 });
    assert.deepEqual(pages.sort(), ['/', '/next-1.html', '/thread-1.html', '/thread-2.html']);
    const flat = await crawled(t, url, { follow, 'max-depth': 1 });
    assert.deepEqual(flat.pages.sort(), ['/', '/thread-1.html', '/thread-2.html']);
  });

  test('follow: a rule that never matched is a warning at the end', { timeout }, async (t) => {
    const url = await site(t, (path) => (path === '/' ? '<a class=next href=/1>1</a>' : 'x'));
    const cluster = new Cluster(t);
    const path = join(cluster.folder, 'c.json');
    const follow = [{ css: 'a.next' }, { css: 'a.nxet' }, { href: '/1' }];
    writeFileSync(path, JSON.stringify({ crawl: 'c', seeds: [`${url}/`], follow }));
    const master = await cluster.master([path, '--slaves', '1', '--exit-when-done']);
    assert.equal((await master.exited).code, 0, master.output);
    const said = master.output.match(/the follow rule \d .*? never matched.*? pages/g);
    // Links that another rule has picked were found all the same.
    assert.deepEqual(said, [
      'the follow rule 2 (CSS a.nxet) never matched: it found no link on 2 pages',
    ]);
    assert.match(master.output, /rule follow: 2 pages tried, 1 matched, 1 empty, 0 rows/);
  });

  test('follow: rules that fail are a warning at the end', { timeout }, async (t) => {
    const url = await site(t, () => '<a href=/1>1</a>');
    const cluster = new Cluster(t);
    const master = await cluster.master(['--slaves', '1']);
    // A program may add what no crawl file can have, and a store of an older version too.
    const client = await cluster.connect();
    const spec = { fetch: { follow: [{ css: 'a[' }] } };
    await client.request('crawl.add', { crawl: 'c', seeds: [`${url}/`], spec });
    await master.said(/warn .* the follow rules failed on 1 page: their links were not followed/);
    await client.close();
    const rejected = readFileSync(join(cluster.folder, 'out', 'c', 'rejected.jsonl'), 'utf8');
    assert.match(rejected, /"rule":"follow",.*"why":"the rules are not valid: follow\.0 /);
  });

  test('follow: a rule of higher priority goes first', { timeout }, async (t) => {
    const url = await site(t, (path) =>
      path === '/' ? '<a href=/low1><a href=/low2><a href=/high1><a href=/high2>' : 'x',
    );
    const follow = [
      { href: 'low', priority: -5 },
      { href: 'high', priority: 5 },
    ];
    const options = { order: 'priority', 'per-host': 1, delay: 1 };
    const { pages } = await crawled(t, url, { follow, ...options });
    assert.deepEqual(pages, ['/', '/high1', '/high2', '/low1', '/low2']);
  });

  test('follow: a random walk is the same walk each time, beside items', { timeout }, async (t) => {
    const url = await site(t, (path) => {
      const at = Number(path.slice(1));
      const links = Array.from({ length: 9 }, (_, i) => `<a href="/${at * 10 + i + 1}">x</a>`);
      return `<title>at ${at}</title>${at < 1e5 ? links.join('') : ''}`;
    });
    const follow = [{ xpath: '//a', pick: 'random', count: 1, seed: 7 }];
    const items = { page: { fields: { title: 'title' } } };
    const [one, two] = await Promise.all([
      crawled(t, url, { follow, items }),
      crawled(t, url, { follow, items }),
    ]);
    assert.equal(one.pages.length, 7);
    assert.deepEqual(two.pages, one.pages);
    const other = await crawled(t, url, { follow: [{ ...follow[0], seed: 8 }] });
    assert.notDeepEqual(other.pages, one.pages);
  });

  test('follow: check explains them, and names what is wrong', { timeout }, async (t) => {
    const cluster = new Cluster(t);
    const check = async (text: string) => {
      writeFileSync(join(cluster.folder, 'f.yaml'), text);
      const program = cluster.run(['master.js', 'check', 'f.yaml']);
      return { code: (await program.exited).code, output: program.output };
    };
    const good = await check('follow: [{css: a.next, pick: random, seed: 3, priority: 2}]\n');
    assert.match(good.output, /^ {2}follow CSS a\.next, random, seed 3, priority 2$/m);
    const cases: [string, RegExp][] = [
      ['follow: {css: a}\n', /f\.yaml:1: follow: must be a list of rules/],
      ['follow:\n  - {css: a}\n  - {csss: a}\n', /f\.yaml:3: follow\.1\.csss: .*mean css\?/],
      ['follow: [{css: a, xpath: b}]\n', /follow\.0: must have one of css, xpath, href, regex/],
      ['follow:\n  - css: a\n  - href: "("\n', /f\.yaml:3: follow\.1: is not a pattern of RE2/],
      ['follow: [{css: a, pick: one}]\n', /follow\.0\.pick: must be all, first or random/],
    ];
    for (const [text, message] of cases) {
      const { code, output } = await check(text);
      assert.equal(code, 2, output);
      assert.match(output, message);
    }
  });
});
