import assert from 'node:assert/strict';
import test from 'node:test';
import { CookieJar } from '../../slave/fetch/cookies.ts';
import { collect } from '../support/collect.ts';

const here = 'https://www.shop.example/a/b';

/** The header for each URL after the answers of `from` have set `cookies`. */
function sent(cookies: readonly string[], to: string, from = here, laterMs = 0): string {
  const jar = new CookieJar();
  for (const cookie of cookies) jar.take(cookie, new URL(from), 0);
  return jar.header(new URL(to), laterMs);
}

const cases: readonly (readonly [cookie: string, to: string, header: string, from?: string])[] = [
  ['a=1', 'https://www.shop.example/a/x', 'a=1'],
  ['a=1', 'https://www.shop.example/a', 'a=1'],
  ['a=1', 'https://www.shop.example/ab', ''],
  ['a=1', 'https://www.shop.example/', ''],
  ['a=1; Path=/', 'https://www.shop.example/', 'a=1'],
  ['a=1; path=x', 'https://www.shop.example/a/', 'a=1'],
  ['a=1; Path=/', 'https://shop.example/', ''],
  ['a=1; Path=/', 'https://x.www.shop.example/', ''],
  ['a=1; Path=/; Domain=shop.example', 'https://x.shop.example/', 'a=1'],
  ['a=1; Path=/; Domain=.SHOP.example', 'https://shop.example/', 'a=1'],
  ['a=1; Path=/; Domain=other.example', 'https://www.shop.example/', ''],
  ['a=1; Path=/; Domain=p.example', 'https://p.example/', ''],
  ['a=1; Path=/; Domain=example', 'https://www.shop.example/', ''],
  ['a=1; Path=/; Domain=co.uk', 'https://a.co.uk/', '', 'https://a.co.uk/'],
  ['a=1; Path=/; Domain=github.io', 'https://b.github.io/', '', 'https://a.github.io/'],
  ['a=1; Path=/; Domain=example.', 'https://shop.example./', '', 'https://p.example./'],
  ['a=1; Path=/; Domain=co.uk.', 'https://b.co.uk./', '', 'https://a.co.uk./'],
  ['a=1; Path=/; Domain=shop.co.uk.', 'https://x.shop.co.uk./', 'a=1', 'https://y.shop.co.uk./'],
  ['a=1; Path=/; Domain=github.io', 'https://x.github.io/', '', 'https://github.io/'],
  ['a=1; Path=/; Domain=0.0.1', 'http://127.0.0.1/', '', 'http://127.0.0.1/'],
  ['a=1; Path=/; Domain=127.0.0.1', 'http://127.0.0.1/', 'a=1', 'http://127.0.0.1/'],
  ['a=1; Path=/; Secure', 'http://www.shop.example/', ''],
  ['a=1; Path=/; Secure', 'https://www.shop.example/', 'a=1'],
  ['a=1; Path=/; Secure', 'https://www.shop.example/', '', 'http://www.shop.example/'],
  ['a=1; Path=/; Secure', 'http://127.0.0.1/', 'a=1', 'http://127.0.0.1/'],
  ['__Secure-a=1; Path=/', 'https://www.shop.example/', ''],
  ['__Host-a=1; Path=/; Secure', 'https://www.shop.example/', '__Host-a=1'],
  ['__Host-a=1; Path=/; Secure; Domain=shop.example', 'https://www.shop.example/', ''],
  ['a="1; 2"; Path=/', 'https://www.shop.example/', 'a="1'],
  [' a = 1 = 2 ;Path=/', 'https://www.shop.example/', 'a=1 = 2'],
  ['a=; Path=/', 'https://www.shop.example/', 'a='],
  ['=1; Path=/', 'https://www.shop.example/', '1'],
  [' = a=b; Path=/', 'https://www.shop.example/', 'a=b'],
  ['a; Path=/', 'https://www.shop.example/', 'a'],
  ['a; Path=/; Max-Age=0', 'https://www.shop.example/', ''],
  ['=; Path=/', 'https://www.shop.example/', ''],
  ['; Path=/', 'https://www.shop.example/', ''],
  ['__Host-a; Path=/; Secure', 'https://www.shop.example/', ''],
  ['=__secure-a=1; Path=/; Secure', 'https://www.shop.example/', ''],
  ['city=K\xc3\xb6ln; Path=/', 'https://www.shop.example/', 'city=K\xc3\xb6ln'],
  ['a=\x7f; Path=/', 'https://www.shop.example/', ''],
  ['a=\x01; Path=/', 'https://www.shop.example/', ''],
  [`a=${'x'.repeat(5000)}; Path=/`, 'https://www.shop.example/', ''],
  ['a=1; Max-Age=0; Path=/', 'https://www.shop.example/', ''],
  ['a=1; Expires=Thu, 01-Jan-1970 00:00:00 GMT; Path=/', 'https://www.shop.example/', ''],
  [
    'a=1; Max-Age=9; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Path=/',
    'https://www.shop.example/',
    'a=1',
  ],
];

