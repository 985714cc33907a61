/**
 * robots.txt against the text of RFC 9309: every example of sections 2.2.x and 5, further cases by
 * section. Properties and hostile files are in robots-model.test.ts.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseRobots, type Robots, robotsBytesMax } from '../../master/frontier/robots/parser.ts';

const parse = (text: string, token = 'ExampleBot'): Robots =>
  parseRobots(Buffer.from(text, 'utf8'), token);

type Case = { name: string; file: string; token?: string; yes?: string[]; no?: string[] };

/** `yes` are allowed, `no` are not. */
function check(section: string, cases: Case[]): void {
  for (const { name, file, token, yes = [], no = [] } of cases) {
    test(`robots: ${section} ${name}`, () => {
      const robots = parse(file, token);
      for (const path of yes) assert.equal(robots.allows(path), true, `${path} is allowed`);
      for (const path of no) assert.equal(robots.allows(path), false, `${path} is disallowed`);
    });
  }
}

/** One rule for all robots. */
const rule = (line: string): string => `User-agent: *\n${line}\n`;
const only = (pattern: string): string => rule(`Disallow: /\nAllow: ${pattern}`);

const simple = `User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot
`;

check('example', [
  {
    name: 'figure 1: the token of the User-Agent header names the group',
    file: 'user-agent: ExampleBot\ndisallow: /foo',
    yes: ['/bar'],
    no: ['/foo'],
  },
  {
    name: 'figure 2: two groups of one token are one',
    file: 'user-agent: ExampleBot\ndisallow: /foo\ndisallow: /bar\n\nuser-agent: ExampleBot\ndisallow: /baz\n',
    yes: ['/', '/qux'],
    no: ['/foo', '/bar', '/baz'],
  },
  {
    name: 'figure 3: no group matches but the *',
    file: 'user-agent: *\ndisallow: /foo\ndisallow: /bar\n\nuser-agent: BazBot\ndisallow: /baz\n',
    yes: ['/baz'],
    no: ['/foo', '/bar'],
  },
  { name: 'figure 4: row 1', file: only('/foo/bar?baz=quz'), yes: ['/foo/bar?baz=quz'] },
  {
    name: 'figure 4: row 2, reserved characters in a query',
    file: only('/foo/bar?baz=https://foo.bar'),
    yes: ['/foo/bar?baz=https://foo.bar', '/foo/bar?baz=https%3A%2F%2Ffoo.bar'],
    no: ['/foo/bar?baz=http'],
  },
  {
    name: 'figure 4: row 2, the other way round',
    file: only('/foo/bar?baz=https%3A%2F%2Ffoo.bar'),
    yes: ['/foo/bar?baz=https://foo.bar', '/foo/bar?baz=https%3a%2f%2ffoo.bar'],
  },
  {
    name: 'figure 4: row 3, UTF-8 in the file',
    file: only('/foo/bar/ツ'),
    yes: ['/foo/bar/ツ', '/foo/bar/%E3%83%84', '/foo/bar/%e3%83%84'],
    no: ['/foo/bar/%E3%83%83'],
  },
  {
    name: 'figure 4: row 4, UTF-8 encoded in the file',
    file: only('/foo/bar/%E3%83%84'),
    yes: ['/foo/bar/ツ', '/foo/bar/%E3%83%84'],
  },
  {
    name: 'figure 4: row 5, unreserved characters encoded',
    file: only('/foo/bar/%62%61%7A'),
    yes: ['/foo/bar/baz', '/foo/bar/%62%61%7A', '/foo/bar/b%61z'],
    no: ['/foo/bar/ba'],
  },
  {
    name: 'figure 5: # begins a comment',
    file: rule('# comment on its own line\nDisallow: / # in line\nAllow: /a # comment'),
    yes: ['/a'],
    no: ['/b'],
  },
  {
    name: 'figure 5: $ ends the pattern',
    file: only('/this/path/exactly$'),
    yes: ['/this/path/exactly'],
    no: ['/this/path/exactly/', '/this/path/exactly?a', '/this/path/exactl'],
  },
  {
    name: 'figure 5: * stands for any characters',
    file: only('/this/*/exactly'),
    yes: ['/this/path/exactly', '/this//exactly', '/this/a/b/exactly/c'],
    no: ['/this/exactly', '/that/a/exactly'],
  },
  {
    name: 'figure 6: %2A is a star',
    file: only('/path/file-with-a-%2A.html'),
    yes: ['/path/file-with-a-*.html', '/path/file-with-a-%2a.html'],
    no: ['/path/file-with-a-x.html', '/path/file-with-a-.html'],
  },
  {
    name: 'figure 6: %24 is a dollar sign',
    file: only('/path/foo-%24'),
    yes: ['/path/foo-$', '/path/foo-%24', '/path/foo-$x'],
    no: ['/path/foo-'],
  },
  {
    name: '5.1: the group of all',
    file: simple,
    token: 'otherbot',
    yes: ['/', '/publications/', '/publications/a', '/a.gif?x', '/a.gift'],
    no: ['/example/', '/example/a', '/a.gif'],
  },
  {
    name: '5.1: foobot',
    file: simple,
    token: 'foobot',
    yes: ['/example/page.html', '/example/allowed.gif', '/example/page.html?a'],
    no: ['/', '/publications/', '/example/', '/a.gif'],
  },
  {
    name: '5.1: barbot',
    file: simple,
    token: 'barbot',
    yes: ['/', '/a.gif', '/example/'],
    no: ['/example/page.html'],
  },
  {
    name: '5.1: bazbot',
    file: simple,
    token: 'bazbot',
    yes: ['/', '/a.gif', '/example/'],
    no: ['/example/page.html', '/example/page.html.gz'],
  },
  {
    name: '5.1: quxbot, an empty group at the end',
    file: simple,
    token: 'quxbot',
    yes: ['/', '/example/page.html', '/a.gif'],
  },
  {
    name: '5.2: the longest match',
    file: 'User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n',
    token: 'foobot',
    yes: ['/example/page/', '/example/page/a', '/example/page/disallow.gif'],
    no: ['/example/page/disallowed.gif'],
  },
]);

