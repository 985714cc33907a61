/** The meaning of an answer for robots.txt: RFC 9309, sections 2.3.1 and 2.4. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  robotsLifeMs,
  robotsLifeMsMax,
  robotsLifeMsMin,
  robotsVerdict,
} from '../../master/frontier/robots/access.ts';
import { fetchErrorKinds } from '../../shared/protocol.ts';

const day = 24 * 3_600_000;

test('robots access: 2.3.1.1 success is parsed and kept a day', () => {
  for (const status of [200, 203, 204, 206, 299])
    assert.deepEqual(robotsVerdict(status), { access: 'parse', askAgainMs: day });
});

test('robots access: 2.3.1.2 a redirect after the fifth means unavailable', () => {
  for (const status of [300, 301, 302, 303, 307, 308])
    assert.equal(robotsVerdict(status).access, 'allow');
  assert.equal(robotsVerdict('redirects').access, 'allow');
});

test('robots access: 2.3.1.3 4xx allows everything', () => {
  for (const status of [400, 401, 403, 404, 410, 418, 451, 499])
    assert.deepEqual(robotsVerdict(status), { access: 'allow', askAgainMs: day });
});

test('robots access: 2.3.1.4 5xx and failures disallow everything and are asked again', () => {
  const definite = ['redirects', 'blocked'];
  const failures = fetchErrorKinds.filter((kind) => !definite.includes(kind));
  for (const answer of [500, 502, 503, 504, 599, 429, 0, 199, 600, 999, ...failures]) {
    assert.deepEqual(
      robotsVerdict(answer),
      { access: 'disallow', askAgainMs: 60_000 },
      `${answer}`,
    );
    assert.equal(robotsVerdict(answer, { hasCopy: true }).access, 'keep');
  }
});

test('robots access: the back-off doubles up to an hour and follows Retry-After up to a day', () => {
  const againMs = [0, 1, 2, 3, 5, 6, 1000].map(
    (failureCount) => robotsVerdict(503, { failureCount }).askAgainMs / 60_000,
  );
  assert.deepEqual(againMs, [1, 2, 4, 8, 32, 60, 60]);
  assert.equal(robotsVerdict(503, { retryAfterMs: 7_200_000 }).askAgainMs, 7_200_000);
  assert.equal(robotsVerdict(503, { retryAfterMs: 1000 }).askAgainMs, 60_000);
  assert.equal(robotsVerdict(503, { retryAfterMs: 1e12 }).askAgainMs, day);
});

test('robots access: 2.3.1.4 out of reach for 30 days counts as unavailable', () => {
  assert.equal(robotsVerdict('dns', { unreachableMs: 30 * day - 1 }).access, 'disallow');
  assert.equal(robotsVerdict('dns', { unreachableMs: 30 * day }).access, 'allow');
  assert.equal(robotsVerdict('dns', { unreachableMs: 31 * day, hasCopy: true }).access, 'keep');
});

test('robots access: 304 keeps the copy, if there is one', () => {
  assert.deepEqual(robotsVerdict(304, { hasCopy: true }), { access: 'keep', askAgainMs: day });
  assert.equal(robotsVerdict(304).access, 'disallow');
});

test('robots access: 2.4 Cache-Control shortens the day, to an hour at the least', () => {
  const hour = 3_600_000;
  const cases: [string | undefined, number][] = [
    [undefined, robotsLifeMsMax],
    ['', robotsLifeMsMax],
    ['public', robotsLifeMsMax],
    ['max-age=7200', 2 * hour],
    ['public, MAX-AGE="7200"', 2 * hour],
    ['max-age=31536000', robotsLifeMsMax],
    ['max-age=0', robotsLifeMsMin],
    ['max-age=86400, no-cache', robotsLifeMsMin],
    ['no-store', robotsLifeMsMin],
    ['s-maxage=60', robotsLifeMsMax],
    ['max-age=-5, max-age=x, max-age', robotsLifeMsMax],
    ['max-age=99999999999999999999999', robotsLifeMsMax],
  ];
  for (const [header, lifeMs] of cases) assert.equal(robotsLifeMs(header), lifeMs, header);
  assert.equal(robotsVerdict(404, { cacheControl: 'max-age=7200' }).askAgainMs, 2 * hour);
});
