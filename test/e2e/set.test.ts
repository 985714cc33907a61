/** `set`: options of a crawl that change while it runs, and after its end, on real processes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Resource, Resources, TestSite } from '../../selftest/site.ts';
import { Cluster } from '../support/cluster.ts';
import { siteFor } from '../support/parts.ts';

const timeout = 90_000;

/** A start page with links to these paths, all of them pages. */
function siteOf(paths: readonly string[]): Resources {
  const page = (links: readonly string[]): Resource => ({ kind: 'page', links, images: [] });
  const pages = paths.map((path) => [path, page([])] as const);
  return new Map([['/', page(paths)], ...pages]);
}
const numbered = (count: number, prefix = '/') =>
  Array.from({ length: count }, (_, i) => `${prefix}${i}`);

/** Runs a master to its end; returns its output. */
async function run(cluster: Cluster, args: readonly string[], code = 0): Promise<string> {
  const master = await cluster.master([...args, '--slaves', '1', '--exit-when-done']);
  assert.equal((await master.exited).code, code, master.output);
  return master.output;
}

function pathsOf(cluster: Cluster, crawl = 'default'): string[] {
  return cluster.pages(crawl).map((url) => new URL(url).pathname);
}

test('set: the same command with a higher --max-pages goes on', { timeout }, async (t) => {
  const site = await siteFor(t, siteOf(numbered(9)));
  const cluster = new Cluster(t);
  await run(cluster, [site.url, '--max-pages', '3']);
  assert.equal(pathsOf(cluster).length, 3);
  const output = await run(cluster, [site.url, '--max-pages', '7']);
  assert.match(output, /crawl default: --max-pages 7 \(was 3\); it goes on: 7 URLs wait/);
  assert.match(output, /stopped at --max-pages 7 with 3 URLs left/);
  assert.doesNotMatch(output, /finished already/);
  assert.equal(new Set(pathsOf(cluster)).size, 7);
  // A lower one changes nothing, and says what does.
  const lower = await run(cluster, [site.url, '--max-pages', '2']);
  assert.match(lower, /the crawl keeps the options that it has; .*`set default --max-pages …`/);
  assert.match(lower, /is finished already: 7 pages/);
  await run(cluster, [site.url, '--max-pages', '100']);
  assert.deepEqual(pathsOf(cluster).sort(), ['/', ...numbered(9)].sort());
  assert.equal(site.log.length, 10, 'each was asked for once');
});

test('set: a crawl that was interrupted takes a higher --max-pages, too', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, siteOf(numbered(9)));
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--max-pages', '2']);
  await master.kill('SIGKILL');
  await run(cluster, [site.url, '--max-pages', '5']);
  assert.equal(pathsOf(cluster).length, 5);
});

test('set: a crawl of which no seed was answered takes the options of the next start', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, siteOf(numbered(3)));
  const cluster = new Cluster(t);
  site.resources.delete('/');
  await run(cluster, [site.url, '--max-depth', '0', '--order', 'dfs', '--delay', '5'], 4);
  site.resources.set('/', { kind: 'page', links: numbered(3), images: [] });
  const output = await run(cluster, [site.url, '--user-agent', 'Two/2']);
  assert.match(output, /crawl default: .*--order bfs \(was dfs\)/);
  assert.match(output, /--max-depth the default \(was 0\)/);
  assert.equal(pathsOf(cluster).length, 4);
  assert.equal(site.log.at(-1)?.userAgent, 'Two/2');
  assert.doesNotMatch(output, /keeps the options/);
});

test('set: slaves use new options for all that they have not begun', { timeout }, async (t) => {
  const site = await siteFor(t, siteOf(numbered(40)));
  const cluster = new Cluster(t);
  const cookie = ['--cookie', 'who=one'];
  await cluster.master([site.url, '--per-host', '1', '--user-agent', 'One/1', ...cookie]);
  cluster.slave(['--slots', '1']);
  await site.requested(1);
  site.hold();
  await site.until((log) => log.some(({ endedAt }) => endedAt === undefined));
  const before = site.log.length;
  const said = await cluster.ask(
    ...['set', 'default', '--user-agent', 'Two/2', '--cookie', 'who=two'],
    ...['--header', 'X-Key: s3cret', '--page-bytes', '9000'],
  );
  assert.match(said, /--user-agent Two\/2 \(was One\/1\)/);
  assert.match(said, /--cookie who \(with other values\)/);
  assert.match(said, /--header X-Key \(was none\)/);
  assert.doesNotMatch(said, /s3cret|two/);
  site.release();
  await site.requested(before + 10);
  const [old, now] = [site.log.slice(0, before), site.log.slice(before)];
  assert.ok(old.every(({ userAgent, cookie: c }) => userAgent === 'One/1' && c === 'who=one'));
  assert.ok(now.every(({ userAgent, cookie: c }) => userAgent === 'Two/2' && c === 'who=two'));
});

test('set: a shorter delay counts at once, a narrower scope when the turn comes', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, siteOf([...numbered(5), ...numbered(5, '/private/')]));
  const cluster = new Cluster(t);
  const slow = ['--delay', '3600000', '--ignore-robots'];
  const master = await cluster.master([site.url, ...slow]);
  cluster.slave();
  await cluster.grown('pages.jsonl', 0);
  const said = await cluster.ask('set', 'default', '--delay', '0', '--exclude', '/private/');
  assert.match(
    said,
    /crawl default: --exclude \/private\/ \(was none\), --delay 0 \(was 3600000\)/,
  );
  assert.match(said, /10 URLs wait: those that are out of scope now are left out/);
  await master.said(/crawl default is done/);
  assert.deepEqual(pathsOf(cluster).sort(), ['/', ...numbered(5)].sort());
  const lines = cluster.lines('pages.jsonl').map((line) => JSON.parse(line));
  const left = lines.filter(({ excluded }) => excluded === 'scope');
  assert.deepEqual(
    left.map(({ url }) => new URL(url).pathname).sort(),
    numbered(5, '/private/').sort(),
  );
  const { ledger } = await cluster.status();
  assert.deepEqual([ledger?.page?.admitted, ledger?.page?.excluded], [11, 5]);
});