check('2.2.1', [
  { name: 'no file, no rules', file: '', yes: ['/', '/a'] },
  { name: 'no group, no rules', file: 'Disallow: /\n', yes: ['/a'] },
  { name: 'no group for us', file: 'User-agent: other\nDisallow: /', yes: ['/a'] },
  { name: 'tokens without case', file: 'USER-AGENT: eXaMpLeBoT\nDISALLOW: /a', no: ['/a'] },
  {
    name: 'our own token without case',
    file: 'user-agent: examplebot\ndisallow: /a',
    token: 'EXAMPLEBOT',
    no: ['/a'],
  },
  {
    name: 'our group, not the *',
    file: 'User-agent: *\nDisallow: /\nUser-agent: ExampleBot\nDisallow: /a',
    yes: ['/b'],
    no: ['/a'],
  },
  {
    name: 'our group stands first',
    file: 'User-agent: ExampleBot\nDisallow: /a\nUser-agent: *\nDisallow: /',
    yes: ['/b'],
    no: ['/a'],
  },
  {
    name: 'our empty group keeps the * away',
    file: 'User-agent: *\nDisallow: /\nUser-agent: ExampleBot\n',
    yes: ['/b'],
  },
  { name: 'a token is no prefix', file: 'User-agent: Example\nDisallow: /', yes: ['/a'] },
  { name: 'a longer token is another', file: 'User-agent: ExampleBotX\nDisallow: /', yes: ['/a'] },
  ...['2', ';', ',OtherBot', '(x)', '.', '*', 'é', ' 1', '/', ':x'].map((tail) => ({
    name: `what is behind the token is cut: ${tail}`,
    file: `User-agent: ExampleBot${tail}\nDisallow: /`,
    no: ['/a'],
  })),
  {
    name: 'only the first of a list counts',
    file: 'User-agent: OtherBot,ExampleBot\nDisallow: /',
    yes: ['/a'],
  },
  ...['*x', '*/2', '*,', '**', '2ExampleBot', '"ExampleBot"', '@'].map((agent) => ({
    name: `neither ours nor all: ${agent}`,
    file: `User-agent: ${agent}\nDisallow: /`,
    yes: ['/a'],
  })),
  ...['* x', '*\tx', '*\f', '*\v'].map((agent) => ({
    name: `all: ${JSON.stringify(agent)}`,
    file: `User-agent: ${agent}\nDisallow: /`,
    no: ['/a'],
  })),
  {
    name: 'a hyphen is',
    file: 'User-agent: Example-Bot_x\nDisallow: /',
    token: 'example-bot_x',
    no: ['/a'],
  },
  {
    name: 'a version behind it is cut',
    file: 'User-agent: ExampleBot/2.1\nDisallow: /',
    no: ['/a'],
  },
  { name: 'a word behind it too', file: 'User-agent: ExampleBot images\nDisallow: /', no: ['/a'] },
  { name: 'a comment behind it', file: 'User-agent: ExampleBot# us\nDisallow: /', no: ['/a'] },
  {
    name: 'several agents, one group',
    file: 'User-agent: a\nUser-agent: ExampleBot\nUser-agent: b\nDisallow: /a',
    no: ['/a'],
  },
  {
    name: 'empty lines and comments part no group',
    file: 'User-agent: ExampleBot\n\n# x\n\nUser-agent: b\n\n\nDisallow: /a\n\nDisallow: /b',
    no: ['/a', '/b'],
  },
  {
    name: 'groups of * are merged',
    file: 'User-agent: *\nDisallow: /a\nUser-agent: x\nDisallow: /b\nUser-agent: *\nDisallow: /c',
    yes: ['/b'],
    no: ['/a', '/c'],
  },
  {
    name: 'one group for us and for all',
    file: 'User-agent: *\nUser-agent: ExampleBot\nDisallow: /a\nUser-agent: *\nDisallow: /b',
    yes: ['/b'],
    no: ['/a'],
  },
  {
    name: 'an agent that is no token still opens a group',
    file: 'User-agent: ExampleBot\nDisallow: /a\nUser-agent: %!\nDisallow: /b',
    yes: ['/b'],
    no: ['/a'],
  },
  {
    name: 'an agent without a name too',
    file: 'User-agent: *\nDisallow: /a\nUser-agent:\nDisallow: /b',
    yes: ['/b'],
    no: ['/a'],
  },
  {
    name: 'an empty rule ends the list of agents',
    file: 'User-agent: ExampleBot\nDisallow:\nUser-agent: x\nDisallow: /',
    yes: ['/a'],
  },
  {
    name: 'names of objects are only names',
    file: 'User-agent: __proto__\nDisallow: /\nUser-agent: constructor\nDisallow: /',
    yes: ['/a'],
  },
]);

