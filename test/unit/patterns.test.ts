import assert from 'node:assert/strict';
import test from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { createContext, Script } from 'node:vm';
import fc from 'fast-check';
import { Automaton } from '../../master/frontier/crawl/automaton.ts';
import { toRe2 } from '../../master/frontier/crawl/pattern-syntax.ts';
import {
  nativeChars,
  nativePatterns,
  PatternBudget,
  Patterns,
  refusePatterns,
  refuseVain,
} from '../../master/frontier/crawl/patterns.ts';
import { Scope } from '../../master/frontier/crawl/scope.ts';
import { cpuMsSince } from '../support/cpu-time.ts';

// With its quick checks the V8 of Node 26 says that /(?:[^]*?a^)*/ does not match the empty text.
if (Number.parseInt(process.versions.node, 10) >= 26) {
  setFlagsFromString('--no-regexp-quick-check');
}

const site = 'https://site.example';
const room = () => new PatternBudget(1 << 22);
const matches = (pattern: string, text: string) => new Patterns([pattern], room()).match(text);
const refuse = (exclude: readonly string[], isKept = false) =>
  refusePatterns({ include: [], exclude: [...exclude] }, isKept);

/** CPU ms that `work` takes. */
function cost(work: () => void): number {
  const before = process.cpuUsage();
  work();
  return cpuMsSince(before);
}

test('patterns: long links cost no more than short ones, a character', () => {
  const innocent = '^https?://.*/.*/.*/.*\\.pdf$';
  const links = Array.from({ length: 9 }, (_, i) => `${site}/${i}${'/x'.repeat(464)}`);
  const patterns = new Patterns([innocent], room());
  // JavaScript takes 32 s.
  assert.ok(cost(() => links.map((link) => patterns.match(link))) < 500);
  assert.ok(patterns.match(`${site}/a/b/c.pdf`));
});

test('patterns: texts that lead to ever new states cost time in bounds, and no memory', () => {
  let seed = 1;
  const random = () => {
    seed = (seed * 48_271) % 0x7fffffff;
    return seed & 1;
  };
  const text = () => `${site}/${Array.from({ length: 2_000 }, () => 'ab'[random()]).join('')}`;
  for (const pattern of ['a.{12}$', 'a.{300}b$', '(a|aa|b)*a.{100}/$', '(?:.?){200}/$']) {
    const automaton = new Automaton([pattern], 1 << 18);
    const ms = cost(() => {
      for (let i = 0; i < 20; i++) automaton.matches(text());
    });
    assert.ok(ms < 3_000, `${pattern}: ${ms} ms`);
    assert.ok(automaton.bytes < 600_000, `${pattern}: ${automaton.bytes} bytes`);
  }
});

test('patterns: what they say is what JavaScript says', () => {
  const texts = [
    'a',
    'ab/c',
    `${site}/`,
    `${site}/a.b-c_d?e=1&f=%20`,
    '',
    '[]^$-/\\',
    'A-Z',
    ':a:',
  ];
  const said = String.raw`
    a|b  ^a$  ^$  \.b  [^a]  [^/]+\/  \/\/  \d  \D  \w+\W  \s  \S  \bc\b  \Bc  .{3}  a{0}  (a)(b)?
    (?<name>a)b  (?:a|ab)/  \u0061  \u{62}  \x61  \x2F  [\u0061-c]  \cJ  [\b]  [^]  []  [^]{6}c
    [\]]  [\[]  [[]  [-a]  [a-]  [\-]  [$.^]
    \^\$  \\  \0  [\w.]+\?  a??b  a+?b  x{2,}|a  (|a)+b  (a*)*b
    [\s\S]  \?e=\d(&|$)  %20$  \p{L}  \P{L}  [\p{Lu}]  ^(?:(?:a|b)*)*$  \u{1f600}?a  ü  a{1000}|b
    (?<$n>a)  [&&]  [:a:]  [a[:a:]  \k  [^\d]  [\0-\u{10ffff}]`
    .trim()
    .split(/\s+/);
  for (const pattern of ['', ' ', ...said]) {
    let native: RegExp;
    try {
      native = new RegExp(pattern, 'u');
    } catch {
      continue;
    }
    refuse([pattern]);
    for (const text of texts) {
      assert.equal(matches(pattern, text), native.test(text), `${pattern} on ${text}`);
    }
  }
});

const atoms =
  'a b c / - . \\d \\w \\W \\b \\B ^ $ [ab] [^a/] [\\w-] \\/ \\u0061 [^] (?:) (?<n>a)'.split(' ');
const { pattern } = fc.letrec<{ pattern: string; piece: string }>((tie) => ({
  piece: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(...atoms),
    tie('pattern').map((inner) => `(${inner.replaceAll('?<n>', '')})`),
    fc
      .tuple(tie('pattern'), fc.constantFrom('*', '+', '?', '*?', '{2}', '{1,3}', '{2,}'))
      .map(([inner, times]) => `(?:${inner})${times}`),
  ),
  pattern: fc
    .array(fc.array(tie('piece'), { maxLength: 4 }), { minLength: 1, maxLength: 3 })
    .map((parts) => parts.map((pieces) => pieces.join('')).join('|')),
}));

