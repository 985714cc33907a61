/** Outputs that do not fit the rules of their crawl, or each other, are refused. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { itemsSchema } from '../../shared/items.ts';
import { misfitOf } from '../../shared/output-fit.ts';
import { namedOutputs, outputFrom, outputOf } from '../../shared/outputs.ts';

const rules = (fields: readonly string[], rule = 'book') =>
  itemsSchema.parse({ [rule]: { fields: Object.fromEntries(fields.map((name) => [name, 'b'])) } });
const why = (outputs: readonly string[], items?: ReturnType<typeof rules>) =>
  misfitOf(outputs.map(outputOf), items)?.why ?? '';

test('output fit: fields that have the names of columns which each table has', () => {
  assert.match(why(['sqlite:a.db'], rules(['_seq'])), /must not have the field _seq/);
  assert.match(why(['sqlite:a.db'], rules(['_CRAWL'])), /must not have the field _CRAWL/);
  assert.match(why(['postgres:$DB'], rules(['_crawl'])), /must not have the field _crawl/);
  assert.equal(why(['csv:a.csv', 'jsonl:a.jsonl'], rules(['_seq'])), '');
  assert.equal(why(['sqlite:a.db#records=pages'], rules(['_seq'])), '');
});

test('output fit: columns that are one to the database, or too long for it', () => {
  const both = rules(['Title', 'title']);
  assert.match(why(['sqlite:a.db'], both), /fields Title and title: to sqlite these are one/);
  assert.equal(why(['postgres:$DB'], both), '');
  assert.match(why(['postgres:$DB'], rules(['a'.repeat(64)])), /a column has 63 characters/);
  assert.equal(why(['postgres:$DB'], rules(['a'.repeat(63)])), '');
});

test('output fit: columns whose names the database does not have', () => {
  const columns = (kind: string, name: string) =>
    why([`${kind}:$DB#columns=${encodeURIComponent(name)}`], rules(['title']));
  // PostgreSQL cuts the name, so that its values find no column.
  assert.match(columns('postgres', 'ж'.repeat(32)), /63 bytes, and this has 64; rename the field/);
  assert.equal(columns('postgres', `${'ж'.repeat(31)}a`), '');
  assert.equal(columns('mysql', 'ж'.repeat(63)), '');
  assert.match(columns('postgres', 'ctid'), /each table of PostgreSQL has a column of that name/);
  assert.match(why(['postgres:$DB'], rules(['xmin'])), /must not have the field xmin/);
  assert.equal(columns('mysql', 'ctid'), '');
  assert.match(columns('mysql', 'a😀'), /MySQL has no such names/);
  assert.match(columns('mysql', 'a '), /MySQL has no such names/);
  assert.equal(columns('postgres', 'a😀'), '');
});

test('output fit: rules, keys and tables that there are', () => {
  const books = rules(['title']);
  assert.match(why(['csv:a.csv#rule=cook'], books), /no.* rule cook: its rules are book/);
  assert.match(why(['csv:a.csv#rule=constructor'], books), /rule constructor/);
  assert.match(why(['csv:a.csv#rule=cook']), /the crawl has no rules/);
  // Rows of a page function have no columns there.
  assert.equal(why(['jsonl:a.jsonl#rule=cook']), '');
  assert.match(why(['jsonl:a.jsonl#rule=cook'], books), /its rules are book/);
  assert.match(why(['sqlite:a.db#key=titel'], books), /key titel: the fields are title/);
  assert.equal(why(['sqlite:a.db#key=title'], books), '');
  // It was held only once the crawl had begun.
  assert.match(why(['sqlite:a.db#key=nope']), /key nope: the fields are url, finalUrl, /);
  assert.match(why(['mongodb:$DB#records=images&key=src']), /key src: the fields are url$/);
  assert.match(why(['sqlite:a.db#records=failed&key=title'], books), /key title: the fields are/);
  assert.equal(why(['sqlite:a.db#key=finalUrl', 'postgres:$DB#records=all&key=url']), '');
  assert.match(why(['sqlite:a.db#records=links&key=url']), /the fields are from, to, text, rel/);
  assert.match(why(['sqlite:a.db#table=Orbweaver_Cursors'], books), /give it another/);
  assert.match(why(['sqlite:a.db'], rules(['a'], 'orbweaver_cursors')), /give it another/);
});

test('output fit: a default that a column of its type does not hold', () => {
  const rulesOf = (type: 'number' | 'integer' | 'boolean', value: number | string | boolean) =>
    itemsSchema.parse({ book: { fields: { price: { css: 'b', type, default: value } } } });
  assert.match(
    why(['postgres:$DB'], rulesOf('number', 'none')),
    /the field price with that default/,
  );
  assert.match(why(['postgres:$DB'], rulesOf('integer', 1.5)), /the field price/);
  assert.match(why(['postgres:$DB'], rulesOf('boolean', 'no')), /the field price/);
  assert.equal(why(['postgres:$DB'], rulesOf('integer', 0)), '');
  assert.equal(why(['sqlite:a.db', 'csv:a.csv'], rulesOf('number', 'none')), '');
});

test('output fit: two outputs to one file', () => {
  assert.match(
    why(['csv:a.db', 'sqlite:a.db']),
    /must not name the file a\.db, which a csv output/,
  );
  assert.match(why(['csv:a.gz', 'jsonl:a#compress=gzip']), /the file a\.gz/);
  assert.equal(why(['sqlite:a.db', 'sqlite:a.db#records=images']), '');
  assert.equal(misfitOf([outputOf('csv:a'), outputOf('sqlite:a')])?.index, 1);
});

test('output fit: a file that the rotation of another output makes', () => {
  const rotated = 'jsonl:a.jsonl#rotate=1MB';
  assert.match(
    why([rotated, 'jsonl:a-00001.jsonl']),
    /must not name the file a-00001\.jsonl, which a\.jsonl with rotate makes: name another one/,
  );
  assert.match(
    why(['sqlite:a-00012.jsonl', rotated]),
    /must not have rotate: that makes the file a-00012\.jsonl, which a sqlite output has; name/,
  );
  assert.match(why([`${rotated}&compress=gzip`, 'csv:a-123456.jsonl.gz']), /with rotate makes/);
  assert.match(why(['csv:x-00001/a.csv#rotate=1MB', 'csv:x-00001/a-00007.csv']), /makes/);
  for (const other of ['a-1.jsonl', 'a-00000.jsonl', 'a-00001.csv', 'b-00001.jsonl', 'a.csv']) {
    assert.equal(why([rotated, `csv:${other}`]), '', other);
  }
  assert.equal(why([rotated, 'jsonl:a-00001.jsonl#rotate=1MB']), '');
});

test('output fit: a file that is called .gz is compressed', () => {
  assert.equal(outputOf('csv:a.csv.gz').compress, 'gzip');
  assert.equal(outputOf('jsonl:a.jsonl').compress, undefined);
  assert.equal(outputOf('sqlite:a.gz').compress, undefined);
  // One that an earlier version has begun keeps its form.
  const given = namedOutputs([outputOf('csv:a.csv.gz')]);
  const begun = given.map(({ compress: _, ...plain }) => plain);
  assert.deepEqual(namedOutputs([outputOf('csv:a.csv.gz')], begun), begun);
  assert.deepEqual(namedOutputs([outputOf('csv:a.csv.gz')], given), given);
});

test('output fit: what is no output is said in words', () => {
  const cases: [unknown, RegExp][] = [
    [{ csv: 5 }, /^must name a file/],
    ['csv:', /^must name a file/],
    [{ csv: null }, /^must name a file/],
    [{ csv: 'a', records: 'page' }, /^has a records that must be one of: pages, images/],
    [{ csv: 'a', delimiter: 5 }, /^has a delimiter that must be one character/],
    [{ csv: 'a', rotate: 'big' }, /^has a rotate that must be a size such as 100MB/],
    [{ csv: 'a', rotate: 5 }, /^has a rotate that must be at least 1024 bytes/],
    [{ csv: 'a', name: 5 }, /^has a name that must be text/],
    [{ sqlite: 'a', key: {} }, /^has a key that must be the names of fields/],
    [{ sqlite: 'a', key: 'b', 'on-conflict': 'x' }, /^has a on-conflict that must be one of/],
    [{ csv: '../a.csv' }, /^must name a file in the folder/],
    [{ csv: 'a/../../b.csv' }, /^must name a file in the folder/],
    [{ csv: 'a\\..\\b\0.csv' }, /^must name a file in the folder/],
  ];
  for (const [entry, message] of cases) {
    assert.throws(() => outputFrom(entry), { message }, JSON.stringify(entry));
  }
});

test('output fit: chosen columns, of rules and of page functions', () => {
  const books = rules(['title']);
  assert.equal(why(['csv:a.csv#columns=title,item'], books), '');
  assert.equal(why(['sqlite:a.db#rule=page&columns=name&key=name']), '');
  assert.match(
    why(['csv:a.csv#rule=page'], books),
    /must not have rule page: .* give columns, too/,
  );
  assert.match(
    why(['sqlite:a.db#columns=title&key=name'], books),
    /key name: the fields are title/,
  );
  assert.match(why(['sqlite:a.db#columns=_seq']), /must not have the field _seq/);
  assert.match(why(['sqlite:a.db#columns=A,a']), /fields A and a: to sqlite these are one/);
  assert.match(why(['sqlite:a.db#records=items&key=a']), /key a: the crawl has no rules; name its/);
  assert.throws(() => outputOf('jsonl:a.jsonl#columns=a'), /columns: a jsonl output has none/);
  assert.throws(() => outputOf('csv:a.csv#columns=a,a'), /columns that must have each field once/);
  assert.throws(() => outputOf('csv:a.csv#columns='), /columns/);
  assert.throws(() => outputOf('csv:a.csv#records=pages&columns=a'), /its records are not items/);
});

test('output fit: the same table for the same records twice', () => {
  const twice = /^must not name \S+ twice for the same records: give each another /;
  assert.match(why(['sqlite:a.db', 'sqlite:a.db#key=url']), twice);
  assert.match(why(['postgres:$DB#table=a', 'postgres:$DB#table=a&name=other']), twice);
  assert.match(why(['redis://a/0#list=a', 'redis://a/0#list=a']), twice);
  // One of them has it by default.
  assert.match(why(['postgres:$DB', 'postgres:$DB#table=pages']), twice);
  assert.match(why(['redis://a/0', 'redis://a/0#list=pages&records=pages']), twice);
  assert.match(why(['sqlite:a.db', 'sqlite:a.db#table=book'], rules(['a'])), twice);
  assert.match(why(['sqlite:a.db#rule=book', 'sqlite:a.db'], rules(['a'])), twice);
  assert.match(why(['sqlite:a.db', 'sqlite:a.db#table=a_b'], rules(['a'], 'a-b')), twice);
  const two = { ...rules(['a']), ...rules(['a'], 'cook') };
  assert.match(why(['sqlite:a.db', 'sqlite:a.db#table=items'], two), twice);
  assert.equal(why(['sqlite:a.db', 'sqlite:a.db#rule=book', 'sqlite:a.db#rule=cook'], two), '');
  assert.equal(why(['redis://a/0', 'redis://a/0#stream=pages']), '');
  assert.equal(why(['sqlite:a.db#records=pages', 'sqlite:a.db#records=failed']), '');
  assert.equal(why(['postgres:$DB#table=a', 'postgres:$DB#table=b', 'postgres:$OTHER']), '');
  assert.equal(why(['redis://a/0#list=a', 'redis://a/0#stream=a', 'redis://a/1#list=a']), '');
});
