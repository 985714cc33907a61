/** Outputs to a real PostgreSQL server, with server and master killed in the middle of a crawl. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import postgres from 'postgres';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { startPostgres } from '../support/servers.ts';

const timeout = 120_000;
const pagesCount = 600;

test('outputs: PostgreSQL and master killed by turns lose no row and write none twice', {
  timeout,
}, async (t) => {
  const server = await startPostgres();
  if (server === undefined) return t.skip('PostgreSQL is not installed');
  t.after(() => server.close());
  const port = await httpServer(t, (request, response) => {
    response.setHeader('content-type', 'text/html');
    const links = Array.from({ length: pagesCount }, (_, i) => `<a href="/${i}">x</a>`).join('');
    const text = request.url === '/' ? links : `<title>page ${request.url}</title>`;
    setTimeout(() => response.end(request.url === '/robots.txt' ? '' : text), 20);
  });
  const cluster = new Cluster(t);
  const to = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  const keyed = `${to}#table=keyed&key=url&on-conflict=update`;
  const args = [`http://127.0.0.1:${port}/`, '--slaves', '1', '--exit-when-done'];
  const strict = `${to}#table=strict&key=status`;
  args.push('--output', to, '--output', keyed, '--output', strict, '--per-host', '2');
  for (let round = 0; round < 3; round++) {
    const master = await cluster.master(args);
    await cluster.grown('pages.jsonl', round * 120 + 40);
    await server.kill();
    await cluster.grown('pages.jsonl', round * 120 + 80);
    // While the server is away, or when it is back.
    if (round === 1) await master.kill('SIGKILL');
    await server.start();
    if (round !== 1) await cluster.grown('pages.jsonl', round * 120 + 110);
    await master.kill('SIGKILL');
  }
  const master = await cluster.master(args);
  assert.equal((await master.exited).code, 0, master.output);
  const sql = postgres(to, { max: 1, onnotice: () => {} });
  const urls = async (table: string) =>
    (await sql.unsafe(`SELECT url FROM ${table} ORDER BY _seq`)).map((row) => String(row['url']));
  const written = cluster.fetched().map(({ url }) => url);
  assert.equal(written.length, pagesCount + 1);
  assert.deepEqual(await urls('pages'), written);
  assert.deepEqual((await urls('keyed')).sort(), [...written].sort());
  const rows = await sql`SELECT status, title, at FROM pages WHERE url LIKE '%/7'`;
  assert.equal(rows[0]?.['title'], 'page /7');
  assert.deepEqual(await urls('strict'), written.slice(0, 1));
  const rejected = readFileSync(join(cluster.out, 'default/rejected-postgres-3.jsonl'), 'utf8');
  const reasons = rejected
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { url: string });
  assert.deepEqual(
    reasons.map(({ url }) => url),
    written.slice(1),
  );
  await sql.end();
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
  const master = await cluster.master(['--slaves', '1', '--sink-backlog', '1']);
  await cluster.ask('add', site, '--crawl', 'a', '--output', to, '--per-host', '4');
  await cluster.grown('pages.jsonl', 5, 'a');
  await server.kill();
  await master.said(/crawl a .*postgres: /);
  let status = await cluster.status('a');
  while (status.state !== 'held') status = await cluster.status('a');
  assert.match(status.held ?? '', /^postgres: /);
  assert.ok(status.pages < 300);
  const sinks = await cluster.ask('sinks', 'a');
  assert.match(sinks, /postgres +failing +\d+ records? behind/);
  await cluster.ask('add', site, '--crawl', 'b', '--max-pages', '20', '--per-host', '4');
  while ((await cluster.status('b')).state !== 'finished');
  await server.start();
  while ((await cluster.status('a')).state !== 'finished');
  const sql = postgres(to, { max: 1, onnotice: () => {} });
  const rows = await sql`SELECT url FROM pages ORDER BY _seq`;
  await sql.end();
  assert.deepEqual(
    rows.map((row) => row['url']),
    cluster.fetched('a').map(({ url }) => url),
  );
});
