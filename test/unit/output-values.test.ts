/** Values of pages as outputs write them: no text of a page breaks a line or a row. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { csvLine } from '../../master/sinks/outputs/csv.ts';
import { wellFormedJson } from '../../master/sinks/outputs/rows.ts';

test('output values: NUL and halves of characters, in keys too, are replaced in JSON', () => {
  const nul = String.fromCharCode(0);
  const half = String.fromCharCode(0xd800);
  const odd = { [`a${nul}`]: `b${nul}c`, d: [{ [half]: `${half}x` }], e: `\\u0000${nul}\\` };
  const whole = { 'a\ufffd': 'b\ufffdc', d: [{ '\ufffd': '\ufffdx' }], e: '\\u0000\ufffd\\' };
  assert.deepEqual(JSON.parse(wellFormedJson(odd)), whole);
  const plain = { a: '😀 \\ud800 "\\" \u2028', n: [1, null, true], ü: 'x\n\t\u0001' };
  assert.equal(wellFormedJson(plain), JSON.stringify(plain));
});

test('output values: a CSV line with one empty value is not an empty line', () => {
  const how = { delimiter: ';', isEscaped: false };
  assert.equal(csvLine([null], how), '""\n');
  assert.equal(csvLine([''], how), '""\n');
  assert.equal(csvLine([null, undefined], how), ';\n');
  assert.equal(csvLine([Number.POSITIVE_INFINITY, true], how), ';true\n');
  assert.equal(csvLine([1.5, 'a;b', '"', ' x', 'a\r\nb'], how), '1.5;"a;b";"""";" x";"a\r\nb"\n');
});
