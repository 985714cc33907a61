/** The wait for an unknown host. Source: PROTOCOL.md [T-53]. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import { AddressCache } from '../../shared/resolver.ts';
import type { FetchContext } from '../../slave/fetch/fetcher.ts';
import { PageFetcher } from '../support/page-fetcher.ts';
import { standStill } from '../support/standstill.ts';
import { silentPort } from '../support/unanswering.ts';

const spec = fetchSpecSchema.parse({ connectTimeoutMs: 300, timeoutMs: 3_000 });
const { signal } = new AbortController();
const first: FetchContext = { blocks: ['127.0.0.1'], isFirst: true };
const ways = ['fetch', 'fetchRobots', 'fetchSitemap'] as const;

/** Heads come after `headMs`, the rest of a body `bodyMs` later. */
async function slowSite(t: TestContext, headMs: number, bodyMs: number): Promise<string> {
  const server = createServer((_, answer) => {
    setTimeout(() => {
      answer.writeHead(200, { 'content-type': 'text/html' });
      answer.write('<title>slow</title>');
      setTimeout(() => answer.end(), bodyMs);
    }, headMs);
  });
  server.listen({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

function fetcherOf(t: TestContext, addresses?: AddressCache): PageFetcher {
  const fetcher = new PageFetcher({ connections: 2, ...(addresses && { addresses }) });
  t.after(() => fetcher.close());
  return fetcher;
}

for (const way of ways) {
  test(`first answer: ${way} gives up a host that is silent`, async (t) => {
    const silent = await silentPort();
    t.after(() => silent.close());
    const url = `http://127.0.0.1:${silent.port}/robots.txt`;
    const began = performance.now();
    const outcome = await fetcherOf(t)[way](url, spec, signal, first);
    assert.ok(performance.now() - began < 2_900);
    assert.equal(outcome.ok ? undefined : outcome.error.kind, 'timeout');
  });

  test(`first answer: ${way} has the time of the whole fetch once it began`, async (t) => {
    const url = await slowSite(t, 0, 700);
    assert.ok((await fetcherOf(t)[way](url, spec, signal, first)).ok);
  });

  test(`first answer: ${way} of a host that is known has that time, too`, async (t) => {
    const url = await slowSite(t, 700, 0);
    assert.ok((await fetcherOf(t)[way](url, spec, signal, { blocks: ['127.0.0.1'] })).ok);
  });

  test(`first answer: ${way} does not wait longer for a name`, async (t) => {
    // A server of names that never says a word.
    const addresses = new AddressCache(() => new Promise(() => {}), { deadlineMs: 5_000 });
    for (const isFirst of [true, false]) {
      const began = performance.now();
      const context = { isFirst };
      const outcome = await fetcherOf(t, addresses)[way](
        'http://a.example/',
        spec,
        signal,
        context,
      );
      assert.ok(performance.now() - began < 2_900);
      assert.equal(outcome.ok ? undefined : outcome.error.kind, 'timeout');
    }
  });
}

/** In another thread, which does not stand still. The first URL leads to the second. */
const busySite = `
  const { parentPort } = require('node:worker_threads');
  const server = require('node:http').createServer((request, answer) => {
    const location = request.url === '/' ? { location: '/next' } : undefined;
    const head = { 'content-type': 'text/html', ...location };
    setTimeout(() => answer.writeHead(location ? 301 : 200, head).end('<title>t</title>'), 50);
  });
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));
`;

test('first answer: time in which the slave stands still is none of the fetch', async (t) => {
  const site = new Worker(busySite, { eval: true });
  t.after(() => site.terminate());
  const [port] = (await once(site, 'message')) as [number];
  const url = `http://127.0.0.1:${port}/`;
  const brief = { ...spec, connectTimeoutMs: 700, timeoutMs: 2_500 };
  const fetching = fetcherOf(t).fetch(url, brief, signal, {
    ...first,
    onStart: () => setImmediate(() => standStill(1_300)),
  });
  const outcome = await fetching;
  assert.ok(outcome.ok, JSON.stringify(outcome));
});