test('cookies: go where a browser would send them', () => {
  for (const [cookie, to, header, from] of cases)
    assert.equal(sent([cookie], to, from), header, `${cookie} to ${to}`);
});

test('cookies: one without a name is one cookie, beside those with names', () => {
  const to = 'https://www.shop.example/';
  const all = ['a; Path=/', 'n=1; Path=/', '=b; Path=/'];
  assert.equal(sent(all, to), 'b; n=1');
  assert.equal(sent([...all, '=x; Path=/; Expires=Thu, 01-Jan-1970 00:00:00 GMT'], to), 'n=1');
});

test('cookies: dates are those of RFC 6265, 5.1.1, in UTC', () => {
  const url = new URL('https://www.shop.example/');
  const now = Date.UTC(2026, 10, 22);
  for (const [expires, isKept] of [
    ['Sun, 06 Nov 1994 08:49:37 GMT', false],
    // Two digits: 70 to 99 are of the last century, the others of this one.
    ['Sun, 06 Nov 94 08:49:37 GMT', false],
    ['Sun, 06 Nov 62 08:49:37 GMT', true],
    ['06-Nov-62 08:49:37', true],
    ['1 Jan 1971 0:0:0', false],
    ['0', true],
    ['-1', true],
    ['never', true],
    ['99 Nov 2001 08:49:37', true],
  ] as const) {
    const jar = new CookieJar();
    jar.take(`a=1; Expires=${expires}`, url, now);
    assert.equal(jar.header(url, now), isKept ? 'a=1' : '', expires);
  }
  const zoneless = new CookieJar();
  zoneless.take('a=1; Expires=Mon, 23 Nov 2026 00:00:00', url, now);
  assert.equal(zoneless.header(url, Date.UTC(2026, 10, 22, 23, 59)), 'a=1');
  assert.equal(zoneless.header(url, Date.UTC(2026, 10, 23, 0, 1)), '');
});

test('cookies: expire, are replaced, and stand in the order of their paths', () => {
  assert.equal(sent(['a=1; Max-Age=9'], here, here, 8_999), 'a=1');
  assert.equal(sent(['a=1; Max-Age=9'], here, here, 9_000), '');
  assert.equal(sent(['a=1', 'b=1', 'a=2'], here), 'a=2; b=1');
  assert.equal(sent(['a=1', 'a=; Max-Age=0'], here), '');
  assert.equal(sent(['a=1; Path=/', 'b=1; Path=/a', 'c=1; Path=/'], here), 'b=1; a=1; c=1');
});

test('cookies: an answer without TLS takes the place of no Secure one', () => {
  const secure = 'id=1; Path=/; Secure; Domain=shop.example';
  const later = (cookie: string, from: string, to: string) => {
    const jar = new CookieJar();
    jar.take(secure, new URL('https://www.shop.example/'), 0);
    jar.take(cookie, new URL(from), 0);
    return jar.header(new URL(to), 0);
  };
  const plain = 'http://www.shop.example/a/b';
  const there = 'https://www.shop.example/a/b';
  for (const cookie of [
    'id=2; Path=/; Domain=shop.example',
    'id=2; Path=/',
    'id=2',
    'id=; Path=/; Max-Age=0; Domain=shop.example',
  ])
    assert.equal(later(cookie, plain, there), 'id=1', cookie);
  // The others are as ever.
  assert.equal(later('x=2; Path=/', plain, there), 'x=2; id=1');
  assert.equal(later('id=2; Path=/; Domain=shop.example', there, there), 'id=2');
  const jar = new CookieJar();
  jar.take('id=1; Path=/a/b; Secure', new URL(there), 0);
  jar.take('id=2; Path=/', new URL(plain), 0);
  assert.equal(jar.header(new URL(there), 0), 'id=1; id=2');
});

