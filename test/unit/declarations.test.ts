/** A page's statements about itself, read from whole pages. */
import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { resultSchema } from '../../shared/result-fields.ts';
import { noHeaders } from '../../slave/extract/declarations.ts';
import { type ExtractOptions, PageExtractor } from '../../slave/extract/extract.ts';

const url = 'http://h.test/d/p.html';
const folder = 'http://h.test/d/';

function extract(html: string, options: Partial<ExtractOptions> = {}) {
  const extractor = new PageExtractor({
    url,
    encoding: 'utf-8',
    images: 'all',
    userAgent: 'Orbweaver/0.1',
    obey: ['nofollow'],
    ...options,
  });
  extractor.write(html);
  const { links, images: _, ...rest } = extractor.end();
  const text = Buffer.from(links).toString('latin1');
  return { ...rest, links: text === '' ? [] : text.split('\n').map(short) };
}

function short(link: string): string {
  return link.replace(folder, '');
}

const robots = (content: string, name = 'robots') => `<meta name="${name}" content="${content}">`;
const refreshTo = (value: string) => `<meta http-equiv=refresh content="${value}">`;
const canonicalOf = (html: string, options?: Partial<ExtractOptions>) =>
  short(extract(html, options).canonical ?? '');
const refreshOf = (html: string, options?: Partial<ExtractOptions>) =>
  short(extract(html, options).refresh ?? '');
const header = (fields: Partial<typeof noHeaders>) => ({ headers: { ...noHeaders, ...fields } });

test('directives: meta elements and headers add up', () => {
  const html = `${robots('nosnippet')}${robots('noarchive', 'Orbweaver')}${robots('none', 'googlebot')}`;
  const { directives } = extract(html, header({ robots: ['noai', 'otherbot: noindex'] }));
  assert.deepEqual(directives, ['noarchive', 'nosnippet', 'noai']);
  assert.equal(extract('<meta name=description content=nofollow>').directives, undefined);
  assert.deepEqual(extract('<META CONTENT=NOFOLLOW NAME=ROBOTS>').directives, ['nofollow']);
  assert.deepEqual(extract('<meta name=robots content="no&#105;ndex">').directives, ['noindex']);
  assert.equal(extract('<!-- <meta name=robots content=none> -->').directives, undefined);
  assert.equal(extract('<script><meta name=robots content=none></script>').directives, undefined);
});

test('directives: they are read with img alone, too, and by the name of the user agent', () => {
  const html = `${robots('noindex')}${robots('noarchive', 'mybot')}`;
  const { directives } = extract(html, { images: 'img', userAgent: 'MyBot/2 (+https://a/)' });
  assert.deepEqual(directives, ['noindex', 'noarchive']);
});

test('nofollow: the links of the page are counted instead of offered, if that is obeyed', () => {
  const html = `<a href=1><a href=2><a href=1#x>${robots('nofollow')}<a href=3>`;
  const obeyed = extract(html);
  assert.deepEqual([obeyed.links, obeyed.nofollowed, obeyed.linksCut], [[], 3, 0]);
  for (const obey of [[], ['noindex', 'rel-nofollow']] as const) {
    const { links, nofollowed, directives } = extract(html, { obey: [...obey] });
    assert.deepEqual([links, nofollowed, directives], [['1', '2', '3'], 0, ['nofollow']]);
  }
});

test('nofollow: rel of a link counts only if that is obeyed, and not where it stands without', () => {
  const html =
    '<a href=1 rel=nofollow><a rel="noopener NoFollow" href=2><area href=3 rel=ugc>' +
    '<a href=4 rel="sponsored&#32;x"><a href=5 rel="nofollow-me"><a href=6 rel><a href=7>' +
    '<a href=2#f><a href=./1 rel=nofollow><a href=mailto:x rel=nofollow>';
  const followed = extract(html);
  assert.deepEqual([followed.links, followed.nofollowed], [['1', '2', '3', '4', '5', '6', '7'], 0]);
  for (const images of ['all', 'img'] as const) {
    const { links, nofollowed } = extract(html, { obey: ['rel-nofollow'], images });
    assert.deepEqual([links, nofollowed], [['5', '6', '7', '2'], 3]);
  }
  const both = extract(html + robots('none'), { obey: ['nofollow', 'rel-nofollow'] });
  assert.deepEqual([both.links, both.nofollowed], [[], 7]);
});

