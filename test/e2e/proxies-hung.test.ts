/** Proxies that take connections and never answer, by real processes. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { flatSite, sitePages } from '../../selftest/site.ts';
import { Authority } from '../support/certificates.ts';
import { Cluster } from '../support/cluster.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';
import { muteProxy, TestProxy } from '../support/proxy.ts';

const timeout = 90_000;
const authority = new Authority();

async function proxyFor(t: TestContext, scheme: 'http' | 'socks5'): Promise<TestProxy> {
  const proxy = await TestProxy.start({ scheme });
  t.after(() => proxy.close());
  return proxy;
}

function slaveOf(cluster: Cluster) {
  const trusted = join(cluster.folder, 'authority.pem');
  writeFileSync(trusted, authority.cert);
  return cluster.slave([], cluster.address, { env: { NODE_EXTRA_CA_CERTS: trusted } });
}

for (const [proxyScheme, scheme] of [
  ['http', 'http'],
  ['http', 'https'],
  ['socks5', 'http'],
] as const) {
  const by = `${scheme} by a ${proxyScheme} proxy`;

  test(`proxies: of two one hangs, no page fails: ${by}`, { timeout }, async (t) => {
    const identity = scheme === 'https' ? { identity: authority.issue() } : {};
    const site = await siteFor(t, flatSite(30), identity);
    const good = await proxyFor(t, proxyScheme);
    const mute = await muteProxy(t);
    const cluster = new Cluster(t);
    const flags = ['--attempts', '1', '--proxy', good.url];
    flags.push('--proxy', `${proxyScheme}://127.0.0.1:${mute.port}`);
    const master = await cluster.master([site.url, ...flags]);
    const slave = slaveOf(cluster);
    await slave.said(/proxy set aside: (the proxy does not answer|no answer of the proxy within)/);
    await master.said(/is done/);
    const client = await cluster.connect();
    const troubles = async () => {
      const { sessions } = await client.request('crawl.list', {});
      return sessions.find(({ role }) => role === 'slave')?.proxies ?? [];
    };
    // No crawl has it any more: the slave forgets it as soon as it hears of the end.
    while ((await troubles()).length > 0);
    await client.close();
    master.signal('SIGTERM');
    slave.signal('SIGTERM');
    await assertLeaves(master, slave);
    assert.equal(cluster.pages().length, 31);
    assert.ok(mute.reached > 0);
  });

  test(`proxies: the only one hangs, nothing is counted: ${by}`, { timeout }, async (t) => {
    const identity = scheme === 'https' ? { identity: authority.issue() } : {};
    const site = await siteFor(t, sitePages({ '/': [] }), identity);
    const mute = await muteProxy(t);
    const cluster = new Cluster(t);
    const proxy = `${proxyScheme}://me:s3cret@127.0.0.1:${mute.port}`;
    const flags = ['--attempts', '1', '--ignore-robots', '--fetch-timeout', '9000'];
    await cluster.master([site.url, ...flags, '--proxy', proxy]);
    const slave = slaveOf(cluster);
    // Tried again when it was set aside for its time, and set aside for longer.
    await slave.said(/proxy set aside[\s\S]*proxy set aside/);
    const { waiting, failed, buried } = await cluster.status();
    assert.deepEqual({ waiting, failed, buried }, { waiting: 1, failed: 0, buried: 0 });
    const status = await cluster.ask('status');
    const name = `${proxyScheme}://127.0.0.1:${mute.port}`;
    assert.match(status, new RegExp(`proxy ${name} (set aside|to be tried)`));
    assert.doesNotMatch(`${status}${slave.output}`, /s3cret|: 23/);
  });
}

test('proxies: a host that is slow is no fault of its proxy', { timeout }, async (t) => {
  const site = await siteFor(t, sitePages({ '/': [] }), { delayMs: 12_000 });
  const proxy = await proxyFor(t, 'http');
  const cluster = new Cluster(t);
  const flags = ['--proxy', proxy.url, '--attempts', '1', '--ignore-robots', '--exit-when-done'];
  const master = await cluster.master([site.url, ...flags]);
  const slave = slaveOf(cluster);
  await assertLeaves(master, slave);
  assert.equal(cluster.pages().length, 1);
  assert.doesNotMatch(slave.output, /set aside/);
  const asked = proxy.log.filter(({ target }) => target === 'orbweaver.invalid:80').length;
  assert.equal(asked, 1);
});
