import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { type ExtractOptions, PageExtractor } from '../../slave/extract/extract.ts';

const url = 'http://h.test/d/e/p.html?q=1';

type Found = { title?: string; links: string[]; img: string[]; srcset: string[]; alts: unknown[] };

function extract(chunks: readonly string[], options: Partial<ExtractOptions> = {}): Found {
  const extractor = new PageExtractor({ url, encoding: 'utf-8', images: 'all', ...options });
  for (const chunk of chunks) extractor.write(chunk);
  const { title, links, images } = extractor.end();
  const text = Buffer.from(links).toString('latin1');
  const via = (kind: string) => images.filter((image) => image.via === kind).map(({ src }) => src);
  return {
    ...(title !== undefined && { title }),
    links: text === '' ? [] : text.split('\n'),
    img: via('img'),
    srcset: via('srcset'),
    alts: images.map((image) => image.alt),
  };
}

/** Links of a page, without the folder that all of them share. */
function links(html: string, options?: Partial<ExtractOptions>): string[] {
  return extract([html], options).links.map((link) => link.replace('http://h.test/d/e/', ''));
}

/** HTML and the links that an HTML5 tree builder (gumbo, scripting off) finds in it. */
const linkCases: readonly (readonly [html: string, ...links: string[]])[] = [
  ['<a href=x>', 'x'],
  ['<A HREF=x><AREA Href="y">', 'x', 'y'],
  ['<a href=\'x\'><a href = "y"><a\nhref\n=\nz\n>', 'x', 'y', 'z'],
  ['<a href=x href=y>', 'x'],
  ['<a href=x/>', 'x/'],
  ['<a/href=x>', 'x'],
  ['<a class="a>b" href=x>', 'x'],
  ['<a href>', 'p.html?q=1'],
  ['<a href=""><a href="#f"><a href=#g>', 'p.html?q=1'],
  ['<a href=x#a><a href=x#b><a href=./x>', 'x'],
  ['<a href="x #f">', 'x%20'],
  ['<a href="x&#35;f">', 'x'],
  ['<a href="?a&amp;b&lt=1&copy">', 'p.html?a&b&lt=1%C2%A9'],
  ['<a href="a\nb\tc">', 'abc'],
  ['<a href="  x  ">', 'x'],
  ['<a href="\0">', '%EF%BF%BD'],
  ['<a =href=x>'],
  ['<a "href=x>'],
  ['<abbr href=x><b href=x><link href=x>'],
  ['<noscript><a href=x></noscript>', 'x'],
  ['<template><a href=x></template>', 'x'],
  ['<!-- <a href=x> --><a href=y>', 'y'],
  ['<!--><a href=x>', 'x'],
  ['<!---><a href=x>', 'x'],
  ['<!-- --!><a href=x>', 'x'],
  ['<!-- -- > --!a --><a href=x>', 'x'],
  ['<!-- <a href=x>'],
  ['<!doctype html "><a href=x>', 'x'],
  ['<?pi <a href=y>><a href=x>', 'x'],
  ['<![CDATA[ > <a href=x> ]]>', 'x'],
  ['</><a href=x></ a><a href=y>', 'x', 'y'],
  ['</p a=">"><a href=x>', 'x'],
  ['< a href=x><3<a href=y>', 'y'],
  ['<<a href=x>', 'x'],
  ['<a href=x'],
  ['<a href="x>'],
  ['<script><a href=x></script><a href=y>', 'y'],
  ['<script><!-- <script> </script> <a href=x> --></script><a href=y>', 'y'],
  ['<script><!-- </script><a href=x>', 'x'],
  ['<script><!--><script></script><a href=x>', 'x'],
  ['<script></scriptx><a href=x></SCRIPT\n><a href=y>', 'y'],
  ['<style><a href=x></style><a href=y>', 'y'],
  ['<textarea><a href=x></textarea><a href=y>', 'y'],
  ['<title><a href=x></title><a href=y>', 'y'],
  ['<xmp><a href=x></xmp><a href=y>', 'y'],
  ['<iframe><a href=x></iframe><a href=y>', 'y'],
  ['<noembed><a href=x></noembed><a href=y>', 'y'],
  // In noframes there are none for a tree builder, but for whoever shows no frames.
  ['<noframes><a href=x></noframes><a href=y>', 'x', 'y'],
  ['<noframes><!-- <a href=x></noframes><a href=y>', 'y'],
  ['<style/><a href=x></style/><a href=y>', 'y'],
  ['<a href=x><plaintext><a href=y></plaintext>', 'x'],
  ['<svg><a href=x></a></svg><a href=y>', 'y'],
  ['<svg/><a href=x>', 'x'],
  ['<svg><path><p><a href=x>', 'x'],
  ['<svg><foreignObject><a href=x></a></foreignObject><a href=y></svg>', 'x'],
  ['<svg><g><font color=red><a href=x>', 'x'],
  ['<math><FONT x=y FACE=z /><a href=x>', 'x'],
  ['<svg><font size><a href=x></a></font>', 'x'],
  ['<svg><desc><svg><font face=a><a href=x></a></desc><a href=y>', 'x'],
  ['<svg><font-face size=1><font id=a font-size=1><a href=x></a></font></svg><a href=y>', 'y'],
  ['<svg><desc><font color=red></desc><a href=x></a></svg><a href=y>', 'y'],
  ['<svg><title><a href=x></a></title><a href=y></svg>', 'x'],
  ['<svg><style><a href=x></a></style></svg><a href=y>', 'y'],
  ['<svg><path d=""/></path><style/><a href=x></a></svg><a href=y>', 'y'],
  [
    '<math><annotation-xml encoding=Text/HTML><a href=x></a></annotation-xml><a href=y></math>',
    'x',
  ],
  ['<math><annotation-xml encoding=MathML-Content><a href=x></a></annotation-xml></math>'],
  ['<svg><![CDATA[ > </svg><a href=x> ]]></svg><a href=y>', 'y'],
  ['<svg><desc><![CDATA[ > <a href=x> ]]></desc></svg><a href=y>', 'y'],
  ['<math><mtext><![CDATA[<p>]]><a href=x></mtext></math>', 'x'],
  ['<svg><foreignObject><p><![CDATA[ > <a href=x> ]]></p></foreignObject></svg>', 'x'],
  ['<math><mi><a href=x></a></mi><a href=y></math><a href=z>', 'x', 'z'],
  ['<math><mrow><svg><desc><a href=x></a></desc></svg></mrow></math>'],
  ['<svg><math><mi><a href=x></a></mi></math></svg><a href=y>', 'y'],
  ['<math><annotation-xml><svg><desc><a href=x></a></desc></svg></annotation-xml></math>', 'x'],
  ['<div><svg><g></div><a href=x>', 'x'],
  ['<a href=mailto:m@h><a href=javascript:a()><a href=data:,x><a href=ftp://h/><a href=tel:1>'],
  ['<a href=http://[bad/><a href=http://a:x/>'],
];

