/** A site full of traps: the crawl ends by itself, with all that is real, and says what it left. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Cluster } from '../support/cluster.ts';
import { pagesOf, readPages } from '../support/exact.ts';
import { TrapSite } from '../support/trap-site.ts';

const timeout = 120_000;

async function trapSiteFor(t: TestContext): Promise<TrapSite> {
  const site = await TrapSite.start();
  t.after(() => site.close());
  return site;
}

function skippedOf(cluster: Cluster): { url: string; skipped: string; from: string }[] {
  const text = readFileSync(join(cluster.out, 'default', 'skipped.jsonl'), 'utf8');
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as { url: string; skipped: string; from: string });
}

test('traps: a crawl gets out of all of them with every real page', { timeout }, async (t) => {
  const site = await trapSiteFor(t);
  const cluster = new Cluster(t);
  // The two limits that are large for the sake of large sites; the rest as it is by default.
  const limits = ['--traps', 'similar=300,queries=300', '--page-bytes', '200000'];
  const master = await cluster.master([site.url, ...limits]);
  cluster.slave();
  cluster.slave();
  const [said] = await master.said(/crawl default is done.*/);

  const lines = readPages(cluster);
  const pages = pagesOf(lines);
  assert.deepEqual(
    site.truth.filter((page) => !pages.includes(page)),
    [],
    'real pages are missing',
  );
  // Each page that has sessions, once, by one of its names.
  const withSession = pages.filter((page) => page.includes('/session/'));
  const names = withSession.map((page) => new URL(page).pathname.replace(/;.*/, ''));
  assert.deepEqual(
    names.sort(),
    [...Array(10).keys()].map((page) => `/session/${page}`),
  );

  const bounds = {
    // 300 days, 300 months, and at most as many within five links.
    calendar: 1_200,
    // 100 steps before it counts.
    week: 401,
    // Words of two letters with at most five that stood there before.
    loop: 254,
    deep: 32,
    // One or two filters are no explosion.
    shop: 1 + 20 + 20 * 16 + 300,
    grow: 33,
    long: 7,
  };
  for (const [trap, bound] of Object.entries(bounds)) {
    const asked = site.askedOf(trap);
    assert.ok(asked > 1 && asked <= bound, `${trap}: ${asked} of at most ${bound}`);
  }

  const endless = lines.find(({ finalUrl }) => finalUrl === `${site.origin}/endless`);
  assert.equal((endless as { cut?: boolean } | undefined)?.cut, true);
  const home = lines.find(({ finalUrl }) => finalUrl === site.url);
  assert.equal((home as { linksCut?: number } | undefined)?.linksCut, 1);

  const listed = skippedOf(cluster);
  const reasons = ['length', 'parameters', 'queries', 'repeats', 'segments', 'session', 'similar'];
  assert.deepEqual([...new Set(listed.map(({ skipped }) => skipped))].sort(), reasons);
  const { skipped } = await cluster.status();
  assert.deepEqual(Object.keys(skipped).sort(), reasons);
  for (const reason of reasons) {
    const count = listed.filter((line) => line.skipped === reason).length;
    assert.equal(count, Math.min(1_000, skipped[reason as keyof typeof skipped] ?? 0), reason);
  }
  const total = Object.values(skipped).reduce((sum, count) => sum + count, 0);
  assert.match(said ?? '', new RegExp(`, ${total.toLocaleString('en-US')} links skipped as traps`));
  assert.match(await cluster.ask('status'), /^default: links skipped: .*repeats \d/m);

  // Named by the operator, a link is fetched all the same.
  const left = listed.find((line) => line.skipped === 'segments')?.url ?? '';
  const before = site.askedOf('deep');
  assert.match(await cluster.ask('add', left), /^1 new/);
  await master.said(/crawl default is done[\s\S]*crawl default is done/);
  assert.equal(site.askedOf('deep'), before + 1);
  assert.ok(pagesOf(readPages(cluster)).includes(left));
});

test('traps: an option that is no limit is refused in one line', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  for (const text of ['', 'similar', 'similar=-1', 'similar=many', 'length=5000', 'calendar=1']) {
    const program = cluster.run(['master.js', '--traps', text]);
    assert.equal((await program.exited).code, 2, text);
    assert.match(program.stderr, /^master: [^\n]*--traps[^\n]*segments=64[^\n]*\n$/, text);
  }
});
