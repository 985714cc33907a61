/** Ranges in the URLs and bodies of seeds. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { requestsOf } from '../../master/cli/seed-request.ts';
import { ConfigError } from '../../shared/errors.ts';

function bodies(settings: object): string[] {
  const fault = (at: readonly PropertyKey[], why: string) =>
    new ConfigError(`${at.map(String).join('.')}: ${why}`);
  const made = [...requestsOf({ url: 'http://a/', ...settings }, [], fault)];
  return made.map(({ url, body }) => `${url} ${Buffer.from(body).toString()}`);
}

test('seed-range: a body has its ranges written out', () => {
  const forms = bodies({ form: { q: 'a', page: '{1..2}', part: 'x{01..02}' } });
  assert.deepEqual(forms, [
    'http://a/ q=a&page=1&part=x01',
    'http://a/ q=a&page=1&part=x02',
    'http://a/ q=a&page=2&part=x01',
    'http://a/ q=a&page=2&part=x02',
  ]);
  const json = { from: '{0..30..30}', text: 'p{1..1}', code: '{01..01}', deep: [{ at: '{5..5}' }] };
  assert.deepEqual(bodies({ json }), [
    'http://a/ {"from":0,"text":"p1","code":"01","deep":[{"at":5}]}',
    'http://a/ {"from":30,"text":"p1","code":"01","deep":[{"at":5}]}',
  ]);
  assert.deepEqual(bodies({ url: 'http://a/{1..2}', json: '{3..4}' }), [
    ...['http://a/1 3', 'http://a/1 4', 'http://a/2 3', 'http://a/2 4'],
  ]);
});

test('seed-range: other braces of a body stay', () => {
  const query = '{ books { ...F } }';
  assert.deepEqual(bodies({ json: { query, '{1..2}': null } }), [
    `http://a/ ${JSON.stringify({ query, '{1..2}': null })}`,
  ]);
  assert.deepEqual(bodies({ json: [`${query} {1..1}`] }), [`http://a/ ["${query} 1"]`]);
});

test('seed-range: too many ranges, and steps of 0, are refused', () => {
  assert.throws(() => bodies({ form: { a: '{1..2..0}' } }), /form: has a range with step 0/);
  const many = Array.from({ length: 17 }, () => '{1..1}');
  assert.throws(() => bodies({ json: many }), /json: has 17 ranges; at most 16/);
  const long = Array.from({ length: 10_000 }, (_, i) => i);
  assert.equal(bodies({ json: [...long, '{1..3}'] }).length, 3);
});

test('seed-range: numbers below 0 are written out as a shell does', () => {
  assert.deepEqual(bodies({ form: { n: '{-02..01}' } }), [
    ...['http://a/ n=-02', 'http://a/ n=-01', 'http://a/ n=000', 'http://a/ n=001'],
  ]);
});