check('2.2.2', [
  { name: 'no match allows', file: rule('Disallow: /a'), yes: ['/', '/b', '/A'] },
  { name: 'case counts', file: rule('Disallow: /Fish'), yes: ['/fish'], no: ['/Fish', '/Fishing'] },
  { name: 'a match begins at the first octet', file: rule('Disallow: /a'), yes: ['/b/a'] },
  { name: 'Allow wins a tie', file: rule('Disallow: /a\nAllow: /a'), yes: ['/a'] },
  { name: 'in either order', file: rule('Allow: /a\nDisallow: /a'), yes: ['/a'] },
  {
    name: 'with wildcards too',
    file: rule('Allow: /*b\nDisallow: /*b\nDisallow: /a'),
    yes: ['/ab'],
  },
  {
    name: 'a tie of a literal and a wildcard',
    file: rule('Disallow: /ab\nAllow: /a*'),
    yes: ['/ab', '/ac'],
  },
  { name: 'the octets of a star count', file: rule('Allow: /ab\nDisallow: /ab*'), no: ['/ab'] },
  {
    name: 'and of a dollar sign',
    file: rule('Allow: /a\nDisallow: /a$'),
    yes: ['/ab'],
    no: ['/a'],
  },
  {
    name: 'octets count after encoding',
    file: rule('Allow: /ツ\nDisallow: /%E3%83%84'),
    yes: ['/ツ'],
  },
  {
    name: 'the order of rules does not count',
    file: rule('Disallow: /\nAllow: /a/\nDisallow: /a/b\nAllow: /a/b/c'),
    yes: ['/a/', '/a/b/c', '/a/x'],
    no: ['/', '/b', '/a/b', '/a/b/'],
  },
  { name: 'an empty Disallow allows', file: rule('Disallow:'), yes: ['/', '/a'] },
  { name: 'an empty Disallow with a comment', file: rule('Disallow:   # none'), yes: ['/a'] },
  { name: 'an empty Allow says nothing', file: rule('Allow:\nDisallow: /a'), no: ['/a'] },
  {
    name: 'an empty Disallow takes nothing back',
    file: rule('Disallow: /a\nDisallow:'),
    no: ['/a'],
  },
  { name: '/robots.txt is allowed', file: rule('Disallow: /'), yes: ['/robots.txt'], no: ['/'] },
  {
    name: '/robots.txt is allowed against its own rule',
    file: rule('Disallow: /robots.txt'),
    yes: ['/robots.txt'],
    no: ['/robots.txt.bak', '/robots.txt?a'],
  },
  {
    name: 'rules before the first group are ignored',
    file: 'Disallow: /a\nAllow: /\nUser-agent: *\nDisallow: /b',
    yes: ['/a'],
    no: ['/b'],
  },
  { name: '/%66oo is /foo in the file', file: rule('Disallow: /%66oo'), no: ['/foo', '/%66oo'] },
  { name: '/%66oo is /foo in the URL', file: rule('Disallow: /foo'), no: ['/%66oo', '/fo%6F'] },
  { name: '%7E is ~', file: rule('Disallow: /~joe/'), no: ['/%7Ejoe/x', '/%7ejoe/'] },
  {
    name: 'hex digits have no case',
    file: rule('Disallow: /a%3cd'),
    no: ['/a%3Cd', '/a%3cd.html'],
  },
  { name: '%2F is no slash', file: rule('Disallow: /a%2fb'), yes: ['/a/b'], no: ['/a%2Fb'] },
  { name: 'nor the other way round', file: rule('Disallow: /a/b'), yes: ['/a%2Fb'] },
  { name: '%3F begins no query', file: rule('Disallow: /a?b'), yes: ['/a%3Fb'], no: ['/a?b'] },
  { name: '%23 is no comment', file: rule('Disallow: /a%23b'), yes: ['/a'], no: ['/a%23b'] },
  { name: '%25 is a percent sign', file: rule('Disallow: /a%2562'), yes: ['/ab'], no: ['/a%2562'] },
  {
    name: 'a percent sign alone',
    file: rule('Disallow: /100%'),
    no: ['/100%', '/100%25', '/100%zz'],
  },
  {
    name: 'other characters equal their escapes',
    file: rule('Disallow: /a|{b}'),
    no: ['/a%7C%7Bb%7D'],
  },
  {
    name: 'an apostrophe, which URLs escape in a query',
    file: rule("Disallow: /a?b='"),
    no: ['/a?b=%27'],
  },
  { name: 'a query is part of the path', file: rule('Disallow: /a?'), yes: ['/a'], no: ['/a?b=c'] },
  { name: 'a slash in a query', file: rule('Disallow: /*/admin'), no: ['/x?next=/admin'] },
  { name: 'octets that are no UTF-8 in a URL', file: rule('Disallow: /%FF'), no: ['/%ff%fe'] },
  { name: 'a path without its slash', file: rule('Disallow: /a\nDisallow: /$'), no: ['a', ''] },
  { name: 'a fragment is no part of it', file: rule('Disallow: /a$'), no: ['/a#b'] },
]);

