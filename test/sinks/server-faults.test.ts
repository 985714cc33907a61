/** Database servers that close idle connections, are full, or have a table of another key. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from '@redis/client';
import { createConnection } from 'mysql2/promise';
import postgres from 'postgres';
import { HeldError, UnavailableError } from '../../master/sinks/sink.ts';
import { before, crawlWith, itemsFrom, kindOf } from '../support/columns.ts';
import { startMariadb, startPostgres, startRedis } from '../support/servers.ts';

const item = (seq: number) => itemsFrom(seq, { title: `t${seq}`, n: seq });

test('PostgreSQL: a connection that was closed while idle is made again without a word', async (t) => {
  const server = await startPostgres();
  if (server === undefined) return t.skip('PostgreSQL is not installed');
  t.after(() => server.close());
  const url = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  await sql`ALTER ROLE postgres SET idle_session_timeout = 300`;
  const { kind } = kindOf(t, url);
  const sink = await kind.open(crawlWith(before), undefined);
  // A write meets the end of the connection, or comes after it.
  const gaps = [...Array.from({ length: 20 }, (_, i) => 294 + i), 800];
  for (const [i, gapMs] of gaps.entries()) {
    await sink.write(item(i + 1));
    await sleep(gapMs);
  }
  await sink.close();
  const rows = await sql`SELECT title FROM book ORDER BY _seq`;
  assert.deepEqual(
    rows.map(({ title }) => String(title)),
    gaps.map((_, i) => `t${i + 1}`),
  );
  await sql.end();
});

test('PostgreSQL: a unique index that is not of the key holds the crawl', async (t) => {
  const server = await startPostgres();
  if (server === undefined) return t.skip('PostgreSQL is not installed');
  t.after(() => server.close());
  const url = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  for (const more of ['', '#key=title', '#key=title&on-conflict=update']) {
    await sql`DROP TABLE IF EXISTS book, orbweaver_cursors`;
    await sql`CREATE TABLE book (_crawl text, _seq bigint, title text, n bigint UNIQUE)`;
    const { kind } = kindOf(t, `${url}${more}`);
    const sink = await kind.open(crawlWith(before), undefined);
    await sink.write(itemsFrom(1, { title: 'a', n: 1 }));
    await assert.rejects(
      sink.write(itemsFrom(2, { title: 'b', n: 1 })),
      (error) => error instanceof HeldError && /"book_n_key"; put that right/.test(error.message),
      more,
    );
    await sink.close();
  }
  await sql.end();
});

test('MariaDB: a connection that was closed while idle is made again without a word', async (t) => {
  const server = await startMariadb();
  if (server === undefined) return t.skip('MariaDB is not installed');
  t.after(() => server.close());
  const root = await createConnection(`mysql://root@127.0.0.1:${server.port}/orb`);
  await root.query('SET GLOBAL wait_timeout = 1');
  const { kind } = kindOf(t, `mysql://orb@127.0.0.1:${server.port}/orb`);
  const sink = await kind.open(crawlWith(before), undefined);
  for (let seq = 1; seq <= 2; seq++) {
    await sink.write(item(seq));
    await sleep(2_000);
  }
  // Nothing new: it looks whether the server is there.
  await sink.write([]);
  await sink.close();
  const [rows] = await root.query('SELECT title FROM book ORDER BY _seq');
  assert.deepEqual(rows, [{ title: 't1' }, { title: 't2' }]);
  await root.end();
});

test('MariaDB: a table whose index is of another key is refused', async (t) => {
  const server = await startMariadb();
  if (server === undefined) return t.skip('MariaDB is not installed');
  t.after(() => server.close());
  const url = `mysql://orb@127.0.0.1:${server.port}/orb`;
  const written = async (key: string, seq: number) => {
    const { kind } = kindOf(t, `${url}#key=${key}&table=book`);
    const sink = await kind.open(crawlWith(before), undefined);
    try {
      await sink.write(item(seq));
    } finally {
      await sink.close();
    }
  };
  await written('title,n', 1);
  await written('title,n', 2);
  await assert.rejects(written('title', 3), (error) => {
    assert.ok(error instanceof HeldError);
    const other =
      'the column _key of book is made of title, n, and the key of this output is title';
    assert.equal(error.message, `mysql: ${other}; give it that key, or another table`);
    return true;
  });
});

test('MariaDB: a row that is no packet of the server holds the crawl; many small ones are', async (t) => {
  const server = await startMariadb(['--max-allowed-packet=1M']);
  if (server === undefined) return t.skip('MariaDB is not installed');
  t.after(() => server.close());
  const url = `mysql://orb@127.0.0.1:${server.port}/orb`;
  const { kind } = kindOf(t, url);
  const sink = await kind.open(crawlWith(before), undefined);
  // Three bytes each, and together more than a packet.
  const rows = Array.from({ length: 8 }, () => ({ title: '\u20ac'.repeat(60_000) }));
  await sink.write(itemsFrom(1, ...rows));
  await assert.rejects(sink.write(itemsFrom(9, { title: 'x'.repeat(3 << 20) })), (error) => {
    assert.ok(error instanceof HeldError, String(error));
    assert.match(
      error.message,
      /^mysql: a row is a statement of 3\d+ bytes, and max_allowed_packet /,
    );
    return true;
  });
  const root = await createConnection(`mysql://root@127.0.0.1:${server.port}/orb`);
  await root.query('SET GLOBAL max_allowed_packet = 16777216');
  await sink.write(itemsFrom(9, { title: 'x'.repeat(3 << 20) }));
  await sink.close();
  const [found] = await root.query(
    'SELECT COUNT(*) AS count, MAX(LENGTH(title)) AS most FROM book',
  );
  assert.deepEqual(found, [{ count: 9, most: 3 << 20 }]);
  await root.end();
});

test('MariaDB: a user without the right to make tables writes to those that are there', async (t) => {
  const server = await startMariadb();
  if (server === undefined) return t.skip('MariaDB is not installed');
  t.after(() => server.close());
  const url = `mysql://orb@127.0.0.1:${server.port}/orb#key=title`;
  const root = await createConnection(`mysql://root@127.0.0.1:${server.port}/orb`);
  await root.query("CREATE USER guest@'127.0.0.1'");
  await root.query("GRANT SELECT, INSERT, UPDATE ON orb.* TO guest@'127.0.0.1'");
  const guest = kindOf(t, url.replace('orb@', 'guest@')).kind;
  const crawl = crawlWith(before);
  await assert.rejects(guest.open(crawl, undefined), (error) => {
    assert.ok(error instanceof HeldError, String(error));
    assert.match(error.message, /^mysql: CREATE command denied .*orbweaver_cursors`; put that /);
    return true;
  });
  const first = await kindOf(t, url).kind.open(crawl, undefined);
  await first.write(item(1));
  await first.close();
  const sink = await guest.open(crawl, { seq: 1 });
  await sink.write(item(2));
  await sink.close();
  const [rows] = await root.query('SELECT title FROM book ORDER BY _seq');
  assert.deepEqual(rows, [{ title: 't1' }, { title: 't2' }]);
  await root.end();
});

test('Redis: one that is full says what to do', async (t) => {
  const server = await startRedis();
  if (server === undefined) return t.skip('Redis is not installed');
  t.after(() => server.close());
  const url = `redis://127.0.0.1:${server.port}/0`;
  const { kind } = kindOf(t, url);
  const sink = await kind.open(crawlWith(before), undefined);
  await sink.write(item(1));
  const client = await createClient({ url }).connect();
  await client.sendCommand(['CONFIG', 'SET', 'maxmemory', '1']);
  client.destroy();
  await assert.rejects(sink.write(item(2)), (error) => {
    assert.ok(error instanceof UnavailableError);
    assert.match(
      error.message,
      /^redis: OOM .*'maxmemory'\. Raise its maxmemory, or delete something in it$/,
    );
    return true;
  });
  await sink.close();
});

test('Redis: one that deletes records when it is full gets none', async (t) => {
  const server = await startRedis();
  if (server === undefined) return t.skip('Redis is not installed');
  t.after(() => server.close());
  const url = `redis://127.0.0.1:${server.port}/0`;
  const client = await createClient({ url }).connect();
  await client.sendCommand(['CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru']);
  const { kind } = kindOf(t, url);
  // Without a limit nothing is deleted.
  await (await kind.open(crawlWith(before), undefined)).close();
  await client.sendCommand(['CONFIG', 'SET', 'maxmemory', '100mb']);
  await assert.rejects(kind.open(crawlWith(before), undefined), (error) => {
    assert.ok(error instanceof HeldError, String(error));
    assert.match(error.message, /maxmemory-policy is allkeys-lru; change that: CONFIG SET /);
    return true;
  });
  await client.sendCommand(['CONFIG', 'SET', 'maxmemory-policy', 'volatile-lru']);
  const sink = await kind.open(crawlWith(before), undefined);
  await sink.write(item(1));
  await sink.close();
  assert.equal(await client.sendCommand(['LLEN', 'book']), 1);
  client.destroy();
});

test('Redis: one that is emptied, or has another key there, says what to put right', async (t) => {
  const server = await startRedis();
  if (server === undefined) return t.skip('Redis is not installed');
  t.after(() => server.close());
  const url = `redis://127.0.0.1:${server.port}/0`;
  const client = await createClient({ url }).connect();
  const { kind } = kindOf(t, url);
  const sink = await kind.open(crawlWith(before), undefined);
  await sink.write(item(1));
  await client.sendCommand(['SET', 'book', 'x']);
  const says = (words: RegExp) => (error: unknown) => {
    assert.ok(error instanceof HeldError, String(error));
    assert.match(error.message, words);
    return true;
  };
  const other =
    /its key book is a string, not a list; rename that, or give the output another key$/;
  await assert.rejects(sink.write(item(2)), says(other));
  await client.sendCommand(['DEL', 'book']);
  await sink.write(item(2));
  await client.sendCommand(['FLUSHALL']);
  const emptied =
    /: its cursor in \S+ is not 2 any more: .*; put it back, or stop that program \(--new-files /;
  await assert.rejects(sink.write(item(3)), says(emptied));
  await sink.close();
  client.destroy();
});
