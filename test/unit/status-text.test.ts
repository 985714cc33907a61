/** The text of `status`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Listed, statusText } from '../../master/cli/asks/status-text.ts';

type Counts = Pick<Listed['crawls'][number], 'failed' | 'errors' | 'statuses'>;

function failedLine(counts: Counts): string | undefined {
  const crawl = { name: 'one', state: 'finished', skipped: {}, ...counts };
  const list = { crawls: [crawl], sessions: [], ended: 0 } as unknown as Listed;
  return statusText(list)
    .split('\n')
    .find((line) => line.includes('failed by kind'));
}

test('status: failures that an older version counted without their status are shown', () => {
  assert.equal(
    failedLine({ failed: 4, errors: { status: 4 }, statuses: {} }),
    'one: failed by kind: status 4',
  );
  assert.equal(
    failedLine({ failed: 9, errors: { status: 8, dns: 1 }, statuses: { 404: 5 } }),
    'one: failed by kind: 404 5, status 3, dns 1',
  );
  assert.equal(
    failedLine({ failed: 5, errors: { status: 5 }, statuses: { 404: 5 } }),
    'one: failed by kind: 404 5',
  );
});
