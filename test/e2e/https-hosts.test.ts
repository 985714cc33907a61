/** Many https hosts by real processes: what their connections cost, counted by the hosts. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Authority } from '../support/certificates.ts';
import { Cluster } from '../support/cluster.ts';
import { ManyHosts } from '../support/https-hosts.ts';
import { assertLeaves } from '../support/parts.ts';

const timeout = 120_000;
const paths = ['/', '/1', '/2', '/3'];
const page = paths.map((path) => `<a href="${path}">to</a>`).join('');
const html = { 'content-type': 'text/html' };

for (const tlsVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
  test(`https: each of 250 hosts verifies itself once (${tlsVersion})`, { timeout }, async (t) => {
    const authority = new Authority();
    const hosts = await ManyHosts.start(
      250,
      // Every page is a connection of its own.
      (_, response) => response.writeHead(200, { ...html, connection: 'close' }).end(page),
      {
        identityOf: (address) => ({
          ...authority.issue({ names: [address] }),
          maxVersion: tlsVersion,
        }),
      },
    );
    t.after(() => hosts.close());
    const cluster = new Cluster(t);
    const trusted = join(cluster.folder, 'authority.pem');
    writeFileSync(trusted, authority.cert);
    // One at a time of a host: two at once, before there is a session, would both be whole.
    const flags = ['--ignore-robots', '--per-host', '1', '--exit-when-done'];
    const master = await cluster.master([...hosts.urls, ...flags]);
    const env = { NODE_EXTRA_CA_CERTS: trusted };
    await assertLeaves(master, cluster.slave([], cluster.address, { env }));
    assert.equal(cluster.pages().length, hosts.urls.length * paths.length);
    for (const [address, handshakes] of hosts.handshakes)
      assert.deepEqual(handshakes, { full: 1, resumed: paths.length - 1 }, address);
  });
}

test('https: hosts are asked again while their connections are open', { timeout }, async (t) => {
  const hosts = await ManyHosts.start(
    900,
    (_, response) => response.writeHead(200, html).end(page),
    // Nobody but the slave closes what is unused.
    { keepAliveMs: 60_000 },
  );
  t.after(() => hosts.close());
  const cluster = new Cluster(t);
  const flags = ['--ignore-robots', '--per-host', '1', '--exit-when-done'];
  const master = await cluster.master([...hosts.urls, ...flags]);
  await assertLeaves(master, cluster.slave());
  assert.equal(cluster.pages().length, hosts.urls.length * paths.length);
  // In turn with all others, each of the four pages would need a new one. How many hosts are tried
  // ahead of their pages depends on how long answers take: some connections are closed unused (on a
  // busy machine 1.04 a host more than it needs).
  assert.ok(hosts.connections < hosts.urls.length * 2.5, `${hosts.connections} connections`);
  // Without a bound there would be 900: about 512 are kept, beside those that are in use.
  assert.ok(hosts.openMax <= 850, `${hosts.openMax} open connections`);
});
