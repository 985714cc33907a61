import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ownTurn } from '../../master/machine/own-turn.ts';

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

test('own turn: one piece of work a turn, in the order of the calls', async () => {
  const turns = turnCount();
  const done: (readonly [string, number])[] = [];
  const work = async (name: string) => {
    await ownTurn();
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
