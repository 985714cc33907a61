/** Sitemaps with real processes: what robots.txt names is read, whatever its form; once. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { gzipSync } from 'node:zlib';
import { type Resource, type Resources, sitePages, type TestSite } from '../../selftest/site.ts';
import { Cluster, type Line } from '../support/cluster.ts';
import { assertLeaves, crawlToEnd, siteFor } from '../support/parts.ts';

const timeout = 60_000;
const images = 'xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"';

type SitemapLine = Line & {
  readonly sitemap?: { readonly kind: string; readonly urls: number; readonly images: number };
  readonly cut?: boolean;
};

function file(body: string | Buffer, type = 'application/xml'): Resource {
  return { kind: 'file', type, body };
}

function urlset(entries: readonly string[]): string {
  return `<urlset ${images}>${entries.map((entry) => `<url>${entry}</url>`).join('')}</urlset>`;
}

/** Pages `/a` to `/f` that no link leads to. */
function hiddenPages(): Resources {
  const hidden = ['/a', '/b', '/c', '/d', '/e', '/f'].map((path) => [path, []] as const);
  return sitePages({ '/': ['/linked'], '/linked': [], ...Object.fromEntries(hidden) });
}

/** Two sitemaps in robots.txt: an index with one of each form, and a text that moved. */
function fullSite(site: TestSite): void {
  const { origin, resources } = site;
  const loc = (path: string) => `<loc>${origin}${path}</loc>`;
  site.robots = `Sitemap: ${origin}/index.xml\nSitemap: ${origin}/old.txt\n`;
  const listed = ['/one.xml.gz', '/two.txt', '/pictures.xml', '/gone.xml', '/bomb.gz', '/feed'];
  const index = listed.map((path) => `<sitemap>${loc(path)}</sitemap>`).join('');
  resources.set('/index.xml', file(`<sitemapindex>${index}</sitemapindex>`));
  resources.set('/one.xml.gz', file(gzipSync(urlset([loc('/a'), loc('/linked')])), 'x/gzip'));
  resources.set(
    '/two.txt',
    file(`\ufeff${origin}/b\r\nhttp://elsewhere.invalid/\r\n`, 'text/plain'),
  );
  const shown = ['/1.png', '/2.png']
    .map((path) => `<image:image><image:loc>${origin}/hidden${path}</image:loc></image:image>`)
    .join('');
  resources.set('/pictures.xml', file(urlset([loc('/c') + shown])));
  const bomb = `${origin}/d\n${'x'.repeat(64 << 20)}\n${origin}/never\n`;
  resources.set('/bomb.gz', file(gzipSync(bomb), 'text/plain'));
  resources.set('/feed', file(`<rss><item><link>${origin}/e</link></item></rss>`));
  resources.set('/old.txt', { kind: 'redirect', to: '/new.txt' });
  resources.set('/new.txt', file(`${origin}/f\n${origin}/a\n`, 'text/plain'));
}

const lines = (cluster: Cluster): SitemapLine[] => cluster.fetched();

test('sitemaps: index, gzip, text, feed, images, a bomb, a 404', { timeout }, async (t) => {
  const site = await siteFor(t, hiddenPages());
  fullSite(site);
  const cluster = await crawlToEnd(t, [site.url]);
  const expected = ['/', '/linked', '/a', '/b', '/c', '/d', '/e', '/f'];
  assert.deepEqual(cluster.pages().sort(), expected.map((path) => site.origin + path).sort());
  assert.deepEqual(cluster.lines('img_src.txt').sort(), [
    `${site.origin}/hidden/1.png`,
    `${site.origin}/hidden/2.png`,
  ]);
  const sitemaps = lines(cluster).filter(({ sitemap }) => sitemap !== undefined);
  const told = sitemaps.map(({ url, sitemap, cut, error }) => [
    url.slice(site.origin.length),
    ...Object.values(sitemap ?? {}),
    cut ?? error?.message ?? '',
  ]);
  assert.deepEqual(told.sort(), [
    ['/bomb.gz', 'text', 1, 0, true],
    ['/feed', 'feed', 1, 0, ''],
    ['/gone.xml', 'none', 0, 0, '404 Not Found'],
    ['/index.xml', 'index', 6, 0, ''],
    ['/old.txt', 'text', 2, 0, ''],
    ['/one.xml.gz', 'urlset', 2, 0, ''],
    ['/pictures.xml', 'urlset', 1, 2, ''],
    ['/two.txt', 'text', 2, 0, ''],
  ]);
  for (const [path, count] of site.counts) assert.equal(count, 1, path);
  assert.equal(site.counts.get('/sitemap.xml'), undefined);
  const listed = lines(cluster).find(({ url }) => url === `${site.origin}/b`);
  assert.equal(listed?.depth, 1);
});

