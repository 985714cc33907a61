/** Whole crawls by real processes: their results, bounds and order. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { roomHere, slavesFor } from '../../master/machine/slave-count.ts';
import {
  flatSite,
  generateSite,
  type Resources,
  sitePages,
  type TestSite,
} from '../../selftest/site.ts';
import { Cluster, root } from '../support/cluster.ts';
import { assertExact, assertSame, pagesOf, readImages, readPages } from '../support/exact.ts';
import { crawlToEnd, siteFor } from '../support/parts.ts';

const timeout = 60_000;
const seed = Number(process.env['SEED'] ?? 20_26);

describe('crawl', { concurrency: 2 }, () => {
  test('crawl: two slaves find all of the demo site, each page once', { timeout }, async (t) => {
    const { startDemo } = await importDemo('server');
    const { demoTruth } = await importDemo('truth');
    const demo = await startDemo();
    t.after(() => demo.close());
    const truth = demoTruth(demo.url);
    const cluster = await crawlToEnd(t, [demo.url], { flags: ['--images', 'img'], slaves: 2 });
    const lines = readPages(cluster);
    assertSame('pages', pagesOf(lines), truth.pages);
    assertSame('images', readImages(cluster), truth.images);
    const broken = lines.filter(({ status }) => status === 404);
    assertSame(
      'broken',
      broken.map(({ url }) => url),
      truth.broken,
    );
    for (const { finalUrl, title, charset, images } of lines) {
      if (images === undefined) continue;
      assert.equal(title, truth.titles[finalUrl], finalUrl);
      assert.equal(charset, truth.charsets[finalUrl], finalUrl);
    }
  });

  test('crawl: --images all adds the candidates of srcset', { timeout }, async (t) => {
    const { startDemo } = await importDemo('server');
    const { demoTruth } = await importDemo('truth');
    const demo = await startDemo();
    t.after(() => demo.close());
    const truth = demoTruth(demo.url);
    const cluster = await crawlToEnd(t, [demo.url], { slaves: 2 });
    assertSame('images', readImages(cluster), [...new Set([...truth.images, ...truth.srcset])]);
  });

  test(`crawl: two slaves find all of a generated site (seed ${seed})`, { timeout }, async (t) => {
    const site = await siteFor(t, generateSite(seed, 400));
    const cluster = await crawlToEnd(t, [site.url], { slaves: 2 });
    assertExact(cluster, site.truth());
    const lines = readPages(cluster);
    const slaves = new Set(lines.map(({ slave }) => slave));
    assert.deepEqual([...slaves].sort(), ['slave-1', 'slave-2']);
    // A redirect that leads to a page is followed, and the page may have been asked for already.
    const isReached = (path: string) =>
      [...site.resources.values()].some((found) => found.kind === 'redirect' && found.to === path);
    for (const [path, count] of site.counts) {
      const { heals = 0 } = site.resources.get(path) ?? {};
      if (!isReached(path)) assert.equal(count, 1 + heals, path);
    }
  });

  test('crawl: an answer that heals is asked again and counted once', { timeout }, async (t) => {
    const resources = sitePages({ '/': ['/ill'], '/ill': ['/behind'], '/behind': [] });
    resources.set('/ill', { kind: 'page', links: ['/behind'], images: [], heals: 1 });
    const site = await siteFor(t, resources);
    const cluster = await crawlToEnd(t, [site.url]);
    assertExact(cluster, site.truth());
    assert.equal(site.counts.get('/ill'), 2);
    const [first, second] = site.log.filter(({ path }) => path === '/ill');
    assert.ok((second?.at ?? 0) - (first?.at ?? 0) > 500, 'the second try waits');
  });

  test('scope: host stays on host and port', { timeout }, async (t) => {
    const { home, port, address } = await neighbours(t);
    await crawlToEnd(t, [home.url]);
    assert.deepEqual(pathsOf(home), ['/', '/in']);
    assert.deepEqual([pathsOf(port), pathsOf(address)], [[], []]);
  });

  test('scope: domain takes every port of the seed, no other name', { timeout }, async (t) => {
    const { home, port, address } = await neighbours(t);
    await crawlToEnd(t, [home.url], { flags: ['--scope', 'domain', '--allow-private'] });
    assert.deepEqual(pathsOf(home), ['/', '/in']);
    assert.deepEqual(pathsOf(port), ['/', '/in']);
    assert.deepEqual(pathsOf(address), []);
  });

  test('scope: any goes everywhere', { timeout }, async (t) => {
    const { home, port, address } = await neighbours(t);
    await crawlToEnd(t, [home.url], { flags: ['--scope', 'any', '--allow-private'] });
    for (const site of [home, port, address]) assert.deepEqual(pathsOf(site), ['/', '/in']);
  });

  test('guard: a link leads to no private address, whatever the scope', { timeout }, async (t) => {
    const { home, port, address } = await neighbours(t);
    const cluster = await crawlToEnd(t, [home.url], { flags: ['--scope', 'any'] });
    assert.deepEqual(pathsOf(home), ['/', '/in']);
    assert.deepEqual([pathsOf(port), pathsOf(address)], [[], []]);
    const blocked = readPages(cluster).filter(({ error }) => error?.kind === 'blocked');
    assertSame(
      'blocked',
      blocked.map(({ url }) => url),
      [port.url, address.url],
    );
    for (const { error, status } of blocked)
      assert.deepEqual([error?.attempts, status], [1, undefined]);
  });

  test('guard: what the operator names or allows is open', { timeout }, async (t) => {
    const { home, port, address } = await neighbours(t);
    const flags = ['--scope', 'any', '--allow-private', '127.0.0.2/31,10.0.0.0/8'];
    await crawlToEnd(t, [home.url], { flags });
    assert.deepEqual([pathsOf(port), pathsOf(address)], [[], ['/', '/in']]);
    const second = await neighbours(t);
    await crawlToEnd(t, [second.home.url, second.port.url], { flags: ['--scope', 'any'] });
    assert.deepEqual(pathsOf(second.port), ['/', '/in']);
    assert.deepEqual(pathsOf(second.address), []);
  });

  test('scope: include and exclude bound what is fetched', { timeout }, async (t) => {
    const site = await siteFor(
      t,
      sitePages({
        '/': ['/docs/a', '/docs/b', '/docs/private/c', '/blog'],
        '/docs/a': ['/blog'],
        '/docs/b': [],
        '/docs/private/c': [],
        '/blog': [],
      }),
    );
    const flags = ['--include', '/docs/', '--include', '/$', '--exclude', 'private'];
    await crawlToEnd(t, [site.url], { flags });
    assert.deepEqual(pathsOf(site), ['/', '/docs/a', '/docs/b']);
  });

  test('bounds: --max-depth counts links from the seed', { timeout }, async (t) => {
    const site = await siteFor(t, generateSite(seed + 1, 120));
    const cluster = await crawlToEnd(t, [site.url], { flags: ['--max-depth', '2'], slaves: 2 });
    assertExact(cluster, site.truth({ maxDepth: 2 }));
  });

  test('bounds: --max-depth 0 fetches the seeds alone', { timeout }, async (t) => {
    const site = await siteFor(t, flatSite(3));
    await crawlToEnd(t, [site.url, `${site.origin}/2`], { flags: ['--max-depth', '0'] });
    assert.deepEqual(pathsOf(site), ['/', '/2']);
  });

  for (const pagesMax of [1, 7, 40]) {
    const name = `bounds: --max-pages ${pagesMax} is reached, never passed, and ends the crawl`;
    test(name, { timeout }, async (t) => {
      const site = await siteFor(t, generateSite(seed + 2, 100));
      const flags = ['--max-pages', String(pagesMax)];
      const cluster = await crawlToEnd(t, [site.url], { flags, slaves: 2 });
      assert.equal(pagesOf(readPages(cluster)).length, pagesMax);
    });
  }

  test('order: bfs goes level by level', { timeout }, async (t) => {
    const site = await siteFor(t, binaryTree(4));
    await crawlToEnd(t, [site.url], { flags: ['--order', 'bfs', '--per-host', '1'] });
    const levels = site.log.map(({ path }) => path.length);
    assert.deepEqual(
      levels,
      levels.toSorted((a, b) => a - b),
    );
    assert.equal(site.log.length, 31);
  });

  test('order: dfs goes down before it goes on', { timeout }, async (t) => {
    // Slow enough that a page's links are known when the next fetch but one begins.
    const site = await siteFor(t, binaryTree(5), { delayMs: 100 });
    await crawlToEnd(t, [site.url], { flags: ['--order', 'dfs', '--per-host', '1'] });
    assert.equal(site.log.length, 63);
    // The next fetch begins while the last report is being committed, so a step down takes two
    // requests or three; level by level, the first page of the bottom is the 32nd.
    const bottom = site.log.findIndex(({ path }) => path.length === 6);
    assert.ok(bottom < 20, `the bottom was reached with request ${bottom + 1}`);
  });

  test('order: priority of the seed comes first, its links inherit it', { timeout }, async (t) => {
    const site = await siteFor(
      t,
      sitePages({
        '/high': ['/high/a', '/high/b'],
        '/high/a': [],
        '/high/b': [],
        '/mid': [],
        '/low': ['/low/a'],
        '/low/a': [],
      }),
      { delayMs: 400 },
    );
    const cluster = new Cluster(t);
    const master = await cluster.master([]);
    const flags = ['--order', 'priority', '--per-host', '1'];
    await cluster.ask('add', `${site.origin}/mid`, ...flags);
    await cluster.ask('add', `${site.origin}/low`, '--priority', '-5');
    await cluster.ask('add', `${site.origin}/high`, '--priority', '9');
    cluster.slave(['--slots', '1']);
    await master.said(/crawl default is done/);
    const order = site.log.map(({ path }) => path);
    // /mid may be begun while the links of /high are being committed.
    assert.equal(order[0], '/high');
    assert.deepEqual(order.slice(1, 4).toSorted(), ['/high/a', '/high/b', '/mid']);
    assert.deepEqual(order.slice(4), ['/low', '/low/a']);
  });
});

function importDemo(name: string): Promise<Demo> {
  return import(pathToFileURL(`${root}demo/${name}.mjs`).href) as Promise<Demo>;
}

type Demo = {
  startDemo(): Promise<{ url: string; close(): Promise<void> }>;
  demoTruth(url: string): {
    pages: string[];
    images: string[];
    srcset: string[];
    broken: string[];
    titles: Record<string, string>;
    charsets: Record<string, string>;
  };
};

/** A site that links to one on another port, and to one of another name. */
async function neighbours(t: TestContext) {
  const small = () => sitePages({ '/': ['/in'], '/in': [] });
  const home = await siteFor(t, small());
  const port = await siteFor(t, small());
  const address = await siteFor(t, small(), { host: '127.0.0.2' });
  home.resources.set('/', { kind: 'page', links: ['/in', port.url, address.url], images: [] });
  return { home, port, address };
}

/** A page for every word of a and b up to that length: /, /a, /b, /aa, … */
function binaryTree(depth: number): Resources {
  const links: Record<string, string[]> = {};
  let level = ['/'];
  for (let i = 0; i <= depth; i++) {
    const next: string[] = [];
    for (const path of level) {
      const children = i === depth ? [] : [`${path}a`, `${path}b`];
      links[path] = children;
      next.push(...children);
    }
    level = next;
  }
  return sitePages(links);
}

function pathsOf(site: TestSite): string[] {
  return site.log.map(({ path }) => path).sort();
}

test('crawl: --slaves auto starts as many as the machine has room for, and says so', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, generateSite(7, 20));
  const cluster = new Cluster(t);
  const count = slavesFor(roomHere());
  const master = await cluster.master([site.url, '--slaves', 'auto', '--exit-when-done']);
  const [, said] = await master.said(/--slaves auto: (\d+) slaves? for [\d.]+ cores? and/);
  assert.equal(Number(said), count);
  assert.equal((await master.exited).code, 0, master.output);
});
