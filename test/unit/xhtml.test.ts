/** Pages of type application/xhtml+xml are read as XML. */
import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { type Extract, PageExtractor } from '../../slave/extract/extract.ts';
import { cpuMsSince } from '../support/cpu-time.ts';

const base = 'http://h.test/d/';

function extract(chunks: readonly string[]): Extract {
  const options = { url: base, encoding: 'utf-8', images: 'all', xml: true } as const;
  const extractor = new PageExtractor(options);
  for (const chunk of chunks) extractor.write(chunk);
  return extractor.end();
}

function links(found: Extract): string[] {
  const text = Buffer.from(found.links).toString('latin1');
  return text === '' ? [] : text.split('\n').map((link) => link.replace(base, ''));
}

function images(found: Extract): string[] {
  return found.images.map(({ src, via }) => `${via} ${src.replace(base, '')}`);
}

const xhtml = 'xmlns="http://www.w3.org/1999/xhtml"';
const svg = 'xmlns="http://www.w3.org/2000/svg"';
const a = '<a href="x"/>';

/** A document and its links as an XML parser finds them. */
const cases: readonly (readonly [xml: string, ...links: string[]])[] = [
  // Any element can be empty, and none swallows what follows.
  ...[
    'script src="s.js"',
    'title',
    'iframe src="i"',
    'style',
    'textarea',
    'noframes',
    'plaintext',
    'xmp',
    'noembed',
    'noscript',
  ].map((name) => [`<html ${xhtml}><${name}/>${a}<a href='y' /></html>`, 'x', 'y'] as const),
  [`<iframe>${a}</iframe><textarea>${a}</textarea><a href="y"/>`, 'x', 'y'],
  [`<noframes>${a}</noframes>`, 'x'],
  // Text is text.
  [`<script><![CDATA[ if (a < b) "</script>${a}" ]]></script><a href="y"/>`, 'y'],
  [`<script>//<![CDATA[\n document.write('${a}');\n//]]></script><a href="y"/>`, 'y'],
  [`<p><![CDATA[${a} ]] > ]]]]></p><a href="y"/>`, 'y'],
  ['<![CDATA['],
  // Comments, instructions, declarations.
  [`<!--> ${a} --!> ${a} --><a href="y"/>`, 'y'],
  [`<!---->${a}`, 'x'],
  [`<?php echo "<a href='n'>" > ?>${a}`, 'x'],
  [`<?xml version="1.0"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "x>y">${a}`, 'x'],
  [
    `<!DOCTYPE html [<!ENTITY a "<a href='n'/>]>"><!-- ' ]> --><?p ]> ?><!ELEMENT p ANY>]>${a}`,
    'x',
  ],
  // Names have case.
  ['<A href="n"/><a HREF="n"/><a href="x"/>', 'x'],
  ['<BASE href="/n/"/><a href="x"/>', 'x'],
  // References: all that XHTML has, with their semicolon; numbers as they are.
  ['<a href="?a&amp;b&lt;&apos;&copy;&copy=1&amp"/>', '?a&b%3C%27%C2%A9&copy=1&amp'],
  ['<a href="&#65;&#x42;&#X43;&#128;&#0;&nonsense;"/>', 'AB&'],
  ['<a href="a\nb\tc"/><a href=" y "/>', 'a%20b%20c', 'y'],
  // Namespaces.
  [
    `<html ${xhtml}><svg ${svg}><a href="n"/><foreignObject><a ${xhtml} href="x"/></foreignObject></svg><a href="y"/></html>`,
    'x',
    'y',
  ],
  [
    `<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:a href="x"/><g:a xmlns:g="urn:g" href="n"/></h:html>`,
    'x',
  ],
  [`<html ${xhtml}><rdf xmlns="urn:rdf"><a href="n"/></rdf>${a}</html>`, 'x'],
  [`<html ${xhtml}><svg><a href="x"/></svg></html>`, 'x'],
  [`<html ${xhtml}><q:a href="n"/>${a}</html>`, 'x'],
  // Markup that no browser shows is read as it seems meant.
  [`<p>1 < 2 & 3<br>${a}<a href=y>`, 'x', 'y'],
  [`<html ${xhtml}><svg ${svg}><g></svg>${a}</html>`, 'x'],
  ['<a href="x"/><a href="n', 'x'],
  ['<a href="x"/><frame src="f"/><a>', 'x', 'f'],
];

test('xhtml: links are those of an XML parser', () => {
  for (const [xml, ...expected] of cases) {
    assert.deepEqual(links(extract([xml])), expected, xml);
    assert.deepEqual(links(extract([...xml])), expected, `${xml}, letter by letter`);
  }
});

test('xhtml: numbers are characters, whatever windows-1252 has there', () => {
  const title = (text: string) => extract([`<title>${text}</title>`]).title;
  assert.equal(title('&#128;|&#x20ac;|&#0;|&#xd800;|&#x110000;'), '\x80|€|\ufffd|\ufffd|\ufffd');
  assert.equal(
    title('A &amp; <b>B</b> &eacute; <![CDATA[&amp; <i>]]> <!-- no --> <?no?> z'),
    'A & B é &amp; <i> z',
  );
  assert.equal(title('&copy &unknown; &AMP'), '&copy &unknown; &AMP');
});

test('xhtml: the first title is the page\u2019s, an empty one too', () => {
  const svgTitle = `<svg ${svg}><title>no</title></svg>`;
  assert.equal(extract([`<html ${xhtml}>${svgTitle}<title>t</title></html>`]).title, 't');
  assert.equal(extract(['<title/><title>two</title>']).title, undefined);
  assert.equal(extract(['<title>to the end']).title, 'to the end');
});

