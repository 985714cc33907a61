/** The rows that rules made of a page that counts, as records of the result queue, and in the
 *  crawl's numbers. Source: docs/output.md. */
import type { FoundItems } from '../../store/result-rows.ts';
import type { Task } from '../tasks/tasks.ts';
import type { CommitBatch } from './commit-batch.ts';

/** Writes a record of each row. One that was rejected, and a rule that failed, say why. */
export function writeItems(
  batch: CommitBatch,
  { url, depth, seq: task }: Task,
  { rows, rejected, failures, counts }: FoundItems,
  at: number,
): void {
  batch.writeItems({ url, depth, at, task }, rows);
  for (const [rule, item, why] of rejected) {
    batch.write({ kind: 'rejected', record: { url, depth, at, task, rule, item, why } });
  }
  for (const [rule, why] of failures) {
    batch.write({ kind: 'rejected', record: { url, depth, at, task, rule, why } });
  }
  batch.crawl.books.ruled(counts);
}
