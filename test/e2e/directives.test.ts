/** Directives of pages, end to end: real slaves read them, the files record them. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { crawlToEnd } from '../support/parts.ts';

const timeout = 60_000;

type Answer = { readonly html: string; readonly headers?: Record<string, string | string[]> };

const image = (name: string) => `<img src=/${name}.png>`;
/** Every page that says something leads to one that only it names, and has an image of its own. */
const pages: Readonly<Record<string, Answer>> = {
  '/': {
    html: [
      '<a href=/meta><a href=/header><a href=/other><a href=/rel><a href=/refresh>',
      '<a href=/refresh-header><a href=/noindex><a href=/a?sort=1><a href=/a?sort=2><a href=/a>',
      '<a href=/paper.pdf>',
    ].join('\n'),
  },
  '/meta': {
    html: `<meta name=robots content="nofollow, noarchive"><a href=/meta-1><a href=/meta-2>${image('meta')}`,
  },
  '/header': {
    html: `<a href=/header-1>${image('header')}`,
    headers: { 'x-robots-tag': ['noimageindex', 'Orbweaver: nofollow'] },
  },
  '/other': {
    html: '<meta name=googlebot content=none><a href=/other-1>',
    headers: { 'x-robots-tag': 'googlebot: noindex, nofollow' },
  },
  '/rel': { html: '<a href=/rel-1 rel="ugc nofollow"><a href=/rel-2>' },
  '/refresh': { html: '<base href=/r/><meta http-equiv=Refresh content="0; url=to?a=1&amp;b=2">' },
  '/refresh-header': { html: 'x', headers: { refresh: '3;/refresh-2' } },
  '/noindex': {
    html: `<meta name=orbweaver content=noindex><a href=/noindex-1>${image('noindex')}`,
  },
  '/a': { html: image('a') },
  '/a?sort=1': { html: `<link rel=canonical href=/a>${image('a')}` },
  '/a?sort=2': {
    html: `${image('a')}${image('a-2')}`,
    headers: { link: '</s.css>; rel=preload, </a>; rel="canonical"' },
  },
  '/paper.pdf': {
    html: 'x',
    headers: { 'content-type': 'application/pdf', 'x-robots-tag': 'none' },
  },
  ...Object.fromEntries(
    ['meta-1', 'meta-2', 'header-1', 'other-1', 'rel-1', 'rel-2', 'refresh-2', 'noindex-1'].map(
      (name) => [`/${name}`, { html: name }],
    ),
  ),
  '/r/to?a=1&b=2': { html: 'to' },
};

async function serve(t: TestContext): Promise<{ origin: string; asked: Set<string> }> {
  const asked = new Set<string>();
  const server = createServer((request, response) => {
    const path = request.url ?? '/';
    const page = pages[path];
    if (path !== '/robots.txt') asked.add(path);
    const headers = { 'content-type': 'text/html; charset=utf-8', ...page?.headers };
    response.writeHead(page === undefined ? 404 : 200, headers).end(page?.html);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

type Line = Record<string, unknown>;

/** Crawls the site; gives what was asked for, the lines by path, and the images without ".png". */
async function crawl(t: TestContext, flags: readonly string[]) {
  const { origin, asked } = await serve(t);
  const cluster = await crawlToEnd(t, [`${origin}/`], { flags });
  const short = (url: unknown) => String(url).replace(origin, '');
  const lines = new Map(
    cluster.lines('pages.jsonl').map((line) => {
      const fields = JSON.parse(line) as Line;
      return [short(fields['url']), fields];
    }),
  );
  const images = cluster.lines('img_src.txt').map((src) => short(src).slice(1, -4));
  const said = (path: string, ...names: string[]) =>
    names.map((name) => {
      const value = lines.get(path)?.[name];
      return typeof value === 'string' ? short(value) : value;
    });
  return { asked, lines, images: images.sort(), said };
}

test('directives: by default links of nofollow pages stay, all is told', { timeout }, async (t) => {
  const { asked, lines, images, said } = await crawl(t, ['--images', 'img']);
  const kept = ['/meta-1', '/meta-2', '/header-1'];
  const wanted = Object.keys(pages).filter((path) => !kept.includes(path));
  assert.deepEqual([...asked].sort(), wanted.sort());
  assert.deepEqual([...lines.keys()].sort(), wanted.sort());
  assert.deepEqual(images, ['a', 'a-2', 'header', 'meta', 'noindex']);
  assert.deepEqual(said('/meta', 'directives', 'nofollowed', 'links'), [
    ['nofollow', 'noarchive'],
    2,
    0,
  ]);
  assert.deepEqual(said('/header', 'directives', 'nofollowed'), [['nofollow', 'noimageindex'], 1]);
  assert.deepEqual(said('/other', 'directives', 'nofollowed', 'links'), [undefined, undefined, 1]);
  assert.deepEqual(said('/rel', 'nofollowed', 'links'), [undefined, 2]);
  assert.deepEqual(said('/refresh', 'refresh', 'links'), ['/r/to?a=1&b=2', 1]);
  assert.deepEqual(said('/refresh-header', 'refresh', 'links'), ['/refresh-2', 1]);
  assert.deepEqual(said('/noindex', 'directives', 'excluded', 'links'), [
    ['noindex'],
    undefined,
    1,
  ]);
  assert.deepEqual(said('/paper.pdf', 'directives', 'type'), [
    ['noindex', 'nofollow'],
    'application/pdf',
  ]);
  for (const path of ['/a?sort=1', '/a?sort=2'])
    assert.deepEqual(said(path, 'canonical', 'excluded'), ['/a', undefined], path);
});

test('directives: all obeyed, names kept, refresh ignored', { timeout }, async (t) => {
  const flags = ['--obey', 'all', '--canonical', '--ignore-refresh'];
  const { asked, lines, images, said } = await crawl(t, flags);
  const kept = ['/meta-1', '/meta-2', '/header-1', '/rel-1', '/refresh-2', '/r/to?a=1&b=2'];
  const wanted = Object.keys(pages).filter((path) => !kept.includes(path));
  assert.deepEqual([...asked].sort(), wanted.sort());
  assert.deepEqual(images, ['a', 'a-2', 'header', 'meta']);
  assert.deepEqual(said('/rel', 'nofollowed', 'links'), [1, 1]);
  assert.deepEqual(said('/refresh', 'refresh', 'links'), ['/r/to?a=1&b=2', 0]);
  for (const path of ['/noindex', '/paper.pdf'])
    assert.deepEqual(said(path, 'excluded', 'images'), ['noindex', undefined], path);
  const variants = ['/a', '/a?sort=1', '/a?sort=2'].map((path) => lines.get(path));
  assert.equal(variants.filter((line) => line?.['images'] !== undefined).length, 1);
  assert.equal(variants.filter((line) => line?.['excluded'] === 'canonical').length, 2);
});

test('directives: --obey none follows every link', { timeout }, async (t) => {
  const { asked, said } = await crawl(t, ['--obey', 'none']);
  assert.deepEqual([...asked].sort(), Object.keys(pages).sort());
  assert.deepEqual(said('/meta', 'directives', 'nofollowed', 'links'), [
    ['nofollow', 'noarchive'],
    undefined,
    2,
  ]);
});
