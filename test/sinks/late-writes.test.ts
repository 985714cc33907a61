/** A write to a database that waits for a lock of somebody else, and is done when nobody waits for
 *  its answer any more: the master was killed, or has given it up. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createConnection } from 'mysql2/promise';
import postgres from 'postgres';
import { UnavailableError } from '../../master/sinks/sink.ts';
import { before, crawlWith, itemsFrom, kindOf, rejectedIn } from '../support/columns.ts';
import { startMariadb, startPostgres } from '../support/servers.ts';

const timeout = 60_000;
const isThere = 'its key is there already';
const items = [
  { title: 'a', n: 1 },
  { title: 'a', n: 2 },
  { title: 'c', n: 3 },
  { title: 'd', n: 4 },
  { title: 'c', n: 5 },
];

/** Of a master, and of the one after it, which knows all of these records from its start on. */
function twoMasters(t: TestContext, url: string) {
  const crawl = { ...crawlWith(before), lastRecord: items.length };
  const of = () => kindOf(t, `${url}#key=title`);
  return { crawl, former: of(), next: of(), third: of() };
}

test('late writes: PostgreSQL has each row once, and the crawl is not held', {
  timeout,
}, async (t) => {
  const server = await startPostgres();
  if (server === undefined) return t.skip('PostgreSQL is not installed');
  t.after(() => server.close());
  const url = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  const somebody = postgres(url, { max: 1, onnotice: () => {} });
  const waiting = async (count: number) => {
    const isSo = async () =>
      (await sql`SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'`).length >= count;
    while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 20));
  };
  const { crawl, former, next, third } = twoMasters(t, url);
  const [first, second] = [
    await former.kind.open(crawl, undefined),
    await next.kind.open(crawl, undefined),
  ];
  await somebody`BEGIN`;
  await somebody`INSERT INTO book (title) VALUES ('c')`;
  const late = first.write(itemsFrom(1, ...items.slice(0, 3)));
  await waiting(1);
  const write = second.write(itemsFrom(1, ...items));
  await waiting(2);
  await somebody`ROLLBACK`;
  await late;
  const mark = await write;
  const rows = async () => {
    const found = await sql`SELECT title, _seq::int AS seq FROM book ORDER BY _seq`;
    return found.map(({ title, seq }) => `${seq}${title}`);
  };
  assert.deepEqual(await rows(), ['1a', '3c', '4d']);
  const rejected = [
    { reason: isThere, seq: 2, title: 'a', n: 2 },
    { reason: isThere, seq: 5, title: 'c', n: 5 },
  ];
  assert.deepEqual(rejectedIn(next.folder, 'postgres'), rejected);
  await first.close();

  // One that comes later sees that it is not over.
  await somebody`BEGIN`;
  await somebody`INSERT INTO book (title) VALUES ('e')`;
  const last = second.write(itemsFrom(6, { title: 'e', n: 6 }));
  await waiting(1);
  await assert.rejects(third.kind.open({ ...crawl, lastRecord: 6 }, { seq: 5 }), (error) => {
    assert.ok(error instanceof UnavailableError);
    assert.match(error.message, /an earlier write still waits/);
    return true;
  });
  await somebody`ROLLBACK`;
  assert.notDeepEqual(await last, mark);
  await second.close();
  const sink = await third.kind.open({ ...crawl, lastRecord: 6 }, { seq: 5 });
  await sink.write(itemsFrom(6, { title: 'e', n: 6 }));
  assert.deepEqual(await rows(), ['1a', '3c', '4d', '6e']);
  await sink.close();
  await Promise.all([sql.end(), somebody.end()]);
});

test('late writes: MariaDB has each row once, and the crawl is not held', {
  timeout,
}, async (t) => {
  const server = await startMariadb();
  if (server === undefined) return t.skip('MariaDB is not installed');
  t.after(() => server.close());
  const url = `mysql://orb@127.0.0.1:${server.port}/orb`;
  const somebody = await createConnection(url);
  const { crawl, former, next } = twoMasters(t, url);
  const first = await former.kind.open(crawl, undefined);
  await first.write(itemsFrom(1, ...items.slice(0, 2)));
  await somebody.query('BEGIN');
  await somebody.query("INSERT INTO book (title) VALUES ('c')");
  const late = first.write(itemsFrom(3, ...items.slice(2)));
  await new Promise((resolve) => setTimeout(resolve, 300));
  let isOpen = false;
  const opening = next.kind.open(crawl, { seq: 2 }).finally(() => {
    isOpen = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.equal(isOpen, false, 'it waits for the write');
  await somebody.query('ROLLBACK');
  await late;
  const second = await opening;
  await second.write(itemsFrom(3, ...items.slice(2), { title: 'e', n: 6 }));
  const [rows] = await somebody.query('SELECT title, _seq FROM book ORDER BY _seq');
  assert.deepEqual(
    (rows as { title: string; _seq: number }[]).map(({ title, _seq }) => `${_seq}${title}`),
    ['1a', '3c', '4d', '6e'],
  );
  await Promise.all([first.close(), second.close(), somebody.end()]);
});
