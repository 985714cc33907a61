/** A record as the file sink writes it, by way of a row of the result queue. */
import assert from 'node:assert/strict';
import type { Finding } from '../../master/frontier/commit/result-records.ts';
import { lineOf } from '../../master/sinks/result-lines.ts';
import { ResultRow, sectionsOf } from '../../master/store/result-rows.ts';

/** With its line feed. The line is the same whether its row is in memory or in the store. */
export function lineOfFinding({ kind, record, reported, packed }: Finding): string {
  const row = new ResultRow();
  row.add(kind, record, reported, packed);
  const { bytes, sections } = row.seal(1);
  const [[inMemory], [stored]] = [sections, sectionsOf(bytes)];
  if (inMemory === undefined || stored === undefined) throw new Error('a row without a record');
  const line = lineOf(inMemory);
  assert.equal(lineOf(stored), line);
  return line;
}