test('extract: links are those of an HTML5 tree builder', () => {
  for (const [html, ...expected] of linkCases) assert.deepEqual(links(html), expected, html);
});

test('extract: the first base with href counts for the whole page', () => {
  const html = '<a href=x><img src=i><base><base href=/b/c><base href=/no/><a href=y>';
  const found = extract([html]);
  assert.deepEqual(found.links, ['http://h.test/b/x', 'http://h.test/b/y']);
  assert.deepEqual(found.img, ['http://h.test/b/i']);
  assert.deepEqual(links('<base href="javascript:x"><a href=x>'), ['x']);
  assert.deepEqual(links('<base href="http://["><a href=x>'), ['x']);
  assert.deepEqual(links('<base href="//o.test/f#z"><a href=x><a href=#y>'), [
    'http://o.test/x',
    'http://o.test/f',
  ]);
});

test('extract: a base in a template is not the page\u2019s', () => {
  const none = '<base href=/no/>';
  for (const html of [
    `<template>${none}</template><base href=/b/>`,
    `<TEMPLATE a><p><template>${none}</template >${none}</p></Template x><base href=/b/>`,
    `</template><base href=/b/><template>${none}`,
    `<template/>${none}</template/><base href=/b/>`,
    `<template><svg></template><base href=/b/>`,
    `<svg><template></template></svg><template></template><base href=/b/>`,
    `<template><svg><foreignObject>${none}</template><base href=/b/>`,
    `<template><svg><template></template><p>${none}</template><base href=/b/>`,
    `<template></templates></p></template><base href=/b/>`,
  ])
    assert.deepEqual(extract([`${html}<a href=x>`]).links, ['http://h.test/b/x'], html);
  assert.deepEqual(links(`<a href=x><template><title>t</title>${none}`), ['x']);
});

test('extract: images are img and image, once each, with alt and fragment', () => {
  const html =
    '<img src=a alt="x &amp; y"><IMAGE src=b><img src=a alt=z><img src="c#f"><svg><image src=no></svg>' +
    '<img src=""><img src=" "><img src=data:,x><img src="ftp://h/i"><img alt=q><source src=s>';
  const found = extract([html]);
  assert.deepEqual(
    found.img,
    ['a', 'b', 'c#f'].map((src) => `http://h.test/d/e/${src}`),
  );
  assert.deepEqual(found.alts, ['x & y', undefined, undefined]);
});

