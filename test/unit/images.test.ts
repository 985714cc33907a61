/** Every place of an image, its result, and places that are not images. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { fetchSpecSchema, type ImageVia } from '../../shared/crawl.ts';
import { encodeMessage } from '../../shared/frame.ts';
import { limits } from '../../shared/protocol.ts';
import { type Image, packedSchemas } from '../../shared/requests.ts';
import { cssImages } from '../../slave/extract/css.ts';
import { type ExtractOptions, PageExtractor } from '../../slave/extract/extract.ts';
import { jsonLdImages } from '../../slave/extract/json-ld.ts';
import { parsePageJson } from '../../slave/page-json.ts';
import { cpuMsSince } from '../support/cpu-time.ts';

const url = 'http://h.test/d/p.html';

function extract(chunks: readonly string[], options: Partial<ExtractOptions> = {}) {
  const extractor = new PageExtractor({ url, encoding: 'utf-8', images: 'all', ...options });
  for (const chunk of chunks) extractor.write(chunk);
  return extractor.end();
}

/** `via:src`, and what else is known, of every image of a page. */
function images(html: string, options?: Partial<ExtractOptions>): string[] {
  return extract([html], options).images.map(({ src, via, alt, width, height }) => {
    const size = width === undefined && height === undefined ? '' : ` ${width}x${height}`;
    return `${via}:${src.replace('http://h.test/d/', '')}${size}${alt === undefined ? '' : ` "${alt}"`}`;
  });
}

