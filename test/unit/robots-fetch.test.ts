/** How a slave fetches a robots.txt: by the exchange of all kinds, with limits of its own. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import test, { type TestContext } from 'node:test';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import { limits } from '../../shared/protocol.ts';
import { requestSchemas } from '../../shared/requests.ts';
import { CookieJar } from '../../slave/fetch/cookies.ts';
import type { FetchContext } from '../../slave/fetch/fetcher.ts';
import { robots } from '../../slave/kinds/robots.ts';
import { PageFetcher } from '../support/page-fetcher.ts';
import { seedHere } from '../support/seed-here.ts';

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

const spec = fetchSpecSchema.parse({
  timeoutMs: 3_000,
  userAgent: 'First/1',
  headers: [['x-contact', 'me@a.example']],
});
const never = new AbortController().signal;

class Site {
  readonly asked: IncomingMessage[] = [];
  url = '';

  static async start(t: TestContext, handler: Handler): Promise<Site> {
    const site = new Site();
    const server = createServer((request, response) => {
      site.asked.push(request);
      handler(request, response);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => {
      server.closeAllConnections();
      server.close();
    });
    site.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return site;
  }
}

async function fetched(t: TestContext, url: string, context: FetchContext = {}) {
  const fetcher = new PageFetcher({ connections: 2 });
  t.after(() => fetcher.close());
  return await fetcher.fetchRobots(url, spec, never, { ...seedHere, ...context });
}

/** The file, in words of the wire. */
async function fileOf(t: TestContext, url: string, context: FetchContext = {}) {
  const outcome = await fetched(t, url, context);
  assert.ok(outcome.ok, JSON.stringify(outcome));
  const [said, ...rest] = robots.statements({ task: Buffer.from('t'), lease: 1 }, outcome);
  assert.ok(said?.verb === 'task.robots' && rest.length === 0);
  const { body, ...file } = requestSchemas['task.robots'].parse({
    verb: said.verb,
    id: 1,
    ...said.body,
  });
  return { ...file, text: Buffer.from(body).toString() };
}

test('robots fetch: asked with the first user agent, no header of the crawl, no cookie', async (t) => {
  const site = await Site.start(t, ({ url }, response) => {
    const isLast = url === '/next';
    response.writeHead(isLast ? 200 : 302, { 'set-cookie': 'a=b', location: '/next' }).end();
  });
  const cookies = new CookieJar();
  cookies.take('known=1', new URL(site.url), Date.now());
  const context = { cookies, userAgent: 'Second/1', validators: { etag: '"a"' } };
  await fileOf(t, `${site.url}/robots.txt`, context);
  assert.equal(site.asked.length, 2);
  for (const { headers } of site.asked) {
    const { host, connection, ...said } = headers;
    assert.deepEqual(said, { 'user-agent': 'First/1', accept: 'text/plain,*/*;q=0.5' });
  }
  assert.equal(cookies.header(new URL(site.url), Date.now()), 'known=1');
});

test('robots fetch: five redirects are followed, the sixth is the answer', async (t) => {
  const site = await Site.start(t, ({ url = '' }, response) => {
    const left = Number(url.slice(1));
    if (left > 0) response.writeHead(301, { location: `/${left - 1}` }).end('moved');
    else response.end('Disallow: /x\n');
  });
  const five = await fileOf(t, `${site.url}/5`);
  assert.deepEqual([five.status, five.text], [200, 'Disallow: /x\n']);
  const six = await fileOf(t, `${site.url}/6`);
  assert.deepEqual([six.status, six.text], [301, '']);
  assert.equal(site.asked.length, 6 + 6);
});

test('robots fetch: a redirect to itself, or to nowhere, is the answer', async (t) => {
  const site = await Site.start(t, ({ url = '' }, response) => {
    response.writeHead(302, { location: url === '/loop' ? url : 'ftp://a.example/' }).end();
  });
  assert.equal((await fileOf(t, `${site.url}/loop`)).status, 302);
  assert.equal((await fileOf(t, `${site.url}/ftp`)).status, 302);
  assert.equal(site.asked.length, 2);
});

