import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ownTurn, shortTurn } from '../../master/machine/own-turn.ts';

/** Counts the turns of the event loop until it is stopped. */
function turnCount() {
  let count = 0;
  let isOn = true;
  const next = () => {
    count++;
    if (isOn) setImmediate(next);
  };
  setImmediate(next);
  return {
    now: () => count,
    stop: () => {
      isOn = false;
    },
  };
}

/** Keeps the event loop busy. */
function block(ms: number): void {
  for (const began = performance.now(); performance.now() - began < ms; );
}

test('own turn: one long piece of work a turn, in the order of the calls', async () => {
  const turns = turnCount();
  const done: (readonly [string, number])[] = [];
  const work = async (name: string) => {
    await ownTurn();
    block(5);
    done.push([name, turns.now()]);
    if (name === 'b') void work('d');
  };
  await Promise.all(['a', 'b', 'c'].map(work));
  await work('e');
  turns.stop();
  assert.deepEqual(
    done.map(([name]) => name),
    ['a', 'b', 'c', 'd', 'e'],
  );
  const at = done.map(([, turn]) => turn);
  assert.equal(new Set(at).size, at.length, at.join(' '));
});

test('own turn: the first call waits for no other', async () => {
  const turns = turnCount();
  await ownTurn();
  turns.stop();
  assert.ok(turns.now() <= 1);
});

test('own turn: short pieces of work share turns, also those that follow from each other', async () => {
  const turns = turnCount();
  const done: number[] = [];
  const work = async (left: number): Promise<void> => {
    await shortTurn();
    done.push(turns.now());
    if (left > 0) await work(left - 1);
  };
  await Promise.all(Array.from({ length: 500 }, () => work(1)));
  turns.stop();
  assert.equal(done.length, 1_000);
  assert.ok(new Set(done).size < 100, `${new Set(done).size} turns`);
});
