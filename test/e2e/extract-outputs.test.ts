/** Outputs of `extract`: they have the rows of its files, once, whatever happens meanwhile. */
import assert from 'node:assert/strict';
import { readFileSync, renameSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import Database from 'libsql';
import type { Cluster } from '../support/cluster.ts';
import { changed, crawled, manyShelves, start } from '../support/extract.ts';
import { itemLines } from '../support/items.ts';
import { parquetFiles, rowsOfParquet } from '../support/parquet.ts';

const timeout = 120_000;
const killsMax = 6;
const rules = `items:
  book:
    match: shelf
    each: article
    fields: { title: h3, page: { value: url } }
  dear:
    match: shelf
    fields: { price: { css: .none, required: true } }
`;
const fileOf = (outputs: string) => (url: string) =>
  `crawl: shop\ndelay: 0\nseeds: ["${url}/"]\n${rules}${outputs}`;
const all = `outputs:
  - csv: books.csv
    rule: book
  - sqlite: books.db
    rule: book
  - parquet: books.parquet
    rule: book
  - jsonl: dear.jsonl
    records: rejected
    compress: gzip
  - jsonl: rows.jsonl
`;

/** Titles and pages, in the order of the file. */
function booksOf(cluster: Cluster, as: string): string[] {
  const books = itemLines(cluster, 'items', as).filter(({ rule }) => rule === 'book');
  return books.map(({ item }) => `${item?.['title']},${item?.['page']}`);
}

async function assertWhole(cluster: Cluster, as: string): Promise<void> {
  const folder = join(cluster.out, as);
  const books = booksOf(cluster, as);
  assert.deepEqual(books, booksOf(cluster, 'shop'));
  // An output that says nothing takes the items, as in a crawl.
  const rows = readFileSync(join(folder, 'rows.jsonl'), 'utf8').split('\n').slice(0, -1);
  assert.equal(rows.length, itemLines(cluster, 'items', as).length);
  const [, ...csv] = readFileSync(join(folder, 'books.csv'), 'utf8').split('\n').slice(0, -1);
  assert.deepEqual(csv, books);
  const db = new Database(join(folder, 'books.db'), { readonly: true });
  const stored = db.prepare('SELECT title, page FROM book ORDER BY _seq').all() as {
    title: string;
    page: string;
  }[];
  db.close();
  assert.deepEqual(
    stored.map(({ title, page }) => `${title},${page}`),
    books,
  );
  const parquet = await rowsOfParquet(parquetFiles(folder));
  assert.deepEqual(
    parquet.map(({ title, page }) => `${title},${page}`),
    books,
  );
}

describe('extract-outputs', { concurrency: 1 }, () => {
  test('extract-outputs: kill -9 at any moment leaves every row once in each', {
    timeout,
  }, async (t) => {
    const { cluster, path } = await crawled(t, manyShelves(250), fileOf(all));
    const watched = ['again/books.csv', 'again/extract.json', 'again/items.jsonl'];
    for (let kills = 0; ; kills++) {
      const program = start(cluster, path, 'again');
      const ended = new AbortController();
      void program.exited.then(() => ended.abort());
      const file = watched[kills % watched.length] ?? '';
      const isDone = await changed(cluster, file, ended.signal).then(
        () => false,
        () => true,
      );
      if (isDone || kills === killsMax) {
        assert.equal((await program.exited).code, 0, program.output);
        assert.ok(kills > 0);
        break;
      }
      await program.kill();
    }
    await assertWhole(cluster, 'again');
  });

  test('extract-outputs: one that is added later gets all rows, and more as the archive grows', {
    timeout,
  }, async (t) => {
    const { cluster, path } = await crawled(t, manyShelves(30), fileOf(''));
    const archived = join(cluster.out, 'shop/archive/000001.warc.gz');
    const bytes = readFileSync(archived);
    truncateSync(archived, Math.floor(bytes.length * 0.6));
    const first = start(cluster, path, 'later');
    assert.equal((await first.exited).code, 0, first.output);
    const isPart = booksOf(cluster, 'later').length < booksOf(cluster, 'shop').length;
    assert.ok(isPart && booksOf(cluster, 'later').length > 0);
    writeFileSync(
      path,
      `${readFileSync(path, 'utf8')}${all}  - csv: pages.csv\n    records: pages\n`,
    );
    const second = start(cluster, path, 'later');
    assert.equal((await second.exited).code, 0, second.output);
    assert.match(second.stderr, /leaves out the output .*pages\.csv.*of pages/);
    assert.equal(parquetFiles(join(cluster.out, 'later')).length, 1);
    writeFileSync(archived, bytes);
    const third = start(cluster, path, 'later');
    assert.equal((await third.exited).code, 0, third.output);
    assert.equal(parquetFiles(join(cluster.out, 'later')).length, 2);
    await assertWhole(cluster, 'later');
  });

  test('extract-outputs: a file that is not what it wrote stops it with one line', {
    timeout,
  }, async (t) => {
    const { cluster, path } = await crawled(t, manyShelves(20), fileOf(all));
    const archived = join(cluster.out, 'shop/archive/000001.warc.gz');
    const bytes = readFileSync(archived);
    truncateSync(archived, Math.floor(bytes.length * 0.6));
    const first = start(cluster, path, 'moved');
    assert.equal((await first.exited).code, 0, first.output);
    writeFileSync(archived, bytes);
    const csv = join(cluster.out, 'moved/books.csv');
    renameSync(csv, `${csv}.taken`);
    const second = start(cluster, path, 'moved');
    assert.equal((await second.exited).code, 2, second.output);
    assert.equal(second.stderr.trimEnd().split('\n').length, 1, second.output);
    assert.match(second.stderr, /books\.csv.*run the same command again, or choose another --as/);
    renameSync(`${csv}.taken`, csv);
    const third = start(cluster, path, 'moved');
    assert.equal((await third.exited).code, 0, third.output);
    await assertWhole(cluster, 'moved');
  });

  test('extract-outputs: a file that is begun keeps its form', { timeout }, async (t) => {
    const { cluster, path } = await crawled(t, manyShelves(2), fileOf(all));
    const first = start(cluster, path, 'form');
    assert.equal((await first.exited).code, 0, first.output);
    const file = readFileSync(path, 'utf8');
    writeFileSync(path, file.replace('csv: books.csv', 'csv: books.csv\n    delimiter: ";"'));
    const second = start(cluster, path, 'form');
    assert.equal((await second.exited).code, 2, second.output);
    assert.match(second.stderr, /books\.csv\) has begun with other options; name another file/);
    writeFileSync(path, file);
    const third = start(cluster, path, 'form');
    assert.equal((await third.exited).code, 0, third.output);
    await assertWhole(cluster, 'form');
  });
});
