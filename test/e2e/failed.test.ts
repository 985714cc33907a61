/** `failed`: the failed URLs of a crawl, from a running master, a stopped one, and files alone. */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { Cluster, Program, root } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { intendRename } from '../support/stored-crawl.ts';

const timeout = 60_000;
type Failed = { crawl: string; url: string; kind: string; status?: number; attempts: number };

/** A page with links to `count` missing pages and one that is ill. */
async function brokenSite(t: TestContext, count: number): Promise<string> {
  const port = await httpServer(t, (request, response) => {
    const { url = '' } = request;
    if (url === '/robots.txt') response.writeHead(404).end();
    else if (url === '/ill') response.writeHead(503).end();
    else if (url !== '/') response.writeHead(404).end();
    else {
      const links = Array.from({ length: count }, (_, i) => `<a href="/gone/${i}">x</a>`);
      response.setHeader('content-type', 'text/html');
      response.end(`<a href="/ill">ill</a>${links.join('')}`);
    }
  });
  return `http://127.0.0.1:${port}`;
}

/** Runs `failed` where no master is named; returns its output. */
async function failed(cluster: Cluster, ...args: readonly string[]): Promise<string> {
  const program = cluster.run(['master.js', 'failed', ...args]);
  const { code } = await program.exited;
  assert.equal(code, 0, program.output);
  return program.stdout;
}

describe('failed', { concurrency: 2 }, () => {
  test('failed: the same list with a master, without one, and from the files', {
    timeout,
  }, async (t) => {
    const site = await brokenSite(t, 2_500);
    const cluster = new Cluster(t);
    const args = ['--attempts', '1', '--crawl', 'broken'];
    const master = await cluster.master([`${site}/`, ...args]);
    cluster.slave();
    await master.said(/crawl broken is done/);
    const running = (await cluster.ask('failed', 'broken')).trim().split('\n');
    assert.equal(running.length, (await cluster.status('broken')).failed);
    assert.equal(running[0], `status\t503\t1\t${site}/ill\t503 Service Unavailable`);
    assert.equal(new Set(running).size, 2_501);
    assert.ok(running.includes(`status\t404\t1\t${site}/gone/2499\t404 Not Found`));
    assert.match(
      await cluster.ask('failed', '--kind', 'dns,timeout'),
      /^no URL has failed in this/,
    );
    const all = JSON.parse(await cluster.ask('failed', '--json')) as Failed[];
    assert.equal(all.length, 2_501);
    assert.deepEqual(all[0], {
      crawl: 'broken',
      url: `${site}/ill`,
      kind: 'status',
      status: 503,
      attempts: 1,
      message: '503 Service Unavailable',
    });
    const slow = 'node master.js failed --json "$@" | (sleep 1; cat)';
    const where = ['--master', cluster.address, '--authkey-file', join(cluster.data, 'authkey')];
    const read = new Program(['-c', slow, 'sh', ...where], { program: 'sh', cwd: root });
    await read.exited;
    assert.deepEqual(JSON.parse(read.stdout), all, 'a slow reader gets it all');
    const folders = ['--data', cluster.data, '--out', cluster.out];
    const inUse = cluster.run(['master.js', 'failed', 'broken', ...folders]);
    assert.equal((await inUse.exited).code, 2);
    assert.match(inUse.output, /is in use by the master with process id \d+: ask it/);

    await master.kill('SIGKILL');
    assert.deepEqual((await failed(cluster, 'broken', ...folders)).trim().split('\n'), running);
    // The crash came while the crawl was renamed: its folder has the new name already.
    await intendRename(cluster, 'mended');
    renameSync(join(cluster.out, 'broken'), join(cluster.out, 'mended'));
    assert.deepEqual((await failed(cluster, 'broken', ...folders)).trim().split('\n'), running);
    renameSync(join(cluster.out, 'mended'), join(cluster.out, 'broken'));
    const named = (await failed(cluster, ...folders)).trim().split('\n');
    assert.deepEqual(
      named,
      running.map((line) => `broken\t${line}`),
    );
    const alone = await failed(cluster, 'broken', '--data', '/nowhere', '--out', cluster.out);
    assert.deepEqual(alone.trim().split('\n').sort(), running.sort());
    // It has left the folder as it was: the next master starts on it.
    await cluster.master([]);
  });

  test('failed: in the folder of a master that has ended nothing has to be said of where it is', {
    timeout,
  }, async (t) => {
    const site = await brokenSite(t, 1);
    const cluster = new Cluster(t);
    const run = ['master.js', `${site}/`, '--attempts', '1', '--slaves', '1', '--exit-when-done'];
    const master = cluster.run([...run, '--listen', '127.0.0.1:0']);
    assert.equal((await master.exited).code, 0, master.output);
    const lines = (await failed(cluster)).trim().split('\n');
    assert.deepEqual(lines, [
      `default\tstatus\t503\t1\t${site}/ill\t503 Service Unavailable`,
      `default\tstatus\t404\t1\t${site}/gone/0\t404 Not Found`,
    ]);
    const data = join(cluster.folder, 'orb-data');
    renameSync(data, `${data}.away`);
    const alone = (await failed(cluster, 'default')).trim().split('\n');
    assert.deepEqual(alone.map((line) => `default\t${line}`).sort(), [...lines].sort());
    renameSync(`${data}.away`, data);
    const pages = join(cluster.folder, 'crawl-data/default/pages.jsonl');
    renameSync(pages, `${pages}.away`);
    const lost = cluster.run(['master.js', 'failed', 'default']);
    assert.equal((await lost.exited).code, 0);
    assert.match(lost.stdout, /^status\t503.*\n$/);
    assert.match(lost.output, /some of its pages\*\.jsonl files are not there/);
  });

  test('failed: what cannot be answered is one line with exit code 2', { timeout }, async (t) => {
    const cluster = new Cluster(t);
    const refused = async (pattern: RegExp, ...args: readonly string[]) => {
      const program = cluster.run(['master.js', 'failed', ...args]);
      assert.equal((await program.exited).code, 2, program.output);
      assert.match(program.output, pattern);
      assert.equal(program.output.trim().split('\n').length, 1, program.output);
    };
    const folders = ['--data', cluster.data, '--out', cluster.out];
    await refused(/no store in .*give the name of the crawl, or --data/, ...folders);
    await refused(/no store in .*and no pages\.jsonl in/, 'none', ...folders);
    await refused(/--kind/, 'default', '--kind', 'dsn');
    const master = await cluster.master([]);
    await master.kill('SIGTERM');
    await refused(/there is no crawl "none"/, 'none', ...folders);
    assert.equal(await failed(cluster, ...folders), 'no URL has failed\n');
    const store = join(cluster.data, 'store/store.mdb');
    const bytes = readFileSync(store);
    writeFileSync(store, Buffer.concat([bytes.subarray(0, 8192), Buffer.alloc(4096, 1)]));
    await refused(/the store .* is damaged/, 'default', ...folders);
    rmSync(store);
    mkdirSync(store);
    await refused(/master: /, 'default', ...folders);
  });
});
