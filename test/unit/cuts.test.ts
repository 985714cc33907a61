/** Nothing is dropped in silence: each value that is too long, and each image or link too many. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { type ExtractOptions, PageExtractor } from '../../slave/extract/extract.ts';

const mebibyte = 1 << 20;
const long = 'x'.repeat(mebibyte + 1);

type Cuts = { imagesCut?: number; linksCut?: number; dataImages?: number };

function extract(html: string, options: Partial<ExtractOptions> = {}, chunkChars = 65_536) {
  const url = 'http://h.test/d/';
  const extractor = new PageExtractor({ url, encoding: 'utf-8', images: 'all', ...options });
  for (let at = 0; at < html.length; at += chunkChars)
    extractor.write(html.slice(at, at + chunkChars));
  return extractor.end();
}

/** The counts that are not 0. */
function cuts(html: string, options?: Partial<ExtractOptions>, chunkChars?: number): Cuts {
  const { imagesCut, linksCut, dataImages } = extract(html, options, chunkChars);
  return {
    ...(imagesCut > 0 && { imagesCut }),
    ...(linksCut > 0 && { linksCut }),
    ...(dataImages > 0 && { dataImages }),
  };
}

const image = { imagesCut: 1 };
const link = { linksCut: 1 };

/** The parts that are lost, and how they count. */
const dropped: readonly (readonly [name: string, html: string, Cuts])[] = [
  ['a src', `<img src="${long}">`, image],
  ['a srcset', `<img srcset="a 1x, ${long} 2x">`, image],
  ['a srcset without quotes', `<img srcset=${long}>`, image],
  ['a data image', `<img src="data:image/png,${long}">`, { imagesCut: 1, dataImages: 1 }],
  ['a picture', `<source srcset='${long}'>`, image],
  ['a poster', `<video poster="${long}">`, image],
  ['a button', `<input type=image src="${long}">`, image],
  ['another input', `<input type=text src="${long}">`, {}],
  ['an icon', `<link rel="shortcut icon" href="${long}">`, image],
  ['a style sheet', `<link rel=stylesheet href="${long}">`, {}],
  ['a preload', `<link rel=preload as=image imagesrcset="${long}">`, image],
  ['a preview', `<meta property="og:image" content="${long}">`, image],
  ['another meta', `<meta name=description content="${long}">`, {}],
  ['a drawing', `<svg><image xlink:href="${long}"></svg>`, image],
  ['a lazy src', `<img src=a data-src="${long}">`, image],
  ['lazy ones in number', `<img${' data-src=a.png'.repeat(66)}>`, { imagesCut: 2 }],
  ['a background', `<p style="background: url(${long})">`, image],
  ['an alternative text', `<img src=a alt="${long}">`, {}],
  ['the tail of a style', `<style>a{background:url(a)}${long}</style>`, image],
  ['the tail of an open style', `<style>${long}`, image],
  ['JSON-LD', `<script type="application/ld+json">{"image":"a${long}"}</script>`, image],
  ['a script', `<script>${long}</script>`, {}],
  ['a link', `<a href="${long}">`, link],
  ['an area', `<area href=${long}>`, link],
  ['a frame', `<frame src="${long}">`, link],
  ['a script as a link', `<a href="javascript:${long}">`, {}],
  ['a link to data', `<a href=" data:text/html,${long}">`, {}],
  ['a refresh', `<meta http-equiv=refresh content="0; url=${long}">`, link],
  ['the tail of noframes', `<noframes>${long}</noframes>`, link],
  ['a value that is no end', `<a href="${long}`, {}],
];

test('cuts: a value or text over 1 MiB counts once', () => {
  for (const [name, html, expected] of dropped)
    for (const chunkChars of [65_536, html.length])
      assert.deepEqual(cuts(html, {}, chunkChars), expected, name);
});

test('cuts: a tag with an endless name keeps what it said before', () => {
  const endless = 'x'.repeat(3 * mebibyte);
  assert.deepEqual(cuts(`<a ${endless} href=x>`), link);
  assert.deepEqual(cuts(`<img src=a ${endless}>`, { images: 'img' }), {});
  const script = extract(`<script ${endless}><a href=no></script><a href=b>`);
  assert.equal(Buffer.from(script.links).toString(), 'http://h.test/d/b');
});

test('cuts: what a crawl does not want is not missed', () => {
  const html = `<img srcset="${long}"><p style="${long}"><style>${long}</style>`;
  assert.deepEqual(cuts(html, { images: 'img' }), {});
  assert.deepEqual(cuts(html, { images: ['css', 'img'] }), { imagesCut: 2 });
  const refresh = `<meta http-equiv=refresh content="0; url=${long}">`;
  assert.deepEqual(cuts(refresh, { ignoreRefresh: true }), {});
});

test('cuts: what follows a dropped value is read', () => {
  const html = `<img srcset="${long}" src=a><a href="${long}">x</a><a href=b><script ${long}><a href=no></script>`;
  const { images, links } = extract(html);
  assert.deepEqual(
    images.map(({ src }) => src),
    ['http://h.test/d/a'],
  );
  assert.equal(Buffer.from(links).toString(), 'http://h.test/d/b');
});

test('cuts: an address over 4096 characters counts once a class', () => {
  const src = 'y'.repeat(5000);
  assert.deepEqual(cuts(`<img src=${src}><img src=${src}><img src=./${src}>`), image);
  assert.deepEqual(cuts(`<img src=${src} srcset="${src} 2x">`), { imagesCut: 2 });
  assert.deepEqual(cuts(`<p style="background:url(${src})">`), image);
  assert.deepEqual(cuts(`<a href=${src}>`), link);
  assert.deepEqual(cuts(`<meta http-equiv=refresh content="0; url=${src}">`), link);
  assert.deepEqual(cuts(`<img src="ftp://${src}/">`), {});
});

test('cuts: a style and JSON-LD have no limit of their own', () => {
  const urls = Array.from({ length: 20_000 }, (_, n) => `url(${n})`);
  const style = extract(`<style>a{background:${urls.join(',')}}</style>`);
  assert.deepEqual([style.images.length, style.imagesCut], [20_000, 0]);
  const srcs = urls.map((_, n) => `"${n}.png"`);
  const ld = '<script type="application/ld+json">';
  const data = extract(`${ld}{"image":[${srcs.join(',')}]}</script>`);
  assert.deepEqual([data.images.length, data.imagesCut], [20_000, 0]);
  const deep = extract(`${ld}${'['.repeat(90_000)}{"image":"a"}${']'.repeat(90_000)}</script>`);
  assert.deepEqual([deep.images.length, deep.imagesCut], [1, 0]);
  // Beyond those of a page each one counts.
  const many = Array.from({ length: 60_000 }, (_, n) => `url(${n})`).join('');
  const page = extract(`<style>a{background:${many}}</style>`);
  assert.deepEqual([page.images.length, page.imagesCut], [50_000, 10_000]);
});

test('cuts: a fragment alone names no image', () => {
  const html =
    '<img src="#f"><img src=" #f"><img src="&#35;f"><img srcset="#a 1x, b 2x"><video poster="#p">' +
    '<input type=image src="#i"><link rel=icon href="#"><meta property=og:image content="#o">' +
    '<svg><image href=" #s"></svg><p style="background:url(#c)"><img data-src="#x.png">';
  const { images, imagesCut } = extract(html);
  assert.deepEqual(
    images.map(({ src }) => src),
    ['http://h.test/d/b'],
  );
  assert.equal(imagesCut, 0);
});
