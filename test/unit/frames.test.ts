/** Pages that are made of other pages: frames, what stands for them, and iframes. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { type ExtractOptions, PageExtractor } from '../../slave/extract/extract.ts';

function extract(html: string, options: Partial<ExtractOptions> = {}, chunkChars = html.length) {
  const url = 'http://h.test/d/';
  const extractor = new PageExtractor({ url, encoding: 'utf-8', images: 'all', ...options });
  for (let at = 0; at < html.length; at += chunkChars)
    extractor.write(html.slice(at, at + chunkChars));
  const found = extractor.end();
  const links = Buffer.from(found.links).toString('latin1').split('\n').filter(Boolean);
  return { ...found, links: links.map((link) => link.slice(url.length)) };
}

test('frames: a frameset leads to its frames and to what noframes holds', () => {
  const html =
    '<title>t</title><frameset cols="1,2"><frame src="menu.html"><FRAME name=x SRC=main.html />' +
    '<frame><frame src=""><frame src=" "><frame src="javascript:1"><frame src="about:blank">' +
    '<noframes><base href="/no/"><title>no</title><meta name=robots content=nofollow>' +
    '<body><a href="plain.html">x</a><img src=i.png></body></noframes></frameset>';
  for (const chunkChars of [html.length, 7, 1]) {
    const found = extract(html, { obey: ['nofollow'] }, chunkChars);
    assert.deepEqual(found.links, ['menu.html', 'main.html', 'plain.html']);
    assert.deepEqual(
      found.images.map(({ src }) => src),
      ['http://h.test/d/i.png'],
    );
    assert.equal(found.title, 't');
    assert.equal(found.directives, undefined);
  }
});

test('frames: noframes ends where a browser ends it, whatever stands in it', () => {
  for (const inside of [
    '<!-- ',
    '<script>',
    '<a href="',
    '<noframes>',
    '<plaintext>',
    '</noframe',
  ]) {
    const html = `<noframes><a href=x>${inside}</noframes><a href=y>`;
    assert.deepEqual(extract(html).links, ['x', 'y'], inside);
  }
  assert.deepEqual(extract('<noframes><a href=x>').links, ['x']);
  const many = extract('<noframes><a href=x>'.repeat(50_000));
  assert.deepEqual(many.links, ['x']);
});

test('frames: iframes are links on demand alone', () => {
  const html =
    '<iframe src="a"><a href=no></iframe><iframe src=""></iframe><iframe srcdoc="<a href=no>">' +
    '</iframe><IFRAME data-src=no SRC="b&amp;c"></IFRAME><a href=d>';
  for (const images of ['img', 'all'] as const) {
    assert.deepEqual(extract(html, { images }).links, ['d']);
    assert.deepEqual(extract(html, { images, iframes: true }).links, ['a', 'b&c', 'd']);
  }
  assert.equal(
    extract('<iframe src=x><title>no</title></iframe>', { iframes: true }).title,
    undefined,
  );
});

test('frames: a page that wants no links followed wants its frames left, too', () => {
  const html = '<meta name=robots content=nofollow><frameset><frame src=a><noframes><a href=b>';
  const found = extract(html, { obey: ['nofollow'] });
  assert.deepEqual([found.links, found.nofollowed], [[], 2]);
});
