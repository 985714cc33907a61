/** Delays and returns of the items of a queue, on record. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ItemBudget } from '../../master/queues/item-budget.ts';
import { ItemNotes, queuesWithDelayed } from '../../master/queues/item-notes.ts';
import { MemoryStore } from '../../master/store/memory.ts';

const budget = () => new ItemBudget(1 << 20);
const value = (n: number) => Buffer.from([n]);

test('item notes: items come by their time, and in their order where that is the same', async () => {
  const store = new MemoryStore();
  const notes = new ItemNotes('a', store, budget());
  for (const [n, delayMs] of [5, 1, 5, 3, 1, 9].entries()) notes.delay(value(n), 0, delayMs, 0);
  await store.commit(notes.gather());
  assert.deepEqual(queuesWithDelayed(store), ['a']);
  const numbers = (found: ReturnType<ItemNotes['due']>) => found.map((one) => one.value[0]);
  assert.deepEqual(numbers(notes.due(0, 9)), []);
  assert.deepEqual(numbers(notes.due(4, 2)), [1, 4]);
  assert.equal(notes.nextDueAt, 3);
  const shared = budget();
  const next = new ItemNotes('a', store, shared);
  next.load(0, 0);
  assert.equal(shared.delayedCount, 6);
  assert.deepEqual(numbers(next.due(8, 9)), [1, 4, 3, 0, 2]);
  assert.equal(shared.delayedCount, 1);
});

test('item notes: the returns of an item that a crash has lost count for no other', async () => {
  const store = new MemoryStore();
  const notes = new ItemNotes('a', store, budget());
  notes.setAttempts(1, 2);
  notes.setAttempts(2, 3);
  await store.commit(notes.gather());
  const next = new ItemNotes('a', store, budget());
  next.load(1, 0);
  assert.deepEqual([next.attemptsOf(1), next.attemptsOf(2)], [2, 0]);
  await store.commit(next.gather());
  const last = new ItemNotes('a', store, budget());
  last.load(9, 0);
  assert.deepEqual([last.attemptsOf(1), last.attemptsOf(2)], [2, 0]);
});

test('item notes: a clock that was set back adds the delay once more', async () => {
  const store = new MemoryStore();
  const notes = new ItemNotes('a', store, budget());
  const [day, hour] = [86_400_000, 3_600_000];
  notes.delay(value(1), 0, hour, day);
  notes.delay(value(2), 0, 1_000, day);
  await store.commit(notes.gather());
  const next = new ItemNotes('a', store, budget());
  next.load(0, 0);
  assert.equal(next.nextDueAt, 1_000);
  const [first] = next.due(1_000, 9);
  assert.equal(first?.value[0], 2);
  assert.deepEqual(next.nextDueAt, hour);
});

test('item notes: the number of delayed items of all queues is limited', () => {
  const shared = budget();
  shared.delayedCount = 999_990;
  shared.checkDelayed(10);
  assert.throws(() => shared.checkDelayed(11), { code: 'E_QUEUE_FULL' });
});