test('cookies: a Secure one of the operator is not replaced without TLS', () => {
  const given = { name: 'id', value: '1', domain: 'shop.example', subdomains: true, secure: true };
  const jar = new CookieJar([given]);
  jar.take('id=2; Path=/; Domain=shop.example', new URL('http://www.shop.example/'), 0);
  jar.take('id=3; Path=/', new URL('http://www.shop.example/'), 0);
  assert.equal(jar.header(new URL(here), 0), 'id=1');
  jar.take('id=4; Path=/; Domain=shop.example', new URL('https://www.shop.example/'), 0);
  assert.equal(jar.header(new URL(here), 0), 'id=4');
});

test('cookies: a header has at most 8 KB, the own cookies of a host first', () => {
  const jar = new CookieJar();
  const ads = new URL('https://ads.shop.example/');
  const www = new URL('https://www.shop.example/');
  const big = (name: string) => `${name}=${'x'.repeat(3_500)}; Domain=shop.example; Path=/`;
  const names = (url: URL) =>
    jar
      .header(url, 0)
      .split('; ')
      .map((pair) => pair.split('=')[0]);
  for (const name of ['a', 'b', 'c', 'd', 'e']) jar.take(big(name), ads, 0);
  for (const name of ['f', 'g']) jar.take(`${name}=1; Path=/`, www, 0);
  assert.deepEqual(names(ads), ['a', 'b']);
  assert.deepEqual(names(www), ['f', 'g', 'a', 'b']);
  for (const url of [ads, www]) assert.ok(jar.header(url, 0).length <= 8_192);
  // Set anew, it is of who set it last.
  jar.take(big('e'), www, 0);
  assert.deepEqual(names(www), ['f', 'g', 'a', 'e']);
  jar.refuseSiblings(www);
  assert.deepEqual(names(www), ['f', 'g', 'e']);
  assert.deepEqual(names(ads), ['a', 'b']);
  jar.take(big('h'), ads, 0);
  assert.deepEqual(names(www), ['f', 'g', 'e']);
});

test('cookies: the jar is bounded', () => {
  const many = Array.from({ length: 60 }, (_, i) => `c${i}=1`);
  assert.equal(sent(many, here).split('; ').length, 50);
  const jar = new CookieJar();
  for (let i = 0; i < 3_010; i++) jar.take('a=1; Path=/', new URL(`http://h${i}.example/`), 0);
  assert.equal(jar.header(new URL('http://h0.example/'), 0), '');
  assert.equal(jar.header(new URL('http://h3009.example/'), 0), 'a=1');
  const big = new CookieJar();
  const value = 'x'.repeat(4_000);
  for (let i = 0; i < 1_100; i++)
    big.take(`a=${value}; Path=/`, new URL(`http://h${i}.example/`), 0);
  const kept = (i: number) => big.header(new URL(`http://h${i}.example/`), 0) !== '';
  assert.deepEqual([kept(0), kept(1_099)], [false, true]);
});

test("cookies: the operator's go to the hosts of seeds, until a host sets its own", () => {
  const jar = new CookieJar([{ name: 'sid', value: 'mine' }]);
  const seed = new URL('https://a.example/x/y');
  const to = (url: string, isSeedHost: boolean) => jar.header(new URL(url), 0, isSeedHost);
  assert.equal(to('https://a.example/x/y', true), 'sid=mine');
  assert.equal(to('https://b.example/', false), '');
  jar.take('other=1; Path=/', seed, 0);
  assert.equal(to('https://a.example/', true), 'sid=mine; other=1');
  jar.take('sid=theirs; Path=/', seed, 0);
  assert.equal(to('https://a.example/', true), 'other=1; sid=theirs');
  assert.equal(to('https://c.example/', true), 'sid=mine', 'another seed keeps it');
  jar.take('sid=; Path=/; Max-Age=0', new URL('https://c.example/'), 0);
  assert.equal(to('https://c.example/', true), '', 'it was deleted');
});