check('2.2.3', [
  {
    name: 'a star at the end adds nothing',
    file: rule('Disallow: /fish*'),
    yes: ['/Fish'],
    no: ['/fish', '/fish/a'],
  },
  {
    name: 'a star at the start',
    file: rule('Disallow: *.php'),
    yes: ['/a.html'],
    no: ['/a.php', '/b/c.php?d'],
  },
  { name: 'a star alone', file: rule('Disallow: *'), no: ['/', '/a'] },
  {
    name: 'a star and the end',
    file: rule('Disallow: /*.php$'),
    yes: ['/a.php?x', '/a.php/', '/a.php5'],
    no: ['/a.php', '/b/a.php'],
  },
  { name: 'star, then the end: any', file: rule('Disallow: /a*$'), no: ['/a', '/ab/c'] },
  { name: 'the first fit is not the last', file: rule('Disallow: /*ab$'), no: ['/abxab', '/ab'] },
  {
    name: 'parts do not overlap',
    file: rule('Disallow: /ab*ba$'),
    yes: ['/aba'],
    no: ['/abba', '/abxba'],
  },
  { name: 'stars in a row', file: rule('Disallow: /a***b'), yes: ['/a'], no: ['/ab', '/axxb'] },
  {
    name: 'several stars',
    file: rule('Disallow: /*a*b*c'),
    yes: ['/cba', '/ab'],
    no: ['/abc', '/xaybzc'],
  },
  { name: 'the root alone', file: rule('Disallow: /$'), yes: ['/a', '/?a'], no: ['/'] },
  {
    name: 'a dollar sign inside is a character',
    file: rule('Disallow: /a$b'),
    yes: ['/a'],
    no: ['/a$b', '/a%24b'],
  },
  {
    name: 'two at the end: one is',
    file: rule('Disallow: /a$$'),
    yes: ['/a', '/a$b'],
    no: ['/a$'],
  },
  {
    name: 'a dollar sign before a comment',
    file: rule('Disallow: /a$ # end'),
    yes: ['/ab'],
    no: ['/a'],
  },
  {
    name: 'a star that is a character',
    file: rule('Disallow: /a%2Ab'),
    yes: ['/axb', '/ab'],
    no: ['/a*b'],
  },
  { name: 'a star in the URL is one character', file: rule('Disallow: /a/b'), yes: ['/a*b', '/*'] },
  {
    name: 'a long part after a star',
    file: rule(`Disallow: /*${'ab'.repeat(20)}c`),
    yes: [`/${'ab'.repeat(25)}`],
    no: [`/${'ab'.repeat(25)}c`],
  },
]);

