/** The record of an exchange in the archive. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Recording } from '../../slave/fetch/recording.ts';

test('recording: the bytes of a head are those that came', () => {
  const recording = new Recording(10);
  const record = recording.begin('GET', new URL('http://site/'), []);
  // As HTTP clients have them: one character a byte.
  record?.answered(302, { location: '/stra\xc3\x9fe', 'x-author': 'M\xfcller' }, 'Found');
  record?.ended('whole');
  const [exchange] = recording.exchanges;
  const expected = 'HTTP/1.1 302 Found\r\nlocation: /stra\xc3\x9fe\r\nx-author: M\xfcller\r\n\r\n';
  assert.deepEqual(exchange?.response, Buffer.from(expected, 'latin1'));
});
