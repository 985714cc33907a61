/** Outputs to real database servers, with server and master killed in the middle of a crawl. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createClient } from '@redis/client';
import { createConnection } from 'mysql2/promise';
import postgres from 'postgres';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { parquetFiles, rowsOfParquet } from '../support/parquet.ts';
import { type Server, startMariadb, startPostgres, startRedis } from '../support/servers.ts';

const timeout = 120_000;
const pagesCount = 600;

/** A page with links to numbered pages, each of which takes 20 ms. */
async function site(t: TestContext): Promise<string> {
  const port = await httpServer(t, (request, response) => {
    response.setHeader('content-type', 'text/html');
    const links = Array.from({ length: pagesCount }, (_, i) => `<a href="/${i}">x</a>`).join('');
    const text = request.url === '/' ? links : `<title>page ${request.url}</title>`;
    setTimeout(() => response.end(request.url === '/robots.txt' ? '' : text), 20);
  });
  return `http://127.0.0.1:${port}/`;
}

/** Crawls it to the end, while server and master are killed by turns. Returns the URLs of its pages
 *  in the order of their records. */
async function crawlOverKills(
  cluster: Cluster,
  url: string,
  outputs: readonly string[],
  server?: Server,
): Promise<string[]> {
  const args = [url, '--slaves', '1', '--exit-when-done', '--per-host', '2'];
  args.push(...outputs.flatMap((output) => ['--output', output]));
  for (let round = 0; round < 3; round++) {
    const master = await cluster.master(args);
    await cluster.grown('pages.jsonl', round * 120 + 40);
    await server?.kill();
    await cluster.grown('pages.jsonl', round * 120 + 80);
    // While the server is away, or when it is back.
    if (round === 1) await master.kill('SIGKILL');
    await server?.start();
    if (round !== 1) await cluster.grown('pages.jsonl', round * 120 + 110);
    await master.kill('SIGKILL');
  }
  const master = await cluster.master(args);
  assert.equal((await master.exited).code, 0, master.output);
  const written = cluster.fetched().map((line) => line.url);
  assert.equal(written.length, pagesCount + 1);
  return written;
}

/** URLs of the rows that an output has rejected. */
function rejectedBy(cluster: Cluster, output: string): string[] {
  const text = readFileSync(join(cluster.out, `default/rejected-${output}.jsonl`), 'utf8');
  const lines = text.trimEnd().split('\n');
  return lines.map((line) => (JSON.parse(line) as { url: string }).url);
}

test('outputs: PostgreSQL and master killed by turns lose no row and write none twice', {
  timeout,
}, async (t) => {
  const server = await startPostgres();
  if (server === undefined) return t.skip('PostgreSQL is not installed');
  t.after(() => server.close());
  const cluster = new Cluster(t);
  const to = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  const keyed = `${to}#table=keyed&key=url&on-conflict=update`;
  const strict = `${to}#table=strict&key=status`;
  const written = await crawlOverKills(cluster, await site(t), [to, keyed, strict], server);
  const sql = postgres(to, { max: 1, onnotice: () => {} });
  const urls = async (table: string) =>
    (await sql.unsafe(`SELECT url FROM ${table} ORDER BY _seq`)).map((row) => String(row['url']));
  assert.deepEqual(await urls('pages'), written);
  assert.deepEqual((await urls('keyed')).sort(), [...written].sort());
  const rows = await sql`SELECT status, title, at FROM pages WHERE url LIKE '%/7'`;
  assert.equal(rows[0]?.['title'], 'page /7');
  assert.deepEqual(await urls('strict'), written.slice(0, 1));
  assert.deepEqual(rejectedBy(cluster, 'postgres-3'), written.slice(1));
  await sql.end();
});

