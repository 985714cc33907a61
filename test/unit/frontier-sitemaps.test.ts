/** Sitemaps in the frontier: whose they are, in parts, over a crash, and what is not followed. */
import assert from 'node:assert/strict';
import type { SitemapPart } from '../../master/frontier/commit/entry.ts';

import type { Lease } from '../../master/frontier/dispatch/leases.ts';
import { kindOf } from '../../master/frontier/kinds/kinds.ts';
import type { CrawlSpecInput } from '../../shared/crawl.ts';
import type { SitemapKind } from '../../shared/protocol.ts';
import type { FakeSlave } from '../support/fake-slave.ts';
import { leaseOf, reportOf, specOf, type World, worldTest } from '../support/world.ts';

const site = 'http://a.test';
const map = `${site}/map.xml`;
const obey = { ignoreRobots: false };

/** A slave that holds what can be leased when the robots.txt of `site` says this. */
async function begin(world: World, robots: string, spec: CrawlSpecInput = {}): Promise<FakeSlave> {
  const slave = world.slave('slave', 16);
  await world.seed(`${site}/`, { ...obey, ...spec });
  await answerRobots(world, slave, site, robots);
  return slave;
}

async function answerRobots(world: World, slave: FakeSlave, origin: string, text: string) {
  const lease = held(slave, `${origin}/robots.txt`);
  const file = Buffer.from(text);
  const said = { status: text === '' ? 404 : 200 };
  await world.done(world.frontier.report(lease, { verb: 'task.robots', answer: said, file: file }));
}

function held(slave: FakeSlave, url: string): Lease {
  const lease = leaseOf(slave, url);
  assert.ok(lease, `no lease of ${url} among ${slave.urls}`);
  return lease;
}

function part(kind: SitemapKind, urls: readonly string[], images: readonly string[] = []) {
  const joined = (list: readonly string[]) => Buffer.from(list.join('\n'));
  return { kind, urls: joined(urls), images: joined(images) };
}

/** The only part, or the last one. */
function whole(url: string, kind: SitemapKind, urls: readonly string[] = []): SitemapPart {
  const { result } = reportOf(url, kind === 'none' ? { status: 404 } : {});
  return { ...part(kind, urls), end: { result, urls: urls.length, images: 0 } };
}

async function tell(world: World, slave: FakeSlave, url: string, said: SitemapPart) {
  const lease = held(slave, url);
  return await world.done(world.frontier.report(lease, { verb: 'task.sitemap', ...said }));
}

const robotsOf = (...urls: readonly string[]) => urls.map((url) => `Sitemap: ${url}\n`).join('');
const kindsOf = (slave: FakeSlave) => [...slave.leases].map(({ task }) => kindOf(task).name).sort();

worldTest('a sitemap is a task of the crawl, and its URLs are one deep', async (world) => {
  const slave = await begin(world, robotsOf(map, '/map.xml', 'ftp://a.test/', map));
  assert.deepEqual(slave.urls.sort(), [`${site}/`, map]);
  assert.deepEqual(kindsOf(slave), ['page', 'sitemap']);
  const listed = [`${site}/`, `${site}/b`, 'http://other.test/', 'not canonical'];
  assert.equal(await tell(world, slave, map, whole(map, 'urlset', listed)), 'done');
  assert.equal(held(slave, `${site}/b`).task.depth, 1);
  assert.equal(slave.leases.size, 2);
  const { known, others, failed, waiting } = world.crawl().counters;
  assert.deepEqual(
    { known, others, failed, waiting },
    { known: 3, others: 1, failed: 0, waiting: 2 },
  );
  const [line] = world.lines() as { url: string; sitemap?: object }[];
  assert.deepEqual(line?.sitemap, { kind: 'urlset', urls: 4, images: 0 });
});

/** Bytes of links that one commit takes, about: see `FilterQueue`. */
const commitBytes = 1 << 20;

/** Three commits of URLs below `path`, as one text. */
function longList(path: string): Buffer {
  const url = (i: number) => `${site}${path}${i}/${'x'.repeat(1_000)}`;
  const count = (3 * commitBytes) / url(0).length;
  return Buffer.from(Array.from({ length: count }, (_, i) => url(i)).join('\n'));
}

/** Counts the commits that have tasks from now on. */
function commitsWithTasks({ store }: World): { count: number } {
  const seen = { count: 0 };
  const commit = store.commit.bind(store);
  store.commit = (changes) => {
    if (changes.some(({ table }) => table === 'tasks' || table === 'unsorted')) seen.count++;
    return commit(changes);
  };
  return seen;
}