const cases: readonly (readonly [html: string, ...images: string[]])[] = [
  ['<img src=a width=10 height="20px" alt=x>', 'img:a 10x20 "x"'],
  ['<img src=a width=50% height=" 7.5">', 'img:a undefinedx7'],
  ['<img src=a><img src=a><IMG SRC=b>', 'img:a', 'img:b'],
  ['<img srcset="a 100w, b 2x" alt=t>', 'srcset:a 100xundefined "t"', 'srcset:b "t"'],
  [
    '<picture><source srcset="a, b 2x" type=image/webp><img src=c></picture>',
    'source:a',
    'source:b',
    'img:c',
  ],
  ['<video poster=a><source src=film data-src=film></video>', 'poster:a'],
  ['<img data-src=a.png>', 'lazy:a.png'],
  ['<img src=data:,x data-original=/a alt=y>', 'lazy:http://h.test/a "y"'],
  [
    '<img DATA-SRCSET="a.png 1x, b.png 2x" data-src=c.png>',
    'lazy:a.png',
    'lazy:b.png',
    'lazy:c.png',
  ],
  [
    '<img data-src=true data-lazy=1 data-image="{&quot;a&quot;:&quot;b.png&quot;}" data-other=a.png>',
  ],
  [
    '<div data-bg=a.png data-src=b.png></div><a href=x data-background="url(c.png)">',
    'lazy:a.png',
    'lazy:c.png',
  ],
  ['<source data-srcset="a.png 2x">', 'lazy:a.png'],
  ['<video data-poster=a.png data-src=b.png>', 'lazy:a.png'],
  ['<noscript><img src=a></noscript>', 'img:a'],
  ['<template><img src=a></template>', 'img:a'],
  [
    '<link rel=preload as=image href=a imagesrcset="b 1x, c 2x">',
    'preload:a',
    'preload:b',
    'preload:c',
  ],
  ['<link rel=preload as=font href=a><link rel=stylesheet href=b><link href=c>'],
  ['<link rel="shortcut ICON" href=a sizes=16x32>', 'icon:a 16x32'],
  [
    '<link rel=apple-touch-icon href=a><link rel=mask-icon href=b><link rel=icon href=c sizes=any>',
    'icon:a',
    'icon:b',
    'icon:c',
  ],
  ['<link rel=icon>'],
  ['<input type=IMAGE src=a alt=go width=3><input type=text src=b>', 'input:a 3xundefined "go"'],
  [
    '<object data=a type="image/svg+xml" width=2><embed src=b TYPE=" IMAGE/png"><object data="C.SVG#x"></object>',
    'object:a 2xundefined',
    'object:b',
    'object:C.SVG#x',
  ],
  [
    '<embed src="a.jpg?v=1"><object data=" /b.png ">',
    'object:a.jpg?v=1',
    'object:http://h.test/b.png',
  ],
  [
    '<object data=a.pdf></object><embed src=b><object data=c.png type=text/html></object>' +
      '<embed type=image/png><object type=image/png data="data:image/png,x"><embed data=d.png>',
  ],
  ['<object data=a.png><img src=b></object>', 'object:a.png', 'img:b'],
  ['<svg><object data=a.png /><embed src=b.png></svg>', 'object:b.png'],
  [
    '<svg><image href=a width=2 height=3 /><use xlink:href="b#c"/><feImage href=d /></svg>',
    'svg:a 2x3',
    'svg:b#c',
    'svg:d',
  ],
  ['<svg><image href=a xlink:href=b /><use href=#c /><a href=d></a></svg>', 'svg:a'],
  ['<svg><g style="fill:url(#a);mask:url(b.svg#c)"/></svg>', 'css:b.svg#c'],
  ['<svg><path style="background:url(a)"/></svg><img src=b>', 'css:a', 'img:b'],
  ['<p style="background: url(&quot;a&quot;), URL( b )">', 'css:a', 'css:b'],
  ["<a href=x style='background:url(a)'>", 'css:a'],
  ['</p style="background:url(a)">'],
  ['<style>p { background: url("a") } @import url(b); @font-face { src: url(c) }</style>', 'css:a'],
  ['<style>/* url(a) */ q { content: "url(b)"; cursor: url(c.cur) }', 'css:c.cur'],
  [
    String.raw`<style>.a\:content-\[\'\'\]:before{content:""}b{background:url(a)}.\@import{mask:url(b)}</style>`,
    'css:a',
    'css:b',
  ],
  [
    String.raw`<style>a{background:url(b (1).png)}b{background:url(it's)}c{background:url( a\ \(1\) )}</style>`,
    'css:a%20(1)',
  ],
  ['<script>a = "<style>url(a)</style>"</script><textarea style="background:url(b)"></textarea>'],
  [
    '<meta property=og:image content=a><meta property=og:image:width content=9><meta property=og:image:alt content="x &amp; y">',
    'og:a 9xundefined "x & y"',
  ],
  ['<meta name=og:image content=a><meta property=og:image:secure_url content=b>', 'og:a', 'og:b'],
  [
    '<meta name=twitter:image content=a><meta name=twitter:image:alt content=x><meta property=Twitter:Image:Src content=b>',
    'twitter:a "x"',
    'twitter:b',
  ],
  ['<meta name=description content=a><meta property=og:title content=b><meta property=og:image>'],
  [
    '<meta itemprop=image content=a><link itemprop="url thumbnailUrl" href=b><link rel="image_src" href=c><meta name=thumbnail content=d><meta itemprop=image property=og:image content=e>',
    'og:a',
    'og:b',
    'og:c',
    'og:d',
    'og:e',
  ],
  ['<meta itemprop=name content=a><meta itemprop content=b><link itemprop=url href=c>'],
  [
    '<meta property=og:image content=a><meta itemprop=image content=b><meta property=og:image:width content=9>',
    'og:a 9xundefined',
    'og:b',
  ],
  [
    '<script type="application/ld+json">{"image":["a",{"url":"b","width":3,"height":"4px"}]}</script>',
    'jsonld:a',
    'jsonld:b 3x4',
  ],
  ['<script type="application/ld&#x2B;json">{"image":"a"}</script>', 'jsonld:a'],
  ['<svg><link rel="stylesheet icon" href=a /><use href=b /></svg>', 'svg:b'],
  [
    '<script type=application/ld+json>{"logo":"a"</script><script type=text/plain>{"logo":"b"}</script>',
  ],
  [
    '<base href=/b/><img src=a><p style="background:url(c)">',
    'img:http://h.test/b/a',
    'css:http://h.test/b/c',
  ],
  ['<img src="ftp://h/a"><img src="http://["><p style="background:url(about:blank)">'],
];

