/** Images of reports: addresses that are URLs, all others counted. */
import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { isHttpUrl, withHttpImages } from '../../master/frontier/commit/image-addresses.ts';
import { parseUrl } from '../../shared/url.ts';
import { leaseOf, reportOf, worldTest } from '../support/world.ts';

const a = 'http://a.example';

test('images: http and https URLs as the URL parser writes them, and nothing else', () => {
  for (const src of [
    `${a}/x.png`,
    `${a}/x.png?a=b&c=%20#f`,
    'https://[::1]:8080/x.png',
    'http://127.0.0.1/x.jpg',
    'https://xn--bcher-kva.example/a.b/c.png',
    `${a}/a%2Fb/x..png`,
    'http://127.0.0.1:8080/a/x.jpg',
    'http://me:secret@a.example/x.jpg',
  ]) {
    assert.ok(isHttpUrl(src), src);
  }
  for (const src of [
    'javascript:alert(1)',
    'data:image/png;base64,AA',
    'file:///etc/passwd',
    '/x.png',
    'x',
    'HTTP://a.example/x.png',
    'http://A.example/x.png',
    `${a}`,
    `${a}:80/x.png`,
    'http:///x.png',
    'http://1.2.3/x.png',
    'http://a.example?b/x.png',
    'http://a.example#b/x.png',
    `${a}/a/../x.png`,
    `${a}/./x.png`,
    `${a}//.a/.`,
    `${a}//.a/../x.png`,
    `${a}/x.png\n${a}/y.png`,
    `${a}/\x1b[2J`,
    `${a}/x.png#\x07`,
    `${a}/ü.png`,
    ' http://a.example/x.png',
    'http:/a.example/x.png',
    'http://a.example\\x.png',
    'ftp://a.example/x.png',
  ]) {
    assert.ok(!isHttpUrl(src), src);
  }
});

test('images: the quick way says what the URL parser says', () => {
  const character = fc.constantFrom(...'ab.1-/%2eE~:@?#xn&+_ A0');
  const text = fc.array(character, { maxLength: 16 }).map((parts) => parts.join(''));
  const prefix = fc.constantFrom('http://', 'https://', 'http://a.b/', 'http://1.2.3.4:5/');
  fc.assert(
    fc.property(prefix, text, (start, rest) => {
      const url = start + rest;
      // Not `new URL`: that of Node 20 keeps some segments of dots.
      const isSame = URL.canParse(url) && parseUrl(url).href === url;
      assert.equal(isHttpUrl(url), isSame, url);
    }),
    { numRuns: 5_000, examples: [['http://a.b/', '/.a/.']] },
  );
});

test('images: those that are left out are added to what the slave cut', () => {
  const { result } = reportOf(`${a}/`);
  const images = [`${a}/x.png`, 'javascript:1'].map((src) => ({ src, via: 'img' as const }));
  const kept = withHttpImages({ result: { ...result, imagesCut: 2 }, images });
  assert.deepEqual(
    kept.images.map(({ src }) => src),
    [`${a}/x.png`],
  );
  assert.equal(kept.result.imagesCut, 3);
});

worldTest('images of a report that are no URLs are dropped and counted', async (world) => {
  await world.seed(`${a}/`);
  const slave = world.slave();
  await world.settle();
  const lease = leaseOf(slave, `${a}/`);
  assert.ok(lease);
  const images = [`${a}/x.png`, `a\n${a}/forged.png`, 'data:x', `${a}/\x1b]0;x\x07`];
  const report = reportOf(`${a}/`, { images });
  await world.done(world.frontier.report(lease, report));
  assert.deepEqual(world.images(), [`${a}/x.png`]);
  const [line] = world.lines() as { images?: unknown; imagesCut?: number }[];
  assert.deepEqual(line?.images, [{ src: `${a}/x.png`, via: 'img' }]);
  assert.equal(line?.imagesCut, 3);
});