check('2.2.4', [
  {
    name: 'a Sitemap does not end the agents',
    file: 'User-agent: ExampleBot\nSitemap: http://a/s\nUser-agent: b\nDisallow: /a',
    no: ['/a'],
  },
  {
    name: 'nor does a Crawl-delay',
    file: 'User-agent: ExampleBot\nCrawl-delay: 5\nUser-agent: b\nDisallow: /a',
    no: ['/a'],
  },
  {
    name: 'nor what nobody knows',
    file: 'User-agent: ExampleBot\nHost: a\nClean-param: b /\nUser-agent: b\nDisallow: /a',
    no: ['/a'],
  },
  {
    name: 'nor do they end the rules',
    file: 'User-agent: ExampleBot\nDisallow: /a\nSitemap: http://a/s\nDisallow: /b',
    no: ['/a', '/b'],
  },
  {
    name: 'lines that are no record are skipped',
    file: rule('Disallow/a\nnonsense\n:\nDisallow: /b'),
    yes: ['/a'],
    no: ['/b'],
  },
  {
    name: 'keys with more letters are other keys',
    file: rule('Disallowed: /a\nXDisallow: /b\nAllow-x: /'),
    yes: ['/a', '/b'],
  },
]);

check('2.2, 2.3.1.5, 2.5', [
  {
    name: 'CR ends a line',
    file: 'User-agent: *\rDisallow: /a\rDisallow: /b\r',
    yes: ['/c'],
    no: ['/a', '/b'],
  },
  {
    name: 'CRLF ends a line',
    file: 'User-agent: *\r\nDisallow: /a\r\n\r\nDisallow: /b\r\n',
    yes: ['/c'],
    no: ['/a', '/b'],
  },
  {
    name: 'all three in one file',
    file: 'User-agent: *\r\nDisallow: /a\rDisallow: /b\nAllow: /bc',
    yes: ['/bc'],
    no: ['/a', '/b'],
  },
  { name: 'no end of line at the end', file: 'User-agent: *\nDisallow: /a', no: ['/a'] },
  { name: 'a byte order mark', file: '\uFEFFUser-agent: *\nDisallow: /a', no: ['/a'] },
  {
    name: 'spaces and tabs',
    file: ' \tUser-agent\t :\t * \t\n\t disallow \t:\t /a \t \n',
    yes: ['/b'],
    no: ['/a', '/ab'],
  },
  { name: 'no space at all', file: 'User-agent:*\nDisallow:/a', no: ['/a'] },
  { name: 'a space in a path', file: rule('Disallow: /a b'), yes: ['/a'], no: ['/a%20b', '/a b'] },
  {
    name: 'a path must begin with a slash',
    file: rule('Disallow: a\nDisallow: http://x/b\nDisallow: ?c'),
    yes: ['/a', '/b', '/?c'],
  },
  {
    name: 'a control character spoils its line only',
    file: rule('Disallow: /a\u0001\nDisallow: /b'),
    yes: ['/a'],
    no: ['/b'],
  },
  {
    name: 'a page instead of a file',
    file: '<!doctype html>\n<p>User-agent: *</p>\n<p>Disallow: /',
    yes: ['/'],
  },
  {
    name: 'a line beyond 64 KiB',
    file: rule(`Disallow: /${'a'.repeat(70_000)}\nDisallow: /b`),
    yes: ['/a'],
    no: ['/b'],
  },
]);

test('robots: 2.2.2 a file in Latin-1 is bridged to URLs in Latin-1', () => {
  const robots = parseRobots(Buffer.from('User-agent: *\nDisallow: /caf\xe9', 'latin1'), 'x');
  assert.equal(robots.allows('/caf%E9'), false);
  assert.equal(robots.allows('/caf%C3%A9'), true);
});

