/** Several outputs that fill one table, with columns of their own, and make it at the same time. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import Database from 'libsql';
import { createConnection } from 'mysql2/promise';
import postgres from 'postgres';
import { type Sink, UnavailableError } from '../../master/sinks/sink.ts';
import { outputKind } from '../../master/sinks/sinks.ts';
import { namedOutputs, outputOf } from '../../shared/outputs.ts';
import { before, crawlWith, itemsFrom, kindOf, rejectedIn } from '../support/columns.ts';
import { startMariadb, startPostgres } from '../support/servers.ts';

const timeout = 60_000;
const rules = {
  author: { match: '/', fields: { title: 'h1', name: 'b' } },
  book: { match: '/', fields: { title: 'h1', price: { css: 'i', type: 'number' as const } } },
};
const crawl = { ...crawlWith({}), spec: { fetch: { items: rules } } };

/** Tries again while a server is busy, as a crawl does, but not for ever. */
async function patiently<T>(work: () => Promise<T>): Promise<T> {
  const giveUpAt = performance.now() + timeout / 2;
  while (true) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof UnavailableError) || performance.now() > giveUpAt) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** Six outputs into one table, of two rules. `gone`: drops the table in the middle. */
async function fill(t: TestContext, to: string, gone: () => unknown): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'orb-shared-table-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const names = Object.keys(rules);
  const outputs = [...names, ...names, ...names].map((rule) =>
    outputOf(`${to}#table=things&key=title&rule=${rule}&on-conflict=skip`),
  );
  const kinds = namedOutputs(outputs).map((output) => outputKind(output, { folder, env: {} }));
  const sinks = await Promise.all(
    kinds.map(async (kind) => {
      const sink = await patiently(() => kind.open(crawl, undefined));
      t.after(() => sink.close());
      return sink;
    }),
  );
  const write = (sink: Sink, from: number) => {
    const [author, book] = names.map((rule, i) => ({ rule, title: `${rule} ${from + i}` }));
    const items = itemsFrom(from, { ...author, name: 'x' }, { ...book, price: 1.5 });
    return patiently(() => sink.write(items));
  };
  await Promise.all(sinks.map((sink) => write(sink, 1)));
  await gone();
  await Promise.all(sinks.map((sink) => write(sink, 3)));
}

/** Two outputs of one crawl with the same table and key: the second one lists as rejected what the
 *  table has by the first one. */
async function rejectsOfSecond(t: TestContext, to: string): Promise<void> {
  for (const [name, rejected] of [
    ['first', [3]],
    ['second', [1, 2, 3]],
  ] as const) {
    const { kind, folder } = kindOf(t, `${to}#table=twice&key=title&name=${name}`);
    const sink = await kind.open(crawlWith(before), undefined);
    await sink.write(
      itemsFrom(1, { title: 'a', n: 1 }, { title: 'b', n: 2 }, { title: 'a', n: 3 }),
    );
    await sink.close();
    const found = rejectedIn(folder, name).map((line) => 'seq' in line && line.seq);
    assert.deepEqual(found, rejected, name);
  }
}

const statement = 'SELECT title, name, price FROM things ORDER BY _seq';
const rows = [
  { title: 'author 3', name: 'x', price: null },
  { title: 'book 4', name: null, price: 1.5 },
];

test('shared table: of SQLite', { timeout }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orb-shared-table-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const db = new Database(join(folder, 'a.db'));
  await fill(t, `sqlite:${join(folder, 'a.db')}`, () => db.exec('DROP TABLE things'));
  assert.deepEqual(db.prepare(statement).all(), rows);
  await rejectsOfSecond(t, `sqlite:${join(folder, 'a.db')}`);
  db.close();
});

test('shared table: of PostgreSQL', { timeout }, async (t) => {
  const server = await startPostgres();
  if (server === undefined) return t.skip('PostgreSQL is not installed');
  t.after(() => server.close());
  const url = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  t.after(() => sql.end());
  await rejectsOfSecond(t, url);
  for (let round = 1; round <= 15; round++) {
    await sql`DROP TABLE IF EXISTS things, orbweaver_cursors`;
    await fill(t, url, () => sql`DROP TABLE things`);
    assert.deepEqual([...(await sql.unsafe(statement))], rows);
  }
});

test('shared table: of MariaDB', { timeout }, async (t) => {
  const server = await startMariadb();
  if (server === undefined) return t.skip('MariaDB is not installed');
  t.after(() => server.close());
  const url = `mysql://orb@127.0.0.1:${server.port}/orb`;
  const sql = await createConnection(url);
  t.after(() => sql.end());
  await rejectsOfSecond(t, url);
  for (let round = 1; round <= 15; round++) {
    await sql.query('DROP TABLE IF EXISTS things, orbweaver_cursors');
    await fill(t, url, () => sql.query('DROP TABLE things'));
    assert.deepEqual((await sql.query(statement))[0], rows);
  }
});

for (const flag of ['transaction-isolation=READ-COMMITTED', 'innodb-snapshot-isolation=ON']) {
  test(`shared table: of MariaDB: a row that comes while another waits, with ${flag}`, {
    timeout,
  }, async (t) => {
    const server = await startMariadb([`--loose-${flag}`]);
    if (server === undefined) return t.skip('MariaDB is not installed');
    t.after(() => server.close());
    const url = `mysql://orb@127.0.0.1:${server.port}/orb`;
    const other = await createConnection(url);
    t.after(() => other.end());
    const { kind, folder } = kindOf(t, `${url}#table=twice&key=title&name=raced`);
    const sink = await kind.open(crawlWith(before), undefined);
    await sink.write(itemsFrom(1, { title: 'a', n: 1 }));
    await other.query('START TRANSACTION');
    await other.query(
      "INSERT INTO twice (_crawl, _seq, title, n) SELECT _crawl, 2, 'b', 2 FROM twice",
    );
    const written = patiently(() => sink.write(itemsFrom(2, { title: 'b', n: 2 })));
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    await other.query('COMMIT');
    await written;
    await sink.close();
    const found = rejectedIn(folder, 'raced').map((line) => 'seq' in line && line.seq);
    assert.deepEqual(found, [2]);
  });
}
