/** A start for another site beside an unfinished crawl: both go on, or with --only one of them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { flatSite } from '../../selftest/site.ts';
import { Cluster } from '../support/cluster.ts';
import { siteFor } from '../support/parts.ts';

const timeout = 60_000;

test('only: npm start says that both go on, and --only leaves the old crawl alone', {
  timeout,
}, async (t) => {
  const old = await siteFor(t, flatSite(30), { delayMs: 100 });
  const young = await siteFor(t, flatSite(5));
  const cluster = new Cluster(t);
  const nameOf = (url: string) => new URL(url).host.replace(':', '-');
  const [first, second] = [nameOf(old.url), nameOf(young.url)];
  const start = (...args: string[]) => cluster.run(['scripts/start.mjs', ...args]);

  const begun = start(old.url, '--per-host', '2');
  await old.requested(6);
  assert.deepEqual(await begun.kill('SIGTERM'), { code: 0, signal: null });
  const asked = old.log.length;
  assert.ok(asked < 31);

  const alone = start(young.url, '--only');
  assert.deepEqual(await alone.exited, { code: 0, signal: null }, alone.output);
  const left = new RegExp(
    `crawl ${first} is left alone \\(--only\\): \\d+ URLs wait; it goes on with`,
  );
  assert.match(alone.stdout, left);
  assert.match(alone.stdout, /\n6 pages and 0 images/);
  assert.equal(old.log.length, asked, 'the old site was not asked');

  // Asked for again by its name, it goes on at once.
  const kept = start(young.url, '--only', '--data', './orb-data');
  assert.deepEqual(await kept.exited, { code: 0, signal: null }, kept.output);
  const more = await siteFor(t, flatSite(5));
  const both = start(more.url);
  assert.deepEqual(await both.exited, { code: 0, signal: null }, both.output);
  const beside = `crawl ${first} is not finished and goes on beside ${nameOf(more.url)}: `;
  assert.ok(both.stdout.includes(beside), both.stdout);
  assert.match(both.stdout, new RegExp(`crawl ${first} is done`));
  assert.ok(!both.stdout.includes(`crawl ${second} is not finished`));
  assert.equal(
    new Set(old.log.map(({ path }) => path).filter((p) => p !== '/robots.txt')).size,
    31,
  );
});

test('only: a crawl that is left alone shows as paused, and can be resumed', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, flatSite(10), { delayMs: 100 });
  const cluster = new Cluster(t);
  const first = await cluster.master([
    site.url,
    '--crawl',
    'old',
    '--slaves',
    '1',
    '--per-host',
    '1',
  ]);
  await site.requested(2);
  await first.kill('SIGTERM');
  const second = await cluster.master(['--only', '--crawl', 'new', '--slaves', '1']);
  await second.said(/slave joined/);
  const { state, waiting } = await cluster.status('old');
  assert.equal(state, 'paused');
  assert.ok(waiting > 0);
  assert.match(await cluster.ask('resume', 'old'), /crawl old resumed/);
  await second.said(/crawl old is done/);
  assert.equal(cluster.pages('old').length, 11);
});