test('sitemaps: a master that is killed in the middle loses none', { timeout }, async (t) => {
  const site = await siteFor(t, hiddenPages(), { delayMs: 30 });
  fullSite(site);
  const cluster = new Cluster(t);
  const flags = [site.url, '--exit-when-done', '--per-host', '1'];
  let master = await cluster.master(flags);
  const { address } = cluster;
  const slave = cluster.slave();
  for (const requests of [2, 5, 8]) {
    await site.requested(requests);
    await master.kill('SIGKILL');
    master = await cluster.master(flags, { listen: address });
  }
  await assertLeaves(master, slave);
  const pages = cluster.pages();
  assert.equal(new Set(pages).size, 8);
  assert.equal(pages.length, 8);
  assert.equal(lines(cluster).filter(({ sitemap }) => sitemap !== undefined).length, 8);
  assert.equal(new Set(cluster.lines('img_src.txt')).size, 2);
  assert.equal(site.robotsLog.length, 1);
});

test('sitemaps: a long one comes in many parts, and whole', { timeout }, async (t) => {
  const site = await siteFor(t, sitePages({ '/': [] }));
  // Forbidden, so that they end as lines without a request each.
  site.robots = 'User-agent: *\nDisallow: /page/\nSitemap: /big.xml';
  const paths = Array.from({ length: 30_000 }, (_, i) => `<loc>${site.origin}/page/${i}</loc>`);
  site.resources.set('/big.xml', file(urlset(paths)));
  const cluster = await crawlToEnd(t, [site.url]);
  const found = lines(cluster);
  const [sitemap] = found.filter((line) => line.sitemap !== undefined);
  assert.deepEqual(sitemap?.sitemap, { kind: 'urlset', urls: 30_000, images: 0 });
  assert.equal(sitemap?.cut, undefined);
  const excluded = found.filter(({ url }) => url.startsWith(`${site.origin}/page/`));
  assert.equal(new Set(excluded.map(({ url }) => url)).size, 30_000);
  assert.equal(excluded.length, 30_000);
});

test('sitemaps: none costs no request, a missing one is no failure', { timeout }, async (t) => {
  const site = await siteFor(t, hiddenPages());
  const plain = await crawlToEnd(t, [site.url]);
  assert.deepEqual([...site.counts.keys()].sort(), ['/', '/linked']);
  const all = await crawlToEnd(t, [site.url], { flags: ['--sitemaps', 'all'] });
  assert.equal(site.counts.get('/sitemap.xml'), 1);
  assert.equal(all.fetched().length, plain.fetched().length);
  site.resources.set('/sitemap.xml', file(urlset([`<loc>${site.origin}/a</loc>`])));
  const found = await crawlToEnd(t, [site.url], { flags: ['--sitemaps', 'all'] });
  assert.deepEqual(found.pages().length, 3);
  site.robots = 'Sitemap: /sitemap.xml';
  for (const flags of [['--sitemaps', 'none'], ['--max-depth', '0'], ['--ignore-robots']]) {
    const asked = site.counts.get('/sitemap.xml');
    await crawlToEnd(t, [site.url], { flags });
    assert.equal(site.counts.get('/sitemap.xml'), asked, flags.join(' '));
  }
});

test('sitemaps: one on another host passes the address guard', { timeout }, async (t) => {
  const site = await siteFor(t, hiddenPages());
  const other = await siteFor(t, sitePages({}));
  other.resources.set('/map.txt', file(`${site.origin}/a\n${other.origin}/b\n`, 'text/plain'));
  site.robots = `Sitemap: ${other.origin}/map.txt`;
  const guarded = await crawlToEnd(t, [site.url]);
  assert.equal(other.log.length + other.robotsLog.length, 0);
  const refused = lines(guarded).find(({ sitemap }) => sitemap !== undefined);
  assert.equal(refused?.error?.kind, 'blocked');
  const opened = await crawlToEnd(t, [site.url], { flags: ['--allow-private', '127.0.0.0/8'] });
  assert.deepEqual([other.robotsLog.length, ...other.counts.entries()].flat(), [1, '/map.txt', 1]);
  assert.deepEqual(
    opened.pages().sort(),
    ['/', '/a', '/linked'].map((path) => site.origin + path),
  );
});

test('sitemaps: --sitemap-since leaves out what is older', { timeout }, async (t) => {
  const site = await siteFor(t, hiddenPages());
  const dated = (path: string, date: string) =>
    `<loc>${site.origin}${path}</loc><lastmod>${date}</lastmod>`;
  site.robots = `Sitemap: ${site.origin}/map.xml`;
  const entries = [
    dated('/a', '2026-10-31'),
    dated('/b', '2026-11-01'),
    dated('/c', 'yesterday'),
    dated('/d', '2026-10-31T23:59:59Z'),
    `<loc>${site.origin}/e</loc>`,
  ];
  site.resources.set('/map.xml', file(urlset(entries)));
  const cluster = await crawlToEnd(t, [site.url], { flags: ['--sitemap-since', '2026-11-01'] });
  assert.deepEqual(
    cluster
      .pages()
      .map((url) => url.slice(site.origin.length))
      .sort(),
    ['/', '/b', '/c', '/e', '/linked'],
  );
});
