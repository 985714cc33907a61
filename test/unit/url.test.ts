import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { limits } from '../../shared/protocol.ts';
import { canonicalUrl, hostKeyOf, isLoopback, parseCanonical } from '../../shared/url.ts';
import { RedirectChain } from '../../slave/fetch/redirects.ts';

const canonical: readonly [text: string, href: string][] = [
  ['http://A.example', 'http://a.example/'],
  ['HTTPS://a.example:443/x/../y?b=1&a=2#part', 'https://a.example/y?b=1&a=2'],
  ['http://a.example:80/', 'http://a.example/'],
  ['http://a.example:8080/', 'http://a.example:8080/'],
  ['  http://a.example/ ', 'http://a.example/'],
  ['http://a.example/#', 'http://a.example/'],
  ['http://a.example/?#', 'http://a.example/?'],
  ['http://a.example/?', 'http://a.example/?'],
  ['http://a.example/ä b?ö', 'http://a.example/%C3%A4%20b?%C3%B6'],
  ['http://bücher.example/', 'http://xn--bcher-kva.example/'],
  ['http://0x7f.1/', 'http://127.0.0.1/'],
  ['http://user:pass@a.example/', 'http://user:pass@a.example/'],
  ['http:a.example', 'http://a.example/'],
  ['http://a.example/%7Euser', 'http://a.example/%7Euser'],
  // Node 20's parser leaves these as they are.
  ['http://a.example/a/.b/../../c', 'http://a.example/c'],
  ['http://a.example/a/.b/./c/..', 'http://a.example/a/.b/'],
  ['http://a.example/a/.b/.', 'http://a.example/a/.b/'],
  ['http://a.example/a/.b/c?/../d', 'http://a.example/a/.b/c?/../d'],
  ['http://a.example/^a?^b', 'http://a.example/%5Ea?^b'],
];

for (const [text, href] of canonical) {
  test(`url: ${JSON.stringify(text)} is named ${href}`, () => {
    assert.equal(canonicalUrl(text)?.href, href);
    assert.equal(parseCanonical(href)?.href, href);
    assert.equal(parseCanonical(text)?.href, text === href ? href : undefined);
  });
}

test('url: what is no http or https URL is none', () => {
  const texts = [
    '',
    'a',
    '/a',
    '//a/b',
    'ftp://a/',
    'data:,x',
    'javascript:1',
    'http://',
    'mailto:a@b',
  ];
  for (const text of [...texts, 'http://[::1', 'http://a b/', 'file:///etc', 'http://a:99999/']) {
    assert.equal(canonicalUrl(text), undefined, text);
  }
});

test('url: one over the limit is none, also when only its canonical form is', () => {
  const fits = `http://a/${'x'.repeat(limits.urlChars - 9)}`;
  assert.equal(canonicalUrl(fits)?.href.length, limits.urlChars);
  assert.equal(canonicalUrl(`${fits}x`), undefined);
  assert.equal(canonicalUrl(`http://a/${'ä'.repeat(2000)}`), undefined);
});

test('url: the canonical form is its own, and ASCII without line feeds', () => {
  fc.assert(
    fc.property(fc.webUrl({ withFragments: true, withQueryParameters: true }), (text) => {
      const url = canonicalUrl(text);
      if (url === undefined) return;
      assert.match(url.href, /^[\x21-\x7e]+$/);
      assert.ok(!url.href.includes('#'));
      assert.equal(parseCanonical(url.href)?.href, url.href);
    }),
  );
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (tail) => {
      const url = canonicalUrl(`http://a/${tail}`);
      if (url === undefined) return;
      assert.match(url.href, /^[\x21-\x7e]+$/);
      assert.equal(parseCanonical(url.href)?.href, url.href);
    }),
  );
});

test('url: the politeness group is scheme, host and port', () => {
  const keyOf = (text: string) => hostKeyOf(new URL(text));
  assert.equal(keyOf('http://u:p@a.example/x?y'), 'http://a.example');
  assert.equal(keyOf('http://a.example:80/'), keyOf('http://A.example/z'));
  assert.notEqual(keyOf('https://a.example/'), keyOf('http://a.example/'));
  assert.notEqual(keyOf('http://a.example:81/'), keyOf('http://a.example/'));
});

test('url: hosts of this machine are known as such', () => {
  const isLocal = (text: string) => isLoopback(new URL(text).hostname);
  for (const text of [
    'http://localhost/',
    'http://127.0.0.1:1/',
    'http://127.9/',
    'http://[::1]/',
  ]) {
    assert.ok(isLocal(text), text);
  }
  for (const text of [
    'http://localhost.evil.example/',
    'http://127.0.0.1.example/',
    'http://128.0.0.1/',
  ]) {
    assert.ok(!isLocal(text), text);
  }
});

test('url: a fetch starts from the name, whoever made the task', () => {
  assert.equal(new RedirectChain('http://h/a^b/', { hopsMax: 1 }).url, 'http://h/a%5Eb/');
});

test('url: a redirect that is too long says so', () => {
  const next = (location: string) =>
    new RedirectChain('http://h/', { hopsMax: 1 }).next(location, '', () => '');
  const message = 'redirect to a URL of more than 4096 characters';
  assert.deepEqual(next(`/${'x'.repeat(4_096)}`), { kind: 'end', message });
  assert.deepEqual(next(`http://other/${'x'.repeat(4_096)}`), { kind: 'end', message });
  assert.equal(next(`/${'x'.repeat(4_000)}`).kind, 'follow');
});
