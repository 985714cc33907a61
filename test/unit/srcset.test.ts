import assert from 'node:assert/strict';
import test from 'node:test';
import { type Candidate, parseSrcset } from '../../slave/extract/srcset.ts';

/** Cases as [value, candidates]; a bare string stands for a candidate without descriptors. */
type Case = readonly [value: string, ...candidates: (string | Candidate)[]];

const splitting: Case[] = [
  [''],
  [' '],
  [','],
  [' , ,, '],
  ['a', 'a'],
  [' a ', 'a'],
  ['\ta\t', 'a'],
  ['\na\r\n', 'a'],
  ['\fa\f', 'a'],
  ['a,', 'a'],
  ['a,,,', 'a'],
  [',a', 'a'],
  [',,a,,', 'a'],
  ['a, b', 'a', 'b'],
  ['a ,b', 'a', 'b'],
  ['a , b', 'a', 'b'],
  ['a,b', 'a,b'],
  ['a,b,', 'a,b'],
  ['a,,b', 'a,,b'],
  ['a,b c'],
  ['a, ,b', 'a', 'b'],
  ['a\n,b', 'a', 'b'],
  ['data:,a', 'data:,a'],
  ['data:,a , data:,c', 'data:,a', 'data:,c'],
  ['data:image/png;base64,AA== 2x', { url: 'data:image/png;base64,AA==', density: 2 }],
  ['a\u000bb', 'a\u000bb'],
  ['a\u00a0b', 'a\u00a0b'],
  ['a\u00a01x', 'a\u00a01x'],
  ['http://h/?a,b c'],
  ['http://h/?a,b 1x', { url: 'http://h/?a,b', density: 1 }],
  ['a 1x,b 2x', { url: 'a', density: 1 }, { url: 'b', density: 2 }],
  ['a 1x, b 2x', { url: 'a', density: 1 }, { url: 'b', density: 2 }],
  ['a 1x ,b', { url: 'a', density: 1 }, 'b'],
  ['a, 1x', 'a', '1x'],
  ['a,1x', 'a,1x'],
  ['1x', '1x'],
  ['a b, c', 'c'],
  ['a 1x,, b', { url: 'a', density: 1 }, 'b'],
  ['a 1x,', { url: 'a', density: 1 }],
  ['a\t1x', { url: 'a', density: 1 }],
  ['a  \n 1x \f ', { url: 'a', density: 1 }],
  ['(a, b', '(a', 'b'],
];

const parentheses: Case[] = [
  ['a (1x), b', 'b'],
  ['a (, b 1x), c', 'c'],
  ['a ( , data:,b 1x, ), data:,c', 'data:,c'],
  ['a (x, b'],
  ['a ((, b), c', 'c'],
  ['a ((x), b), c', 'b)', 'c'],
  ['a 1x(, b), c', 'c'],
  ['a ), b', 'b'],
  ['a (1x'],
  ['a ( ) 1x, b', 'b'],
  ['a 1x ( ), b', 'b'],
];

const widths: Case[] = [
  ['a 1w', { url: 'a', width: 1 }],
  ['a 100w', { url: 'a', width: 100 }],
  ['a 007w', { url: 'a', width: 7 }],
  ['a 0w'],
  ['a 00w'],
  ['a -1w'],
  ['a +1w'],
  ['a 1.0w'],
  ['a 1e3w'],
  ['a w'],
  ['a 1W'],
  ['a 1 w'],
  ['a 1w 2w'],
  ['a 1w 1x'],
  ['a 1x 1w'],
  ['a 1w, b 2w', { url: 'a', width: 1 }, { url: 'b', width: 2 }],
  ['a 0w, b 2w', { url: 'b', width: 2 }],
];

const heights: Case[] = [
  ['a 1h'],
  ['a 1w 2h', { url: 'a', width: 1, height: 2 }],
  ['a 2h 1w', { url: 'a', width: 1, height: 2 }],
  ['a 1w 0h'],
  ['a 1w -1h'],
  ['a 1w 1.5h'],
  ['a 1w 1h 1h'],
  ['a 1x 1h'],
  ['a 1h 1x'],
  ['a 1h 1w 1x'],
  ['a 1w h'],
  ['a 1w 1H'],
];

const densities: Case[] = [
  ['a 1x', { url: 'a', density: 1 }],
  ['a 1.5x', { url: 'a', density: 1.5 }],
  ['a .5x', { url: 'a', density: 0.5 }],
  ['a 0x', { url: 'a', density: 0 }],
  ['a -0x', { url: 'a', density: 0 }],
  ['a 0.0x', { url: 'a', density: 0 }],
  ['a 1e2x', { url: 'a', density: 100 }],
  ['a 1E+2x', { url: 'a', density: 100 }],
  ['a 1e-1x', { url: 'a', density: 0.1 }],
  ['a -1x'],
  ['a -.5x'],
  ['a +1x'],
  ['a 1.x'],
  ['a .x'],
  ['a x'],
  ['a 1ex'],
  ['a 1e1.5x'],
  ['a 1e999x'],
  ['a Infinityx'],
  ['a NaNx'],
  ['a 0x1x'],
  ['a 1X'],
  ['a 1x 2x'],
  ['a 1x 1x'],
  ['a 1xx'],
  ['a 1'],
  ['a 1q'],
  ['a 1x foo'],
  ['a foo 1x'],
  ['a 1x, b 1x', { url: 'a', density: 1 }, { url: 'b', density: 1 }],
];

const groups = { splitting, parentheses, widths, heights, densities };
for (const [name, cases] of Object.entries(groups)) {
  test(`srcset: ${name} follow the standard`, () => {
    for (const [value, ...expected] of cases) {
      const candidates = expected.map((one) => (typeof one === 'string' ? { url: one } : one));
      assert.deepEqual(parseSrcset(value), candidates, JSON.stringify(value));
    }
  });
}

test('srcset: a long hostile value takes linear time', () => {
  assert.equal(parseSrcset('a (,'.repeat(100_000)).length, 0);
  assert.equal(parseSrcset(','.repeat(1_000_000)).length, 0);
  assert.equal(parseSrcset('a, '.repeat(100_000)).length, 100_000);
});
