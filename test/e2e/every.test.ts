/** `every` and `keep` of a crawl: repeats under dated names, with what changed. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import type { CrawlStatus } from '../../shared/protocol.ts';
import { Cluster, type Program } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { WallClock } from '../support/wall-clock.ts';

const timeout = 90_000;

type Site = {
  readonly url: string;
  readonly pages: Record<string, string>;
  delayMs: number;
  readonly asked: string[];
};

/** Pages that change by `pages`; `/` links to those and to some that are missing. */
async function site(t: TestContext): Promise<Site> {
  const found: Site = { url: '', pages: { '/a': 'a', '/b': 'b' }, delayMs: 0, asked: [] };
  const port = await httpServer(t, ({ url = '', method = '' }, response) => {
    found.asked.push(`${method} ${url}`);
    const links = ['/a', '/b', '/c'].map((path) => `<a href="${path}">x</a>`).join('');
    const body = url === '/' ? links : found.pages[url];
    const answer = () => {
      response.writeHead(body === undefined ? 404 : 200, { 'content-type': 'text/html' });
      response.end(body);
    };
    if (url === '/robots.txt' || found.delayMs === 0) answer();
    else setTimeout(answer, found.delayMs);
  });
  return Object.assign(found, { url: `http://127.0.0.1:${port}` });
}

const flags = ['--crawl', 'books', '--delay', '0', '--slaves', '1'];

function changesOf(cluster: Cluster, crawl: string): string[] {
  const text = readFileSync(join(cluster.out, crawl, 'changes.jsonl'), 'utf8');
  const lines = text.split('\n').slice(0, -1);
  return lines
    .map((line) => JSON.parse(line) as { change: string; url: string })
    .map(({ change, url }) => `${change} ${new URL(url).pathname}`)
    .sort();
}

async function crawlsOf(cluster: Cluster): Promise<CrawlStatus[]> {
  const text = await cluster.ask('status', '--json', '--all');
  return (JSON.parse(text) as { crawls: CrawlStatus[] }).crawls;
}

/** Resolves with the first group of that pattern in the log. */
async function named(master: Program, pattern: RegExp): Promise<string> {
  await master.said(pattern);
  return pattern.exec(master.output)?.[1] ?? '';
}

/** The pages of each ended crawl are there once, and nothing is half made. */
async function assertWhole(cluster: Cluster, keep: number): Promise<void> {
  const crawls = await crawlsOf(cluster);
  const done = crawls.filter(({ state }) => state === 'finished');
  assert.ok(done.length >= 1 && crawls.length <= keep + 1, JSON.stringify(crawls));
  for (const { name } of done) {
    const pages = cluster.pages(name).map((url) => new URL(url).pathname);
    assert.deepEqual(pages.sort(), ['/', '/a', '/b'], name);
  }
  const names = new Set(crawls.map(({ name }) => name));
  const folders = readdirSync(cluster.out);
  assert.ok(
    folders.every((folder) => names.has(folder)),
    `${folders.join(' ')} of ${[...names].join(' ')}`,
  );
}

/** Ends the series, and resolves when its last crawl is over. */
async function ended(cluster: Cluster): Promise<void> {
  const client = await cluster.connect();
  for (;;) {
    const { crawls } = await client.request('crawl.list', {});
    const newest = crawls.find(({ repeats }) => repeats?.nextAt !== undefined);
    const isOpen = crawls.some(({ state }) => state === 'running' || state === 'paused');
    if (newest === undefined && !isOpen) break;
    // The next one may come between.
    if (newest !== undefined) {
      const spec = { everyMs: null };
      await client.request('crawl.set', { crawl: newest.name, spec }).catch(() => {});
    }
  }
  await client.close();
}

