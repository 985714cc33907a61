/**
 * A page that is read without its links and images says the same of itself as one that is read
 * with them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Extract, PageExtractor } from '../../slave/extract/extract.ts';
import { hostilePage, orderlyPage } from '../support/hostile-pages.ts';

const descriptions = [
  '<meta name=robots content="noindex, nofollow">',
  '<link rel=canonical href="/c?a=1&amp;b">',
  '<base href="/b/">',
  '<meta charset=utf-8><title>A &amp; b</title>',
  '<meta http-equiv=refresh content="0; url=r">',
  '<a href=x><img src=y><link rel=canonical href=z></a>',
  '<svg><title>no</title><a href=q></a></svg><title>T</title>',
  '<iframe src=i><meta name=robots content=noindex></iframe>',
  '<script><meta name=robots content=noindex></script><noframes><a href=n></noframes>',
];

function read(html: string, bare: boolean, xml: boolean): Extract {
  const url = 'http://site/dir/page';
  const obey = ['noindex', 'nofollow', 'rel-nofollow'] as const;
  const extractor = new PageExtractor({
    url,
    encoding: 'utf-8',
    images: 'img',
    iframes: true,
    obey: [...obey],
    bare,
    xml,
  });
  // A token that a chunk cuts is read again.
  for (let at = 0; at < html.length; at += 50) extractor.write(html.slice(at, at + 50));
  return extractor.end();
}

test('bare page: what a page says of itself does not depend on its links and images', () => {
  const pages: string[] = [];
  for (let seed = 0; seed < 150; seed++) {
    const some = descriptions.filter((_, i) => (seed * 37 + i * i) % 3 === 0).join('');
    pages.push(some + hostilePage(seed), orderlyPage(seed).replace('<body', `${some}<body`));
  }
  let links = 0;
  let described = 0;
  for (const html of [...pages, ...descriptions]) {
    for (const xml of [false, true]) {
      const whole = read(html, false, xml);
      const bare = read(html, true, xml);
      for (const name of ['title', 'directives', 'canonical', 'refresh'] as const) {
        assert.deepEqual(bare[name], whole[name], `${name}: ${html.slice(0, 300)}`);
        if (whole[name] !== undefined) described++;
      }
      links += whole.links.length;
      assert.deepEqual(bare.images, []);
    }
  }
  assert.ok(links > 1_000 && described > 100, `${links} ${described}`);
});
