/** What rules made of a page that counts, as records of the result queue, and in the crawl's
 *  numbers. Source: docs/output.md. */
import type { PageItems } from '../../../shared/page-items.ts';
import type { Task } from '../tasks/tasks.ts';
import type { CommitBatch } from './commit-batch.ts';

/** Writes a record of each row. One that was rejected, and a rule that failed, say why. */
export function writeItems(
  batch: CommitBatch,
  { url, depth, seq: task }: Task,
  { rows, rejected, failures, counts }: PageItems,
  at: number,
): void {
  for (const [rule, item] of rows) {
    batch.write({ kind: 'item', record: { url, depth, at, task, rule, item } });
  }
  for (const [rule, item, why] of rejected) {
    batch.write({ kind: 'rejected', record: { url, depth, at, task, rule, item, why } });
  }
  for (const [rule, why] of failures) {
    batch.write({ kind: 'rejected', record: { url, depth, at, task, rule, why } });
  }
  batch.crawl.books.ruled(counts);
}