test('xhtml: a base in a template is not the page\u2019s', () => {
  const none = '<base href="/no/"/>';
  const inner = `<template/><template>${none}</template><p>${none}</p><base href="/no/"></base>`;
  for (const html of [
    `<template>${inner}</template><base href="/d/b/"/>`,
    `<template/><base href="/d/b/"></base>`,
    `<s:svg xmlns:s="http://www.w3.org/2000/svg"><s:template><base href="/d/b/"/></s:template></s:svg>`,
  ])
    assert.deepEqual(links(extract([`<html ${xhtml}>${html}${a}</html>`])), ['b/x'], html);
});

test('xhtml: images are where XML has them', () => {
  const xlink = 'xmlns:xlink="http://www.w3.org/1999/xlink"';
  const found = extract([
    `<html ${xhtml}><img src="a.png"/><IMG src="n.png"/><image src="n.png"/>` +
      `<s:svg xmlns:s="http://www.w3.org/2000/svg" ${xlink}><s:image xlink:href="b.png"/>` +
      '<s:feImage href="c.png"/><s:feimage href="n.png"/></s:svg>' +
      '<style>a { background: url(d.png?a&amp;b) } <![CDATA[ b > c { background: url("e.png?a&b") } ]]></style>' +
      '<script type="application/ld+json"><![CDATA[{"image": "f.png?a&b"}]]></script>' +
      '<script type="application/ld+json">{"image": "g.png?a&amp;b"}</script>' +
      '<p style="background: url(&quot;h.png&quot;)"/><img data-src="i.png" srcset="j.png 1x,&#10;k.png 2x"/></html>',
  ]);
  assert.deepEqual(images(found), [
    'img a.png',
    'svg b.png',
    'svg c.png',
    ...['d.png?a&b', 'e.png?a&b'].map((src) => `css ${src}`),
    ...['f.png?a&b', 'g.png?a&b'].map((src) => `jsonld ${src}`),
    'css h.png',
    'srcset j.png',
    'srcset k.png',
    'lazy i.png',
  ]);
});

test('xhtml: what is too long is counted', () => {
  const long = 'x'.repeat((1 << 20) + 1);
  const pieces = (xml: string) => xml.match(/[\s\S]{1,65536}/g) ?? [];
  for (const split of [pieces, (xml: string) => [xml]]) {
    const found = extract(split(`<a href="${long}"/><img src="${long}"/><a href="y"/>`));
    assert.deepEqual([found.linksCut, found.imagesCut, links(found)], [1, 1, ['y']]);
    const style = extract(split(`<style>${long}</style><style><![CDATA[${long}]]></style>`));
    assert.equal(style.imagesCut, 2);
  }
  const endless = `<${long.repeat(3)}`;
  assert.deepEqual(links(extract([...pieces(endless), '><a href="x"/>'])), ['x']);
});

test('xhtml: cuts anywhere change nothing', () => {
  const piece = fc.constantFrom(
    ...[
      '<a href="x"/>',
      "<a href='y&amp;z'>",
      '</a>',
      '<title>',
      '</title>',
      '<![CDATA[',
      ']]>',
      '<!--',
    ],
    ...[
      '-->',
      '<?x',
      '?>',
      '<!DOCTYPE x [',
      ']>',
      '<style>',
      '</style>',
      'url(i)',
      '<',
      '>',
      '/',
      '"',
      "'",
      '&amp;',
    ],
    ...[
      `<svg ${svg}>`,
      '</svg>',
      `<html ${xhtml}>`,
      '<p:a xmlns:p="urn:x" href="n">',
      ' ',
      'a',
      '=',
      '<img src="i"/>',
    ],
  );
  fc.assert(
    fc.property(
      fc.array(piece, { maxLength: 30 }),
      fc.array(fc.nat(300), { maxLength: 6 }),
      (list, at) => {
        const xml = list.join('');
        const cuts = [
          0,
          ...at.map((cut) => Math.min(cut, xml.length)).sort((x, y) => x - y),
          xml.length,
        ];
        const chunks = cuts.slice(1).map((cut, i) => xml.slice(cuts[i], cut));
        assert.deepEqual(extract(chunks), extract([xml]));
      },
    ),
    { numRuns: 3000 },
  );
});

test('xhtml: a page made to hurt costs little time', () => {
  const bombs = {
    deep: '<b>'.repeat(500_000) + '</c>'.repeat(500_000),
    prefixes: Array.from({ length: 20_000 }, (_, n) => `<b xmlns:p${n}="urn:${n}">`).join(''),
    opens: '<'.repeat(2_000_000),
    attributes: `<a ${'b="c" '.repeat(300_000)}>`,
    names: `<a ${Array.from({ length: 200_000 }, (_, n) => `b${n}="c"`).join(' ')}>`,
    declaration: `<!DOCTYPE ${'['.repeat(1_000_000)}`,
    quotes: `<!DOCTYPE ${'"'.repeat(1_000_001)}`,
    references: `<a href="${'&#x41;'.repeat(170_000)}"/>`,
  };
  for (const [name, xml] of Object.entries(bombs)) {
    const started = process.cpuUsage();
    extract(xml.match(/[\s\S]{1,65536}/g) ?? []);
    // Minutes if anything is quadratic; the bound is loose for a busy machine.
    assert.ok(cpuMsSince(started) < 5_000, name);
  }
});