test('robots: 2.2.4 sitemaps belong to the file, not to a group', () => {
  const file = `sitemap: http://a/1 # x\nUser-agent: other\nSITEMAP:http://a/2\nDisallow: /\nSitemap: /é\nSitemap:\nSitemap: http://a/2\n`;
  const robots = parse(file);
  assert.deepEqual(robots.sitemaps, ['http://a/1', 'http://a/2', '/é']);
  assert.equal(parse('Sitemap: http://a/x\n'.repeat(3)).sitemaps.length, 1);
  const many = Array.from({ length: 5000 }, (_, at) => `Sitemap: http://a/${at}`).join('\n');
  assert.equal(parse(many).sitemaps.length, 1000);
});

test('robots: Crawl-delay is the group’s, the longest counts, nonsense does not', () => {
  const delay = (text: string, token?: string) => parse(text, token).crawlDelayMs;
  assert.equal(delay(rule('Crawl-delay: 10')), 10_000);
  assert.equal(delay(rule('crawl-DELAY : 0.25 # s')), 250);
  assert.equal(delay(rule('Crawl-delay: .5')), 500);
  assert.equal(delay(rule('Disallow: /a\nCrawl-delay: 2\nCrawl-delay: 1')), 2000);
  assert.equal(delay(rule('Crawl-delay: 999999999')), 86_400_000);
  for (const bad of ['', '-1', 'x', '1e3', '0x10', 'Infinity', '1 2', '1,5', '9'.repeat(400)])
    assert.equal(delay(rule(`Crawl-delay: ${bad}`)), undefined, bad);
  assert.equal(delay('Crawl-delay: 5\nUser-agent: *\nDisallow: /'), undefined);
  const two = 'User-agent: a\nCrawl-delay: 1\nDisallow: /\nUser-agent: b\nCrawl-delay: 2\n';
  assert.equal(delay(two, 'a'), 1000);
  assert.equal(delay(two, 'b'), 2000);
  assert.equal(delay(two, 'c'), undefined);
  // One group: the record between its agents is for both.
  const shared = 'User-agent: a\nCrawl-delay: 1\nUser-agent: b\nDisallow: /\n';
  assert.equal(delay(shared, 'a'), 1000);
  assert.equal(delay(shared, 'b'), 1000);
  assert.equal(delay(rule('Crawl-delay: 0.1')), 100);
});

test('robots: 2.5 500 KiB are read, the line that is cut is not', () => {
  const head = 'User-agent: *\nDisallow: /first\n';
  const last = 'Disallow: /last\n';
  const fill = (bytes: number) => `#${'x'.repeat(bytes - 2)}\n`;
  const exact = head + fill(robotsBytesMax - head.length - last.length) + last;
  assert.equal(exact.length, robotsBytesMax);
  assert.equal(parse(`${exact}Disallow: /beyond\n`).allows('/last'), false);
  assert.equal(parse(`${exact}Disallow: /beyond\n`).allows('/beyond'), true);
  // Cut within `/last/page`: half of it would forbid more than was meant.
  const cut = `${exact.slice(0, -1)}/page\n`;
  assert.equal(parse(cut).allows('/last/page'), true);
  assert.equal(parse(cut).allows('/first'), false);
  // The line is whole, only its end is beyond.
  const whole = `${head}${fill(robotsBytesMax - head.length - last.length + 1)}${last}`;
  assert.equal(parse(whole).allows('/last'), false);
});

test('robots: a file in UTF-16 is read by its mark, whole or cut within a character', () => {
  const text = '\uFEFFUser-agent: *\nDisallow: /a\nDisallow: /ツ\nSitemap: http://x/s.xml\n';
  const little = Buffer.from(text, 'utf16le');
  const big = Buffer.from(little).swap16();
  for (const file of [little, big, Buffer.concat([little, Buffer.of(0x2f)])]) {
    const robots = parseRobots(file, 'ExampleBot');
    assert.deepEqual(
      ['/a', '/%E3%83%84', '/b'].map((path) => robots.allows(path)),
      [false, false, true],
    );
    assert.deepEqual(robots.sitemaps, ['http://x/s.xml']);
  }
  for (const file of [Buffer.of(0xff, 0xfe), Buffer.of(0xfe, 0xff, 0x2f), Buffer.of(0xff)])
    assert.equal(parseRobots(file, 'ExampleBot').allows('/a'), true);
});
