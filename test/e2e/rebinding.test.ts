/**
 * Names that change their minds (DNS rebinding), by real processes. The file runs itself once more
 * in a network namespace of its own, where it owns every address: a name server on port 53 answers
 * what a test wants, and one web server on all addresses says where it was reached.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { openLmdbStore } from '../../master/store/lmdb.ts';
import { seedHostOf } from '../../master/store/records.ts';
import { Cluster, Program } from '../support/cluster.ts';
import { type NameAnswer, type NameServer, startNameServer } from '../support/name-server.ts';
import { assertLeaves } from '../support/parts.ts';

const timeout = 90_000;
const isInside = process.env['ORB_TEST_NAMESPACE'] === 'rebinding';
const open = '93.184.216.34';
const metadata = '169.254.169.254';
const addresses = [open, metadata, '10.1.2.3', '10.9.9.9', '192.168.7.7', '100.100.100.200'];
/** A root of its own where this user is none. */
const unshare = ['--net', '--mount', ...(process.getuid?.() === 0 ? [] : ['--map-root-user'])];

/** Runs a program in a namespace with these addresses, and a resolver and hosts file of its own. */
function inside(folder: string, program: readonly string[]): Program {
  const script = [
    'set -e',
    'ip link set lo up',
    ...addresses.map((address) => `ip addr add ${address}/32 dev lo`),
    'mount --bind "$0/resolv.conf" /etc/resolv.conf',
    'mount --bind "$0/hosts" /etc/hosts',
    'exec "$@"',
  ].join('\n');
  writeFileSync(join(folder, 'resolv.conf'), 'nameserver 127.0.0.1\n');
  writeFileSync(join(folder, 'hosts'), '127.0.0.1 localhost\n10.1.2.3 printer\n');
  const env = { ORB_TEST_NAMESPACE: 'rebinding', NODE_TEST_CONTEXT: '' };
  const args = [...unshare, 'sh', '-c', script, folder, ...program];
  return new Program(args, { program: 'unshare', env });
}

