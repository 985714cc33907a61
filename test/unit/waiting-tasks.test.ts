/** Tasks that wait in a slave for a slot. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TaskPush } from '../../shared/protocol.ts';
import type { FailedOutcome } from '../../slave/fetch/outcome.ts';
import { WaitingTasks } from '../../slave/waiting-tasks.ts';

const taskOf = (url: string, lease: number, more: Partial<TaskPush> = {}): TaskPush => ({
  task: Buffer.alloc(1),
  lease,
  crawl: 1,
  url,
  depth: 0,
  attempt: 1,
  ...more,
});
const refusal = (status: number, retryAfterMs?: number): FailedOutcome => ({
  ok: false,
  error: { kind: 'status', message: `${status} Wait` },
  ...(retryAfterMs !== undefined && { retryAfterMs }),
});
const train = { first: 9, gapMs: 100, atOnce: 1 };

test('waiting tasks: what is urgent goes first', () => {
  const waiting = new WaitingTasks();
  waiting.add([taskOf('http://a/1', 1), taskOf('http://a/robots.txt', 2, { kind: 'robots' })]);
  waiting.addFirst(taskOf('http://a/3', 3));
  assert.deepEqual(
    [...waiting].map(({ lease }) => lease),
    [3, 2, 1],
  );
  waiting.cancel(new Set([2]));
  waiting.takeFirst();
  assert.equal(waiting.first?.lease, 1);
  assert.equal(waiting.clear().length, 1);
  assert.equal(waiting.first, undefined);
});

test('waiting tasks: a host that asks for a pause gets nothing that waits', () => {
  const all = [
    taskOf('http://a.test/1', 1),
    taskOf('http://a.test:81/1', 2),
    taskOf('http://a.test/2', 3),
    taskOf('https://a.test/1', 4),
    taskOf('http://a.test/3', 5, { train }),
  ];
  const takenBy = (outcome: FailedOutcome) => {
    const waiting = new WaitingTasks();
    waiting.add(all);
    const taken = waiting.takeRefused(taskOf('http://a.test/0', 9), outcome);
    assert.equal([...waiting].length + taken.length, all.length);
    return taken.map(({ lease }) => lease);
  };
  assert.deepEqual(takenBy(refusal(429)), [1, 3]);
  assert.deepEqual(takenBy(refusal(503, 1_000)), [1, 3]);
  assert.deepEqual(takenBy(refusal(503)), []);
  assert.deepEqual(takenBy(refusal(500, 1_000)), []);
  assert.deepEqual(takenBy({ ok: false, error: { kind: 'connect', message: '429' } }), []);
});
