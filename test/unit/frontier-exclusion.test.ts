/** Reports that are not results: by their own directives, or because their name is taken. */
import assert from 'node:assert/strict';
import type { CrawlSpecInput } from '../../shared/crawl.ts';
import { type Found, type World, worldTest } from '../support/world.ts';

const a = 'http://a.example';
const other = 'http://o.example/';

/** Crawls pages that are told one after the other, in one crawl of all their URLs. */
async function crawl(
  world: World,
  spec: CrawlSpecInput,
  pages: Readonly<Record<string, Partial<Found>>>,
): Promise<string[]> {
  await world.seed(
    Object.keys(pages).map((path) => a + path),
    spec,
  );
  const slave = world.slave('slave', 100);
  await world.settle();
  for (const [path, found] of Object.entries(pages)) await world.page(slave, a + path, found);
  return verdicts(world);
}

/** `path` of a page, `path excluded` of another line. */
function verdicts(world: World): string[] {
  return world.lines().map(({ url, images, excluded, redirectedTo }) => {
    const why = excluded ?? (redirectedTo === undefined ? 'other' : 'moved');
    return url.slice(a.length) + (images === undefined ? ` ${why}` : '');
  });
}

function counts(world: World) {
  const { pages, others, failed, excluded, images, waiting } = world.crawl().status();
  return { pages, others, failed, excluded, images, waiting };
}

const noindex = { directives: ['noindex'] } as const;

worldTest('a page that asks for it is no result, but its links count', async (world) => {
  const found = { ...noindex, images: [`${a}/i.png`], links: [`${a}/next`] };
  const pages = { '/': found, '/pdf': { ...noindex, type: 'application/pdf' } };
  const lines = await crawl(world, { fetch: { obey: ['noindex'] } }, pages);
  assert.deepEqual(lines, ['/ noindex', '/pdf noindex']);
  assert.deepEqual(counts(world), {
    pages: 0,
    others: 0,
    failed: 0,
    excluded: 2,
    images: 0,
    waiting: 1,
  });
  assert.deepEqual(world.images(), []);
});

worldTest('noindex changes nothing unless it is obeyed', async (world) => {
  const pages = { '/': { ...noindex, images: [`${a}/i.png`] }, '/b': { directives: [] } };
  assert.deepEqual(await crawl(world, {}, pages), ['/', '/b']);
  assert.deepEqual(world.images(), [`${a}/i.png`]);
  assert.equal(counts(world).excluded, 0);
});

worldTest('an error stays one, whatever it asks', async (world) => {
  const pages = { '/': { ...noindex, status: 404 }, '/to': { ...noindex, redirectedTo: other } };
  const lines = await crawl(world, { fetch: { obey: ['noindex'] } }, pages);
  assert.deepEqual(lines, ['/ other', '/to moved']);
  assert.deepEqual([counts(world).failed, counts(world).others], [1, 1]);
});

worldTest('pages of one canonical URL are written once, and lose no image', async (world) => {
  const to = { canonical: `${a}/c` };
  const lines = await crawl(
    world,
    { canonical: true },
    {
      '/c?sort=1': { ...to, images: [`${a}/1.png`] },
      '/c?sort=2': { ...to, images: [`${a}/1.png`, `${a}/2.png`], links: [`${a}/next`] },
      '/c': { images: [`${a}/3.png`] },
      '/d': {},
    },
  );
  assert.deepEqual(lines, ['/c?sort=1', '/c?sort=2 canonical', '/c canonical', '/d']);
  assert.deepEqual(
    world.images(),
    [1, 2, 3].map((n) => `${a}/${n}.png`),
  );
  const { pages, excluded, waiting } = counts(world);
  assert.deepEqual([pages, excluded, waiting], [2, 2, 1]);
});

worldTest('pages that name each other are both written', async (world) => {
  const lines = await crawl(
    world,
    { canonical: true },
    {
      '/a': { canonical: `${a}/b` },
      '/b': { canonical: `${a}/a` },
    },
  );
  assert.deepEqual(lines, ['/a', '/b']);
});

worldTest('a canonical URL out of scope, or none, names no page', async (world) => {
  const lines = await crawl(
    world,
    { canonical: true, exclude: ['/x'] },
    {
      '/1': { canonical: other },
      '/2': { canonical: other },
      '/3': { canonical: `${a}/x` },
      '/4': { canonical: `${a}/x` },
      '/5': { canonical: 'nonsense' },
      '/6': { canonical: 'nonsense' },
    },
  );
  assert.deepEqual(lines, ['/1', '/2', '/3', '/4', '/5', '/6']);
});

worldTest('a page cannot take the name of a page of another site', async (world) => {
  // Site, and whether a canonical link there counts.
  const sites: Readonly<Record<string, boolean>> = {
    'https://www.a.example': true,
    'http://example.': false,
    'http://b.example': false,
    'http://a.example:8080': false,
    'http://u.github.io': false,
    'http://10.0.0.1': false,
  };
  const seeds = Object.keys(sites).map((site) => `${site}/page`);
  const thieves = seeds.map((_, i) => `${a}/${i}`);
  await world.seed([...thieves, ...seeds], { scope: 'any', canonical: true });
  const slave = world.slave('slave', 100);
  await world.settle();
  for (const [i, url] of thieves.entries()) {
    const canonical = seeds[i];
    await world.page(slave, url, canonical === undefined ? {} : { canonical });
  }
  for (const url of seeds) await world.page(slave, url);
  const excluded = world.lines().filter((line) => line.excluded !== undefined);
  assert.deepEqual(
    excluded.map(({ url }) => url),
    seeds.filter((url) => sites[new URL(url).origin]),
  );
});

worldTest('a slave cannot name a page by another site either', async (world) => {
  const spec = { scope: 'any', canonical: true } as const;
  await world.seed([`${a}/`, other], spec);
  const slave = world.slave('slave', 100);
  await world.settle();
  await world.page(slave, `${a}/`, { finalUrl: 'http://o.example/x', canonical: other });
  await world.page(slave, other);
  assert.deepEqual(
    world.lines().map(({ url, excluded }) => [url, excluded]),
    [
      [`${a}/`, undefined],
      [other, undefined],
    ],
  );
});

worldTest('canonical URLs change nothing unless they shall', async (world) => {
  const to = { canonical: `${a}/c` };
  assert.deepEqual(await crawl(world, {}, { '/1': to, '/2': to, '/c': {} }), ['/1', '/2', '/c']);
});

worldTest('a name is kept over a crash', async (world) => {
  const to = { canonical: `${a}/c` };
  await crawl(world, { canonical: true }, { '/1': { ...to, links: [`${a}/2`] } });
  await world.reopen();
  const slave = world.slave();
  await world.settle();
  await world.page(slave, `${a}/2`, to);
  assert.deepEqual(verdicts(world), ['/1', '/2 canonical']);
  assert.equal(world.seenKeys().length, world.crawl().counters.seen);
});

worldTest('a redirected page takes the name that it says', async (world) => {
  const lines = await crawl(
    world,
    { canonical: true },
    {
      '/old': { finalUrl: `${a}/new`, canonical: `${a}/c` },
      '/c': {},
      '/older': { finalUrl: `${a}/new` },
    },
  );
  assert.deepEqual(lines, ['/old', '/c canonical', '/older moved']);
});
