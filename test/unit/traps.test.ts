import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { Traps } from '../../master/frontier/crawl/traps.ts';
import { type TrapLimits, trapLimitsSchema, trapRules } from '../../shared/crawl.ts';

const host = 'http://site.example';
const limitsOf = (limits: Partial<TrapLimits> = {}) => trapLimitsSchema.parse(limits);
const off = Object.fromEntries(trapRules.map((rule) => [rule, 0]));
const ask = (traps: Traps, url: URL, depth: number) => traps.looks(url) ?? traps.count(url, depth);
const take = (path: string, limits: Partial<TrapLimits> = {}, depth = 1) =>
  ask(new Traps(limitsOf(limits)), new URL(path, host), depth);

test('traps: every rule has its limit, and lets through what is just within it', () => {
  const long = (chars: number) => `/${'x'.repeat(chars - host.length - 1)}`;
  const deep = (segments: number) => Array.from({ length: segments }, (_, i) => `/s${i}`).join('');
  const query = (count: number) =>
    `/?${Array.from({ length: count }, (_, i) => `p${i}=1`).join('&')}`;
  const table: [string, string | undefined][] = [
    [long(2083), undefined],
    [long(2084), 'length'],
    [deep(32), undefined],
    [`${deep(32)}/`, undefined],
    [deep(33), 'segments'],
    ['/a/a/a/a/a/a', undefined],
    ['/a/a/a/a/a/a/', undefined],
    ['/a/a/a/a/a/a/a', 'repeats'],
    ['/a/b/c/a/b/c/a/b', undefined],
    ['/a/b/c/a/b/c/a/b/c', 'repeats'],
    ['/en/docs/x/en/docs/y/en/docs/z/en/docs', 'repeats'],
    ['/a////////', 'repeats'],
    [query(32), undefined],
    [query(33), 'parameters'],
    ['/', undefined],
    ['/wiki/index.php?title=A&action=history&offset=2026&limit=500', undefined],
    ['/org/tool/tool/src/main/java/com/org/tool/core/tool', undefined],
  ];
  for (const [path, rule] of table) assert.equal(take(path), rule, path);
});

test('traps: a rule whose limit is 0 is off', () => {
  const worst = `/${'a/'.repeat(1000)}?${'b=1&'.repeat(500)}PHPSESSID=1`;
  assert.equal(take(worst, off, 9_999), undefined);
  assert.equal(new Traps(limitsOf(off)).withoutSession(new URL(worst, host)), undefined);
  assert.equal(take(worst), 'length');
  assert.equal(take(worst, { length: 0 }), 'segments');
  assert.equal(take(worst, { length: 0, segments: 0 }), 'repeats');
  assert.equal(take(worst, { length: 0, segments: 0, repeats: 0 }), 'parameters');
});

/** How many of these are let through. */
function takenOf(traps: Traps, paths: Iterable<string>, depth = 9): number {
  let taken = 0;
  for (const path of paths) if (!ask(traps, new URL(path, host), depth)) taken++;
  return taken;
}
function* numbered(path: (n: number) => string, count = 50) {
  for (let n = 1; n <= count; n++) yield path(n);
}

test('traps: queries counts URLs of a path that have three parameters or more', () => {
  const traps = new Traps(limitsOf({ queries: 10 }));
  assert.equal(
    takenOf(
      traps,
      numbered((n) => `/shop?color=${n}&size=${n}&sort=up`),
    ),
    10,
  );
  assert.equal(takenOf(traps, ['/shop?sort=up&brand=x&color=red&page=2']), 0);
  assert.equal(
    takenOf(
      traps,
      numbered((n) => `/topic.php?t=${n}&start=25`),
    ),
    50,
  );
  assert.equal(
    takenOf(
      traps,
      numbered((n) => `/other?color=${n}&size=1&sort=up`, 10),
    ),
    10,
  );
  // Numbers in the path make no other path of it.
  assert.equal(
    takenOf(
      traps,
      numbered((n) => `/cat/${n}/list?color=1&size=1&sort=up`),
    ),
    10,
  );
});

