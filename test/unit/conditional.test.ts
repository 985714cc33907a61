/** Requests that ask whether a page changed. Source: RFC 9110, 8.8 and 13.1. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import test, { after, before, beforeEach } from 'node:test';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import { resultSchema } from '../../shared/result-fields.ts';
import type { FetchContext } from '../../slave/fetch/fetcher.ts';
import { PageFetcher } from '../support/page-fetcher.ts';
import { seedHere } from '../support/seed-here.ts';

const spec = fetchSpecSchema.parse({});
const never = new AbortController().signal;
const fetcher = new PageFetcher({ connections: 4 });
const asked: { path: string | undefined; headers: IncomingHttpHeaders }[] = [];
let answer: { status: number; headers: Record<string, string> } = { status: 200, headers: {} };
let server: Server;
let origin = '';

before(async () => {
  server = createServer(({ url, headers }, response) => {
    asked.push({ path: url, headers });
    if (url === '/moved') response.writeHead(302, { location: '/page' }).end();
    else response.writeHead(answer.status, answer.headers).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
beforeEach(() => {
  asked.length = 0;
});
after(async () => {
  await fetcher.close();
  server.close();
});

async function get(path: string, context: FetchContext = {}) {
  const outcome = await fetcher.fetch(origin + path, spec, never, { ...seedHere, ...context });
  assert.ok(outcome.ok, JSON.stringify(outcome));
  return resultSchema.parse(outcome.result);
}

const conditions = () =>
  asked.map(({ headers }) => [headers['if-none-match'], headers['if-modified-since']]);

test('conditional: validators of pages and of other files are reported as they came', async () => {
  const date = 'Fri, 20 Nov 2026 10:00:00 GMT';
  for (const type of ['text/html', 'image/png', '']) {
    const headers = { etag: 'W/"a b"', 'last-modified': date };
    answer = { status: 200, headers: type === '' ? headers : { 'content-type': type, ...headers } };
    const { etag, lastModified } = await get('/page');
    assert.deepEqual([etag, lastModified], [undefined, date], type);
    answer.headers = { ...answer.headers, etag: 'W/"a"' };
    assert.equal((await get('/page')).etag, 'W/"a"');
  }
  answer = {
    status: 200,
    headers: { etag: `"${'x'.repeat(255)}"`, 'last-modified': 'x'.repeat(65) },
  };
  const { etag, lastModified } = await get('/page');
  assert.deepEqual([etag, lastModified], [undefined, undefined]);
  answer = { status: 404, headers: { etag: '"x"' } };
  assert.equal((await get('/page')).etag, undefined);
  assert.deepEqual(new Set(conditions().flat()), new Set([undefined]));
});

test('conditional: 304 is an answer where it was asked for, else an error', async () => {
  answer = { status: 304, headers: { etag: '"2"' } };
  const validators = { etag: 'W/"1"', lastModified: 'yesterday' };
  const { status, error, etag } = await get('/page', { validators });
  assert.deepEqual([status, error, etag], [304, undefined, '"2"']);
  assert.equal((await get('/page')).error?.message, '304 Not Modified');
  assert.deepEqual(conditions(), [
    ['W/"1"', 'yesterday'],
    [undefined, undefined],
  ]);
});

test('conditional: behind a redirect only the page that they are of is asked', async () => {
  answer = { status: 304, headers: {} };
  const validators = { etag: '"1"' };
  const own = await get('/moved', { validators });
  assert.equal(own.error?.message, '304 Not Modified');
  const of = await get('/moved', { validators, validatedUrl: `${origin}/page` });
  assert.deepEqual([of.status, of.error, of.finalUrl], [304, undefined, `${origin}/page`]);
  assert.deepEqual(conditions(), [
    ['"1"', undefined],
    [undefined, undefined],
    [undefined, undefined],
    ['"1"', undefined],
  ]);
});
