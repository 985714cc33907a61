/** Lines of a robots.txt that no RFC has, as Google's matcher reads them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseRobots, type Robots } from '../../master/frontier/robots/parser.ts';

const parse = (text: string): Robots => parseRobots(Buffer.from(text, 'utf8'), 'ExampleBot');

type Case = { name: string; file: string; yes?: string[]; no?: string[] };

/** `yes` are allowed, `no` are not. */
function check(cases: Case[]): void {
  for (const { name, file, yes = [], no = [] } of cases) {
    test(`robots lines: ${name}`, () => {
      const robots = parse(file);
      for (const path of yes) assert.equal(robots.allows(path), true, `${path} is allowed`);
      for (const path of no) assert.equal(robots.allows(path), false, `${path} is disallowed`);
    });
  }
}

/** One rule for all robots. */
const rule = (line: string): string => `User-agent: *\n${line}\n`;

check([
  { name: 'without a colon', file: 'User-agent ExampleBot\nDisallow\t \t/a', no: ['/a'] },
  { name: 'three words are no line', file: 'User-agent: *\nDisallow /a b', yes: ['/a', '/a%20b'] },
  { name: 'one word is none', file: 'User-agent: *\nDisallow\nDisallow/a', yes: ['/a'] },
  { name: 'a comment is no word', file: 'User-agent * # all\nDisallow /a # b', no: ['/a'] },
  { name: 'a colon ends the key', file: 'User-agent: *\nDisallow /a:/b', yes: ['/a'], no: ['/b'] },
  { name: 'a colon in a comment does not', file: 'User-agent: *\nDisallow /a #:b', no: ['/a'] },
  {
    name: 'a NUL ends a line',
    file: 'User-agent: *\0\nDisallow: /a\0b\nDisallow\0: /',
    yes: ['/b'],
    no: ['/a'],
  },
  { name: 'no key', file: 'User-agent: *\n: /a\n:Disallow: /b', yes: ['/a', '/b'] },
  { name: 'an agent that is only cut', file: 'User-agent *x\nDisallow: /', yes: ['/a'] },
  ...['useragent', 'User Agent', 'USER-AGENT x'].map((key) => ({
    name: `agents by ${key}`,
    file: `${key}: ExampleBot\nDisallow: /`,
    no: ['/a'],
  })),
  ...['dissallow', 'Dissalow', 'disalow', 'diasllow', 'disallaw', 'Disallow x'].map((key) => ({
    name: `disallowed by ${key}`,
    file: rule(`${key}: /a\nAllow: /ab`),
    yes: ['/ab', '/b'],
    no: ['/a'],
  })),
  {
    name: 'other words',
    file: rule('Disalllow: /a\nNodisallow: /b\nDis: /c'),
    yes: ['/a', '/b', '/c'],
  },
]);

test('robots lines: Sitemap and Crawl-delay without a colon', () => {
  const robots = parse('User-agent *\nCrawl-delay 2\nSitemap /s.xml\nSite-map: /t.xml');
  assert.deepEqual([robots.crawlDelayMs, robots.sitemaps], [2000, ['/s.xml', '/t.xml']]);
  // The colon of the scheme is the first one.
  assert.deepEqual(parse('Sitemap http://a/s').sitemaps, ['//a/s']);
});
