/** An operator's commands to a running master: add, status, pause, resume, cancel, buried. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { type AddressInfo, createConnection, createServer } from 'node:net';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { flatSite, generateSite, sitePages } from '../../selftest/site.ts';
import type { Replies } from '../../shared/replies.ts';
import { Cluster } from '../support/cluster.ts';
import { assertExact, pagesOf, readPages } from '../support/exact.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';

const timeout = 60_000;

describe('operate', { concurrency: 2 }, () => {
  test('operate: many crawls at once, each with files of its own', { timeout }, async (t) => {
    const cluster = new Cluster(t);
    const master = await cluster.master([]);
    cluster.slave();
    cluster.slave();
    const names = ['one', 'two', 'three', 'four'];
    const sites = await Promise.all(names.map((_, i) => siteFor(t, generateSite(100 + i, 60))));
    await Promise.all(
      names.map((name, i) => cluster.ask('add', sites[i]?.url ?? '', '--crawl', name)),
    );
    for (const name of names) await master.said(new RegExp(`crawl ${name} is done`));
    for (const [i, name] of names.entries()) {
      const site = sites[i];
      assert.ok(site);
      assertExact(cluster, site.truth(), name);
    }
    assert.deepEqual(readdirSync(cluster.out).sort(), names.toSorted());
  });

  test('operate: two crawls of one site both find all of it', { timeout }, async (t) => {
    const site = await siteFor(t, generateSite(7, 60));
    const cluster = new Cluster(t);
    const master = await cluster.master([]);
    await cluster.ask('add', site.url, '--crawl', 'a');
    await cluster.ask('add', site.url, '--crawl', 'b', '--max-depth', '2');
    cluster.slave();
    for (const name of ['a', 'b']) await master.said(new RegExp(`crawl ${name} is done`));
    assertExact(cluster, site.truth(), 'a');
    assertExact(cluster, site.truth({ maxDepth: 2 }), 'b');
  });

  test('operate: seeds join a running crawl and wake a finished one', { timeout }, async (t) => {
    const site = await siteFor(t, flatSite(30), { delayMs: 20 });
    const more = await siteFor(t, flatSite(5));
    const last = await siteFor(t, flatSite(3));
    const cluster = new Cluster(t);
    const master = await cluster.master([site.url, '--per-host', '2']);
    cluster.slave();
    await site.requested(3);
    assert.match(await cluster.ask('add', more.url), /^1 new, 0 already known/);
    assert.match(await cluster.ask('add', site.url, more.url), /^0 new, 2 already known/);
    await master.said(/crawl default is done.* 37 pages/);
    assert.match(await cluster.ask('add', last.url), /^1 new/);
    await master.said(/crawl default is done.* 41 pages/);
    const pages = [site, more, last].flatMap((each) => each.truth().pages);
    assert.deepEqual(pagesOf(readPages(cluster)).sort(), pages.sort());
    assert.equal((await cluster.status()).state, 'finished');
  });

  test('operate: options of a crawl that is there are refused', { timeout }, async (t) => {
    const site = await siteFor(t, flatSite(1));
    const cluster = new Cluster(t);
    await cluster.master([site.url]);
    await assert.rejects(
      cluster.ask('add', site.url, '--max-depth', '3'),
      /exit code 2: master: the crawl "default" exists already/,
    );
    await assert.rejects(cluster.ask('pause', 'nothing'), /exit code 2: .*no crawl "nothing"/);
  });

  test('operate: pause and resume say what the crawl is, not what was asked', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, flatSite(1));
    const cluster = new Cluster(t);
    const master = await cluster.master([site.url]);
    assert.equal(await cluster.ask('pause', 'default'), 'crawl default is paused\n');
    assert.equal(await cluster.ask('resume', 'default'), 'crawl default resumed\n');
    cluster.slave();
    await master.said(/crawl default is done/);
    assert.equal(await cluster.ask('pause', 'default'), 'crawl default is finished\n');
    assert.equal(await cluster.ask('resume', 'default'), 'crawl default is finished\n');
    assert.equal(await cluster.ask('cancel', 'default'), 'crawl default is cancelled\n');
    assert.equal(await cluster.ask('resume', 'default'), 'crawl default is cancelled\n');
  });

  test('operate: in the folder of the master nothing has to be said of where it is', {
    timeout,
  }, async (t) => {
    const cluster = new Cluster(t);
    const master = cluster.run(['master.js', '--listen', '127.0.0.1:0'], {});
    await master.said(/listens on/);
    const status = cluster.run(['master.js', 'status']);
    assert.equal((await status.exited).code, 0, status.output);
    assert.match(status.stdout, /^no crawls/);
    cluster.run(['slave.js', '--name', 'here']);
    await master.said(/slave joined.*slave=here/);
  });

  test('operate: status shows crawls and slaves, also as JSON', { timeout }, async (t) => {
    const site = await siteFor(t, flatSite(4));
    const cluster = new Cluster(t);
    const master = await cluster.master([site.url]);
    const slave = cluster.slave();
    await master.said(/crawl default is done/);
    const text = await cluster.ask('status');
    assert.match(text, /^crawl +state +pages +images +failed +buried +waiting +leased$/m);
    assert.match(text, /^default +finished +5 +0 +0 +0 +0 +0$/m);
    assert.match(text, /^1 slave/m);
    assert.match(text, /slave-1/);
    const { crawls, sessions } = JSON.parse(
      await cluster.ask('status', '--json'),
    ) as Replies['crawl.list'];
    assert.equal(crawls[0]?.pages, 5);
    assert.deepEqual(
      sessions.filter(({ role }) => role === 'slave').map(({ name }) => name),
      ['slave-1'],
    );
    await slave.kill('SIGTERM');
    assert.match(await cluster.ask('status'), /^no slaves/m);
  });

  test('operate: a paused crawl asks nothing until it is resumed', { timeout }, async (t) => {
    const site = await siteFor(t, flatSite(80), { delayMs: 10 });
    const cluster = new Cluster(t);
    const master = await cluster.master([site.url, '--per-host', '2']);
    cluster.slave(['--slots', '2']);
    await site.requested(10);
    site.hold();
    assert.equal(await cluster.ask('pause', 'default'), 'crawl default is paused\n');
    site.release();
    // Pages that were leased before still come in.
    while ((await cluster.status()).leased > 0) await site.until(() => true);
    const asked = site.log.length;
    assert.ok(asked < 81);
    assert.equal((await cluster.status()).state, 'paused');
    assert.equal(site.log.length, asked);
    assert.equal(await cluster.ask('resume', 'default'), 'crawl default resumed\n');
    await master.said(/crawl default is done/);
    assertExact(cluster, site.truth());
  });

  test('operate: a crawl stays paused over a restart', { timeout }, async (t) => {
    const site = await siteFor(t, flatSite(60), { delayMs: 20 });
    const cluster = new Cluster(t);
    const args = [site.url, '--per-host', '1'];
    const first = await cluster.master(args);
    const { address } = cluster;
    cluster.slave();
    await site.requested(3);
    site.hold();
    await cluster.ask('pause', 'default');
    await first.kill('SIGKILL');
    site.release();
    const second = await cluster.master(args, { listen: address });
    await second.said(/slave joined/);
    assert.equal((await cluster.status()).state, 'paused');
    await cluster.ask('resume', 'default');
    await second.said(/crawl default is done/);
    assertExact(cluster, site.truth());
  });

  test('operate: a cancelled crawl ends at once, its files stay', { timeout }, async (t) => {
    const site = await siteFor(t, flatSite(200), { delayMs: 10 });
    const cluster = new Cluster(t);
    await cluster.master([site.url, '--per-host', '2']);
    cluster.slave();
    await site.requested(20);
    site.hold();
    assert.equal(await cluster.ask('cancel', 'default'), 'crawl default is cancelled\n');
    site.release();
    const status = await cluster.status();
    assert.deepEqual([status.state, status.waiting, status.leased], ['cancelled', 0, 0]);
    assert.ok(site.log.length < 100);
    await assert.rejects(
      cluster.ask('add', site.url),
      /was cancelled; remove it, or use another name/,
    );
    const pages = pagesOf(readPages(cluster));
    assert.equal(new Set(pages).size, pages.length);
  });

  test('operate: --exit-when-done leaves when the last crawl is cancelled', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, flatSite(200), { delayMs: 10 });
    const cluster = new Cluster(t);
    const master = await cluster.master([site.url, '--per-host', '2', '--exit-when-done']);
    const slave = cluster.slave();
    await site.requested(10);
    site.hold();
    await cluster.ask('cancel', 'default');
    site.release();
    await assertLeaves(master, slave);
  });

  test('operate: buried URLs are listed, and fetched when replayed', { timeout }, async (t) => {
    const resources = sitePages({ '/': ['/ill', '/worse', '/well'], '/well': [] });
    for (const path of ['/ill', '/worse']) {
      resources.set(path, { kind: 'page', links: [`${path}/behind`], images: [], heals: 1 });
      resources.set(`${path}/behind`, { kind: 'page', links: [], images: [`${path}.png`] });
    }
    const site = await siteFor(t, resources);
    const cluster = new Cluster(t);
    const master = await cluster.master([site.url, '--attempts', '1']);
    cluster.slave();
    await master.said(/crawl default is done.* 2 pages.* 2 failed \(2 buried/);
    const listed = (await cluster.ask('buried', 'default')).trim().split('\n').sort();
    assert.deepEqual(
      listed.map((line) => line.split('\t').slice(0, 3)),
      [
        ['status', '1', `${site.origin}/ill`],
        ['status', '1', `${site.origin}/worse`],
      ],
    );
    const failed = readPages(cluster).filter(({ error }) => error !== undefined);
    assert.equal(failed.length, 2);
    assert.equal(failed[0]?.error?.attempts, 1);
    assert.equal(
      await cluster.ask('buried', 'default', '--replay', '--url', `${site.origin}/ill`),
      'put 1 back into the task queue\n',
    );
    await master.said(/crawl default is done.* 4 pages/);
    assert.equal(
      await cluster.ask('buried', 'default', '--replay'),
      'put 1 back into the task queue\n',
    );
    await master.said(/crawl default is done.* 6 pages/);
    assert.match(await cluster.ask('buried', 'default'), /^no URL was given up; `failed`/);
    assert.deepEqual(pagesOf(readPages(cluster)).sort(), site.truth().pages);
    const { buried, failed: failures, known } = await cluster.status();
    assert.deepEqual({ buried, failures, known }, { buried: 0, failures: 0, known: 6 });
  });

  test('operate: an answer that is lost on its way is one line, and exit code 2', {
    timeout,
  }, async (t) => {
    const cluster = new Cluster(t);
    const master = await cluster.master([]);
    const [, host = '', port] = /^(.*):(\d+)$/.exec(cluster.address) ?? [];
    for (const [verb, why] of [
      [['status'], /; run the command again$/],
      [['jobs'], /; run the command again$/],
      [['sinks', 'default'], /; run the command again$/],
      [['sinks', 'default', '--drop', 'x'], /; what was asked for may have been done: /],
      [['pause', 'default'], /; what was asked for may have been done: look at status or jobs /],
    ] as const) {
      // The connection is cut before the first message of the command, the second, and so on. Two
      // may come as one, so that none is cut, or one behind the answer: then it begins anew.
      for (let messages = 1, runs = 0; ; messages++, runs++) {
        assert.ok(runs < 30);
        const relay = await cuttingRelay(t, { host, port: Number(port) }, messages);
        const where = ['--master', `127.0.0.1:${relay.port}`];
        const key = ['--authkey-file', join(cluster.data, 'authkey')];
        const command = cluster.run(['master.js', ...verb, ...where, ...key]);
        const { code } = await command.exited;
        if (/no master answers/.test(command.output)) continue;
        const isAnswered = code === 0 || command.output === 'master: there is no crawl "default"\n';
        if (!relay.hasCut || isAnswered) {
          messages = 0;
          continue;
        }
        assert.equal(code, 2, command.output);
        assert.match(command.stderr, /^master: [^\n]+ was lost before its answer came \([^\n]+\n$/);
        assert.match(command.stderr.trimEnd(), why);
        break;
      }
    }
    assert.ok(master.isAlive);
  });
});

/** Passes on all bytes up to a write of the client, and cuts there. `hasCut`: it has come to that. */
async function cuttingRelay(
  t: TestContext,
  to: { readonly host: string; readonly port: number },
  writes: number,
): Promise<{ readonly port: number; readonly hasCut: boolean }> {
  let left = writes;
  const server = createServer((client) => {
    const master = createConnection(to);
    const cut = () => {
      client.destroy();
      master.destroy();
    };
    client.on('data', (bytes) => (--left > 0 ? master.write(bytes) : cut()));
    master.on('data', (bytes) => client.write(bytes));
    for (const socket of [client, master]) socket.on('error', cut).on('close', cut);
  });
  t.after(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    port,
    get hasCut() {
      return left <= 0;
    },
  };
}
