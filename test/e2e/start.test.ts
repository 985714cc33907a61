/** `npm start` and its wrapper: `scripts/start.mjs`, the master, and its slaves. */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { flatSite } from '../../selftest/site.ts';
import { Cluster, type Program } from '../support/cluster.ts';
import { siteFor } from '../support/parts.ts';
import { gone, treeOf } from '../support/process-tree.ts';

const timeout = 60_000;

function start(cluster: Cluster, ...args: readonly string[]): Program {
  mkdirSync(cluster.folder, { recursive: true });
  return cluster.run(['scripts/start.mjs', ...args]);
}

test('start: a folder that cannot be used is one line and code 2', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  writeFileSync(join(cluster.folder, 'file'), '');
  for (const data of ['/proc/x', '/proc/x/y', 'file', 'file/x', '/dev/null']) {
    const program = start(cluster, 'http://127.0.0.1:1/', '--data', data);
    assert.deepEqual(await program.exited, { code: 2, signal: null }, data);
    assert.match(program.output, /^master: cannot use the data folder [^\n]*--data\n$/, data);
  }
});

test('start: a clock before 1970 is one line and code 2', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  const early = "Object.defineProperty(performance,'timeOrigin',{value:-1e12})";
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(early)}` };
  const master = cluster.run(['master.js', 'http://127.0.0.1:1/', '--listen', '127.0.0.1:0'], {
    env,
  });
  assert.deepEqual(await master.exited, { code: 2, signal: null });
  assert.match(
    master.output,
    /^master: the clock .* says 1938-.*, which is before 1970: set it\n$/,
  );
});

test('start: --json-logs is JSON alone', { timeout }, async (t) => {
  const site = await siteFor(t, flatSite(3));
  const cluster = new Cluster(t);
  const own = start(cluster, site.url, '--json-logs');
  assert.deepEqual(await own.exited, { code: 0, signal: null }, own.output);
  const lines = own.stdout.trimEnd().split('\n');
  const entries = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  for (const entry of entries) {
    const { msg, level, time } = entry;
    assert.ok(
      typeof msg === 'string' && level === 'info' && typeof time === 'string',
      JSON.stringify(entry),
    );
  }
  const { msg, pages, failed } = entries.at(-1) ?? {};
  assert.deepEqual([msg, pages, failed], ['4 pages and 0 images, 0 URLs failed', 4, 0]);
  // The config file says it, too.
  writeFileSync(join(cluster.folder, 'c.yaml'), 'json-logs: true\n');
  const again = start(cluster, site.url, '--config', 'c.yaml');
  assert.deepEqual(await again.exited, { code: 0, signal: null }, again.output);
  for (const line of again.stdout.trimEnd().split('\n')) JSON.parse(line);
});

test('start: a file of seeds, and standard input, name a crawl', { timeout }, async (t) => {
  const site = await siteFor(t, flatSite(3));
  const cluster = new Cluster(t);
  writeFileSync(join(cluster.folder, 'my urls.txt'), `${site.url}1\n`);
  const own = start(cluster, '--seeds', 'my urls.txt', '--max-depth', '0');
  assert.deepEqual(await own.exited, { code: 0, signal: null }, own.output);
  assert.match(own.stdout, /\n1 page and 0 images, 0 URLs failed\.\n.*crawl-data\/my-urls\//);
  const none = start(cluster, '--seeds', '-');
  assert.deepEqual(await none.exited, { code: 2, signal: null });
  assert.match(none.stderr, /^master: --seeds standard input holds no URL\n$/);
});

test('start: when the wrapper is killed, master and slaves end', { timeout }, async (t) => {
  const site = await siteFor(t, flatSite(200), { delayMs: 50 });
  const cluster = new Cluster(t);
  const program = start(cluster, site.url, '--per-host', '2');
  await program.said(/slave joined[\s\S]*slave joined/);
  const pids = treeOf(program.pid);
  assert.equal(pids.length, 4, 'wrapper, master, two slaves');
  program.signal('SIGKILL');
  await gone(pids);
});

test('start: while sources of seeds are asked, the log and other commands say that it starts', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const site = await siteFor(t, flatSite(1));
  const file = join(cluster.folder, 'c.json');
  const program = `setTimeout(() => console.log('${site.url}'), 60_000)`;
  writeFileSync(file, JSON.stringify({ seeds: [{ command: [process.execPath, '-e', program] }] }));
  // Both find it in ./orb-data.
  const master = cluster.run(['master.js', 'c.json', '--listen', '127.0.0.1:0']);
  await master.said(/asks the sources of seeds in c\.json first/);
  const status = cluster.run(['master.js', 'status']);
  assert.equal((await status.exited).code, 2);
  assert.match(
    status.output,
    /^master: (no master answers at .*; the one with process id \d+ is starting.*its log)\n$/,
  );
  await master.kill('SIGTERM');
  assert.equal((await master.exited).code, 0, master.output);
});