test('outputs: MariaDB and master killed by turns lose no row and write none twice', {
  timeout,
}, async (t) => {
  const server = await startMariadb();
  if (server === undefined) return t.skip('MariaDB is not installed');
  t.after(() => server.close());
  const cluster = new Cluster(t);
  const to = `mysql://orb@127.0.0.1:${server.port}/orb`;
  const keyed = `${to}#table=keyed&key=url&on-conflict=update`;
  const strict = `${to}#table=strict&key=status`;
  const first = `${to}#table=first&key=status&on-conflict=skip`;
  const outputs = [to, keyed, strict, first];
  const written = await crawlOverKills(cluster, await site(t), outputs, server);
  const sql = await createConnection({ uri: to, timezone: 'Z' });
  const urls = async (table: string) => {
    const [rows] = await sql.query(`SELECT url FROM ${table} ORDER BY _seq`);
    return (rows as { url: string }[]).map((row) => row.url);
  };
  assert.deepEqual(await urls('pages'), written);
  assert.deepEqual((await urls('keyed')).sort(), [...written].sort());
  const [rows] = await sql.query("SELECT status, title, at FROM pages WHERE url LIKE '%/7'");
  const [row] = rows as { status: number; title: string; at: Date }[];
  assert.deepEqual([row?.status, row?.title], [200, 'page /7']);
  assert.ok(Math.abs(Date.now() - Number(row?.at)) < 600_000, String(row?.at));
  assert.deepEqual(await urls('strict'), written.slice(0, 1));
  assert.deepEqual(await urls('first'), written.slice(0, 1));
  assert.deepEqual(rejectedBy(cluster, 'mysql-3'), written.slice(1));
  await sql.end();
});

test('outputs: Redis and master killed by turns lose no record and write none twice', {
  timeout,
}, async (t) => {
  const server = await startRedis();
  if (server === undefined) return t.skip('Redis is not installed');
  t.after(() => server.close());
  const cluster = new Cluster(t);
  const to = `redis://127.0.0.1:${server.port}/0`;
  const outputs = [`${to}#list=a-list`, `${to}#stream=a-stream`];
  const written = await crawlOverKills(cluster, await site(t), outputs, server);
  const client = createClient({ url: to });
  await client.connect();
  const records = (await client.lRange('a-list', 0, -1)).map(
    (text) => JSON.parse(text) as { url: string; _seq: number },
  );
  assert.deepEqual(
    records.map(({ url }) => url),
    written,
  );
  const entries = (await client.xRange('a-stream', '-', '+')) ?? [];
  assert.deepEqual(
    entries.map(({ message }) => message['url']),
    written,
  );
  assert.deepEqual(
    entries.map(({ id }) => id),
    records.map(({ _seq }) => `${_seq}-0`),
  );
  client.destroy();
});

test('outputs: Parquet files have each row once over kills of the master', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const written = await crawlOverKills(cluster, await site(t), ['parquet:p.parquet']);
  const folder = join(cluster.out, 'default');
  const files = parquetFiles(folder);
  const rows = await rowsOfParquet(files);
  assert.deepEqual(
    rows.map((row) => row['url']),
    written,
  );
  const row = rows.find(({ url }) => String(url).endsWith('/7'));
  assert.deepEqual([row?.['status'], row?.['title']], [200n, 'page /7']);
  assert.ok(row?.['at'] instanceof Date);
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.endsWith('.tmp')),
    [],
  );
});

test('outputs: servers that hang hold up the end of the master for some seconds', {
  timeout,
}, async (t) => {
  const mariadb = await startMariadb();
  if (mariadb === undefined) return t.skip('MariaDB is not installed');
  t.after(() => mariadb.close());
  const ofPostgres = await startPostgres();
  if (ofPostgres === undefined) return t.skip('PostgreSQL is not installed');
  t.after(() => ofPostgres.close());
  const cluster = new Cluster(t);
  const toPostgres = `postgres://postgres@127.0.0.1:${ofPostgres.port}/postgres`;
  const outputs = [toPostgres, `mysql://orb@127.0.0.1:${mariadb.port}/orb`];
  const args = [await site(t), '--slaves', '1', '--per-host', '2'];
  args.push(...outputs.flatMap((output) => ['--output', output]));
  const master = await cluster.master(args);
  await cluster.grown('pages.jsonl', 40);
  const sql = postgres(toPostgres, { max: 1 });
  const own = await sql`SELECT pid FROM pg_stat_activity WHERE application_name = 'orbweaver'`;
  await sql.end();
  assert.equal(own.length, 1);
  const pid = Number(own[0]?.['pid']);
  t.after(() => process.kill(pid, 'SIGKILL'));
  // It stops where it is; its connections stay open.
  process.kill(pid, 'SIGSTOP');
  mariadb.signal('SIGSTOP');
  await cluster.grown('pages.jsonl', 80);
  const began = performance.now();
  await master.kill('SIGTERM');
  const tookMs = performance.now() - began;
  assert.ok(tookMs < 15_000, `${tookMs} ms`);
  for (const name of ['postgres', 'mysql']) {
    const left = `crawl default: [0-9,]+ records still wait for ${name}; the next start writes`;
    assert.match(master.output, new RegExp(left));
  }
});

