/** An output to a database that is ahead, since the master's data folder was set back. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import Database from 'libsql';
import { HeldError, UnavailableError } from '../../master/sinks/sink.ts';
import { outputKind } from '../../master/sinks/sinks.ts';
import { namedOutputs, outputOf } from '../../shared/outputs.ts';
import { crawlWith, itemsFrom, kindOf } from '../support/columns.ts';

const titles = { title: '$.title' };

test('set back: records that the database has under other numbers hold the crawl, also where it was away at the start', async (t) => {
  const { kind, folder } = kindOf(t, 'sqlite:a.db');
  const crawl = crawlWith(titles);
  const sink = await kind.open(crawl, undefined);
  await sink.write(itemsFrom(1, { title: 'a' }, { title: 'b' }, { title: 'c' }));
  await sink.close();
  // A master that begins with a backup from before the last two.
  const [output] = namedOutputs([outputOf('sqlite:a.db#records=items')]);
  assert.ok(output);
  const context = { folder: join(folder, '..'), env: {} };
  const other = new Database(join(folder, 'a.db'));
  const open = (to: typeof kind, lastRecord: number) =>
    to.open({ ...crawl, lastRecord }, undefined);

  const later = outputKind(output, context);
  other.exec('BEGIN EXCLUSIVE');
  await assert.rejects(open(later, 1), UnavailableError);
  other.exec('ROLLBACK');
  // The crawl has gone on meanwhile.
  const isHeld = (error: unknown) =>
    error instanceof HeldError &&
    /is 3, but this crawl had 1 records: .* set back/.test(error.message);
  await assert.rejects(open(later, 9), isHeld);
  await assert.rejects(open(later, 9), isHeld);

  // It is ahead of the mark alone: the master died before its own record.
  const same = outputKind(output, context);
  await (await open(same, 3)).close();
  // Rows that this master has written itself count, too.
  const more = await open(same, 4);
  await more.write(itemsFrom(4, { title: 'd' }));
  await more.close();
  await (await open(same, 4)).close();
  other.close();
});