test('images: every place where one can stand', () => {
  for (const [html, ...expected] of cases) assert.deepEqual(images(html), expected, html);
});

test('images: cut at every position, a page gives the same', () => {
  for (const [html] of cases) {
    const whole = extract([html]);
    for (let cut = 0; cut <= html.length; cut++)
      assert.deepEqual(extract([html.slice(0, cut), html.slice(cut)]), whole, `${html} at ${cut}`);
    assert.deepEqual(extract([...html]), whole, html);
  }
});

test('images: classes can be chosen, and img is img[src] alone', () => {
  const page = cases
    .map(([html]) => html.replace(/<base[^>]*>|<\/?(svg|style|video|template)>/g, ''))
    .join('</style>');
  const vias = (choice: ExtractOptions['images']) =>
    new Set(extract([page], { images: choice }).images.map(({ via }) => via));
  assert.deepEqual([...vias('img')], ['img']);
  const chosen: ImageVia[][] = [['og'], ['img', 'srcset'], ['css', 'icon', 'lazy'], ['jsonld']];
  for (const classes of chosen) assert.deepEqual([...vias(classes)].sort(), classes.sort());
  // The links are the same, whatever is looked for besides.
  const links = (choice: ExtractOptions['images']) =>
    Buffer.from(extract([page], { images: choice }).links).toString();
  assert.equal(links('all'), links('img'));
});

test('images: licences of figures, and of the page', () => {
  const figure = (inside: string) => `<figure>${inside}</figure>`;
  const by = (href: string, rel = 'license') => `<a rel="${rel}" href=${href}>by</a>`;
  const licenses = (html: string, options?: Partial<ExtractOptions>) =>
    extract([html], { licenses: true, ...options }).images.map(({ src, license }) =>
      [src, license].map((url) => url?.replace('http://h.test/d/', '')).join(' '),
    );
  const cases: readonly (readonly [html: string, ...expected: string[]])[] = [
    [`<img src=a>${by('/by')}`, 'a http://h.test/by'],
    [`<img src=a>${by('by', 'nofollow LICENSE')}${by('other')}`, 'a by'],
    ['<link rel=license href="by?a&amp;b"><img src=a>', 'a by?a&b'],
    [`${figure(`<img src=a>${by('by')}`)}<img src=b>`, 'a by', 'b '],
    [`${figure('<img src=a>')}<img src=b>${by('by')}`, 'a by', 'b by'],
    [figure(`<img src=a>${figure(`<img src=b>${by('in')}`)}${by('out')}`), 'a out', 'b in'],
    [figure(`${figure('<img src=a>')}${by('out')}`), 'a out'],
    [`<FIGURE class=x><img src=a>${by('by')}</figure ><figures><img src=b>`, 'a by', 'b '],
    [`</figure></figure>${figure(`<img src=a>${by('by')}`)}<img src=b>`, 'a by', 'b '],
    [`<img src=a>${by('javascript:x')}${by('by')}`, 'a '],
    [`<img src=a>${by('x'.repeat(600))}`, 'a '],
    [`${'<figure>'.repeat(200)}<img src=a>${by('by')}${'</figure>'.repeat(200)}`, 'a by'],
  ];
  for (const [html, ...expected] of cases) {
    assert.deepEqual(licenses(html), expected, html);
    const whole = extract([html], { licenses: true });
    assert.deepEqual(extract([...html], { licenses: true }), whole, html);
    assert.ok(extract([html]).images.every((image) => !('license' in image)));
    assert.deepEqual(extract([html]).links, whole.links, 'the links are the same');
  }
  const xml = `<html xmlns="http://www.w3.org/1999/xhtml">${figure('<img src="a"/><a rel="license" href="by"/>')}<img src="b"/></html>`;
  assert.deepEqual(licenses(xml, { xml: true }), ['a by', 'b ']);
  const obey: Partial<ExtractOptions> = { obey: ['rel-nofollow'] };
  const both = extract([`<img src=a>${by('by', 'nofollow license')}`], { licenses: true, ...obey });
  assert.deepEqual([both.nofollowed, both.images[0]?.license], [1, 'http://h.test/d/by']);
});