test('outputs: a server that hangs is named within seconds, and holds up no operator', {
  timeout,
}, async (t) => {
  const server = await startMariadb();
  if (server === undefined) return t.skip('MariaDB is not installed');
  t.after(() => server.close());
  const cluster = new Cluster(t);
  const to = `mysql://orb@127.0.0.1:${server.port}/orb`;
  const url = await site(t);
  const master = await cluster.master([url, '--slaves', '1', '--output', to, '--per-host', '1']);
  const names = ['default', 'b', 'c', 'd'];
  for (const name of names.slice(1)) {
    await cluster.ask('add', url, '--crawl', name, '--output', to, '--per-host', '1');
  }
  for (const name of names) await cluster.grown('pages.jsonl', 5, name);
  server.signal('SIGSTOP');
  const silent = /default: its results wait for mysql: the server does not answer; .*, for \d/;
  const stopped = performance.now();
  while (!silent.test(await cluster.ask('status'))) {
    assert.ok(performance.now() - stopped < 15_000, 'status does not say it');
  }
  const ofSinks = /mysql +failing +\d+ records? behind .*the server does not answer, for \d/;
  assert.match(await cluster.ask('sinks', 'default'), ofSinks);
  const asked = performance.now();
  await Promise.all([
    cluster.ask('set', 'default', '--output', 'csv:x.csv'),
    cluster.ask('sinks', 'b', '--drop', 'mysql'),
    cluster.ask('cancel', 'c'),
    cluster.ask('remove', 'd'),
  ]);
  const tookMs = performance.now() - asked;
  assert.ok(tookMs < 12_000, `${tookMs} ms`);
  for (const name of names) {
    assert.match(master.output, new RegExp(`crawl ${name}: mysql does not get the last \\d+`));
  }
  assert.doesNotMatch(master.output, /takes its results again/);

  const refused = cluster.command('add', url, '--crawl', 'e', '--output', to);
  assert.equal((await refused.exited).code, 2);
  const why = /mysql: the server has not answered for 5 s \(mysql:.*\); see that it can be reached/;
  assert.match(refused.output, why);
});