test("cookies: the operator's with a domain go where a browser would send them", () => {
  const given = [
    { name: 'h', value: '1', domain: 'shop.example' },
    { name: 'd', value: '2', domain: 'shop.example', subdomains: true },
    { name: 'p', value: '3', domain: 'shop.example', path: '/a' },
    { name: 's', value: '4', domain: 'shop.example', secure: true },
    { name: 'e', value: '5', domain: 'shop.example', expiresAt: 1_000 },
    { name: 'x', value: '6', domain: 'co.uk', subdomains: true },
    { name: 'i', value: '7', domain: '127.0.0.1', subdomains: true },
    { name: '__Host-z', value: '8', domain: 'z.example' },
  ];
  const jar = new CookieJar(given);
  const to = (url: string, now = 0) => jar.header(new URL(url), now);
  assert.equal(to('https://shop.example/'), 'h=1; d=2; s=4; e=5');
  assert.equal(to('https://shop.example/', 1_000), 'h=1; d=2; s=4');
  assert.equal(to('http://shop.example/'), 'h=1; d=2; e=5');
  assert.equal(to('http://shop.example/a/b'), 'p=3; h=1; d=2; e=5');
  assert.equal(to('http://shop.example/ab'), 'h=1; d=2; e=5');
  assert.equal(to('https://www.shop.example/'), 'd=2');
  for (const url of ['https://ashop.example/', 'https://example/', 'https://a.co.uk/']) {
    assert.equal(to(url), '', url);
  }
  assert.equal(to('http://127.0.0.1/'), 'i=7');
  assert.equal(to('http://z.example/') + to('https://z.example/'), '__Host-z=8');
});

test("cookies: a flood of cookies pushes none of the operator's out", () => {
  const jar = new CookieJar([{ name: 'sid', value: 'mine', domain: 'a.example' }], 1_000);
  for (let i = 0; i < 5_000; i++) {
    jar.take(`a=${i}; Path=/`, new URL(`https://h${i}.example/`), 0);
  }
  assert.equal(jar.header(new URL('https://a.example/'), 0), 'sid=mine');
});

test('cookies: one that the operator gives anew replaces what a host has set under its name', () => {
  const now = Date.now();
  const url = new URL('http://a.example/');
  const given = [
    { name: 'sid', value: 'one' },
    { name: 'other', value: 'x', domain: 'a.example' },
  ];
  const jar = new CookieJar(given);
  jar.take('sid=rotated', url, now);
  jar.take('other=own', url, now);
  jar.take('mine=1', url, now);
  assert.equal(jar.header(url, now, true), 'sid=rotated; other=own; mine=1');
  // The same ones once more: the host's own still count.
  jar.give(given);
  assert.equal(jar.header(url, now, true), 'sid=rotated; other=own; mine=1');
  jar.give([{ name: 'sid', value: 'two' }]);
  assert.equal(jar.header(url, now, true), 'sid=two; other=own; mine=1');
  jar.give([{ name: 'other', value: 'y', domain: 'a.example' }]);
  assert.equal(jar.header(url, now, true), 'other=y; mine=1');
  jar.give();
  assert.equal(jar.header(url, now, true), 'mine=1');
});

test('cookies: one keeps no more of its answer in memory than itself', () => {
  const jar = new CookieJar();
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < 1_000; i++) {
    const cookie = `name-of-a-cookie=value-of-cookie-${i}; path=/a-long-path; domain=h${i}.site-${i}.test`;
    const header = Buffer.from(`${'x'.repeat(16_000)}${cookie}`)
      .toString('latin1')
      .slice(16_000);
    jar.take(header, new URL(`https://h${i}.site-${i}.test/`), 0);
  }
  collect();
  const each = (process.memoryUsage().heapUsed - before) / 1_000;
  assert.ok(each < 4_000, `${each} bytes`);
  assert.match(jar.header(new URL('https://h1.site-1.test/a-long-path'), 0), /cookie-1$/);
});
