/** robots.txt against a plain model of the matching, and against files made to hurt. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseRobots, type Robots, robotsBytesMax } from '../../master/frontier/robots/parser.ts';
import { cpuMsSince } from '../support/cpu-time.ts';

const parse = (text: string): Robots => parseRobots(Buffer.from(text, 'utf8'), 'ExampleBot');

/** One rule for all robots. */
const rule = (line: string): string => `User-agent: *\n${line}\n`;

/** The plainest matching there is: a table over both strings. */
function model(pattern: string, path: string): boolean {
  const anchored = pattern.endsWith('$');
  const body = anchored ? pattern.slice(0, -1) : `${pattern}*`;
  let row = Array.from({ length: path.length + 1 }, (_, at) => at === 0);
  for (const char of body) {
    const next: boolean[] = [];
    for (let at = 0; at <= path.length; at++)
      next[at] =
        char === '*'
          ? row[at] === true || (at > 0 && next[at - 1] === true)
          : at > 0 && row[at - 1] === true && path[at - 1] === char;
    row = next;
  }
  return row[path.length] === true;
}

test('robots: matching equals a plain model', () => {
  const piece = (chars: string) => fc.string({ unit: fc.constantFrom(...chars), maxLength: 8 });
  const pattern = fc
    .tuple(piece('ab/*'), piece('ab*'), fc.constantFrom('', '$'))
    .map(([a, b, end]) => `/${a}${b}${end}`);
  const rules = fc.array(fc.record({ pattern, allow: fc.boolean() }), { maxLength: 12 });
  fc.assert(
    fc.property(rules, fc.array(piece('ab/'), { maxLength: 8 }), (list, paths) => {
      const lines = list.map((r) => `${r.allow ? 'Allow' : 'Disallow'}: ${r.pattern}`);
      const robots = parse(rule(lines.join('\n')));
      for (const path of paths.map((p) => `/${p}`)) {
        const hits = list.filter((r) => model(r.pattern, path));
        const most = Math.max(0, ...hits.map((r) => r.pattern.length));
        const best = hits.filter((r) => r.pattern.length === most);
        const expected = best.length === 0 || best.some((r) => r.allow);
        assert.equal(robots.allows(path), expected, `${path} of ${lines.join(' ')}`);
      }
    }),
    { numRuns: 2000 },
  );
});

test('robots: long parts are found as indexOf finds them', () => {
  const unit = fc.constantFrom('a', 'b');
  fc.assert(
    fc.property(
      fc.string({ unit, minLength: 17, maxLength: 40 }),
      fc.string({ unit, maxLength: 200 }),
      fc.boolean(),
      (part, path, inside) => {
        const text = inside ? `${path}${part}${path}` : path;
        assert.equal(parse(rule(`Disallow: /*${part}`)).allows(`/${text}`), !text.includes(part));
      },
    ),
    { numRuns: 2000 },
  );
});

test('robots: an encoded spelling of a path gets the same answer', () => {
  const path = fc.string({ unit: fc.constantFrom(..."aZ9-._~é|{ツ' "), maxLength: 12 });
  fc.assert(
    fc.property(path, path, (text, more) => {
      const hex = (s: string) =>
        [...Buffer.from(s)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
      const trimmed = `/${text}`.trimEnd();
      for (const spelling of [trimmed, `/${hex(trimmed.slice(1))}`]) {
        const robots = parse(rule(`Disallow: ${spelling}`));
        assert.equal(robots.allows(trimmed + more), false);
        assert.equal(robots.allows(`/${hex(trimmed.slice(1) + more)}`), false);
        assert.equal(robots.allows(new URL(`http://x${trimmed}y`).pathname), false);
      }
    }),
  );
});

test('robots: no bytes make it throw, and what is kept is kept', () => {
  const words = fc.constantFrom(
    ...['User-agent:', 'Disallow:', 'Allow:', 'Sitemap:', 'Crawl-delay:', '*', 'ExampleBot', '/a'],
    ...[
      '/%6',
      '%',
      '$',
      '#',
      '?',
      '/',
      '\r',
      '\n',
      '\r\n',
      ' ',
      '\t',
      '\u0000',
      'é',
      '\uFEFF',
      '1',
    ],
  );
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 300 }),
    fc.array(words, { maxLength: 60 }).map((list) => new Uint8Array(Buffer.from(list.join('')))),
  );
  fc.assert(
    fc.property(bytes, fc.string({ unit: 'binary', maxLength: 40 }), (file, path) => {
      const robots = parseRobots(file, 'ExampleBot');
      const again = parseRobots(file, 'ExampleBot');
      for (const each of [path, '/a?/b']) assert.equal(again.allows(each), robots.allows(each));
      assert.ok((robots.crawlDelayMs ?? 0) >= 0);
    }),
    { numRuns: 5000 },
  );
});

test('robots: a file made to hurt costs little time for any path', () => {
  const fill = (line: (at: number) => string) => {
    const lines = ['User-agent: *'];
    for (let at = 0, size = 0; size < robotsBytesMax; at++)
      size += lines.push(line(at)) && line(at).length + 1;
    return lines.join('\n');
  };
  const path = `/${'a'.repeat(4095)}`;
  const bombs = {
    stars: fill(() => `Disallow: /*${'a*'.repeat(2000)}b$`),
    manyStars: fill((at) => `Disallow: *a*a*a*a*${at}b`),
    short: fill(() => 'Disallow:*aaaab'),
    overlap: fill((at) => `Disallow:*${'a'.repeat(14)}${at % 7}b`),
    long: fill(() => `Disallow: *${'a'.repeat(2000)}b`),
    oneLine: `User-agent: *\nDisallow: /${'*'.repeat(robotsBytesMax - 100)}b`,
    lengths: fill((at) => `Disallow: /${'b'.repeat(at)}`),
  };
  for (const [name, file] of Object.entries(bombs)) {
    const started = process.cpuUsage();
    parse(file).allows(path);
    // Minutes if anything backtracks or is quadratic; the bound is loose for a busy machine.
    assert.ok(cpuMsSince(started) < 2_000, name);
  }
});
