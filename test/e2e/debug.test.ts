/** `--log-level debug`: what each fetch did, at the slave and at the master. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { assertLeaves } from '../support/parts.ts';

const timeout = 60_000;
type Entry = Record<string, unknown>;

/** A page with two links and an image; the second page is busy once, the third is missing. */
async function smallSite(t: TestContext): Promise<string> {
  let isBusy = true;
  const port = await httpServer(t, (request, response) => {
    const { url = '' } = request;
    if (url === '/busy' && isBusy) {
      isBusy = false;
      response.writeHead(429).end();
    } else if (url === '/' || url === '/busy') {
      response.setHeader('content-type', 'text/html');
      response.end('<a href="/busy">a</a><a href="/gone">b</a><img src="/i.png">');
    } else response.writeHead(404).end();
  });
  return `http://127.0.0.1:${port}`;
}

function debugLines(output: string): Entry[] {
  return output
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Entry)
    .filter(({ level }) => level === 'debug');
}

describe('debug', { concurrency: 2 }, () => {
  test('debug: a line for each fetch, lease, retry and hold', { timeout }, async (t) => {
    const site = await smallSite(t);
    const cluster = new Cluster(t);
    const level = ['--log-level', 'debug', '--json-logs'];
    const master = await cluster.master([`${site}/`, '--exit-when-done', ...level]);
    const slave = cluster.slave(level);
    await assertLeaves(master, slave);
    const fetches = debugLines(slave.stdout).filter(({ msg }) => msg === 'fetched');
    const of = (url: string) => fetches.filter((line) => line['url'] === site + url);
    const [first] = of('/');
    assert.deepEqual(
      ['status', 'links', 'images', 'attempt', 'connection'].map((name) => first?.[name]),
      [200, 2, 1, 1, 'reused'],
    );
    assert.ok(Number(first?.['bytes']) > 50 && Number(first?.['ms']) >= 0);
    assert.equal(of('/robots.txt')[0]?.['kind'], 'robots');
    assert.equal(of('/robots.txt')[0]?.['connection'], 'new');
    assert.match(String(of('/gone')[0]?.['error']), /^status: 404/);
    assert.deepEqual(
      of('/busy').map(({ attempt, error, status }) => [attempt, error, status]),
      [
        [1, 'status: 429 Too Many Requests', undefined],
        [2, undefined, 200],
      ],
    );
    const told = debugLines(master.stdout);
    const leases = told.filter(({ msg }) => msg === 'leased');
    assert.ok(leases.some((line) => line['url'] === `${site}/` && line['slave'] === 'slave-1'));
    const again = told.find(({ msg }) => msg === 'failed, tried again');
    assert.equal(again?.['url'], `${site}/busy`);
    assert.ok(Number(again?.['inMs']) > 0);
    const held = told.find(({ msg }) => msg === 'host holds');
    assert.deepEqual([held?.['host'], held?.['status']], [site, 429]);
  });

  test('debug: the breaker of a host that does not answer, and nothing at level info', {
    timeout,
  }, async (t) => {
    const cluster = new Cluster(t);
    const urls = Array.from({ length: 8 }, (_, i) => `http://127.0.0.1:9/${i}`);
    const args = ['--attempts', '1', '--exit-when-done', '--json-logs', '--ignore-robots'];
    const master = await cluster.master([...urls, ...args, '--log-level', 'debug']);
    const slave = cluster.slave(['--json-logs']);
    // 4: no seed was answered.
    assert.equal((await master.exited).code, 4, master.output);
    assert.equal((await slave.exited).code, 0, slave.output);
    const told = debugLines(master.stdout);
    assert.ok(told.some(({ msg }) => msg === 'failed, given up'));
    assert.ok(told.some(({ msg }) => msg === 'host does not answer: it sleeps'));
    assert.deepEqual(debugLines(slave.stdout), []);
  });
});