test('refresh: the target is a link like others, and said', () => {
  const { links, refresh } = extract(`<a href=1>${refreshTo('5; url=next#f')}`);
  assert.deepEqual([links, refresh], [['next', '1'], `${folder}next`]);
  const ignored = extract(`<a href=1>${refreshTo('5; url=next')}`, { ignoreRefresh: true });
  assert.deepEqual([ignored.links, ignored.refresh], [['1'], `${folder}next`]);
  const unfollowed = extract(refreshTo('0; url=next') + robots('nofollow'));
  assert.deepEqual([unfollowed.links, unfollowed.nofollowed], [[], 1]);
  assert.deepEqual(extract(`<a href=next>${refreshTo('0;next')}`).links, ['next']);
});

test('refresh: the page itself is no target, and leads to no other', () => {
  for (const value of ['5', '5; url=', '5; url=p.html', '5; url=#part', "5; url=' '"])
    assert.deepEqual(
      [refreshOf(refreshTo(value)), refreshOf(refreshTo(value) + refreshTo('0;next'))],
      ['', ''],
      value,
    );
});

test('refresh: the first that is valid counts, that of the header before all', () => {
  const second = refreshTo('0; url=second');
  assert.equal(refreshOf(refreshTo('0; url=first') + second), 'first');
  for (const invalid of [
    'soon',
    '',
    '0x',
    '0; url=http://[',
    '0; url=javascript:x()',
    '0; mailto:x',
  ])
    assert.equal(refreshOf(refreshTo(invalid) + second), 'second', invalid);
  assert.equal(refreshOf(second, header({ refresh: '0; url=first' })), 'first');
  assert.equal(refreshOf(second, header({ refresh: 'soon' })), 'second');
  assert.equal(refreshOf(`<base href=/b/>${second}`, header({ refresh: '0; first' })), 'first');
});

test('refresh: base as far as it stands before, references, case, and what is no pragma', () => {
  const to = '<META HTTP-EQUIV="Refresh" CONTENT="0;URL=next?a=1&amp;b=2">';
  assert.equal(refreshOf(to), 'next?a=1&b=2');
  assert.equal(refreshOf(`<base href=/b/>${to}`), 'http://h.test/b/next?a=1&b=2');
  assert.equal(refreshOf(`${to}<base href=/b/>`), 'next?a=1&b=2');
  assert.equal(refreshOf('<meta name=refresh content="0;next">'), '');
  assert.equal(refreshOf('<meta http-equiv=refresh>'), '');
  assert.equal(refreshOf('<meta http-equiv="refresh " content="0;next">'), '');
});

test('refresh, canonical: a query is written in the charset of the page', () => {
  const value = (text: string) => Buffer.from(text, 'latin1').toString('latin1');
  const options = { encoding: 'windows-1252', value };
  assert.equal(refreshOf(refreshTo('0;/?q=é'), options), 'http://h.test/?q=%E9');
  assert.equal(canonicalOf('<link rel=canonical href="/?q=é">', options), 'http://h.test/?q=%E9');
});