test('patterns: any pattern and any URL as in JavaScript, alone and among others', () => {
  const text = fc.string({ unit: fc.constantFrom(...'abc/-._1A?'), maxLength: 24 });
  const check = (sources: readonly string[], texts: readonly string[]) => {
    const usable = sources.filter((source) => isRegExp(source));
    const natives = usable.map((source) => new RegExp(source, 'u'));
    const patterns = new Patterns(usable, room());
    for (const one of texts) {
      const said = patterns.match(one);
      const expected = nativeMatch(natives, one);
      fc.pre(expected !== undefined);
      assert.equal(said, expected, one);
    }
  };
  fc.assert(
    fc.property(
      fc.array(pattern, { minLength: 1, maxLength: 3 }),
      fc.array(text, { minLength: 1, maxLength: 8 }),
      check,
    ),
    { numRuns: 300 },
  );
});

const nativeSays = new Script('natives.some((native) => native.test(text))');
const nativeContext: { natives: readonly RegExp[]; text: string } = { natives: [], text: '' };
createContext(nativeContext);

/** What JavaScript says; nothing where it takes ages, as it does for one in some ten thousand. */
function nativeMatch(natives: readonly RegExp[], text: string): boolean | undefined {
  Object.assign(nativeContext, { natives, text });
  try {
    return nativeSays.runInContext(nativeContext, { timeout: 1_000 }) as boolean;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return undefined;
    throw error;
  }
}

function isRegExp(source: string): boolean {
  try {
    new RegExp(source, 'u');
    return true;
  } catch {
    return false;
  }
}

test('patterns: what JavaScript refuses and RE2 takes is read as RE2', () => {
  const url = `${site}/Shop/x`;
  for (const source of [
    '(?i)/SHOP/',
    '\\Ahttps',
    'x\\z',
    '\\Qsite.example\\E',
    '\\x{53}hop',
    '-\\-?',
  ]) {
    refuse([source]);
    assert.equal(matches(source, url), source !== '-\\-?', source);
  }
});

test('patterns: what RE2 cannot say is refused by its name, with the way round', () => {
  const table: readonly (readonly [string, RegExp])[] = [
    ['a(?!:)', /--exclude "a\(\?!:\)" has a negative lookahead, \(\?!:\): write \[\^:\]\* for/],
    ['a(?![0-9/])', /negative lookahead, \(\?!\[0-9\/\]\): write \[\^0-9\/\]\* for/],
    ['a(?!\\d)b', /write \[\^\\d\]\* for \(\?!\\d\)/],
    ['^https://x/(?!blog)', /negative lookahead, \(\?!blog\): remove it, and .* --exclude/],
    ['(?!(a|b)c)', /negative lookahead, \(\?!…\): remove it/],
    ['(?=.*a)', /has a lookahead, \(\?=\.\*a\): write what must follow .*a\.\*b\|b\.\*a/],
    ['(?<=/)a', /has a lookbehind, \(\?<=\/\): write what must precede/],
    ['(?<!/)a', /negative lookbehind, \(\?<!\/\): write \(\?:\^\|\[\^\/\]\) for/],
    ['(?<!\\.a)b', /negative lookbehind, .*: remove it/],
    ['/(.)/\\1/', /has a backreference, \\1: write out/],
    ['(?<a>.)\\k<a>', /has a backreference, \\k<a>: write out/],
    ['a{1001}', /has a count above 1000, \{1001\}: write \* or \+/],
    ['a{2,5000}', /has a count above 1000, \{2,5000\}/],
    ['(?:a{1000}){1000}', /too large.* 10000 steps/],
    ['(?:(?:a{500}){3}){500}', /too large/],
    ['\\p{Script=Greek}', /cannot be matched in linear time: .*Script=Greek/],
    ['(?:a{500}){4}', /cannot be matched in linear time: invalid repeat count/],
  ];
  for (const [source, says] of table) {
    const error = { code: 'E_BAD_REQUEST', message: says };
    assert.throws(() => refuse([source]), error, source);
    assert.throws(() => refuse(['a', source]), error, source);
    // A crawl may have it from before.
    if (isRegExp(source)) refuse([source], true);
    assert.equal(nativePatterns({ include: [source], exclude: [] }).length, 1, source);
  }
  const many = Array.from({ length: 100 }, (_, i) => `a{101}${i}`);
  assert.throws(() => refuse(many), /"a\{101\}\d+" makes the list too large/);
  refuse(many.slice(0, 90));
  for (const source of ['(', '[a', 'a**', '\\', ')', '*', '(?i)(?=a)', 'a{2,1}', '(?i)\\1']) {
    assert.throws(() => refuse([source], true), { code: 'E_BAD_REQUEST' }, source);
  }
  assert.throws(() => refuse(['('], true), /--exclude "\(" is not a regular expression: /);
  const long = 'x'.repeat(500);
  assert.throws(
    () => refuse([`${long}(?=a)`]),
    ({ message }: Error) => message.length < 300,
  );
});