worldTest('what a slave lists at once is taken in several commits', async (world) => {
  const slave = await begin(world, robotsOf(map));
  const commits = commitsWithTasks(world);
  const said = { kind: 'urlset', urls: longList('/map'), images: Buffer.alloc(0) } as const;
  assert.equal(await tell(world, slave, map, said), 'done');
  assert.ok(commits.count >= 3, `${commits.count} commits for a sitemap`);
  const { known } = world.crawl().counters;
  commits.count = 0;
  const follow = [5, 4].map((priority) => ({ priority, links: longList(`/${priority}`) }));
  const report = { ...reportOf(`${site}/`), follow };
  const page = held(slave, `${site}/`);
  assert.equal(await world.done(world.frontier.report(page, report)), 'done');
  assert.ok(commits.count >= 6, `${commits.count} commits for a page`);
  const [line] = world.lines().slice(-1) as { links?: number }[];
  assert.equal(line?.links, world.crawl().counters.known - known);
});

worldTest('a sitemap in parts: each counts at once, the last one ends it', async (world) => {
  const slave = await begin(world, robotsOf(map));
  const first = part('urlset', [`${site}/b`], [`${site}/1.png`]);
  assert.equal(await tell(world, slave, map, first), 'done');
  assert.deepEqual(slave.urls.sort(), [`${site}/`, `${site}/b`, map]);
  assert.deepEqual(world.images(), [`${site}/1.png`]);
  const lease = held(slave, map);
  await tell(world, slave, map, whole(map, 'urlset', [`${site}/c`]));
  assert.equal(leaseOf(slave, map), undefined);
  const late = world.frontier.report(lease, { verb: 'task.sitemap', ...first });
  assert.equal(await world.done(late), 'stale');
  assert.equal(world.lines().length, 1);
});

worldTest('a crash between two parts: it is read again, and nothing twice', async (world) => {
  let slave = await begin(world, robotsOf(map));
  await tell(world, slave, map, part('urlset', [`${site}/b`], [`${site}/1.png`]));
  world.crash();
  slave = world.slave('slave', 16);
  await world.settle();
  assert.deepEqual(slave.urls.sort(), [`${site}/`, `${site}/b`, map]);
  await tell(world, slave, map, part('urlset', [`${site}/b`], [`${site}/1.png`]));
  await tell(world, slave, map, whole(map, 'urlset', [`${site}/c`]));
  for (const url of slave.urls) await world.page(slave, url);
  assert.deepEqual(world.images(), [`${site}/1.png`]);
  assert.equal(world.lines().length, 4);
  assert.equal(world.crawl().counters.waiting, 0);
});

worldTest('a crash before a sitemap is on the disk: it is named again', async (world) => {
  const slave = world.slave('slave', 16);
  await world.seed(`${site}/`, obey);
  await answerRobots(world, slave, site, robotsOf(map));
  assert.ok(leaseOf(slave, map));
  // Entries that are gathered after the file is known are lost with the process.
  const before = world.rows('tasks').filter(({ value }) => value.includes('map.xml'));
  assert.equal(before.length, 1);
  await world.store.commit(before.map(({ key }) => ({ table: 'tasks', key, value: undefined })));
  for (const table of ['runs', 'recent'] as const) {
    const rows = world.rows(table);
    await world.store.commit(rows.map(({ key }) => ({ table, key, value: undefined })));
  }
  world.crash();
  const next = world.slave('next', 16);
  await world.settle();
  assert.deepEqual(next.urls.sort(), [`${site}/`, map]);
});

worldTest('it is read once by each crawl that wants it', async (world) => {
  const slave = await begin(world, robotsOf(map));
  await tell(world, slave, map, whole(map, 'urlset'));
  await world.page(slave, `${site}/`);
  await world.seed(`${site}/late`, obey);
  assert.deepEqual(slave.urls, [`${site}/late`]);
  await world.seed(`${site}/`, specOf(obey), 'second');
  await world.seed(`${site}/`, specOf({ ...obey, sitemaps: 'none' }), 'third');
  await world.seed(`${site}/`, specOf({ ...obey, maxDepth: 0 }), 'fourth');
  assert.deepEqual(kindsOf(slave), ['page', 'page', 'page', 'page', 'sitemap']);
});

worldTest('robots.txt may name a sitemap anywhere, an index not', async (world) => {
  const cdn = 'http://cdn.test';
  const slave = await begin(world, robotsOf(`${cdn}/index.xml`));
  assert.deepEqual(slave.urls.sort(), [`${site}/`, `${cdn}/robots.txt`]);
  // Whose host is not in scope has no say in which sitemaps there are.
  await answerRobots(world, slave, cdn, robotsOf(`${cdn}/own.xml`));
  assert.deepEqual(slave.urls.sort(), [`${site}/`, `${cdn}/index.xml`]);
  const children = [`${cdn}/1.xml`, `${site}/2.xml`, 'http://victim.test/3.xml', 'x'];
  await tell(world, slave, `${cdn}/index.xml`, whole(`${cdn}/index.xml`, 'index', children));
  assert.deepEqual(slave.urls.sort(), [`${site}/`, `${site}/2.xml`, `${cdn}/1.xml`]);
});