test('canonical: the preferred URL, against the base, if it is another one', () => {
  const cases: readonly (readonly [html: string, canonical: string])[] = [
    ['<link rel=canonical href=c>', 'c'],
    ['<LINK HREF="c#f" REL="Canonical">', 'c'],
    ['<link rel="alternate canonical" href="?a=1&amp;b=2">', 'p.html?a=1&b=2'],
    ['<link rel="c&#97;nonical" href=c>', 'c'],
    ['<link rel=canonical href=c><base href=/b/>', 'http://h.test/b/c'],
    ['<link rel=canonical href=https://o.test/>', 'https://o.test/'],
    ['<link rel=canonical href=p.html>', ''],
    ['<link rel=canonical href="">', ''],
    ['<link rel=canonical>', ''],
    ['<link rel=canonical href=http://[>', ''],
    ['<link rel=canonical href=file:///p.html>', ''],
    ['<link rel=canonically href=c>', ''],
    ['<a rel=canonical href=c>', ''],
    ['<!-- <link rel=canonical href=c> -->', ''],
    ['<link rel=canonical href=c><link rel=canonical href=./c>', 'c'],
    ['<link rel=canonical href=c><link rel=canonical href=d>', ''],
    ['<link rel=canonical href=mailto:x><link rel=canonical href=c>', 'c'],
  ];
  for (const [html, canonical] of cases)
    for (const images of ['all', 'img'] as const)
      assert.equal(canonicalOf(html, { images }), canonical, html);
});

test('canonical: a header says it, too, without the base of the page', () => {
  const links = ['<style.css>; rel=preload', '<c>; rel="canonical"'];
  assert.equal(canonicalOf('<base href=/b/>', header({ links })), 'c');
  assert.equal(canonicalOf('<link rel=canonical href=c>', header({ links })), 'c');
  assert.equal(canonicalOf('<link rel=canonical href=d>', header({ links })), '');
  const anchored = ['<c>; rel=canonical; anchor="/other"'];
  assert.equal(canonicalOf('', header({ links: anchored })), '');
});

test('declarations: what is too long is as if it were not there', () => {
  const long = 'x'.repeat(5000);
  const html = `${refreshTo(`0; ${long}`)}<link rel=canonical href=${long}>`;
  const { refresh, canonical, links } = extract(html);
  assert.deepEqual([refresh, canonical, links], [undefined, undefined, []]);
});

test('declarations: icons and cards are still images', () => {
  const html =
    '<link rel="icon canonical" href=i.png><meta property=og:image content=o.png>' +
    '<link rel=preload as=image href=p.png>';
  const extractor = new PageExtractor({ url, encoding: 'utf-8', images: 'all' });
  extractor.write(html);
  const { images, canonical } = extractor.end();
  assert.deepEqual(
    images.map(({ via }) => via),
    ['icon', 'og', 'preload'],
  );
  assert.equal(canonical, `${folder}i.png`);
});

test('declarations: whatever a page says fits the wire', () => {
  const word = fc.constantFrom(
    ...[
      'robots',
      'none',
      'nofollow',
      '0;url=',
      'canonical',
      'x',
      '#',
      '//',
      '\\',
      '"',
      '&amp;',
      ' ',
    ],
  );
  const text = fc.oneof(
    fc.string(),
    fc.array(word).map((words) => words.join('')),
  );
  const header = fc.record({
    robots: fc.array(text),
    refresh: fc.option(text, { nil: undefined }),
    links: fc.array(text.map((target) => `<${target}>; rel=canonical`)),
  });
  fc.assert(
    fc.property(text, text, header, (a, b, headers) => {
      const html = `<meta name=robots content="${a}"><meta http-equiv=refresh content='${b}'><link rel=canonical href="${b}">`;
      const { directives, refresh, canonical, nofollowed, links } = extract(html, { headers });
      const result = { directives, refresh, canonical, nofollowed };
      const page = { finalUrl: url, status: 200, bytes: 0, ms: 0 };
      assert.ok(resultSchema.safeParse({ ...page, ...result }).success, JSON.stringify(result));
      for (const link of [refresh, canonical])
        assert.ok(link === undefined || (new URL(link).href === link && link !== url));
      assert.ok(links.length + nofollowed <= 1);
    }),
  );
});
