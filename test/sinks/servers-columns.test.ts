/** The same as columns.test.ts on real servers. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { createConnection } from 'mysql2/promise';
import postgres from 'postgres';
import { type SinkCrawl, type SinkKind, UnavailableError } from '../../master/sinks/sink.ts';
import {
  before,
  changesType,
  crawlWith,
  itemsFrom,
  kindOf,
  oddItems,
  oddRows,
  other,
  rejectedIn,
  renamedRejects,
  renamedRows,
  renamedTables,
  wider,
} from '../support/columns.ts';
import { startMariadb, startPostgres } from '../support/servers.ts';

test('columns: PostgreSQL gets new ones; another type is an error with the ALTER', async (t) => {
  const server = await startPostgres();
  if (server === undefined) return t.skip('PostgreSQL is not installed');
  t.after(() => server.close());
  const url = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  await changesType(t, url, (statement) => sql.unsafe(statement));
  const rows = await sql`SELECT title, n, extra FROM book ORDER BY _seq`;
  assert.deepEqual(
    rows.map((row) => Object.values(row)),
    [
      ['a', '1', null],
      ['b', null, null],
      ['c', '3', ['x', 'y']],
      ['d', 'four', null],
    ],
  );
  await sql`DROP TABLE book, orbweaver_cursors`;
  await t.test('values of another type are JSON', async () => {
    await writeAll(kindOf(t, url).kind, crawlWith(before), ...oddItems);
    const found = await sql`SELECT title, n::int, item FROM book ORDER BY _seq`;
    assert.deepEqual([...found], oddRows);
    await sql`DROP TABLE book, orbweaver_cursors`;
  });
  await t.test('a key that no index holds is rejected', async () => {
    const { kind, folder } = kindOf(t, `${url}#key=title`);
    const title = randomBytes(3_000).toString('base64');
    await writeAll(kind, crawlWith(before), { title: 'a', n: 1 }, { title, n: 2 }, { n: 3 });
    assert.deepEqual([...(await sql`SELECT title FROM book`)], [{ title: 'a' }]);
    assert.deepEqual(rejectedIn(folder, 'postgres'), [
      { reason: 'a key field is missing', seq: 3, n: 3 },
      { reason: 'its key is longer than 2500 bytes', seq: 2, title, n: 2 },
    ]);
    await sql`DROP TABLE book, orbweaver_cursors`;
  });
  await t.test('a table that is renamed is made again', async () => {
    const { kind, folder } = kindOf(t, `${url}#key=title`);
    const sink = await kind.open(crawlWith(before), undefined);
    const rows = await renamedTables(sink, (statement) =>
      sql.unsafe(statement.replace('title, n FROM', 'title, n::int FROM')),
    );
    assert.deepEqual(rows, renamedRows);
    assert.deepEqual(rejectedIn(folder, 'postgres'), renamedRejects);
  });
  await t.test('who may not make tables writes to those that are there', async () => {
    await sql.unsafe(
      'DROP TABLE book; DELETE FROM orbweaver_cursors;' +
        'CREATE TABLE book (_crawl text, _seq bigint, title text, n bigint, item jsonb);' +
        'CREATE UNIQUE INDEX ON book (n, title); CREATE ROLE guest LOGIN;' +
        'REVOKE CREATE ON SCHEMA public FROM PUBLIC;' +
        'GRANT SELECT, INSERT, UPDATE ON book, orbweaver_cursors TO guest',
    );
    const { kind } = kindOf(
      t,
      `${url.replace('postgres@', 'guest@')}#key=title,n&on-conflict=skip`,
    );
    await writeAll(kind, crawlWith(before), { title: 'a', n: 1 }, { title: 'a', n: 1 });
    assert.deepEqual([...(await sql`SELECT title, n::int FROM book`)], [{ title: 'a', n: 1 }]);
  });
  await sql.end();
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
  await t.test('values of another type, and deep ones, are JSON', async () => {
    await sql.query('DROP TABLE book, orbweaver_cursors');
    await writeAll(kindOf(t, url).kind, crawlWith(before), ...oddItems);
    const [found] = await sql.query('SELECT title, n, item FROM book ORDER BY _seq');
    assert.deepEqual(found, oddRows);
    const deep = JSON.parse(`${'['.repeat(40)}1${']'.repeat(40)}`) as string[];
    const { kind } = kindOf(t, url);
    const sink = await kind.open(crawlWith(wider), { seq: 4 });
    await sink.write(itemsFrom(5, { title: 'e', extra: deep }));
    await sink.close();
    const [last] = await sql.query('SELECT extra FROM book WHERE _seq = 5');
    assert.deepEqual(last, [{ extra: JSON.stringify(deep) }]);
  });
  await t.test('a full disk of the server is waited for', async () => {
    const sink = await kindOf(t, url).kind.open(crawlWith(wider), { seq: 5 });
    const full = '(Errcode: 28 "No space left on device")';
    for (const [number, text] of [
      [3, `Error writing file '/tmp/x.MAD' ${full}`],
      [1004, `Can't create file 'x' (errno: 28 "No space left on device")`],
      [1030, 'Got error 28 "No space left on device" from storage engine InnoDB'],
    ] as const) {
      const how = `SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = ${number}, MESSAGE_TEXT = ?`;
      await sql.query(`CREATE TRIGGER full BEFORE INSERT ON book FOR EACH ROW ${how}`, [text]);
      await assert.rejects(sink.write(itemsFrom(6, { title: 'f' })), UnavailableError);
      await sql.query('DROP TRIGGER full');
    }
    await sink.close();
  });
  await t.test('a table without transactions is refused', async () => {
    await sql.query('ALTER TABLE book ENGINE=Aria');
    const { kind } = kindOf(t, url);
    const sink = await kind.open(crawlWith(other), undefined);
    await assert.rejects(sink.write(itemsFrom(6, { title: 'f' })), /ENGINE=InnoDB/);
    await sink.close();
  });
  await t.test('a table that is renamed is made again', async () => {
    await sql.query('DROP TABLE book, orbweaver_cursors');
    const { kind, folder } = kindOf(t, `${url}#key=title`);
    const sink = await kind.open(crawlWith(before), undefined);
    const rows = await renamedTables(sink, async (statement) => (await sql.query(statement))[0]);
    assert.deepEqual(rows, renamedRows);
    assert.deepEqual(rejectedIn(folder, 'mysql'), renamedRejects);
  });
  await sql.end();
});

async function writeAll(
  kind: SinkKind,
  crawl: SinkCrawl,
  ...items: Parameters<typeof itemsFrom>[1][]
): Promise<void> {
  const sink = await kind.open(crawl, undefined);
  await sink.write(itemsFrom(1, ...items));
  await sink.close();
}
