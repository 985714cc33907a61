/** The text of a thrown value. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { messageOf } from '../../shared/errors.ts';

test('message: any thrown value has one, in one line', () => {
  const odd = {
    toString() {
      throw new Error('no text');
    },
  };
  const none = 'a thrown object without a text';
  const values: [thrown: unknown, said: string][] = [
    [new Error('one\n  two'), 'one two'],
    [new TypeError(), 'TypeError'],
    [new AggregateError([new Error('first'), new Error('second')]), 'first'],
    [Object.assign(new Error('x'), { message: 5 }), '5'],
    [undefined, 'undefined'],
    [Symbol('s'), 'Symbol(s)'],
    [Object.create(null), none],
    [odd, none],
    [Object.assign(new Error('x'), { message: odd }), none],
  ];
  for (const [thrown, said] of values) assert.equal(messageOf(thrown), said);
});
