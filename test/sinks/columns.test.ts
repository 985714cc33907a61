/** Outputs when the rules of a crawl change: columns that are new, and of another type. */
import assert from 'node:assert/strict';
import { readFileSync, renameSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import Database from 'libsql';
import { parted } from '../../master/sinks/outputs/sql.ts';
import { UnavailableError } from '../../master/sinks/sink.ts';
import { linkRule, linkRuleName } from '../../shared/link-rule.ts';
import {
  before,
  changesType,
  crawlWith,
  itemsFrom,
  kindOf,
  oddItems,
  oddRows,
  rejectedIn,
  renamedRejects,
  renamedRows,
  renamedTables,
  wider,
} from '../support/columns.ts';
import { parquetFiles, rowsOfParquet } from '../support/parquet.ts';
import { SmallDisk } from '../support/small-disk.ts';

test('columns: SQLite gets new ones; another type is an error with the ALTER', async (t) => {
  const at = (folder: string) => new Database(join(folder, 'a.db'));
  const folder = await changesType(t, 'sqlite:a.db', (sql, of) => {
    const db = at(of);
    db.exec(sql);
    db.close();
  });
  const db = at(folder);
  const rows = db.prepare('SELECT title, n, n_old, extra FROM book ORDER BY _seq').all();
  db.close();
  assert.deepEqual(
    (rows as Record<string, unknown>[]).map((row) => Object.values(row)),
    [
      ['a', null, 1, null],
      ['b', null, null, null],
      ['c', null, 3, '["x","y"]'],
      ['d', 'four', null, null],
    ],
  );
});

test('columns: SQLite has in a column of text what was found there', async (t) => {
  const { kind, folder } = kindOf(t, 'sqlite:a.db');
  const sink = await kind.open(crawlWith({ id: '$.id' }), undefined);
  const found = [12, 9_007_199_254_740_991, 1.5, 1e21, true, 'x', Number.POSITIVE_INFINITY];
  await sink.write(itemsFrom(1, ...found.map((id) => ({ id }))));
  await sink.close();
  const db = new Database(join(folder, 'a.db'));
  const rows = db.prepare('SELECT id FROM book ORDER BY _seq').all() as { id: unknown }[];
  db.close();
  const texts = ['12', '9007199254740991', '1.5', '1e+21', 'true', 'x', null];
  assert.deepEqual(
    rows.map(({ id }) => id),
    texts,
  );
});

test('columns: Parquet begins another file', async (t) => {
  const { kind, folder } = kindOf(t, 'parquet:a.parquet');
  const first = await kind.open(crawlWith(before), undefined);
  let mark = await first.write(itemsFrom(1, { title: 'a', n: 1 }, { title: 'b' }));
  assert.equal(first.reached, 0, 'nothing is durable yet');
  mark = await first.finish?.();
  assert.equal(first.reached, undefined);
  await first.close();
  const second = await kind.open(crawlWith(wider), mark);
  await second.write(itemsFrom(3, { title: 'c', n: 3, extra: ['x', 'y'] }));
  await second.finish?.();
  await second.close();
  const files = parquetFiles(folder);
  assert.deepEqual(
    files.map((file) => basename(file)),
    ['a-000000001-000000002.parquet', 'a-000000003-000000003.parquet'],
  );
  assert.deepEqual(await rowsOfParquet(files), [
    { title: 'a', n: 1n },
    { title: 'b', n: null },
    { title: 'c', n: 3n, extra: ['x', 'y'] },
  ]);
});

test('columns: a Parquet file has 100,000 rows at most; a crash leaves none twice', async (t) => {
  const { kind, folder } = kindOf(t, 'parquet:a.parquet');
  const crawl = crawlWith(before);
  const some = (seq: number) =>
    itemsFrom(seq, ...Array.from({ length: 10_000 }, (_, i) => ({ title: `t${seq + i}`, n: i })));
  let sink = await kind.open(crawl, undefined);
  let saved: unknown;
  const progress = (mark: unknown) => {
    saved = mark;
    return Promise.resolve();
  };
  for (let seq = 1; seq <= 150_000; seq += 10_000) await sink.write(some(seq), progress);
  assert.equal(sink.reached, 100_000);
  // The process dies behind the rename: the mark is that of before it.
  await sink.close();
  sink = await kind.open(crawl, saved);
  // The rows that are not on record are given to it again.
  for (let seq = 1; seq <= 230_000; seq += 10_000) await sink.write(some(seq), progress);
  await sink.finish?.(progress);
  await sink.close();
  const files = parquetFiles(folder);
  assert.deepEqual(
    files.map((file) => basename(file)),
    [
      'a-000000001-000100000.parquet',
      'a-000100001-000200000.parquet',
      'a-000200001-000230000.parquet',
    ],
  );
  const rows = await rowsOfParquet(files);
  assert.equal(rows.length, 230_000);
  assert.ok(rows.every(({ title }, i) => title === `t${i + 1}`));
});

test('columns: fields with names that JavaScript has, too, are fields', async (t) => {
  const fields = { title: 'h1', constructor: 'b', toString: 'i' };
  const { kind, folder } = kindOf(t, 'csv:a.csv');
  const sink = await kind.open(crawlWith(fields), undefined);
  await sink.write(itemsFrom(1, { title: 'a', constructor: 'Lotus', toString: 's' }));
  await sink.write(itemsFrom(2, { title: 'b' }));
  await sink.close();
  const text = readFileSync(join(folder, 'a.csv'), 'utf8');
  assert.equal(text, 'title,constructor,toString\na,Lotus,s\nb,,\n');
});

test('columns: Parquet has values of another type as JSON', async (t) => {
  const { kind, folder } = kindOf(t, 'parquet:a.parquet');
  const sink = await kind.open(crawlWith(before), undefined);
  await sink.write(itemsFrom(1, ...oddItems));
  await sink.finish?.();
  await sink.close();
  const rows = await rowsOfParquet(parquetFiles(folder));
  assert.deepEqual(
    rows.map((row) => ({ item: null, ...row, n: row['n'] === null ? null : Number(row['n']) })),
    oddRows,
  );
});

test('columns: rows that a key refuses for several reasons are all in its file', async (t) => {
  const { kind, folder } = kindOf(t, 'sqlite:a.db#key=title');
  const sink = await kind.open(crawlWith(before), undefined);
  await sink.write(itemsFrom(1, { title: 'a', n: 1 }, { n: 2 }, { title: 'a', n: 3 }, { n: 4 }));
  await sink.write(itemsFrom(5, { n: 5 }, { title: 'a', n: 6 }));
  await sink.close();
  const lines = readFileSync(join(folder, 'rejected-sqlite.jsonl'), 'utf8').trimEnd().split('\n');
  const missing = 'a key field is missing';
  const there = 'its key is there already';
  assert.deepEqual(
    lines.map((line) => JSON.parse(line)),
    [
      { reason: missing, seq: 2, n: 2 },
      { reason: missing, seq: 4, n: 4 },
      { reason: there, seq: 3, title: 'a', n: 3 },
      { reason: missing, seq: 5, n: 5 },
      { reason: there, seq: 6, title: 'a', n: 6 },
    ],
  );
});

test('columns: SQLite has a table before the first row', async (t) => {
  const { kind, folder } = kindOf(t, 'sqlite:a.db#key=title');
  await (await kind.open(crawlWith(before), undefined)).close();
  const db = new Database(join(folder, 'a.db'));
  const rows = db.prepare('SELECT title, n FROM book').all();
  db.close();
  assert.deepEqual(rows, []);
});

test('columns: an updated row keeps nothing of the row before', async (t) => {
  const { kind, folder } = kindOf(t, 'sqlite:a.db#key=title&on-conflict=update');
  const sink = await kind.open(crawlWith(before), undefined);
  await sink.write(itemsFrom(1, { title: 'a', n: 1 }, { title: 'b', n: 2 }));
  // Alone, and beside one that has the field.
  await sink.write(itemsFrom(3, { title: 'a' }));
  await sink.write(itemsFrom(4, { title: 'b' }, { title: 'c', n: 5 }));
  await sink.close();
  const db = new Database(join(folder, 'a.db'));
  const rows = db.prepare('SELECT title, n FROM book ORDER BY title').all();
  db.close();
  assert.deepEqual(rows, [
    { title: 'a', n: null },
    { title: 'b', n: null },
    { title: 'c', n: 5 },
  ]);
});

test('columns: a file of rejected rows that is gone can be begun anew', async (t) => {
  const { kind, folder } = kindOf(t, 'sqlite:a.db#key=title');
  const path = join(folder, 'rejected-sqlite.jsonl');
  const crawl = crawlWith(before);
  const sink = await kind.open(crawl, undefined);
  const mark = await sink.write(itemsFrom(1, { title: 'a', n: 1 }, { title: 'a', n: 2 }));
  await sink.close();
  renameSync(path, `${path}.away`);
  await assert.rejects(kind.open(crawl, mark), /rejected-sqlite\.jsonl is gone/);
  const anew = await kind.beginAnew(crawl, mark);
  assert.deepEqual(
    anew.begun.map(({ file, lines }) => [file, lines]),
    [['rejected-sqlite.jsonl', 1]],
  );
  const next = await kind.open(crawl, anew.mark);
  const last = await next.write(itemsFrom(3, { title: 'a', n: 3 }, { title: 'b', n: 4 }));
  await next.close();
  assert.deepEqual(rejectedIn(folder, 'sqlite'), [
    { reason: 'its key is there already', seq: 3, title: 'a', n: 3 },
  ]);
  // One that is as it was left stays.
  assert.deepEqual((await kind.beginAnew(crawl, last)).begun, []);
});

test('columns: a table of SQLite that is renamed is made again', async (t) => {
  const { kind, folder } = kindOf(t, 'sqlite:a.db#key=title');
  const sink = await kind.open(crawlWith(before), undefined);
  const rows = await renamedTables(sink, (sql) => {
    const db = new Database(join(folder, 'a.db'));
    const found = db.prepare(sql).reader ? db.prepare(sql).all() : db.exec(sql);
    db.close();
    return found;
  });
  assert.deepEqual(rows, renamedRows);
  assert.deepEqual(rejectedIn(folder, 'sqlite'), renamedRejects);
});

test('SQLite: a full disk is waited for, and nothing is lost', async (t) => {
  const disk = SmallDisk.mount(t, 2);
  if (disk === undefined) return;
  const path = join(disk.path, 'a.db');
  const { kind } = kindOf(t, `sqlite:${path}`);
  const sink = await kind.open(crawlWith(before), undefined);
  await sink.write(itemsFrom(1, { title: 'a', n: 1 }));
  disk.fill();
  const more = itemsFrom(2, ...Array.from({ length: 2_000 }, (_, n) => ({ title: 'a title', n })));
  await assert.rejects(sink.write(more), (error) => {
    assert.ok(error instanceof UnavailableError, String(error));
    assert.match(error.message, /full/);
    return true;
  });
  disk.free();
  await sink.write(more);
  await sink.close();
  const db = new Database(path);
  const rows = db.prepare('SELECT _seq AS seq FROM book').all() as { seq: number }[];
  db.close();
  assert.equal(rows.length, 2_001);
  assert.equal(new Set(rows.map(({ seq }) => seq)).size, 2_001);
});

test('columns: links that another output takes are no items of this one', async (t) => {
  const { kind, folder } = kindOf(t, 'csv:a.csv');
  const crawl = crawlWith({ title: 'h1' });
  const items = { ...crawl.spec?.fetch?.items, [linkRuleName]: linkRule() };
  const sink = await kind.open({ ...crawl, spec: { fetch: { items } } }, undefined);
  await sink.write([
    ...itemsFrom(1, { title: 'a' }),
    ...itemsFrom(2, { rule: linkRuleName, to: 'http://b/' }),
  ]);
  await sink.close();
  assert.equal(readFileSync(join(folder, 'a.csv'), 'utf8'), 'title\na\n');
});

test('columns: a row without a value in its key is apart from others', () => {
  const rows = [{ a: 1 }, { a: null }, {}, { a: 0 }, { a: '' }].map((values, seq) => ({
    seq,
    values,
  }));
  const { whole, keyless } = parted(rows, ['a']);
  assert.deepEqual(
    [whole, keyless].map((some) => some.map(({ seq }) => seq)),
    [
      [0, 3, 4],
      [1, 2],
    ],
  );
});
