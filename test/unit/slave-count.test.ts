import assert from 'node:assert/strict';
import { availableParallelism, totalmem } from 'node:os';
import test from 'node:test';
import { roomHere, slavesFor } from '../../master/machine/slave-count.ts';

const gib = 2 ** 30;

test('slave count: a core is left to the master where there are more than two', () => {
  const counts = [0.5, 1, 1.5, 2, 3, 4, 8, 9, 64].map((cores) =>
    slavesFor({ cores, memoryBytes: 64 * gib }),
  );
  assert.deepEqual(counts, [1, 1, 1, 2, 2, 3, 7, 8, 8]);
});

test('slave count: there is memory for each, and there is always one', () => {
  const counts = [0.5, 1, 1.5, 2, 4].map((gibs) =>
    slavesFor({ cores: 16, memoryBytes: gibs * gib }),
  );
  assert.deepEqual(counts, [1, 1, 2, 4, 8]);
});

test('slave count: this machine has some of both', () => {
  const { cores, memoryBytes } = roomHere();
  assert.ok(cores > 0 && cores <= availableParallelism(), `${cores} cores`);
  assert.ok(memoryBytes > 0 && memoryBytes <= totalmem(), `${memoryBytes} bytes`);
});
