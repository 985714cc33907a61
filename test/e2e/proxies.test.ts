/** Crawls through real proxies, by real processes. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { flatSite, type Resource, sitePages } from '../../selftest/site.ts';
import { Authority } from '../support/certificates.ts';
import { Cluster } from '../support/cluster.ts';
import { OddHost } from '../support/odd-host.ts';
import { assertLeaves, crawlToEnd, siteFor } from '../support/parts.ts';
import { TestProxy, type TestProxyOptions } from '../support/proxy.ts';

const timeout = 60_000;
const secret = 'pa:ss word';

async function proxyFor(t: TestContext, options: TestProxyOptions = {}): Promise<TestProxy> {
  const proxy = await TestProxy.start(options);
  t.after(() => proxy.close());
  return proxy;
}

for (const scheme of ['http', 'https', 'socks5'] as const) {
  test(`proxies: http and https hosts through ${scheme}, names unresolved`, {
    timeout,
  }, async (t) => {
    const authority = new Authority();
    const plain = await siteFor(t, flatSite(12));
    const identity = authority.issue({ names: ['safe.example'] });
    const safe = await siteFor(t, flatSite(12), { identity });
    const routes = new Map([
      ['plain.example:80', plain.port],
      ['safe.example:443', safe.port],
    ]);
    const user = { user: 'me', password: secret };
    const proxy = await proxyFor(t, { scheme, routes, identity: authority.issue(), ...user });
    const cluster = new Cluster(t);
    const trusted = join(cluster.folder, 'authority.pem');
    writeFileSync(trusted, authority.cert);
    const seeds = ['http://plain.example/', 'https://safe.example/'];
    const url = proxy.url.replace(secret, encodeURIComponent(secret));
    const flags = ['--proxy', url, '--delay', '0', '--per-host', '8', '--exit-when-done'];
    const master = await cluster.master([...seeds, ...flags]);
    const slave = cluster.slave([], cluster.address, { env: { NODE_EXTRA_CA_CERTS: trusted } });
    await assertLeaves(master, slave);
    assert.equal(cluster.pages().length, 26, JSON.stringify(cluster.fetched()));
    const targets = new Set(proxy.log.map(({ target }) => target));
    assert.deepEqual(targets, new Set(routes.keys()));
    const kinds = new Set(proxy.log.map(({ kind }) => kind));
    const expected = scheme === 'socks5' ? ['socks'] : ['forward', 'tunnel'];
    assert.deepEqual([...kinds].sort(), expected);
    // Nothing of the proxy reaches a host, and its password no log.
    assert.ok(!`${master.output}${slave.output}`.includes(encodeURIComponent(secret)));
    assert.doesNotMatch(`${master.output}${slave.output}`, /Warning/);
  });
}

test('proxies: they take turns, each with its own agent and cookies', { timeout }, async (t) => {
  const site = await siteFor(t, flatSite(30));
  const proxies = await Promise.all([proxyFor(t), proxyFor(t)]);
  const flags = ['--user-agent', 'one/1', '--user-agent', 'two/2', '--contact', 'me@you.example'];
  for (const { url } of proxies) flags.push('--proxy', url);
  const cluster = await crawlToEnd(t, [site.url], { flags });
  assert.equal(cluster.pages().length, 31);
  const first = 'one/1 (+me@you.example)';
  const second = 'two/2 (+me@you.example)';
  const agents = proxies.map(({ log }) => {
    assert.ok(log.length >= 10, `only ${log.length} requests`);
    assert.ok(log.every(({ headers }) => headers['proxy-authorization'] === undefined));
    // robots.txt, the first of all, is asked for by the first name, whoever asks.
    const [earliest, ...others] = new Set(log.map(({ headers }) => headers['user-agent']));
    return others.length === 0 ? earliest : others.join();
  });
  assert.deepEqual(agents.sort(), [first, second]);
  assert.deepEqual(
    site.robotsLog.map(({ userAgent }) => userAgent),
    [first],
  );
});

test('identities: cookies are kept for each, and forgotten with their crawl', {
  timeout,
}, async (t) => {
  const page = { kind: 'page', links: [], images: [] } as const;
  const site = await siteFor(
    t,
    new Map<string, Resource>([
      ['/', { ...page, links: ['/a', '/b'], setCookie: 'seen=1' }],
      ['/a', page],
      ['/b', page],
      ['/later', page],
    ]),
  );
  const cluster = new Cluster(t);
  const agents = ['--user-agent', 'one', '--user-agent', 'two', '--per-host', '1'];
  const master = await cluster.master([site.url, '--ignore-robots', ...agents]);
  const slave = cluster.slave();
  await master.said(/is done/);
  const [start, ...pages] = site.log;
  assert.equal(pages.length, 2);
  for (const { userAgent, cookie } of pages) {
    assert.equal(cookie, userAgent === start?.userAgent ? 'seen=1' : '');
  }
  assert.deepEqual(new Set(pages.map(({ userAgent }) => userAgent)), new Set(['one', 'two']));
  for (let i = 0; i < 2; i++) await cluster.ask('add', `${site.url}later?${i}`);
  await site.requested(5);
  const later = site.log.slice(3).map(({ cookie }) => cookie);
  assert.deepEqual(later, ['', '']);
  master.signal('SIGTERM');
  slave.signal('SIGTERM');
  await assertLeaves(master, slave);
});

test('proxies: a dead one is set aside, no page fails by it', { timeout }, async (t) => {
  const site = await siteFor(t, flatSite(40));
  const good = await proxyFor(t);
  const strict = await proxyFor(t, { user: 'me', password: 'right' });
  const dead = await TestProxy.start();
  const deadUrl = dead.url;
  await dead.close();
  const flags = ['--attempts', '1'];
  const wrong = strict.url.replace('right', 'wr0ng');
  for (const url of [deadUrl, good.url, wrong]) flags.push('--proxy', url);
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, ...flags, '--exit-when-done']);
  const slave = cluster.slave();
  await assertLeaves(master, slave);
  assert.equal(cluster.pages().length, 41);
  assert.deepEqual(
    cluster.fetched().filter(({ error }) => error),
    [],
  );
  assert.match(slave.output, /proxy set aside: no connection to the proxy: ECONNREFUSED/);
  assert.match(slave.output, /proxy set aside: the proxy wants other credentials/);
  assert.ok(!slave.output.includes('wr0ng'));
  assert.equal(strict.log.length, 0);
});

for (const [what, lies] of [
  ['nothing', ''],
  ['a page', 'HTTP/1.1 503 No\r\ncontent-length: 2\r\n\r\nno'],
] as const) {
  test(`proxies: one whose tunnels hold ${what} is set aside, and costs no page`, {
    timeout,
  }, async (t) => {
    const authority = new Authority();
    const site = await siteFor(t, flatSite(30), {
      identity: authority.issue({ names: ['safe.example'] }),
    });
    const routes = new Map([['safe.example:443', site.port]]);
    const [liar, good] = [await proxyFor(t), await proxyFor(t, { routes })];
    liar.lies = lies;
    const cluster = new Cluster(t);
    const trusted = join(cluster.folder, 'authority.pem');
    writeFileSync(trusted, authority.cert);
    const flags = ['--proxy', liar.url, '--proxy', good.url, '--delay', '0', '--attempts', '8'];
    const seed = 'https://safe.example/';
    const master = await cluster.master([seed, ...flags, '--exit-when-done']);
    const slave = cluster.slave([], cluster.address, { env: { NODE_EXTRA_CA_CERTS: trusted } });
    await assertLeaves(master, slave);
    assert.equal(cluster.pages().length, 31, JSON.stringify(cluster.fetched()));
    assert.match(slave.output, /proxy set aside: no TLS through the proxy: \w+/);
  });
}

test('proxies: while none works the crawl waits, and goes on with the first that does', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, sitePages({ '/': ['/a'], '/a': [] }));
  const proxy = await TestProxy.start();
  const { port } = proxy;
  await proxy.close();
  const cluster = new Cluster(t);
  const flags = ['--proxy', `http://127.0.0.1:${port}`, '--attempts', '1', '--exit-when-done'];
  const master = await cluster.master([site.url, ...flags]);
  const slave = cluster.slave();
  await slave.said(/proxy set aside/);
  const again = await TestProxy.start({}, port);
  t.after(() => again.close());
  await assertLeaves(master, slave);
  assert.equal(cluster.pages().length, 2);
  assert.ok(again.log.length >= 3);
});

test('proxies: a host that no proxy reaches is buried with the reason', { timeout }, async (t) => {
  const proxy = await proxyFor(t);
  proxy.refuses = 503;
  const flags = ['--proxy', proxy.url, '--attempts', '1', '--ignore-robots'];
  const cluster = await crawlToEnd(t, ['https://gone.example/'], { flags, exitCode: 4 });
  const [line] = cluster.fetched();
  assert.deepEqual(line?.error, {
    kind: 'connect',
    message: 'the proxy answered 503',
    attempts: 1,
  });
});

test('proxies: a host that they do not answer for, or that asks for credentials, holds up no other', {
  timeout,
}, async (t) => {
  const strict = await OddHost.start(t);
  strict.answer('*', 'HTTP/1.1 407 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
  const proxy = await proxyFor(t, { routes: new Map([['strict.example:80', strict.port]]) });
  proxy.silentFor.add('gone.example:443');
  const links = ['https://gone.example/', 'http://strict.example/', '/a', '/b'];
  const site = await siteFor(t, sitePages({ '/': links, '/a': [], '/b': [] }));
  const flags = ['--proxy', proxy.url, '--scope', 'any', '--attempts', '1', '--ignore-robots'];
  const cluster = await crawlToEnd(t, [site.url], { flags });
  assert.equal(cluster.pages().length, 3);
  const failed = cluster.fetched().flatMap(({ url, error }) => (error ? [[url, error]] : []));
  assert.deepEqual(Object.fromEntries(failed), {
    'https://gone.example/': {
      kind: 'connect',
      message: 'the proxy made no tunnel to the host',
      attempts: 1,
    },
    'http://strict.example/': {
      kind: 'status',
      message: '407 Proxy Authentication Required',
      attempts: 1,
    },
  });
});

test('proxies: addresses and names that are local are refused all the same', {
  timeout,
}, async (t) => {
  const links = ['http://127.1:9/', 'http://10.0.0.1/', 'http://localhost:9/', 'http://[::1]/'];
  const site = await siteFor(t, sitePages({ '/': links }));
  const proxy = await proxyFor(t);
  const flags = ['--proxy', proxy.url, '--scope', 'any'];
  const cluster = await crawlToEnd(t, [site.url], { flags });
  const blocked = cluster.fetched().filter(({ error }) => error?.kind === 'blocked');
  assert.equal(blocked.length, 4);
  const targets = new Set(proxy.log.map(({ target }) => target));
  assert.deepEqual(targets, new Set([`127.0.0.1:${site.port}`]));
});
