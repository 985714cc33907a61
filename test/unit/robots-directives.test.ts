import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { type RobotsDirective, robotsDirectives } from '../../shared/crawl.ts';
import {
  addDirectives,
  addHeaderDirectives,
  isForUs,
  listed,
} from '../../slave/extract/robots-directives.ts';

const token = 'orbweaver';

function meta(content: string): string {
  const found = new Set<RobotsDirective>();
  addDirectives(found, content);
  return (listed(found) ?? []).join(' ');
}

function header(...fields: string[]): string {
  const found = new Set<RobotsDirective>();
  for (const field of fields) addHeaderDirectives(found, field, token);
  return (listed(found) ?? []).join(' ');
}

const contents: readonly (readonly [content: string, directives: string])[] = [
  ['noindex', 'noindex'],
  ['noindex, nofollow', 'noindex nofollow'],
  ['NoIndex,NOFOLLOW', 'noindex nofollow'],
  [' noindex ,\n\tnofollow ', 'noindex nofollow'],
  ['nofollow noindex', 'noindex nofollow'],
  ['nofollow,nofollow', 'nofollow'],
  ['none', 'noindex nofollow'],
  ['none, noarchive', 'noindex nofollow noarchive'],
  ['nocache', 'noarchive'],
  ['noimageindex, nosnippet, notranslate', 'nosnippet noimageindex notranslate'],
  ['noai, noimageai', 'noai noimageai'],
  ['all', ''],
  ['index, follow', ''],
  // A directive that forbids wins over one that allows, wherever it stands.
  ['all, nofollow', 'nofollow'],
  ['nofollow, follow', 'nofollow'],
  ['follow, none', 'noindex nofollow'],
  // Values are not rules.
  ['max-image-preview: none', ''],
  ['max-image-preview:none', ''],
  ['max-image-preview : none', ''],
  ['max-snippet:-1, nofollow, max-image-preview:large', 'nofollow'],
  ['nofollow max-image-preview:none', 'nofollow'],
  ['unavailable_after: 25 Jun 2030 15:00:00 PST', ''],
  ['unavailable_after: Friday, 25-Jun-30 15:00:00 GMT, nofollow', 'nofollow'],
  // No rules.
  ['', ''],
  [',,,', ''],
  ['noindexed, no follow, no-index, "nofollow"', ''],
  ['constructor, __proto__', ''],
];

test('directives: the content of a robots meta element', () => {
  for (const [content, expected] of contents) assert.equal(meta(content), expected, content);
});

test('directives: a header without a name is read like a meta element', () => {
  for (const [content, expected] of contents) assert.equal(header(content), expected, content);
});

test('directives: a header may name its crawler, up to the next name', () => {
  const cases: readonly (readonly [fields: string[], directives: string])[] = [
    [['orbweaver: nofollow'], 'nofollow'],
    [['Orbweaver:noindex,nofollow'], 'noindex nofollow'],
    [[' ORBWEAVER : noindex'], 'noindex'],
    [['googlebot: nofollow'], ''],
    [['googlebot: noindex, nofollow'], ''],
    [['orbweaver2: nofollow'], ''],
    [['*: nofollow'], 'nofollow'],
    [['robots: nofollow'], 'nofollow'],
    [['noindex, googlebot: nofollow'], 'noindex'],
    [['googlebot: nofollow, orbweaver: noindex'], 'noindex'],
    [['orbweaver: noindex, googlebot: nofollow'], 'noindex'],
    [['googlebot: noindex', 'nofollow'], 'nofollow'],
    [['googlebot: nofollow', 'orbweaver: noindex', 'noarchive'], 'noindex noarchive'],
    [['orbweaver: max-snippet: 20, nofollow'], 'nofollow'],
    [['orbweaver: max-image-preview: none'], ''],
    [['googlebot: max-snippet: 20, nofollow'], ''],
    [['googlebot: unavailable_after: 25 Jun 2030 15:00:00 PST, nofollow'], ''],
    [['unavailable_after: Fri, 25 Jun 2030 15:00:00 GMT, nofollow'], 'nofollow'],
    [[':nofollow', 'noindex'], 'noindex'],
  ];
  for (const [fields, expected] of cases)
    assert.equal(header(...fields), expected, fields.join(' | '));
});

test('directives: a meta element is for everybody, or for us', () => {
  for (const name of ['robots', 'ROBOTS', ' robots ', 'orbweaver', 'OrbWeaver'])
    assert.ok(isForUs(name, token), name);
  for (const name of ['', 'googlebot', 'robots.txt', 'orbweaver-2', 'description'])
    assert.ok(!isForUs(name, token), name);
});

test('directives: any text gives known ones, each once, in linear time', () => {
  const word = fc.constantFrom(
    ...robotsDirectives,
    'none',
    ',',
    ' ',
    ':',
    'orbweaver:',
    'x:',
    '1:',
  );
  const text = fc.oneof(
    fc.string(),
    fc.array(word).map((words) => words.join('')),
  );
  fc.assert(
    fc.property(text, (content) => {
      for (const found of [meta(content), header(content)]) {
        const names = found === '' ? [] : found.split(' ');
        assert.deepEqual(
          names,
          robotsDirectives.filter((name) => names.includes(name)),
        );
      }
    }),
  );
  for (const part of ['a', ' ', ',', ':', 'a:', 'a ']) {
    meta(part.repeat(500_000));
    header(part.repeat(500_000));
  }
});