test('images: data: URLs are counted, not stored', () => {
  const html =
    '<img src=data:,x><img src=" DATA:,y" srcset="data:,z 2x, a 1x"><p style="background:url(data:,u)"><link rel=icon href=data:,i>';
  const { images: found, dataImages } = extract([html]);
  assert.deepEqual([found.map(({ src }) => src), dataImages], [['http://h.test/d/a'], 5]);
  assert.equal(extract([html], { images: 'img' }).dataImages, 2);
});

test('images: of a srcset all candidates, or the best one', () => {
  const html = '<img src=s srcset="a 100w, b 300w, c 200w"><source srcset="d, e 2x, f 1.5x">';
  assert.deepEqual(images(html, { srcset: 'best' }), [
    'img:s',
    'srcset:b 300xundefined',
    'source:e',
  ]);
});

test('images: the lazy attributes are those that are asked for', () => {
  const html = '<img data-src=a.png data-own=b.png my-set="c.png, d.png 2x">';
  const lazyAttributes = ['data-own', 'my-set'];
  assert.deepEqual(images(html, { lazyAttributes }), ['lazy:b.png', 'lazy:c.png', 'lazy:d.png']);
});

test('images: text in the charset of the page is read in it', () => {
  const value = (text: string) => Buffer.from(text, 'latin1').toString();
  const bytes = (text: string) => Buffer.from(text).toString('latin1');
  const html = bytes(
    '<img src=a alt=é><p style="background:url(é)"><style>p{background:url(ü)}</style><script type=application/ld+json>{"image":"ö"}</script>',
  );
  const found = extract([html], { value }).images;
  assert.deepEqual(
    found.map(({ src, alt }) => alt ?? src.replace('http://h.test/d/', '')),
    ['é', '%C3%A9', '%C3%BC', '%C3%B6'],
  );
});

test('images: what is found passes the schema of the wire, and the limits hold', () => {
  const page = cases.map(([html]) => html).join('</style></svg></textarea></script>');
  const check = (found: Image[]) => packedSchemas.images.safeParse(found).success;
  assert.ok(check(extract([page]).images));
  assert.ok(check(extract(['<img src=a width=99999999999999999999 height=-1>']).images));
  const many = Array.from({ length: 60_000 }, (_, i) => `<p style="background:url(${i})">`).join(
    '',
  );
  const { images: kept, imagesCut } = extract([many]);
  assert.deepEqual([kept.length, imagesCut], [limits.imagesMax, 10_000]);
  for (const wrong of [
    { via: 'hearsay' },
    { width: -1 },
    { height: 1.5 },
    { width: '1' },
    { width: 1e7 },
  ])
    assert.equal(check([{ src: 'http://h/', via: 'img', ...wrong } as Image]), false);
});

test('images: a report of them stays within its bytes, and what is left out is counted', () => {
  // Short in the page, long when resolved; each with a text of three bytes a character.
  const base = `<base href="http://h.test/${'d'.repeat(3900)}/">`;
  const one = (i: number) => `<img src=${i} alt="${'語'.repeat(1100)}">`;
  const few = extract([base, ...Array.from({ length: 1000 }, (_, i) => one(i))]);
  assert.deepEqual([few.images.length, few.imagesCut], [1000, 0]);
  const page = [base, ...Array.from({ length: 5000 }, (_, i) => one(i)), one(7)];
  const { images: found, imagesCut } = extract(page);
  assert.equal(found.length + imagesCut, 5000);
  assert.ok(imagesCut > 0);
  const bytes = encodeMessage({ images: found }).length;
  assert.ok(bytes <= limits.imagesBytesMax && bytes > limits.imagesBytesMax * 0.9, `${bytes}`);
});