if (!isInside) {
  test('rebinding: in a network namespace', { timeout: 170_000 }, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const probe = inside(folder, ['true']);
    probe.child.on('error', () => {});
    const { code } = await probe.exited.catch(() => ({ code: -1 }));
    if (code !== 0) {
      t.skip(`NOT TESTED: no network namespace can be made here: ${probe.output.trim()}`);
      return;
    }
    const self = fileURLToPath(import.meta.url);
    const args = ['--enable-source-maps', '--test-reporter=spec', self];
    const run = inside(folder, [process.execPath, ...args]);
    const exit = await run.exited;
    assert.deepEqual(exit, { code: 0, signal: null }, run.output);
    assert.match(run.output, /pass 9/);
  });
} else {
  let names: NameServer;
  /** Where each name is; undefined: nowhere. */
  const world = new Map<string, NameAnswer>();
  /** `address host path` of every request. */
  let asked: string[] = [];
  /** Called before a page is answered. */
  let onPage: (host: string, path: string) => Promise<void> | void = () => {};

  const server = createServer((request, response) => {
    const { host = '' } = request.headers;
    const { url = '' } = request;
    const { localAddress = '' } = request.socket;
    asked.push(`${localAddress.replace('::ffff:', '')} ${host} ${url}`);
    if (url === '/robots.txt') {
      response.writeHead(404, { connection: 'close' }).end();
      return;
    }
    void Promise.resolve(onPage(host, url)).then(() => {
      const links = Array.from({ length: 8 }, (_, i) => `<a href=/secret${i}>s</a>`);
      const html = url === '/' ? links.join('') : 'nothing';
      response.writeHead(200, { 'content-type': 'text/html', connection: 'close' }).end(html);
    });
  });

  before(async () => {
    names = await startNameServer((name) => world.get(name), { port: 53 });
    server.listen(80, '::');
    await once(server, 'listening');
  });
  beforeEach(() => {
    world.clear();
    asked = [];
    onPage = () => {};
  });
  after(() => {
    server.closeAllConnections();
    server.close();
    names.close();
  });

  const at = (...found: string[]): NameAnswer => ({ addresses: found, ttlS: 1 });
  /** Longer than any TTL here. */
  const past = () => new Promise<void>((resolve) => setTimeout(resolve, 1_300));
  /** Requests that reached one of the addresses. */
  const reached = (...where: string[]) =>
    asked.filter((line) => where.some((address) => line.startsWith(`${address} `)));

  /** Once its first page is asked for, the name is elsewhere. */
  function rebind(to: ReadonlyMap<string, string>): void {
    onPage = async (host, path) => {
      const address = to.get(host);
      if (address === undefined || path !== '/') return;
      world.set(host, at(address));
      await past();
    };
  }

  /** Kinds of the errors of the lines whose path begins so, and 'page' for pages. */
  function ends(cluster: Cluster, host: string, path: string): string[] {
    const prefix = `http://${host}${path}`;
    const lines = cluster.fetched().filter(({ url }) => url.startsWith(prefix));
    return [...new Set(lines.map(({ error }) => error?.kind ?? 'page'))];
  }

  test('a name that was public reaches nothing inside, wherever it goes', {
    timeout,
  }, async (t) => {
    const inner = [metadata, '10.1.2.3', '192.168.7.7', '100.100.100.200', '127.0.0.1'];
    const to = new Map(inner.map((address, i) => [`evil${i}.example`, address]));
    for (const host of to.keys()) world.set(host, at(open));
    rebind(to);
    const cluster = new Cluster(t);
    const seeds = [...to.keys()].map((host) => `http://${host}/`);
    const master = await cluster.master([...seeds, '--delay', '0', '--exit-when-done']);
    await assertLeaves(master, cluster.slave());
    assert.deepEqual(reached(...inner), []);
    assert.equal(reached(open).filter((line) => line.endsWith(' /')).length, to.size);
    for (const host of to.keys()) {
      assert.deepEqual(ends(cluster, host, '/secret'), ['blocked'], host);
    }
  });

  test('a seed at a private address moves within its block alone', { timeout }, async (t) => {
    world.set('a.corp.example', at('10.1.2.3'));
    world.set('b.corp.example', at('10.1.2.3'));
    rebind(
      new Map([
        ['a.corp.example', '10.9.9.9'],
        ['b.corp.example', '192.168.7.7'],
      ]),
    );
    const cluster = new Cluster(t);
    const seeds = ['http://a.corp.example/', 'http://b.corp.example/'];
    const master = await cluster.master([...seeds, '--delay', '0', '--exit-when-done']);
    await assertLeaves(master, cluster.slave());
    assert.match(master.output, /seeds at private addresses: a\.corp\.example at 10\.0\.0\.0\/8/);
    assert.deepEqual(ends(cluster, 'a.corp.example', '/secret'), ['page']);
    assert.equal(reached('10.9.9.9').length, 8);
    assert.deepEqual(ends(cluster, 'b.corp.example', '/secret'), ['blocked']);
    assert.deepEqual(reached('192.168.7.7'), []);
  });

  test('of several addresses those that are public or in the block', { timeout }, async (t) => {
    world.set('mixed.example', at('10.1.2.3', open));
    rebind(new Map([['mixed.example', metadata]]));
    const cluster = new Cluster(t);
    const args = ['http://mixed.example/', '--delay', '0', '--exit-when-done'];
    await assertLeaves(await cluster.master(args), cluster.slave());
    assert.deepEqual(ends(cluster, 'mixed.example', '/secret'), ['blocked']);
    assert.deepEqual(reached(metadata), []);
  });

  test('what was found holds after a restart, for new seeds of the host too', {
    timeout,
  }, async (t) => {
    world.set('evil.example', at(open));
    world.set('good.corp.example', at('10.1.2.3'));
    const cluster = new Cluster(t);
    const seeds = ['http://evil.example/a', 'http://good.corp.example/a'];
    const first = await cluster.master(seeds);
    await first.said(/seeds at private/);
    first.signal('SIGTERM');
    await first.exited;
    world.set('evil.example', at('10.1.2.3'));
    world.set('good.corp.example', at('10.9.9.9'));
    const master = await cluster.master([...seeds, '--delay', '0']);
    const slave = cluster.slave();
    await cluster.ask('add', 'http://evil.example/b', 'http://good.corp.example/b');
    await cluster.grown('pages.jsonl', 3);
    assert.deepEqual(ends(cluster, 'evil.example', '/'), ['blocked']);
    assert.deepEqual(ends(cluster, 'good.corp.example', '/'), ['page']);
    assert.deepEqual(reached('10.1.2.3'), []);
    for (const program of [slave, master]) program.signal('SIGTERM');
    await Promise.all([slave.exited, master.exited]);
  });

  test('a name that the master cannot resolve is public only, with a line', {
    timeout,
  }, async (t) => {
    const cluster = new Cluster(t);
    const master = await cluster.master(['http://split.corp.example/', '--delay', '0']);
    await master.said(/cannot resolve split\.corp\.example: .*--allow-private/);
    world.set('split.corp.example', at('10.1.2.3'));
    const slave = cluster.slave();
    await cluster.grown('pages.jsonl', 0);
    assert.deepEqual(ends(cluster, 'split.corp.example', '/'), ['blocked']);
    assert.deepEqual(reached('10.1.2.3'), []);
    // Named again, it is looked up again.
    await past();
    await cluster.ask('add', 'http://split.corp.example/again');
    await cluster.grown('pages.jsonl', 1);
    assert.deepEqual(ends(cluster, 'split.corp.example', '/again'), ['page']);
    for (const program of [slave, master]) program.signal('SIGTERM');
    await Promise.all([slave.exited, master.exited]);
  });

  test('a crawl of an older store is looked up at the start', { timeout }, async (t) => {
    world.set('intranet.example', at('10.1.2.3'));
    world.set('public.example', at(open));
    const cluster = new Cluster(t);
    const first = await cluster.master(['http://intranet.example/', 'http://public.example/']);
    await first.said(/seeds at private/);
    first.signal('SIGTERM');
    await first.exited;
    const store = await openLmdbStore(join(cluster.data, 'store'));
    const all = { from: Buffer.alloc(4), to: Buffer.alloc(300, 0xff) };
    const rows = store.range('seeds', all).filter(({ key }) => seedHostOf(key) !== undefined);
    assert.equal(rows.length, 2);
    await store.commit(rows.map(({ key }) => ({ table: 'seeds', key, value: undefined })));
    await store.close();
    rebind(new Map([['public.example', '10.1.2.3']]));
    const master = await cluster.master(['--exit-when-done']);
    await assertLeaves(master, cluster.slave());
    assert.deepEqual(ends(cluster, 'intranet.example', '/'), ['page']);
    assert.deepEqual(ends(cluster, 'public.example', '/secret'), ['blocked']);
    assert.deepEqual(
      reached('10.1.2.3').filter((line) => line.includes('public')),
      [],
    );
  });

  test('never by name what clouds answer; by digits what is typed', { timeout }, async (t) => {
    world.set('meta.example', at(metadata));
    world.set('ali.example', at('100.100.100.200'));
    world.set('zero.example', at('0.0.0.0'));
    const cluster = new Cluster(t);
    const seeds = ['meta', 'ali', 'zero'].map((name) => `http://${name}.example/x`);
    const typed = [`http://${metadata}/typed`, 'http://100.100.100.200/typed'];
    const local = ['http://localhost/local', 'http://printer/local', 'http://[::1]/local'];
    const master = await cluster.master([...seeds, ...typed, ...local, '--exit-when-done']);
    await assertLeaves(master, cluster.slave());
    for (const name of ['meta', 'ali', 'zero']) {
      assert.deepEqual(ends(cluster, `${name}.example`, '/'), ['blocked'], name);
    }
    for (const host of [metadata, '100.100.100.200', 'localhost', 'printer', '[::1]']) {
      assert.deepEqual(ends(cluster, host, '/'), ['page'], host);
    }
  });

  test('--allow-private opens what it says, whatever names say', { timeout }, async (t) => {
    world.set('moves.example', at(open));
    rebind(new Map([['moves.example', '10.1.2.3']]));
    const cluster = new Cluster(t);
    const flags = ['--allow-private', '10.0.0.0/8', '--delay', '0', '--exit-when-done'];
    const master = await cluster.master(['http://moves.example/', ...flags]);
    await assertLeaves(master, cluster.slave());
    assert.deepEqual(ends(cluster, 'moves.example', '/secret'), ['page']);
    assert.equal(reached('10.1.2.3').length, 8);
  });

  test('a name server that is silent holds nobody up for long', { timeout }, async (t) => {
    for (let i = 0; i < 2_000; i++) world.set(`h${i}.example`, at(open));
    world.set('silent.example', { code: 'silent' });
    const cluster = new Cluster(t);
    const master = await cluster.master([]);
    const from = performance.now();
    const silent = cluster.ask('add', 'http://silent.example/', '--crawl', 'slow');
    // Others are served meanwhile.
    await cluster.ask('add', 'http://h0.example/');
    await silent;
    assert.match(master.output, /cannot resolve silent\.example/);
    const waitedMs = performance.now() - from;
    assert.ok(waitedMs < 12_000, `${waitedMs} ms`);
    const many = Array.from({ length: 2_000 }, (_, i) => `http://h${i}.example/`);
    const client = await cluster.connect();
    const begun = performance.now();
    const { admitted } = await client.request('crawl.add', {
      crawl: 'many',
      seeds: many,
      priority: 0,
    });
    t.diagnostic(`2000 hosts: ${Math.round(performance.now() - begun)} ms`);
    assert.equal(admitted, 2_000);
    await client.close();
    master.signal('SIGTERM');
    await master.exited;
  });
}