test('robots fetch: another host is asked, but only within what the crawl allows', async (t) => {
  const other = await Site.start(t, (_, response) => response.end('Disallow: /y\n'));
  const site = await Site.start(t, (_, response) => {
    response.writeHead(302, { location: `${other.url}/robots.txt` }).end();
  });
  const outcome = await fetched(t, `${site.url}/robots.txt`);
  // The private blocks of the seed are those of its own host.
  assert.equal(outcome.ok ? outcome.status : outcome.error.kind, 'blocked');
  assert.equal(other.asked.length, 0);
  const fetcher = new PageFetcher({ connections: 2 });
  t.after(() => fetcher.close());
  const open = { ...spec, allowPrivate: 'all' as const };
  const file = await fetcher.fetchRobots(`${site.url}/robots.txt`, open, never);
  assert.equal(file.ok && Buffer.from(file.body).toString(), 'Disallow: /y\n');
});

test('robots fetch: another host that is silent is waited for as briefly as the first', async (t) => {
  const other = await Site.start(t, () => {});
  const site = await Site.start(t, (_, response) => {
    response.writeHead(302, { location: `${other.url}/robots.txt` }).end();
  });
  const fetcher = new PageFetcher({ connections: 2 });
  t.after(() => fetcher.close());
  const brief = { ...spec, allowPrivate: 'all' as const, connectTimeoutMs: 300 };
  const began = performance.now();
  const outcome = await fetcher.fetchRobots(site.url, brief, never, { isFirst: true });
  assert.equal(outcome.ok ? outcome.status : outcome.error.kind, 'timeout');
  assert.ok(performance.now() - began < 2_900);
});

test('robots fetch: a file beyond 500 KiB is cut after its last whole line', async (t) => {
  const line = `Disallow: /${'x'.repeat(88)}\n`;
  const site = await Site.start(t, ({ url }, response) => {
    const exact = line.repeat(limits.robotsBytesMax / line.length);
    response.end(url === '/exact' ? exact : `${exact.slice(1)}Disallow: /half`);
  });
  assert.equal(limits.robotsBytesMax % line.length, 0);
  const exact = await fileOf(t, `${site.url}/exact`);
  assert.equal(exact.text.length, limits.robotsBytesMax);
  const { text } = await fileOf(t, `${site.url}/long`);
  assert.equal(text.length, limits.robotsBytesMax - 1);
  assert.ok(text.endsWith('x\n'));
});

test('robots fetch: any status is told, with Cache-Control and Retry-After', async (t) => {
  const site = await Site.start(t, ({ url = '' }, response) => {
    response.setHeader('cache-control', ['max-age=60', 'private']).setHeader('retry-after', '7');
    response.writeHead(Number(url.slice(1))).end(url === '/204' ? '' : 'Disallow: /');
  });
  for (const status of [200, 204, 206, 304, 401, 404, 421, 429, 500, 503]) {
    const file = await fileOf(t, `${site.url}/${status}`);
    assert.equal(file.status, status);
    assert.equal(file.text, status === 200 || status === 206 ? 'Disallow: /' : '', `${status}`);
    assert.deepEqual([file.cacheControl, file.retryAfterMs], ['max-age=60, private', 7_000]);
  }
});

test('robots fetch: the status of an error counts, whatever becomes of its body', async (t) => {
  const site = await Site.start(t, ({ url }, response) => {
    if (url === '/coding') response.writeHead(404, { 'content-encoding': 'gzip' }).end('no gzip');
    else response.writeHead(404).write('the rest never comes');
  });
  for (const path of ['/coding', '/hangs']) {
    assert.equal((await fileOf(t, site.url + path)).status, 404, path);
  }
});

test('robots fetch: a hop whose turn does not come is no answer', async (t) => {
  const site = await Site.start(t, (_, response) => {
    response.writeHead(302, { location: '/next' }).end();
  });
  const asked: string[] = [];
  for (const turn of ['later', 'leave'] as const) {
    const follow = async (url: string) => {
      asked.push(url);
      return turn;
    };
    const outcome = await fetched(t, site.url, { follow });
    assert.ok(!outcome.ok);
    assert.deepEqual([outcome.error.kind, outcome.isPutOff], ['redirects', true]);
  }
  assert.deepEqual(asked, [`${site.url}/next`, `${site.url}/next`]);
});