test('images: two texts of one address in one class are one image', () => {
  const html =
    '<img src=a.png><img src=./a.png><img src=/d/a.png><img src=//h.test/d/a.png>' +
    '<img src=http://h.test/d/a.png><img src=x/../a.png><img src="a.png ">' +
    '<img src="b?x&amp;y"><img src="b?x&y"><img src="b?x&#38;y">' +
    '<img srcset="c 1x, ./c 2x"><img srcset="c&#32;3x, c?x&amp;y 4x"><img srcset="c?x&y">';
  assert.deepEqual(images(html), ['img:a.png', 'img:b?x&y', 'srcset:c', 'srcset:c?x&y']);
});

test('images: the spec of a crawl names classes and attributes', () => {
  const ok = (spec: unknown) => fetchSpecSchema.safeParse(spec).success;
  assert.ok(ok({ images: ['img', 'og'], srcset: 'best', lazyAttributes: ['data-x'] }));
  for (const wrong of [
    { images: [] },
    { images: ['x'] },
    { lazyAttributes: ['a b'] },
    { srcset: 'src' },
  ])
    assert.equal(ok(wrong), false);
});

test('images: a style element of another type is no sheet', () => {
  const style = (type: string) => `<style ${type}>a{background:url(x)}</style>`;
  for (const type of ['', 'type', 'type=TEXT/CSS', 'type="text&#47;css"']) {
    assert.deepEqual(images(style(type)), ['css:x'], type);
  }
  for (const type of ['type=text/less', 'type="text/css; x"']) {
    assert.deepEqual(images(style(type)), [], type);
  }
});

test('css: url() and the strings of image-set() are images', () => {
  const list: readonly (readonly [css: string, ...urls: string[]])[] = [
    ['a{b:url(x)}', 'x'],
    ["a{b:url( 'x y' )}", 'x y'],
    ['a{b:url(x\\)y)}', 'x)y'],
    ['a{b:url("\\78 y\\\nz")}', 'xyz'],
    ['a{b:image-set("x" 1x, url(y) 2x, "z" type("image/avif"))} c{d:"no"}', 'x', 'y', 'z'],
    ['a{b:-webkit-image-set(url(x) 1x)}', 'x'],
    ['@import "no";@import url("no2") print;a{b:url(x)}', 'x'],
    ['@namespace svg url(no);a{b:url(x)}', 'x'],
    ["@FONT-FACE{src:url(no)} a{b:url('x')}", 'x'],
    ["/* it's url(no) */ a{b:url(x)}", 'x'],
    ['a{b:url(#no)} c{d:myurl(no)} e{f:url()}'],
    ['a{content:"\\"url(no)"} b{c:url(x)}', 'x'],
    ['a{b:url(x', 'x'],
    ['a{b:url("x', 'x'],
    ['a{b:"bad\n;c:url(x)}', 'x'],
    ['a{b:url("no\r\n");c:url(no)}'],
    ['a{b:url("no\n;c:url(no)} b{c:url(no)}'],
    ['a{b:url("no\n);c:url(x)}', 'x'],
    ['a{b:url("no\n(\\)")\n)) c:url(x)}', 'x'],
    ['a{b:image-set("no\n" 1x)}'],
    ['a{b:url("x\\\r\ny")}', 'xy'],
    ['a{b:URL(x)}', 'x'],
  ];
  for (const [css, ...urls] of list) assert.deepEqual(cssImages(css), urls, css);
});

test('css, json-ld: hostile text takes linear time', () => {
  const started = process.cpuUsage();
  for (const piece of ['url(', '"', "'\\", '/*', '@import', 'image-set((', '@font-face', 'url("'])
    cssImages(`url(a)${piece.repeat((1 << 20) / piece.length)}`);
  jsonLdImages(`{"image":${'['.repeat(100_000)}${']'.repeat(100_000)}}`);
  jsonLdImages(`{"image":${'{"image":'.repeat(20_000)}1${'}'.repeat(20_000)}}`);
  assert.ok(cpuMsSince(started) < 5_000);
});

