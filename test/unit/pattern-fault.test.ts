import assert from 'node:assert/strict';
import test from 'node:test';
import { refusePatterns } from '../../master/frontier/crawl/patterns.ts';

const cases: [pattern: string, character: number][] = [
  ['(', 1],
  ['a(b', 2],
  ['(a)(b', 4],
  ['((a)', 1],
  ['a)b', 2],
  ['(a))b', 4],
  [String.raw`\(a\)[(]x(y`, 10],
  ['[a', 1],
  ['a*b|*c', 5],
  [String.raw`x\q\d`, 2],
  [String.raw`\d\q`, 3],
  ['a{3,1}', 2],
  ['a{1,3}b{3,1}', 8],
  ['[a-z][z-a]', 7],
  ['abc\\', 4],
  ['/a/(?=x)y', 4],
  [String.raw`(a)\1`, 4],
  ['a{2000}', 2],
];

test('pattern fault: the message has the value and the place of the fault', () => {
  for (const [pattern, character] of cases) {
    for (const name of ['include', 'exclude'] as const) {
      const lists = { include: [], exclude: [], [name]: ['/fine/', pattern] };
      assert.throws(
        () => refusePatterns(lists),
        ({ message }: Error) => {
          assert.ok(message.startsWith(`--${name} ${JSON.stringify(pattern)} `), message);
          assert.match(message, new RegExp(`; the fault is at character ${character}$`), pattern);
          return true;
        },
      );
    }
  }
});