test('traps: similar counts what differs in numbers, like a calendar or far from a seed', () => {
  const calendars: ((n: number) => string)[] = [
    (n) => `/calendar/${2000 + n}/05/11`,
    (n) => `/termine/2031/${n % 12}/${n % 30}`,
    (n) => `/2031/${n % 12}/`,
    (n) => `/cal.php?month=${n}&year=2031`,
    (n) => `/x?date=2031-05-${n}`,
    (n) => `/list/2031-05-${n}`,
    (n) => `/Kalender?w=${n}`,
    (n) => `/events/page/${n}`,
  ];
  for (const path of calendars) {
    const traps = new Traps(limitsOf({ similar: 10 }));
    assert.equal(takenOf(traps, numbered(path)), 10, path(1));
  }
  const others: ((n: number) => string)[] = [
    (n) => `/item/${n}`,
    (n) => `/viewtopic.php?t=${n}`,
    (n) => `/thread/${n * 1000}/${n}.html`,
    (n) => `/2026/05/11/a-story-${n}.html`,
    (n) => `/wiki/Page_${n}`,
  ];
  for (const path of others) {
    const traps = new Traps(limitsOf({ similar: 10 }));
    assert.equal(takenOf(traps, numbered(path), 100), 50, path(1));
    assert.equal(
      takenOf(
        traps,
        numbered((n) => path(n + 100)),
        101,
      ),
      10,
      path(1),
    );
  }
  const slugs = new Traps(limitsOf({ similar: 10 }));
  assert.equal(
    takenOf(
      slugs,
      numbered((n) => `/x/${'abcdefghij'[n % 10]}${'k'.repeat(n)}`),
      500,
    ),
    50,
  );
});

test('traps: hosts are counted apart', () => {
  const traps = new Traps(limitsOf({ similar: 10 }));
  for (const site of ['http://a.example', 'http://b.example', 'http://a.example:81']) {
    assert.equal(
      takenOf(
        traps,
        numbered((n) => `${site}/calendar/${n}`),
      ),
      10,
      site,
    );
  }
});

test('traps: counts outlive a restart', () => {
  const first = new Traps(limitsOf({ similar: 1000 }));
  takenOf(
    first,
    numbered((n) => `/calendar/${n}`, 499),
  );
  assert.equal(first.unsaved(), undefined);
  takenOf(first, ['/calendar/500']);
  const record = first.unsaved();
  assert.ok(record);
  assert.equal(first.unsaved(true), undefined);
  const second = new Traps(limitsOf({ similar: 1000 }), record);
  assert.equal(
    takenOf(
      second,
      numbered((n) => `/calendar/next/../${n}`, 2000),
    ),
    500,
  );
});

test('traps: that a kind is full goes on record at once', () => {
  const traps = new Traps(limitsOf({ similar: 3 }));
  assert.equal(takenOf(traps, ['/calendar/1', '/calendar/2']), 2);
  assert.equal(traps.unsaved(), undefined);
  assert.equal(takenOf(traps, ['/calendar/3', '/calendar/4']), 1);
  assert.deepEqual(traps.unsaved(), [['site.example/calendar/0', 3]]);
});

test('traps: what is counted is bounded; a count may be too low, never too high', () => {
  const traps = new Traps(limitsOf({ queries: 100 }));
  const background = numbered(
    (n) =>
      `/${'p'.repeat(1 + (n % 97))}${n.toString(36).replace(/\d/g, 'z')}${'q'.repeat(n % 83)}?a=1&b=2&c=3`,
    20_000,
  );
  let trapped = 0;
  for (const path of background) {
    assert.equal(ask(traps, new URL(path, host), 1), undefined, path);
    trapped += takenOf(traps, [`/trap?a=${path.length}&b=2&c=3&d=${path}`]);
  }
  // The trap is half of all, so it is found in spite of the others; they are never held back.
  assert.ok(trapped >= 100 && trapped < 200, `${trapped}`);
  assert.ok((traps.unsaved(true) ?? []).length <= 4_096);
});

