/** Requests to a page in the browser while the page goes on to another document. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PageWorld } from '../../slave/browser/page-world.ts';
import type { Command, Commands } from '../../slave/browser/protocol.ts';

/** A page that goes on so many times, each time between a question and its answer. */
function moving(times: number): { world: PageWorld; asked: () => number } {
  let [left, worlds, asked] = [times, 0, 0];
  const answers: Partial<{ [C in Command]: () => Commands[C][1] }> = {
    'Page.createIsolatedWorld': () => ({ executionContextId: ++worlds }),
    'Runtime.evaluate': () => {
      asked++;
      if (left-- > 0) throw new Error('Cannot find context with specified id');
      return { result: { value: worlds } };
    },
  };
  const call = async <C extends Command>(name: C): Promise<Commands[C][1]> => {
    const answer = answers[name];
    assert.ok(answer !== undefined, name);
    return answer();
  };
  const world = new PageWorld({ mainFrame: 'f', call, tell: () => {} });
  return { world, asked: () => asked };
}

test('browser: a page that goes on while it is asked is asked again', async () => {
  // Its first answer, too: nothing was asked of it before.
  const { world } = moving(2);
  assert.equal(await world.evaluate('1', 1_000), 3);
});

test('browser: a page that always goes on is given up', async () => {
  const { world, asked } = moving(Number.POSITIVE_INFINITY);
  await assert.rejects(world.evaluate('1', 1_000), /Cannot find context/);
  assert.ok(asked() < 10);
});
