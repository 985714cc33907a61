import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { Resolver } from '../../slave/extract/resolve.ts';

function expected(href: string, base: string): string | undefined {
  try {
    const url = new URL(href, base);
    // Node 20's parser leaves "^" and some segments of dots; not if the dots are escaped.
    const path = url.pathname.replaceAll('^', '%5E');
    url.pathname = path.replace(/(?<=\/)\.(?=\.?(?:\/|$))/g, '%2e');
    const { protocol, href: absolute } = url;
    return protocol === 'http:' || protocol === 'https:' ? absolute : undefined;
  } catch {
    return undefined;
  }
}

const bases = [
  'http://h.test/',
  'http://h.test/a',
  'http://h.test/a/b/c.html',
  'http://h.test/a//b/?q=/x/../y',
  'https://h.test:8443/a/b/;p?q',
  'http://u:p@h.test/a/',
  'http://127.0.0.1:18301/library/index.html',
].map((url) => new URL(url).href);

const bits = (
  '../ ./ .. . / // a b.html c%20d %2e %2E%2e ?q=1 ? # #f & ; = : http: https: http:// https:// h.test ' +
  "H.TEST xn--a 1.2.3 0x7f .com -x @ u:p@ :80 :443 \\ | ^ ' ~ * ! $ ( ) + , é 漢 mailto: data: x:"
)
  .split(' ')
  .concat([' ', '\t', '\n', '\0', '"', '<', '`', '{', '[', ']', '%', '%zz', '\ud800']);

test('resolve: equals new URL for everything that a page can hold', () => {
  const href = fc.array(fc.constantFrom(...bits), { maxLength: 9 }).map((parts) => parts.join(''));
  fc.assert(
    fc.property(fc.constantFrom(...bases), href, (base, value) => {
      assert.equal(new Resolver(base, 'utf-8').resolve(value), expected(value, base));
    }),
    { numRuns: 30_000 },
  );
});

test('resolve: equals new URL for random strings', () => {
  fc.assert(
    fc.property(fc.constantFrom(...bases), fc.string({ unit: 'binary' }), (base, value) => {
      assert.equal(new Resolver(base, 'utf-8').resolve(value), expected(value, base));
    }),
    { numRuns: 5000 },
  );
});

test('resolve: what was resolved before changes nothing', () => {
  const href = fc.array(fc.constantFrom(...bits), { maxLength: 6 }).map((parts) => parts.join(''));
  const heads = fc.constantFrom('http://h.test/', '//i.test/', 'https://h.test:80/', '');
  const hrefs = fc.array(fc.tuple(heads, href), { maxLength: 8 });
  fc.assert(
    fc.property(fc.constantFrom(...bases), hrefs, (base, list) => {
      const resolver = new Resolver(base, 'utf-8');
      for (const [head, rest] of list)
        assert.equal(resolver.resolve(head + rest), expected(head + rest, base), head + rest);
    }),
    { numRuns: 5000 },
  );
});

test('resolve: a path without end takes linear time and little stack', () => {
  const resolver = new Resolver('http://h.test/a', 'utf-8');
  for (const piece of ['a', '.', 'a.', '%41', '/', 'a?'])
    resolver.resolve(`${piece.repeat(1 << 20)}"`);
});

test('resolve: no "." and ".." are left behind a segment that begins with a dot', () => {
  const resolver = new Resolver('http://h.test/a/b', 'utf-8');
  assert.equal(resolver.resolve('/x/.y/../../z'), 'http://h.test/z');
  assert.equal(resolver.resolve('x/.y/..#z'), 'http://h.test/a/x/#z');
  assert.equal(resolver.resolve('.y/.z/.'), 'http://h.test/a/.y/.z/');
});

test('resolve: links lose their fragment', () => {
  const resolver = new Resolver('http://h.test/a/b', 'utf-8');
  assert.equal(resolver.resolveLink('c#d'), 'http://h.test/a/c');
  assert.equal(resolver.resolveLink('http://H.test/#'), 'http://h.test/');
  assert.equal(resolver.resolveLink('mailto:a@b'), undefined);
});

test('resolve: queries are the same in UTF-8 whatever the encoding is, if they are ASCII', () => {
  const href = fc.array(fc.constantFrom(...bits), { maxLength: 6 }).map((parts) => parts.join(''));
  fc.assert(
    fc.property(fc.constantFrom('gbk', 'windows-1252', 'euc-jp'), href, (encoding, value) => {
      fc.pre(/^\p{ASCII}*$/u.test(value));
      const base = 'http://h.test/a/b';
      assert.equal(new Resolver(base, encoding).resolve(value), expected(value, base));
    }),
    { numRuns: 3000 },
  );
});