test('patterns: those of an old crawl run as they did, on the first 512 characters', () => {
  const patterns = new Patterns(['^https://[^/]*/(?!blog/)', '/x$'], room());
  assert.equal(patterns.match(`${site}/shop/`), true);
  assert.equal(patterns.match(`${site}/blog/`), false);
  assert.equal(patterns.match(`${site}/blog/x`), true);
  const end = new Patterns(['(?<=/)z$'], room());
  const long = `${site}/${'a/'.repeat(nativeChars)}`;
  assert.equal(end.match(`${long.slice(0, nativeChars - 1)}z`), true);
  assert.equal(end.match(`${long.slice(0, nativeChars + 1)}z`), false);
});

test('patterns: a scope takes them as its own', () => {
  const spec = { scope: 'any' as const, include: ['/shop/'], exclude: ['(?i)\\.PDF$'] };
  const scope = new Scope(spec, {});
  assert.equal(scope.refuses(new URL(`${site}/shop/a`)), undefined);
  assert.equal(scope.refuses(new URL(`${site}/shop/a.pdf`)), 'exclude');
  assert.equal(scope.refuses(new URL(`${site}/`)), 'include');
});

test('patterns: all crawls together keep what there is room for', () => {
  const small = new PatternBudget(40_000);
  const all = Array.from({ length: 200 }, (_, i) => new Patterns([`/${i}/.*-${i}$`], small));
  for (let round = 0; round < 2; round++) {
    for (const [i, patterns] of all.entries()) {
      assert.equal(patterns.match(`${site}/${i}/a-${i}`), true);
      assert.equal(patterns.match(`${site}/${i}/a-x`), false);
      assert.ok(small.bytes <= 40_000, String(small.bytes));
    }
  }
});

test('patterns: many whose states multiply part into groups that have room', () => {
  const words = ['shop', 'blog', 'tag', 'cart', 'news', 'item', 'page', 'user', 'wiki', 'list'];
  const many = words.flatMap((a) => words.map((b) => `^https?://.*/${a}/.*-${b}$`));
  const natives = many.map((source) => new RegExp(source, 'u'));
  const patterns = new Patterns(many, room());
  let seed = 1;
  const pick = () => {
    seed = (seed * 48_271) % 0x7fffffff;
    return words[seed % words.length];
  };
  const urls = Array.from(
    { length: 3_000 },
    () => `${site}/${pick()}/${pick()}/${pick()}/x-${pick()}`,
  );
  for (const url of urls) {
    assert.equal(
      patterns.match(url),
      natives.some((native) => native.test(url)),
      url,
    );
  }
  const others = urls.map((url) => `${url}0`);
  for (const url of others) assert.equal(patterns.match(url), false);
  // Those of one group alone take 400 us a URL.
  const ms = cost(() => others.map((url) => patterns.match(url)));
  assert.ok(ms < 600, `${ms} ms`);
});

test('patterns: a translation is what RE2 takes', () => {
  const read = (source: string) => toRe2(source, true);
  assert.deepEqual(read('(?<a>x)(y)[\\b[]'), { re2: '(?:x)(?:y)[\\x08\\[]', steps: 3 });
  assert.deepEqual(read('\\u{1f600}[^]\\cA'), {
    re2: '\\x{1f600}[\\x00-\\x{10ffff}]\\x{1}',
    steps: 3,
  });
});

test('patterns: one of a path alone, which matches no URL, is refused where it is new', () => {
  for (const [source, better] of [
    ['^/private/', '^https?://[^/]+/private/'],
    ['^\\/private/', '^https?://[^/]+/private/'],
    ['^/(a|b[|]|\\|)/', '^https?://[^/]+/(a|b[|]|\\|)/'],
  ] as const) {
    const lists = { include: [], exclude: [source] };
    const why = `matches no URL, as each begins with http; write ${JSON.stringify(better)}`;
    assert.throws(
      () => refuseVain(lists),
      ({ message }: Error) => message.endsWith(why),
    );
    refuseVain(lists, lists);
  }
  refuseVain({ include: ['/^/', '^https?://[^/]+/a', '^/a|b'], exclude: ['^.*/b'] });
});

test('patterns: one with a letter that no URL has is refused where it is new', () => {
  for (const source of ['/über', '^https?://bücher\\.example/(a|b)', '(?i)/\\Qü\\E$', 'ü[ä]']) {
    const lists = { include: [source], exclude: [] };
    const why = 'write %C3%BC for ü (the name of a host begins with xn--)';
    assert.throws(
      () => refuseVain(lists),
      ({ message }: Error) => message.endsWith(`matches no URL, as they are ASCII; ${why}`),
    );
    refuseVain(lists, lists);
  }
  const exclude = ['/ü?ber', 'a|ü', '/(ü|u)ber', '[ü-]', '[^ü]', 'ü{0,2}', '/(ü)?$', '/%C3%BC'];
  refuseVain({ include: [], exclude });
});
