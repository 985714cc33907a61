/** Tasks that are no GET: which slaves get them, how they are named, what a slave sends. */
import assert from 'node:assert/strict';
import type { IncomingHttpHeaders } from 'node:http';
import { after, afterEach, type TestContext, test } from 'node:test';
import { Cluster, type Line } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { pack } from '../support/msgpack.ts';
import { nextTask, page, pushed, report, type Task } from '../support/raw-slave.ts';
import { Target } from '../support/target.ts';

const timeout = 60_000;
const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

const post = (url: string, body: string, headers: readonly (readonly [string, string])[] = []) => ({
  url,
  method: 'POST',
  headers,
  body: Buffer.from(body),
});

test('[C-100] requests are seeds, named by URL, method and body', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  await slave.must('slave.can', { what: ['post'] });
  const [url, crawl] = [new URL('/api', target.seed()).href, target.name()];
  const spec = { ignoreRobots: true, delayMs: 0 };
  const add = (requests: object[], more = {}) =>
    slave.must('crawl.add', { crawl, seeds: [], requests, ...more });
  const first = await add([post(url, 'a'), post(url, 'b'), post(url, 'a')], { spec });
  assert.deepEqual([first['admitted'], first['known']], [2, 1]);
  const names = new Set<string>();
  for (const _ of ['a', 'b']) {
    const task = await nextTask(slave);
    names.add(task.url);
    await report(slave, task, { result: { finalUrl: task.url, status: 404, bytes: 0, ms: 1 } });
  }
  assert.equal(names.size, 2);
  for (const name of names) assert.match(name, /\/api#POST-[0-9a-f]{32}$/);
  // Other headers are no other request; a GET of the address is.
  const again = await add([post(url, 'b', [['x-a', '1']])]);
  assert.deepEqual([again['admitted'], again['known']], [0, 1]);
  const plain = await slave.must('crawl.add', { crawl, seeds: [url] });
  assert.equal(plain['admitted'], 1);
  await slave.must('crawl.cancel', { crawl });
  await slave.close();
});

test('[T-90] a task with a request goes to a slave that can send it, and to no other', async (t) => {
  const older = await target.slave(t, 4);
  if (older === undefined) return;
  const url = new URL('/api', target.seed()).href;
  const crawl = await target.crawl(older, [new URL('/page', url).href], { ignoreRobots: true });
  const requests = [post(url, 'the body', [['x-a', '1']])];
  await older.must('crawl.add', { crawl, seeds: [], requests });
  const got = await nextTask(older);
  assert.ok(got.url.endsWith('/page'));
  await report(older, got);
  const newer = await target.join('slave');
  await newer.must('slave.can', { what: ['post'] });
  await newer.must('task.credit', { count: 1, slots: 1 });
  const [task] = (await pushed(newer)) as (Task & { request: Record<string, unknown> })[];
  assert.ok(task);
  const { method, headers, body } = task.request;
  assert.deepEqual([method, headers, String(body)], ['POST', [['x-a', '1']], 'the body']);
  assert.equal((await report(newer, task)).ok, true);
  await newer.close();
  await older.close();
});

test('[T-91] slave.can is for slaves, and names may be unknown', async () => {
  const slave = await target.join('slave');
  await slave.must('slave.can', { what: ['post', 'fly'] });
  await slave.close();
  const client = await target.join();
  const refused = await client.request('slave.can', { what: ['post'] });
  assert.equal(refused.error, 'E_BAD_REQUEST');
  await client.close();
});

test('[T-92] links of a follow rule have its priority', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  await slave.must('slave.can', { what: ['rules'] });
  const seed = target.seed();
  const follow = [{ css: 'a' }, { href: 'b', priority: 5 }];
  const spec = { order: 'priority', ignoreRobots: true, fetch: { follow } };
  const crawl = await target.crawl(slave, [seed], spec);
  const { task, lease, url } = await nextTask(slave);
  const links = (path: string) => Buffer.from(new URL(path, seed).href);
  const found = { result: pack(page(url)), images: pack([]), links: links('/plain') };
  const more = { follow: [{ priority: 5, links: links('/urgent') }] };
  await slave.must('task.report', { task, lease, ...found, ...more });
  const next = await nextTask(slave);
  assert.ok(next.url.endsWith('/urgent'), next.url);
  await report(slave, next);
  const last = await nextTask(slave);
  assert.ok(last.url.endsWith('/plain'), last.url);
  await report(slave, last);
  const refused = await slave.request('crawl.set', { crawl, spec: { fetch: { follow: null } } });
  assert.equal(refused.error, 'E_BAD_REQUEST');
  await slave.close();
});