describe('every', { concurrency: 2 }, () => {
  test('every: repeats a crawl, says what changed, and keeps as many as stated', {
    timeout,
  }, async (t) => {
    const { url, pages } = await site(t);
    const cluster = new Cluster(t);
    const args = [`${url}/`, ...flags, '--every', '3s', '--keep', '2', '--output', 'csv:books.csv'];
    const master = await cluster.master(args);
    await master.said(/crawl books is done/);
    Object.assign(pages, { '/b': 'B', '/c': 'c' });
    delete pages['/a'];
    const second = await named(master, /crawl (books-\d{8}T\d{6}Z): since books 1 came, 1 went/);
    assert.deepEqual(changesOf(cluster, second), ['came /c', 'changed /b', 'went /a']);
    assert.ok(existsSync(join(cluster.out, second, 'books.csv')));
    const third = await named(master, new RegExp(`crawl (\\S+): since ${second} 0 came, 0 went`));
    assert.deepEqual(changesOf(cluster, third), []);
    // Of three the first one goes, with its files.
    await master.said(/crawl books was removed/);
    assert.ok(!existsSync(join(cluster.out, 'books')));
    // On a busy machine there is a newer one by now.
    const text = await cluster.ask('status', '--all');
    assert.match(text, /since books-\S+ 0 came, 0 went, 0 changed, 3 the same/);
    assert.match(text, /repeated every 3s, next at .*; 2 crawls kept/);
    const newest = (await crawlsOf(cluster)).find(({ repeats }) => repeats?.nextAt !== undefined);
    assert.equal(newest?.repeats?.series, 'books');
  });

  test('every: one that is not over is not overtaken', { timeout }, async (t) => {
    const found = await site(t);
    found.delayMs = 1500;
    const cluster = new Cluster(t);
    const master = await cluster.master([`${found.url}/`, ...flags, '--every', '2s']);
    await master.said(/crawl books is not over, so its repeat is left out this time; next at /);
    assert.deepEqual(readdirSync(cluster.out), ['books']);
    found.delayMs = 0;
    await master.said(/crawl books-\S+: since books 0 came, 0 went, 0 changed, 3 the same/);
  });

  test('every: one that failed is tried again also where the clock is put back', {
    timeout,
  }, async (t) => {
    const { url } = await site(t);
    const cluster = new Cluster(t);
    const clock = new WallClock(cluster.folder);
    const master = await cluster.master([`${url}/`, ...flags, '--every', '2s'], clock);
    await master.said(/crawl books is done/);
    renameSync(cluster.out, `${cluster.out}.away`);
    writeFileSync(cluster.out, '');
    await master.said(/crawl books cannot be repeated: .*; it is tried again every 2 s/);
    clock.set(-86_400_000);
    rmSync(cluster.out);
    renameSync(`${cluster.out}.away`, cluster.out);
    await master.said(/crawl books-\S+: since books 0 came, 0 went, 0 changed, 3 the same/);
  });

  test('every: time without a master is one time, and a start goes on with the newest', {
    timeout,
  }, async (t) => {
    const { url } = await site(t);
    const cluster = new Cluster(t);
    const args = [`${url}/`, ...flags, '--every', '3s', '--keep', '1'];
    const first = await cluster.master(args);
    const one = await named(first, /crawl (books-\S+): since books /);
    await first.said(/crawl books was removed/);
    await first.kill('SIGKILL');
    // More than three times pass: the clock is what is tested.
    await new Promise((resolve) => setTimeout(resolve, 10_000));
    const master = await cluster.master(args);
    await master.said(new RegExp(`crawl books goes on as ${one}, its newest repeat`));
    const two = await named(master, new RegExp(`crawl (books-\\S+): since ${one} `));
    const begun = master.output.split('\n').filter((line) => / begins with /.test(line));
    assert.equal(begun.length, 1, master.output);
    await master.said(new RegExp(`crawl books-\\S+: since ${two} `));
    assert.ok(!existsSync(join(cluster.out, 'books')));
  });

  test('every: kill -9 at any time leaves whole crawls, and the series goes on', {
    timeout,
  }, async (t) => {
    const { url } = await site(t);
    const cluster = new Cluster(t);
    const args = [`${url}/`, ...flags, '--every', '1s', '--keep', '2', '--digest'];
    for (let round = 0; round < 8; round++) {
      const master = await cluster.master(args);
      const when = [/ begins with /, /: since /, /is done/, /was removed/][round % 4] ?? / /;
      await master.said(when);
      await new Promise((resolve) => setTimeout(resolve, (round * 37) % 150));
      await master.kill('SIGKILL');
    }
    const master = await cluster.master(args);
    await master.said(/: since /);
    await ended(cluster);
    await assertWhole(cluster, 2);
  });

  test('every: set, cancel and remove are about the whole series', { timeout }, async (t) => {
    const { url } = await site(t);
    const cluster = new Cluster(t);
    const master = await cluster.master([`${url}/`, ...flags, '--every', '5s']);
    await master.said(/crawl books-\S+: since books /);
    // By the name that its operator gave.
    const said = await cluster.ask('set', 'books', '--every', '1h', '--keep', '5');
    assert.match(said, /--every 1h \(was 5s\)/);
    await master.said(/crawl books-\S+ is repeated every 1h, next at/);
    let crawls = await crawlsOf(cluster);
    const newest = crawls.find(({ repeats }) => repeats?.everyMs !== undefined);
    assert.equal(newest?.repeats?.everyMs, 3_600_000);
    assert.equal(newest?.repeats?.keep, 5);
    await cluster.ask('remove', newest?.name ?? '', '--files');
    await master.said(/it is repeated no more/);
    assert.ok(!existsSync(join(cluster.out, newest?.name ?? '')));
    crawls = await crawlsOf(cluster);
    assert.ok(crawls.every(({ repeats }) => repeats?.nextAt === undefined));
    // A crawl of the series that is crawled again by hand is one of its own.
    await cluster.ask('recrawl', 'books', '--as', 'mine', '--pages', 'out/books/pages.jsonl');
    assert.equal((await cluster.status('mine')).repeats, undefined);
    // It begins again by its operator's word.
    await cluster.ask('set', 'books', '--every', '1s');
    await master.said(/crawl books-\S+ begins with \d+ URLs of books\b[\s\S]*begins with/);
  });

  test('every: asks sources of seeds again, and sends requests again', { timeout }, async (t) => {
    const { url, asked, pages } = await site(t);
    Object.assign(pages, { '/d': 'd', '/form': 'f' });
    const cluster = new Cluster(t);
    writeFileSync(join(cluster.folder, 'urls.txt'), `${url}/a\n`);
    const path = join(cluster.folder, 'books.json');
    const form = { url: `${url}/form`, method: 'POST', form: { q: 'x' } };
    const seeds = [{ file: 'urls.txt' }, form];
    const rest = { 'max-depth': 0, delay: 0, every: '3s', keep: 3 };
    writeFileSync(path, JSON.stringify({ crawl: 'books', seeds, ...rest }));
    const master = await cluster.master([path, '--slaves', '1']);
    await master.said(/crawl books is done/);
    writeFileSync(join(cluster.folder, 'urls.txt'), `${url}/b\n${url}/d\n`);
    const second = await named(master, /crawl (books-\S+): since books 2 came, 0 went/);
    assert.deepEqual(changesOf(cluster, second), ['came /b', 'came /d']);
    assert.equal(asked.filter((one) => one === 'POST /form').length, 2);
    await master.said(new RegExp(`crawl books-\\S+: since ${second} 0 came`));
    assert.equal(asked.filter((one) => one === 'POST /form').length, 3);
  });

  test('every: what cannot be repeated is refused in one line', { timeout }, async (t) => {
    const cluster = new Cluster(t);
    const cases: [string[], RegExp][] = [
      [['--exit-when-done'], /--exit-when-done and --every exclude each other/],
      [['--output', 'csv:/tmp/x.csv'], /must not name \/tmp\/x\.csv with every: each crawl writes/],
      [['--output', 'redis://h/0#stream=x'], /must not be a stream with every/],
      [['--keep', '0'], /--keep .*1 to 10000/],
    ];
    for (const [args, message] of cases) {
      const all = ['master.js', 'http://127.0.0.1:1/', '--every', '1h', ...args];
      const program = cluster.run([...all, '--listen', '127.0.0.1:0']);
      assert.equal((await program.exited).code, 2, program.output);
      assert.match(program.output, message);
      assert.equal(program.output.trim().split('\n').length, 1, program.output);
    }
    const wrong = cluster.run(['master.js', 'http://127.0.0.1:1/', '--every', '24']);
    await wrong.exited;
    assert.match(wrong.output, /must be a time such as 30s, 15m, 24h or 7d/);
  });
});