test('outputs: a server that is away holds its crawl alone, which goes on by itself', {
  timeout,
}, async (t) => {
  const server = await startPostgres();
  if (server === undefined) return t.skip('PostgreSQL is not installed');
  t.after(() => server.close());
  const images = Array.from({ length: 100 }, (_, i) => `${'x'.repeat(200)}-${i}.png`);
  const port = await httpServer(t, (request, response) => {
    response.setHeader('content-type', 'text/html');
    const links = Array.from({ length: 300 }, (_, i) => `<a href="/${i}">x</a>`).join('');
    const shown = images.map((name) => `<img src="${name}">`).join('');
    setTimeout(() => response.end(request.url === '/robots.txt' ? '' : links + shown), 20);
  });
  const cluster = new Cluster(t);
  const to = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  const site = `http://127.0.0.1:${port}/`;
  const leaving = ['--slaves', '1', '--exit-when-done'];
  const master = await cluster.master([...leaving, '--sink-backlog', '1']);
  await cluster.ask('add', site, '--crawl', 'a', '--output', to, '--per-host', '4');
  await cluster.grown('pages.jsonl', 5, 'a');
  await server.kill();
  await master.said(/crawl a is held: postgres: .*; it goes on by itself/);
  let status = await cluster.status('a');
  while (status.state !== 'held') status = await cluster.status('a');
  assert.match(status.held ?? '', /^postgres: /);
  assert.ok(status.pages < 300);
  // It may have been held for being slow before the server went; then its reason changes.
  const failing = /postgres +failing +\d+ records? behind/;
  while (!failing.test(await cluster.ask('sinks', 'a')));
  const why = (await cluster.status('a')).held ?? '';
  assert.match(why, /^postgres: /);
  assert.doesNotMatch(why, /slower/);
  await cluster.ask('add', site, '--crawl', 'b', '--max-pages', '20', '--per-host', '4');
  while ((await cluster.status('b')).state !== 'finished');
  await server.start();
  assert.deepEqual(await master.exited, { code: 0, signal: null }, master.output);
  assert.doesNotMatch(master.output, /only held crawls are left/);
  const sql = postgres(to, { max: 1, onnotice: () => {} });
  const rows = await sql`SELECT url FROM pages ORDER BY _seq`;
  await sql.end();
  assert.deepEqual(
    rows.map((row) => row['url']),
    cluster.fetched('a').map(({ url }) => url),
  );
});

test('outputs: postgres: a server that is read-only for a while is waited for', {
  timeout,
}, async (t) => {
  const server = await startPostgres();
  if (server === undefined) return;
  t.after(() => server.close());
  const cluster = new Cluster(t);
  const output = `postgres://postgres@127.0.0.1:${server.port}/postgres#records=all`;
  const args = [await site(t), '--slaves', '1', '--exit-when-done', '--per-host', '2'];
  const sql = postgres(output.replace(/#.*/, ''), { max: 1, onnotice: () => {} });
  t.after(() => sql.end());
  const master = await cluster.master([...args, '--output', output]);
  // As a primary that has become a standby: each session of now ends.
  const change = async (how: string) => {
    await sql.unsafe('SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE');
    await sql.unsafe(how);
    await sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE application_name = 'orbweaver'`;
  };
  await cluster.grown('pages.jsonl', 40);
  await change('ALTER DATABASE postgres SET default_transaction_read_only = on');
  await master.said(/its results wait for postgres \(postgres: .*read-only transaction\)/);
  const said = /default: its results wait for postgres: .*read-only transaction; it is tried again/;
  assert.match(await cluster.ask('status'), said);
  await change('ALTER DATABASE postgres RESET default_transaction_read_only');
  assert.equal((await master.exited).code, 0, master.output);
  assert.doesNotMatch(master.output, /is held/);
  const [row] = await sql`SELECT count(*)::int AS n, count(DISTINCT _seq)::int AS d FROM "all"`;
  assert.deepEqual({ ...row }, { n: pagesCount + 1, d: pagesCount + 1 });
});

test('outputs: redis: what a crawl that is given up leaves unwritten is said of the output', {
  timeout,
}, async (t) => {
  const server = await startRedis();
  if (server === undefined) return t.skip('Redis is not installed');
  t.after(() => server.close());
  const cluster = new Cluster(t);
  const output = ['--output', `redis://127.0.0.1:${server.port}/0`, '--per-host', '2'];
  const url = await site(t);
  const master = await cluster.master([url, '--slaves', '1', ...output]);
  await cluster.ask('add', url, '--crawl', 'b', ...output);
  for (const name of ['default', 'b']) await cluster.grown('pages.jsonl', 40, name);
  await server.kill();
  for (const name of ['default', 'b']) {
    await master.said(new RegExp(`crawl ${name}: its results wait for redis`));
  }
  await cluster.ask('cancel', 'default');
  await master.said(/crawl default: redis does not get the last \d+ records/);
  assert.match(await cluster.ask('sinks', 'default'), /redis +\w+ +nothing waits/);
  await cluster.ask('remove', 'b');
  await master.said(/crawl b: redis does not get the last \d+ records/);
  assert.doesNotMatch(master.output, /dropped unwritten results/);
});
