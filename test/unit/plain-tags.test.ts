import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import test from 'node:test';
import fc from 'fast-check';
import { lazyAttributes } from '../../shared/crawl.ts';
import { tablesFor } from '../../slave/extract/elements.ts';
import { type ExtractOptions, PageExtractor } from '../../slave/extract/extract.ts';
import { PlainTags, plainTags, plainWantsOf } from '../../slave/extract/plain-tags.ts';
import { plainTagsWasm } from '../../slave/extract/plain-tags-wasm.ts';
import { assembled } from '../support/assembled.ts';

test('plain tags: plain-tags.wat assembles to plain-tags-wasm.ts', async () => {
  assert.equal(await assembled('slave/extract/plain-tags.wat'), plainTagsWasm);
});

const tables = tablesFor({ all: false, rel: false, iframes: false, bare: false });

/** The findings in a text up to where the scanner goes on: hrefs, and the rest. */
function read(text: string): [hrefs: string[], rest: string] {
  const plain = plainTags();
  assert.ok(plain instanceof PlainTags, 'this machine runs it');
  assert.ok(plain.begin(text, plainWantsOf(tables, undefined)));
  assert.equal(plain.begin(text, plainWantsOf(tables, undefined)), false, 'one at a time');
  const at = plain.skip(0);
  const hrefs = Array.from({ length: plain.count }, (_, n) =>
    text.slice(plain.start(n), plain.stop(n)),
  );
  plain.end();
  return [hrefs, text.slice(at)];
}

test('plain tags: text, tags that say nothing and links are read, the rest is left', () => {
  assert.deepEqual(read('text alone, longer than one vector of sixteen'), [[], '']);
  assert.deepEqual(read('<p class="a>b">x</p ><b>'), [[], '</p ><b>']);
  assert.deepEqual(read("<A HREF=a#b><a x href='c d' href=e><a href><i>z"), [
    ['a#b', 'c d', ''],
    '',
  ]);
  for (const left of ['<img src=a>', '<!-- -->', '<base', '<a href="x', '</', '<', '<?', '<svg>'])
    assert.deepEqual(read(`<p>${left}`), [[], left]);
});

test('plain tags: more links than there is room for', () => {
  const [hrefs, rest] = read('<a href=a>'.repeat(2_000));
  assert.equal(hrefs.length + rest.length / 10, 2_000);
  assert.ok(hrefs.length > 500);
});

test('plain tags: a slave without addresses for a memory reads without it', () => {
  const program = `
    const { WebAssembly: { Instance } } = globalThis;
    WebAssembly.Instance = function () {
      throw new RangeError('WebAssembly.Instance(): Out of memory');
    };
    const { plainTags } = await import(${JSON.stringify(
      new URL('../../slave/extract/plain-tags.js', import.meta.url).href,
    )});
    console.log(plainTags());`;
  const args = ['--input-type=module', '-e', program];
  assert.equal(execFileSync(process.execPath, args, { encoding: 'utf8' }), 'undefined\n');
});

const url = 'http://h.test/a/b?c';
const syntax = [
  ...['<a href="', '<a href=', "<A class='x' HREF = '", '<a rel=nofollow href=r', '<area href=q'],
  ...['<a', '<a=', ' href=y ', ' HREF="z" ', "href='", '<a/href=s/', '<ab href=no>'],
  ...['<p class="', '<p data-src="', '<p style="background:url(', '<img src=i', '<td>', '<hr/>'],
  ...['</p>', '</a>', '</', '</x y=">">', '<!--', '-->', '<!x', '<![CDATA[', ']]>', '<?', '<3'],
  ...['<script>', '</script>', '<script><!--', '<style>', '</style>', '<title>', '</title>'],
  ...['<template>', '</template>', '</template >', '<template x=', '</templates>'],
  ...['<svg>', '</svg>', '<math><mi>', '<noframes><a href=n>', '</noframes>', '<textarea>'],
  ...['<base href=/d/>', '<plaintext>', '<iframe src=f>', '<strong >', '<table x', '<link href=l>'],
  ...['"', "'", '>', ' ', '\n', '\f', '/', '=', '#f', 'x', '&amp;', '\0', '\xe9', '../y', '?z'],
];
const optionsOf: readonly Partial<ExtractOptions>[] = [
  { images: 'img' },
  { images: 'all', lazyAttributes: [...lazyAttributes, 'href-lazy', 'x'] },
  { images: 'img', obey: ['rel-nofollow'] },
  { images: 'all', iframes: true, licenses: true },
  { images: 'img', bare: true },
];

test('plain tags: read as bytes, a page gives what it gives without, cut at every place', () => {
  const text = fc.array(fc.constantFrom(...syntax), { maxLength: 24 }).map((list) => list.join(''));
  const cuts = fc.array(fc.nat(300), { maxLength: 3 });
  fc.assert(
    fc.property(text, cuts, fc.constantFrom(...optionsOf), (html, places, more) => {
      const options = { url, encoding: 'windows-1252', images: 'img', ...more } as const;
      const whole = new PageExtractor(options);
      whole.write(html);
      const expected = whole.end();
      const each = Array.from({ length: html.length }, (_, n) => n);
      for (const at of [[], places.toSorted((a, b) => a - b), each]) {
        const asBytes = new PageExtractor({ ...options, value: (value) => value });
        for (const [n, from] of [0, ...at].entries()) asBytes.write(html.slice(from, at[n]));
        assert.deepEqual(asBytes.end(), expected);
      }
    }),
    { numRuns: 4_000 },
  );
});

test('plain tags: a chunk longer than its memory is read all the same', () => {
  const html = `${'x'.repeat(300_000)}<a href=1>`;
  const page = new PageExtractor({ url, encoding: 'utf-8', images: 'img', value: (text) => text });
  page.write(html);
  assert.equal(Buffer.from(page.end().links).toString(), 'http://h.test/a/1');
});
