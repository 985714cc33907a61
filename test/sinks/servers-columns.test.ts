/** The same as columns.test.ts on real servers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createConnection } from 'mysql2/promise';
import postgres from 'postgres';
import { changesType, crawlWith, itemsFrom, kindOf, other } from '../support/columns.ts';
import { startMariadb, startPostgres } from '../support/servers.ts';

test('columns: PostgreSQL gets new ones; another type is an error with the ALTER', async (t) => {
  const server = await startPostgres();
  if (server === undefined) return t.skip('PostgreSQL is not installed');
  t.after(() => server.close());
  const url = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  await changesType(t, url, (statement) => sql.unsafe(statement));
  const rows = await sql`SELECT title, n, extra FROM book ORDER BY _seq`;
  await sql.end();
  assert.deepEqual(
    rows.map((row) => Object.values(row)),
    [
      ['a', '1', null],
      ['b', null, null],
      ['c', '3', ['x', 'y']],
      ['d', 'four', null],
    ],
  );
});

test('columns: MariaDB gets new ones; another type is an error with the ALTER', async (t) => {
  const server = await startMariadb();
  if (server === undefined) return t.skip('MariaDB is not installed');
  t.after(() => server.close());
  const url = `mysql://orb@127.0.0.1:${server.port}/orb`;
  const sql = await createConnection(url);
  await changesType(t, url, (statement) => sql.query(statement));
  const [rows] = await sql.query('SELECT title, n, extra FROM book ORDER BY _seq');
  const values = (rows as Record<string, unknown>[]).map((row) => Object.values(row));
  assert.deepEqual(values[2]?.[2], ['x', 'y']);
  assert.deepEqual(
    values.map(([title, n]) => [title, n]),
    [
      ['a', '1'],
      ['b', null],
      ['c', '3'],
      ['d', 'four'],
    ],
  );
  const { kind } = kindOf(t, url);
  const sink = await kind.open(crawlWith(other), { seq: 4 });
  await sink.write(itemsFrom(5, { title: 'e', extra: 'a text' }));
  await sink.close();
  const [last] = await sql.query('SELECT extra FROM book WHERE _seq = 5');
  assert.deepEqual(last, [{ extra: 'a text' }]);
  await t.test('a table without transactions is refused', async () => {
    await sql.query('ALTER TABLE book ENGINE=Aria');
    const { kind } = kindOf(t, url);
    const sink = await kind.open(crawlWith(other), undefined);
    await assert.rejects(sink.write(itemsFrom(6, { title: 'f' })), /ENGINE=InnoDB/);
    await sink.close();
  });
  await sql.end();
});
