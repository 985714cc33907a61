/** Outputs of a crawl whose rules change: columns that are new, and of another type. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { HeldError, type Sink, type SinkCrawl } from '../../master/sinks/sink.ts';
import { outputKind } from '../../master/sinks/sinks.ts';
import { ResultRow, type Section } from '../../master/store/result-rows.ts';
import type { FieldRule } from '../../shared/items.ts';
import { namedOutputs, outputOf } from '../../shared/outputs.ts';

type Fields = Readonly<Record<string, FieldRule>>;
export const before: Fields = { title: 'h1', n: { css: 'b', type: 'integer' } };
export const wider: Fields = { ...before, extra: { css: 'i', type: 'json' } };
export const other: Fields = { ...wider, n: 'b' };

export function crawlWith(fields: Fields): SinkCrawl {
  const items = { book: { match: '/', fields } };
  return { name: 'default', uid: Buffer.alloc(16, 7), spec: { fetch: { items } } };
}

export function itemsFrom(
  seq: number,
  ...items: Record<string, string | number | boolean | string[]>[]
): Section[] {
  const row = new ResultRow();
  for (const { rule = 'book', ...item } of items) {
    row.add('item', { url: 'http://a.example/', depth: 0, at: 0, rule: String(rule), item });
  }
  return [...row.seal(seq).sections];
}

export function kindOf(t: TestContext, text: string) {
  const folder = mkdtempSync(join(tmpdir(), 'orb-columns-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const [output] = namedOutputs([
    outputOf(`${text}${text.includes('#') ? '&' : '#'}records=items`),
  ]);
  assert.ok(output);
  return { kind: outputKind(output, { folder, env: {} }), folder: join(folder, 'default') };
}

/** Of a rule and of a page function: a field of the same name, with values of another type. */
export const oddItems = [
  { title: 'a', n: 1 },
  { rule: 'page', title: 'b', n: '12 pieces', more: true },
  { rule: 'page', title: 'c', n: '12' },
  { rule: 'page', title: 'd', n: 1.5 },
];
export const oddRows = [
  { title: 'a', n: 1, item: null },
  { title: 'b', n: null, item: { n: '12 pieces', more: true } },
  { title: 'c', n: 12, item: null },
  { title: 'd', n: null, item: { n: 1.5 } },
];

/** Rows before and after a table with the key `title` was renamed, and lost a column; `run` does a
 *  statement. Returns the rows that it has then. */
export async function renamedTables(
  sink: Sink,
  run: (sql: string) => unknown,
): Promise<readonly unknown[]> {
  await sink.write(itemsFrom(1, { title: 'a', n: 1 }, { title: 'a', n: 2 }));
  await run('ALTER TABLE book RENAME TO book_before');
  await sink.write(itemsFrom(3, { n: 3 }, { title: 'a', n: 4 }, { title: 'a', n: 5 }));
  await run('ALTER TABLE book DROP COLUMN n');
  await sink.write(itemsFrom(6, { title: 'b', n: 6 }, { title: 'b', n: 7 }));
  await sink.close();
  return [...((await run('SELECT title, n FROM book ORDER BY _seq')) as unknown[])];
}
const isThere = 'its key is there already';
export const renamedRows = [
  { title: 'a', n: null },
  { title: 'b', n: 6 },
];
export const renamedRejects = [
  { reason: isThere, seq: 2, title: 'a', n: 2 },
  { reason: 'a key field is missing', seq: 3, n: 3 },
  { reason: isThere, seq: 5, title: 'a', n: 5 },
  { reason: isThere, seq: 7, title: 'b', n: 7 },
];

/** The rows that an output did not take. */
export function rejectedIn(folder: string, output: string): object[] {
  const text = readFileSync(join(folder, `rejected-${output}.jsonl`), 'utf8').trimEnd();
  return text.split('\n').map((line) => JSON.parse(line) as object);
}

/** Rows of three kinds of rules; the last one needs another type of column. */
export async function changesType(
  t: TestContext,
  to: string,
  run: (sql: string, folder: string) => unknown,
): Promise<string> {
  const { kind, folder } = kindOf(t, to);
  const first = await kind.open(crawlWith(before), undefined);
  let mark = await first.write(itemsFrom(1, { title: 'a', n: 1 }, { title: 'b' }));
  await first.close();
  const second = await kind.open(crawlWith(wider), mark);
  mark = await second.write(itemsFrom(3, { title: 'c', n: 3, extra: ['x', 'y'] }));
  await second.close();
  const third = await kind.open(crawlWith(other), mark);
  const last = itemsFrom(4, { title: 'd', n: 'four' });
  const error = await third.write(last).then(
    () => assert.fail('the type is another one'),
    (fault: unknown) => fault,
  );
  assert.ok(error instanceof HeldError);
  assert.match(error.message, /the column n of book is integer, and its values are text; /);
  // The line that is said of it says how to resume.
  assert.doesNotMatch(error.message, /resume/);
  const [, statements = ''] = /change it: (ALTER TABLE .*)$/.exec(error.message) ?? [];
  for (const statement of statements.split('; ')) await run(statement, folder);
  await third.write(last);
  await third.close();
  return folder;
}