/** A site of two hosts: links to 127.0.0.2 are out of scope. */
async function twoHosts(t: Parameters<typeof siteFor>[0]): Promise<[TestSite, TestSite]> {
  const other = await siteFor(t, siteOf(['/far']), { host: '127.0.0.2' });
  const site = await siteFor(t, siteOf(['/1', '/x/2']));
  site.resources.set('/', {
    kind: 'page',
    links: ['/1', '/x/2', `${other.url}`],
    images: [],
    etag: '"start"',
  });
  return [site, other];
}

test('set: what was skipped is counted, and recrawl --refetch finds it', { timeout }, async (t) => {
  const [site, other] = await twoHosts(t);
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--exclude', '/x/', '--allow-private']);
  cluster.slave();
  await master.said(/crawl default is done/);
  const said = await cluster.ask('set', 'default', '--scope', 'any', '--no-exclude');
  assert.match(said, /--scope any \(was host\), --exclude none \(was \/x\/\)/);
  assert.match(said, /it stays finished: no URL waits/);
  assert.match(said, /skipped so far: 1 as host, 1 as exclude/);
  assert.match(said, /recrawl default --as NEW --refetch/);
  const pages = `${cluster.out}/default/pages.jsonl`;
  await cluster.ask('recrawl', 'default', '--as', 'kept', '--pages', pages);
  await master.said(/crawl kept is done/);
  assert.deepEqual(pathsOf(cluster, 'kept').sort(), ['/', '/1'], 'the start page is unchanged');
  await cluster.ask('recrawl', 'default', '--as', 'whole', '--pages', pages, '--refetch');
  await master.said(/crawl whole is done/);
  assert.deepEqual(
    new Set(cluster.pages('whole')),
    new Set([site.url, `${site.url}1`, `${site.url}x/2`, other.url, `${other.url}far`]),
  );
});

test('set: a limit below what is there ends the crawl, and --no- takes it back', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, siteOf(numbered(6)));
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--max-pages', '3']);
  cluster.slave();
  await master.said(/crawl default is done/);
  assert.match(
    await cluster.ask('set', 'default', '--max-pages', '2'),
    /it stays finished: it has its pages, and 4 URLs wait; raise --max-pages/,
  );
  const json = JSON.parse(await cluster.ask('set', 'default', '--no-max-pages', '--json'));
  const { id: _, ok: __, ...answer } = json;
  assert.deepEqual(answer, {
    state: 'running',
    changed: [{ field: 'maxPages', from: 2 }],
    waiting: 4,
    reopened: true,
  });
  await master.said(/every URL in scope was fetched/);
  assert.equal(pathsOf(cluster).length, 7);
});

const wrong: readonly (readonly [readonly string[], RegExp])[] = [
  [['default'], /say what is to change: set default --max-pages 10000/],
  [['nothing', '--delay', '5'], /there is no crawl "nothing"/],
  [['default', '--order', 'dfs'], /--order cannot change: the URLs that wait have their places/],
  [['default', '--canonical'], /--canonical cannot change/],
  [['default', '--images', 'img'], /--images cannot change: the pages that are done/],
  [['default', '--urls-expected', '5'], /--urls-expected cannot change/],
  [['default', '--max-pages', '0'], /--max-pages.*must be a whole number from 1/],
  [['default', '--delay', 'slow'], /must be a whole number/],
  [['default', '--galaxy'], /unknown option '--galaxy'/],
  [['default', '--no-galaxy'], /unknown option '--no-galaxy'/],
  [['default', '--include', '('], /--include/],
  [['default', '--include', '(?=x)'], /--include.*write/],
  [['default', '--proxy', 'ftp://x'], /--proxy/],
  [[], /missing required argument 'crawl'/],
];

test('set: what cannot be is one line that says why', { timeout }, async (t) => {
  const site = await siteFor(t, siteOf([]));
  const cluster = new Cluster(t);
  await cluster.master([site.url]);
  for (const [args, why] of wrong) {
    await assert.rejects(cluster.ask('set', ...args), (error: Error) => {
      assert.match(error.message, /exit code 2: master: [^\n]+\n?$/, args.join(' '));
      assert.match(error.message, why);
      return true;
    });
  }
  const same = await cluster.ask('set', 'default', '--attempts', '4', '--order', 'bfs');
  assert.equal(same, 'crawl default has these options already\n');
});

for (const change of ['set', 'host'] as const) {
  test(`${change}: a delay where there was none holds back what waits in the slaves`, {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, siteOf(numbered(60)), { delayMs: 300 });
    const cluster = new Cluster(t);
    const master = await cluster.master([site.url, '--delay', '0']);
    cluster.slave(['--slots', '4']);
    await site.requested(20);
    const { host } = new URL(site.url);
    await cluster.ask(change, change === 'set' ? 'default' : host, '--delay', '2000');
    const [at, asked] = [performance.now(), site.log.length];
    // One may be about to leave.
    await site.requested(asked + 2);
    assert.ok(performance.now() - at >= 1_900, `after ${performance.now() - at} ms`);
    await cluster.ask(change, change === 'set' ? 'default' : host, '--delay', '0');
    await master.said(/crawl default is done.* 61 pages/);
    assert.equal(site.log.filter(({ path }) => path !== '/robots.txt').length, 61);
  });
}