type Sent = {
  readonly method: string;
  readonly path: string;
  readonly body: string;
  readonly headers: IncomingHttpHeaders;
};

/** A site that answers POST with pages and redirects. */
async function site(t: TestContext): Promise<{ url: string; sent: Sent[] }> {
  const sent: Sent[] = [];
  const port = await httpServer(t, (request, response) => {
    const { method = '', url: path = '', headers } = request;
    let body = '';
    request.on('data', (chunk: Buffer) => {
      body += chunk;
    });
    request.on('end', () => {
      if (path !== '/robots.txt') sent.push({ method, path, body, headers });
      const [, status] = /^\/to-(\d+)/.exec(path) ?? [];
      const fails = path === '/flaky' && sent.filter((one) => one.path === path).length === 1;
      if (path === '/robots.txt') response.end('User-agent: *\nDisallow: /private$\n');
      else if (fails) response.writeHead(503).end();
      else if (status !== undefined && method === 'POST') {
        response.writeHead(Number(status), { location: path === '/to-303/self' ? path : '/end' });
        response.end();
      } else if (path === '/away') {
        response.writeHead(308, { location: `http://localhost:${port}/end` }).end();
      } else {
        response.setHeader('content-type', 'text/html');
        response.end(`<title>${method}</title><a href="/linked">x</a>`);
      }
    });
  });
  return { url: `http://127.0.0.1:${port}`, sent };
}

test('[T-90] a slave sends the body, follows redirects as it must, and tries again', {
  timeout,
}, async (t) => {
  const { url, sent } = await site(t);
  const cluster = new Cluster(t);
  await cluster.master(['--exit-when-done', '--attempts', '2', '--header', 'x-b: crawl']);
  const master = await cluster.connect();
  const paths = ['/a', '/to-301', '/to-303/self', '/to-307', '/to-308', '/away', '/private'];
  const requests = [...paths, '/flaky'].map((path) => post(`${url}${path}`, `of ${path}`)) as never;
  const added = await master.request('crawl.add', { crawl: 'default', seeds: [], requests });
  await master.close();
  assert.equal(added.admitted, 8);
  const slave = cluster.slave();
  await slave.exited;
  const of = (path: string) =>
    sent.filter((one) => one.path === path).map(({ method, body }) => `${method} ${body}`.trim());
  assert.deepEqual(of('/a'), ['POST of /a']);
  assert.deepEqual(of('/flaky'), ['POST of /flaky', 'POST of /flaky']);
  assert.deepEqual(of('/to-303/self'), ['POST of /to-303/self', 'GET']);
  assert.deepEqual(of('/end').sort(), ['GET', 'POST of /to-307', 'POST of /to-308']);
  assert.deepEqual(of('/private'), []);
  assert.deepEqual(of('/linked'), ['GET']);
  assert.equal(sent.find(({ path }) => path === '/a')?.headers['x-b'], 'crawl');
  const lines = cluster.fetched() as (Line & Record<string, unknown>)[];
  const line = (path: string) => lines.find((one) => one.url.startsWith(`${url}${path}#POST-`));
  assert.deepEqual([line('/a')?.['method'], line('/a')?.['title']], ['POST', 'POST']);
  assert.equal(line('/a')?.finalUrl, line('/a')?.url);
  assert.equal(line('/private')?.['excluded'], 'robots');
  assert.match(JSON.stringify(line('/away')?.['error']), /another host, with the body/);
  assert.equal(lines.find((one) => one.url === `${url}/linked`)?.['method'], undefined);
});