test('traps: a session id is taken off, and nothing else', () => {
  const plain = (path: string) => new Traps(limitsOf()).withoutSession(new URL(path, host));
  const token = '9682993c8daa2c5497996114facdc805';
  const table: [string, string | undefined][] = [
    [`/a;jsessionid=${token}.node1`, '/a'],
    [`/a;JSESSIONID=x?b=1`, '/a?b=1'],
    [`/a;v=1;jsessionid=x/b`, '/a;v=1/b'],
    [`/a?PHPSESSID=${token}`, '/a'],
    [`/a?b=1&PHPSESSID=${token}&c=2`, '/a?b=1&c=2'],
    [`/a?jsessionid=${token}&c=2`, '/a?c=2'],
    [`/a?sid=${token}`, '/a'],
    [`/a?c=2&amp;sid=${token}`, undefined],
    ['/a?ASPSESSIONIDAABBCCDD=MMNNOOPPQQRRSSTTUUVVWWXX', '/a'],
    ['/(S(lit3py55t21z5v55vlm25s55))/a.aspx', '/a.aspx'],
    [`/a?CFID=12&CFTOKEN=34&x=1`, '/a?x=1'],
    [`/a?zenid=abcdefghij0123456789klmnop`, '/a'],
    // A story, a word, a pair of names: no session.
    ['/article.php?sid=1234', undefined],
    ['/a?sid=thequickbrownfoxjumpsoverthelazydog', undefined],
    ['/a?sid=123456789012345678901234', undefined],
    ['/a?CFID=12', undefined],
    ['/a?PHPSESSID=', undefined],
    ['/a;version=2', undefined],
    ['/a_(disambiguation)', undefined],
    ['/a', undefined],
  ];
  for (const [path, rest] of table) {
    assert.equal(plain(path), rest === undefined ? undefined : host + rest, path);
  }
});

const piece = fc.constantFrom(
  'a',
  'b',
  '',
  '2031',
  '05',
  ';jsessionid=1',
  '(S(lit3py55t21z5v55vlm25s55))',
  '%41',
  '..',
  'é',
);
const parameter = fc.constantFrom(
  'a=1',
  'b',
  '',
  'PHPSESSID=1f',
  'sid=9682993c8daa2c5497996114facdc805',
  'year=2031',
  'CFID=1',
  'CFTOKEN=2',
);
const anyUrl = fc
  .tuple(fc.array(piece, { maxLength: 12 }), fc.array(parameter, { maxLength: 6 }))
  .map(
    ([path, query]) =>
      new URL(
        `http://u:p@site.example:81/${path.join('/')}${query.length ? '?' : ''}${query.join('&')}`,
      ),
  );

test('traps: without its session id a URL has none, and the rest of it is as it was', () => {
  const traps = new Traps(limitsOf());
  fc.assert(
    fc.property(anyUrl, (url) => {
      const plain = traps.withoutSession(url);
      if (plain === undefined) return;
      const rest = new URL(plain);
      assert.ok(plain.length < url.href.length);
      assert.equal(traps.withoutSession(rest), undefined);
      assert.deepEqual(
        [rest.origin, rest.username, rest.password],
        [url.origin, url.username, url.password],
      );
      for (const part of rest.search
        .slice(1)
        .split('&')
        .filter((each) => each !== '')) {
        assert.ok(url.search.slice(1).split('&').includes(part));
      }
    }),
  );
});

test('traps: segments and repeats are what a plain count says', () => {
  const traps = new Traps(limitsOf({ ...off, segments: 6, repeats: 2 }));
  fc.assert(
    fc.property(anyUrl, (url) => {
      const path = url.pathname.replace(/^\//, '').replace(/\/$/, '').split('/');
      const repeats = path.length - new Set(path).size;
      const rule = path.length > 6 ? 'segments' : repeats > 2 ? 'repeats' : undefined;
      assert.equal(ask(traps, url, 1), url.pathname === '/' ? undefined : rule, url.href);
    }),
    { numRuns: 2_000 },
  );
});

test('traps: an endless walk ends, whatever it is made of', () => {
  // The same step for ever, from any page: each rule that is on bounds it.
  const step = fc.constantFrom('a/', '../a/b/', 'x?p=1', '?p=', '2/', 'a//');
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 3 }), anyUrl, (steps, start) => {
      const traps = new Traps(limitsOf({ similar: 100, queries: 100 }));
      const seen = new Set<string>();
      let at = start;
      for (let n = 0; n < 5_000; n++) {
        const next = new URL(steps[n % steps.length] ?? '', at);
        if (next.search.endsWith('=')) next.search += n;
        if (seen.has(next.href) && n > 100) return;
        if (!seen.has(next.href) && ask(traps, next, n) !== undefined) return;
        seen.add(next.href);
        at = next;
      }
      assert.fail(at.href.slice(0, 200));
    }),
  );
});
