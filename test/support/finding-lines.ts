/** A record as the file sink writes it, by way of a row of the result queue. */
import type { Finding } from '../../master/frontier/commit/result-records.ts';
import { lineOf } from '../../master/sinks/result-lines.ts';
import { ResultRow, type Section, sectionsOf } from '../../master/store/result-rows.ts';

function sectionOf({ kind, record }: Finding): Section {
  const row = new ResultRow();
  row.add(kind, record);
  const [section] = sectionsOf(row.encode(1));
  if (section === undefined) throw new Error('a row without a record');
  return section;
}

/** With its line feed. */
export function lineOfFinding(finding: Finding): string {
  return lineOf(sectionOf(finding));
}