test('extract: srcset counts with images "all" alone', () => {
  const html = '<img src=a srcset="a 1x, b 2x&#44; c 3x, bad 1q"><img srcset=b>';
  assert.deepEqual(
    extract([html]).srcset,
    ['a', 'b', 'c'].map((src) => `http://h.test/d/e/${src}`),
  );
  const plain = extract([html], { images: 'img' });
  assert.deepEqual([plain.srcset, plain.img], [[], ['http://h.test/d/e/a']]);
});

test('extract: the title is the first one of HTML, decoded, collapsed and capped', () => {
  const title = (html: string) => extract([html]).title;
  assert.equal(
    title('<svg><title>no</title></svg><title>\n A &amp;\t<b> &copy </title>'),
    'A & <b> ©',
  );
  assert.equal(title('<title>one</title><title>two</title>'), 'one');
  assert.equal(title('<title>to the end'), 'to the end');
  assert.equal(title('<title></title><title>two</title>'), undefined);
  assert.equal(title('<p>none'), undefined);
  assert.equal(title(`<title>${'x'.repeat(9000)}</title>`)?.length, 1024);
  assert.equal(title(`<title>${'x'.repeat(1023)}😀</title>`)?.length, 1023);
});

test('extract: queries are written in the charset of the page', () => {
  const sjis = links('<a href="?q=日本&x=é#é"><a href="/日">', { encoding: 'Shift_JIS' });
  assert.deepEqual(sjis, ['p.html?q=%93%FA%96{&x=%26%23233%3B', 'http://h.test/%E6%97%A5']);
  assert.deepEqual(links('<a href="?中 \'">', { encoding: 'gbk' }), ['p.html?%D6%D0%20%27']);
  assert.deepEqual(links('<a href="?€">', { encoding: 'windows-1252' }), ['p.html?%80']);
  assert.deepEqual(links('<a href="?é">', { encoding: 'utf-16le' }), ['p.html?%C3%A9']);
  assert.deepEqual(links('<a href=" ?é ">', { encoding: 'iso-8859-2' }), ['p.html?%E9']);
});

test('extract: URLs over the limit are dropped, and so are links that do not fit', () => {
  assert.deepEqual(links(`<a href=${'x'.repeat(5000)}><a href=y>`), ['y']);
  const long = 'x'.repeat(4000);
  const extractor = new PageExtractor({ url, encoding: 'utf-8', images: 'all' });
  for (let i = 0; i < 4300; i++) extractor.write(`<a href=${long}${i}>`);
  const { links: bytes, linksCut } = extractor.end();
  assert.ok(bytes.length <= 16 << 20 && bytes.length > 15 << 20);
  assert.equal(linksCut + Buffer.from(bytes).toString('latin1').split('\n').length, 4300);
});

test('extract: endless tokens in small chunks take linear time', () => {
  for (const start of [
    '<a href="',
    '<a ',
    '<',
    '<a x',
    '<!--',
    '<script><!--<',
    '<title>',
    '<b c=',
  ]) {
    const extractor = new PageExtractor({ url, encoding: 'utf-8', images: 'all' });
    extractor.write(start);
    for (let i = 0; i < 5000; i++) extractor.write('x-'.repeat(500));
    extractor.write('\'"> --></script></title><a href=ok>');
    assert.equal(Buffer.from(extractor.end().links).toString().split('/').at(-1), 'ok', start);
  }
});

const pieces = [
  ...linkCases.map(([html]) => html),
  '<img src=a alt="b" srcset="c 1x, d 2x">',
  '<title>t &amp; u</title>',
  '<base href=/base/>',
  'text &amp; "quotes"',
];

test('extract: cut at every position, a page gives the same', () => {
  for (const html of pieces) {
    const whole = extract([html]);
    for (let cut = 0; cut <= html.length; cut++)
      assert.deepEqual(extract([html.slice(0, cut), html.slice(cut)]), whole, `${html} at ${cut}`);
    assert.deepEqual(extract([...html]), whole, html);
  }
});

test('extract: random pages cut anywhere give the same', () => {
  const page = fc.array(fc.constantFrom(...pieces, '<', '>', '-', '"', "'", '</', 'a', ' ', '/'), {
    maxLength: 12,
  });
  fc.assert(
    fc.property(page, fc.array(fc.nat(400), { maxLength: 6 }), (parts, cuts) => {
      const html = parts.join('');
      const at = [0, ...cuts.filter((cut) => cut < html.length).sort((a, b) => a - b)];
      const chunks = at.map((from, index) => html.slice(from, at[index + 1] ?? html.length));
      assert.deepEqual(extract(chunks), extract([html]));
    }),
    { numRuns: 1000 },
  );
});