test('json-ld: images stand under their names, or are ImageObjects', () => {
  const read = (value: unknown) => jsonLdImages(JSON.stringify(value)).map(({ src }) => src);
  const graph = [{ '@type': 'ImageObject', contentUrl: 'c', url: 'no' }, { logo: { url: 'l' } }];
  assert.deepEqual(read({ '@graph': graph, url: 'no', name: 'no' }), ['c', 'l']);
  assert.deepEqual(read([{ thumbnailUrl: 't', author: { image: 'i' } }]), ['t', 'i']);
  assert.deepEqual(read({ image: 7, logo: null, photo: [['p']] }), ['p']);
  assert.deepEqual(read({ image: { url: ['u', 7, 'v'] }, logo: { '@list': ['l'] } }), [
    'u',
    'v',
    'l',
  ]);
  assert.deepEqual(read({ '@type': 'https://schema.org/ImageObject', url: 'c' }), ['c']);
});

test('json-ld: common mistakes are forgiven', () => {
  const read = (text: string) => jsonLdImages(text).map(({ src }) => src);
  const good = '{"image":"x//y"}';
  for (const text of [
    `\ufeff ${good}`,
    `<!--\n${good}\n-->`,
    `//<![CDATA[\n${good}\n//]]>`,
    `/* <![CDATA[ */\n${good}\n/* ]]> */`,
    `<![CDATA[${good}]]>;`,
    '{"name":"two\nlines\t","image":["x//y",],}',
    '{/* why */"image":"x//y" // here\n}',
    '{"image":"x//y", // "logo": "no"\n}',
    '{"image":["x//y", /* no more */ ]}',
    '{"image":"x\\\n//\\\r\ny"}',
    `${good};`,
    `<!--${good} ; // end\n//-->`,
    '{"name":"it\\\'s \\d \\é \\\t \\\\","image":"x//\\y"}',
  ]) {
    assert.deepEqual(read(text), ['x//y'], text);
  }
  for (const text of [
    '{"image":"x"',
    '{image:"x"}',
    '{"image":"x"} {"image":"y"}',
    '"image" "',
    '{"image":"x","n":1/**/2}',
    '{"image":"x"};;',
    '{"image":"x","n":"\\x41"}',
    '{"image":"x","n":"\\u41"}',
  ]) {
    assert.deepEqual(read(text), [], text);
  }
});

test('json-ld: a reference of HTML in an address is the ampersand that was meant', () => {
  const read = (text: string) => jsonLdImages(text).map(({ src }) => src);
  assert.deepEqual(read('{"image":["a?b=1&amp;c=2","a?b=1&#038;c=2",{"url":"a?b&#x26;c"}]}'), [
    'a?b=1&c=2',
    'a?b=1&c=2',
    'a?b&c',
  ]);
  assert.deepEqual(read('{"image":"a?amp;b&copy=1&amp=2&lt;"}'), ['a?amp;b&copy=1&amp=2&lt;']);
});

test('json: a mark at the beginning, and long texts, are no mistakes', () => {
  const text = 'x'.repeat(10 << 20);
  assert.deepEqual(parsePageJson(`\ufeff${JSON.stringify({ text })}`), { text });
  assert.deepEqual(parsePageJson(`{"text":"${text}",}`), { text });
});

test('json-ld: text that is nearly JSON takes linear time', () => {
  const started = process.cpuUsage();
  for (const piece of [
    '"\\"',
    '"',
    '\\',
    ', ',
    '/*',
    '//',
    '<!--',
    ' ',
    ',  ',
    '"\n',
    ',/**/x*/',
    '\\d',
    ' ;',
  ]) {
    jsonLdImages(`{"image":${piece.repeat((1 << 20) / piece.length)}\\`);
  }
  assert.ok(cpuMsSince(started) < 5_000);
});
