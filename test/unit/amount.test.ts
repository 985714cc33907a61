/** Numbers for people. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { grouped } from '../../shared/amount.ts';

test('amount: numbers are grouped as in English', () => {
  const numbers = [0, 1, -1, 12, 999, 1000, -1000, 12_345, 999_999, 1_234_567, 2 ** 53 - 1];
  for (const number of [...numbers, 0.5, 1234.5678, -98_765.25, 999.9999]) {
    assert.equal(grouped(number), number.toLocaleString('en-US'));
  }
});
