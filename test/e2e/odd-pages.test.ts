/** Pages of the older web, end to end: frames, XHTML, a late charset, a success that is no 200. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { crawlToEnd } from '../support/parts.ts';

const timeout = 60_000;
const html = 'text/html';

type Answer = { readonly body: string; readonly type?: string; readonly status?: number };

type Line = Record<string, unknown>;

const pages: Readonly<Record<string, Answer>> = {
  '/': {
    body: '<frameset><frame src=/menu><frame src=/main><noframes><a href=/plain></noframes></frameset>',
  },
  '/menu': { body: '<iframe src=/inner></iframe><a href=/xhtml.html><a href=/late>' },
  '/main': { body: '<a href=/part>', status: 203 },
  '/part': { body: '<a href=/created>', status: 206 },
  '/created': { body: '<title>made</title>', status: 201 },
  '/plain': { body: 'x' },
  '/xhtml.html': {
    body: '<title/><script src="s.js"/><iframe/><a href="/behind"/>',
    type: 'application/xhtml+xml',
  },
  '/behind': { body: 'x' },
  // `日本` in Shift_JIS.
  '/late': {
    body: `<!--${'x'.repeat(2000)}--><title>\x93\xfa\x96\x7b</title><meta charset=shift_jis>`,
  },
  '/inner': { body: 'x' },
};

async function crawl(t: TestContext, flags: readonly string[]) {
  const server = createServer(({ url = '' }, response) => {
    const { body, type = html, status = 200 } = pages[url] ?? { body: '', status: 404 };
    response.writeHead(status, { 'content-type': type }).end(Buffer.from(body, 'latin1'));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const cluster = await crawlToEnd(t, [`${origin}/`], { flags });
  const lines = cluster.lines('pages.jsonl').map((line) => JSON.parse(line) as Line);
  return new Map(lines.map((line) => [String(line['url']).slice(origin.length), line]));
}

test('odd pages: each is a page, and leads on', { timeout }, async (t) => {
  const lines = await crawl(t, []);
  const wanted = Object.keys(pages).filter((path) => path !== '/inner');
  assert.deepEqual([...lines.keys()].sort(), wanted.sort());
  for (const [path, line] of lines) assert.ok(Array.isArray(line['images']), path);
  assert.deepEqual(
    [lines.get('/late')?.['title'], lines.get('/late')?.['charset']],
    ['日本', 'shift_jis'],
  );
  assert.deepEqual([lines.get('/part')?.['status'], lines.get('/part')?.['cut']], [206, true]);
});

test('odd pages: --iframes follows iframes', { timeout }, async (t) => {
  const lines = await crawl(t, ['--iframes']);
  assert.deepEqual([...lines.keys()].sort(), Object.keys(pages).sort());
});