worldTest('indexes within indexes are followed three deep', async (world) => {
  const slave = await begin(world, robotsOf(`${site}/0.xml`));
  for (let level = 0; level < 3; level++) {
    const url = `${site}/${level}.xml`;
    await tell(world, slave, url, whole(url, 'index', [`${site}/${level + 1}.xml`]));
  }
  const last = `${site}/3.xml`;
  await tell(world, slave, last, whole(last, 'index', [`${site}/4.xml`]));
  assert.deepEqual(slave.urls, [`${site}/`]);
});

worldTest('a redirect to another origin is followed like an index', async (world) => {
  const slave = await begin(world, robotsOf(map, `${site}/b.xml`));
  const moved = (url: string, redirectedTo: string): SitemapPart => {
    const { result } = reportOf(url, { status: 301, redirectedTo });
    return { ...part('none', []), end: { result, urls: 0, images: 0 } };
  };
  await tell(world, slave, map, moved(map, 'https://a.test/map.xml'));
  assert.deepEqual(slave.urls.sort(), [`${site}/`, `${site}/b.xml`, 'https://a.test/robots.txt']);
  await tell(world, slave, `${site}/b.xml`, moved(`${site}/b.xml`, 'http://victim.test/'));
  assert.deepEqual(slave.urls.sort(), [`${site}/`, 'https://a.test/robots.txt']);
});

worldTest('a guess that is none leaves nothing behind', async (world) => {
  const guess = `${site}/sitemap.xml`;
  const slave = await begin(world, '', { sitemaps: 'all' });
  assert.deepEqual(slave.urls.sort(), [`${site}/`, guess]);
  await tell(world, slave, guess, whole(guess, 'none'));
  const { known, others, failed, waiting } = world.crawl().counters;
  assert.deepEqual(
    { known, others, failed, waiting },
    { known: 1, others: 0, failed: 0, waiting: 1 },
  );
  assert.deepEqual(world.lines(), []);
});

worldTest('with a sitemap in robots.txt nothing is guessed', async (world) => {
  const slave = await begin(world, robotsOf(map), { sitemaps: 'all' });
  assert.deepEqual(slave.urls.sort(), [`${site}/`, map]);
});

worldTest('robots.txt forbids a sitemap like a page, a guess in silence', async (world) => {
  const disallow = 'User-agent: *\nDisallow: /*.xml\n';
  let slave = await begin(world, disallow + robotsOf(map));
  assert.deepEqual(slave.urls, [`${site}/`]);
  assert.equal((world.lines()[0] as { excluded?: string }).excluded, 'robots');
  await world.seed(`${site}/`, specOf({ ...obey, sitemaps: 'all' }), 'second');
  world.crash();
  slave = world.slave('slave', 16);
  assert.equal(world.crawl('second').counters.excluded, 1);
});

worldTest('one that fails is tried again, then told of, and never buried', async (world) => {
  const slave = await begin(world, robotsOf(map), { attemptsMax: 2 });
  await world.fail(slave, map);
  assert.equal(leaseOf(slave, map), undefined);
  await world.advance(2_000);
  assert.equal(kindOf(held(slave, map).task).name, 'sitemap');
  await world.fail(slave, map);
  const { others, failed, buried } = world.crawl().counters;
  assert.deepEqual({ others, failed, buried }, { others: 1, failed: 0, buried: 0 });
  const [line] = world.lines() as { sitemap?: object; error?: object }[];
  assert.deepEqual(line?.sitemap, { kind: 'none', urls: 0, images: 0 });
  assert.deepEqual(line?.error, { kind: 'connect', message: 'refused', attempts: 2 });
});

worldTest('one that was fetched as a page has failed', async (world) => {
  const slave = await begin(world, robotsOf(map), { attemptsMax: 1 });
  const lease = held(slave, map);
  const report = reportOf(map, { links: [`${site}/x`] });
  const taken = world.frontier.report(lease, report);
  assert.equal(await world.done(taken), 'done');
  assert.deepEqual(slave.urls, [`${site}/`]);
  assert.equal(world.lines()[0]?.error?.kind, 'protocol');
});

worldTest('a page is not ended by the word of a sitemap', async (world) => {
  const slave = await begin(world, '');
  const said = whole(`${site}/`, 'urlset', [`${site}/x`]);
  assert.equal(await tell(world, slave, `${site}/`, said), 'stale');
  assert.deepEqual(slave.urls, [`${site}/`]);
});

worldTest('a cancelled crawl takes no sitemap any more', async (world) => {
  const slave = await begin(world, robotsOf(map));
  const lease = held(slave, map);
  await world.done(world.frontier.cancel('default'));
  const said = whole(map, 'urlset', [`${site}/b`]);
  const late = world.frontier.report(lease, { verb: 'task.sitemap', ...said });
  assert.equal(await world.done(late), 'stale');
  assert.deepEqual(slave.urls, []);
});
