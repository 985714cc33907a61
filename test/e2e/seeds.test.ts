/** `--seeds`: seeds from files and from standard input, of a master and of `add`. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { flatSite } from '../../selftest/site.ts';
import { Cluster, Program, root } from '../support/cluster.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';

const timeout = 60_000;

test('seeds: a file and arguments together, and only these with --max-depth 0', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, flatSite(6));
  const cluster = new Cluster(t);
  const file = join(cluster.folder, 'seeds.txt');
  writeFileSync(file, `\ufeff# mine\r\n${site.url}1\r\n\r\n${site.url}2\r\n${site.url}1\r\n`);
  const args = [`${site.url}3`, '--seeds', file, '--max-depth', '0', '--exit-when-done'];
  const master = await cluster.master([...args, '--slaves', '1']);
  await assertLeaves(master);
  assert.deepEqual(
    cluster.pages().toSorted(),
    [1, 2, 3].map((page) => `${site.url}${page}`),
  );
});

test('seeds: from standard input, and more than one request holds, with add', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const master = await cluster.master([]);
  const seeds = Array.from({ length: 25_000 }, (_, i) => `http://127.0.0.1:1/${i}\n`).join('');
  const where = ['--master', cluster.address, '--authkey-file', join(cluster.data, 'authkey')];
  const command = [process.execPath, join(root, 'master.js'), 'add', ...where, '--seeds', '-'];
  const add = new Program(['-c', 'cat "$0" | "$@"', fileIn(cluster, seeds), ...command], {
    program: '/bin/sh',
  });
  t.after(() => add.kill());
  assert.equal((await add.exited).code, 0, add.output);
  assert.equal(add.stdout, '25,000 new, 0 already known\n');
  const again = await cluster.ask('add', '--seeds', fileIn(cluster, seeds), 'http://127.0.0.1:1/x');
  assert.equal(again, '1 new, 25,000 already known\n');
  // Nothing of a file with a bad line is added.
  const bad = fileIn(cluster, 'http://127.0.0.1:1/other\nother\n');
  await assert.rejects(cluster.ask('add', '--seeds', bad), /code 2: master: --seeds .*, line 2: /);
  const { waiting } = await cluster.status();
  assert.equal(waiting, 25_001);
  await master.kill('SIGTERM');
});

test('seeds: more than one request holds, at the start; nothing is created for a bad line', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const good = Array.from({ length: 12_000 }, (_, i) => `http://127.0.0.1:1/${i}\n`).join('');
  const env = { ORB_SEEDS: fileIn(cluster, `${good}oops\n`) };
  const bad = cluster.run(['master.js', '--data', cluster.data, '--listen', '127.0.0.1:0'], {
    env,
  });
  assert.deepEqual(await bad.exited, { code: 2, signal: null });
  assert.match(bad.stderr, /^master: --seeds .*, line 12001: "oops" is not .*\n$/);
  const master = await cluster.master(['--seeds', fileIn(cluster, good)]);
  await cluster.listening();
  while ((await cluster.status()).waiting < 12_000);
  assert.equal((await cluster.status()).waiting, 12_000);
  await master.kill('SIGTERM');
});

test('seeds: a stop does not wait for all of a long list, and the same command adds the rest', {
  timeout: 2 * timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const count = 200_000;
  const list = Array.from({ length: count }, (_, i) => `http://127.0.0.1:1/${i}\n`).join('');
  const args = ['--seeds', fileIn(cluster, list)];
  const first = await cluster.master(args);
  assert.deepEqual(await first.kill('SIGTERM'), { code: 0, signal: null });
  const said = /stopping: ([\d,]+) of 200,000 seeds are added; the same command adds the others/;
  const [, added = ''] = said.exec(first.stdout) ?? [];
  assert.ok(Number(added.replaceAll(',', '')) < count, first.output);
  await cluster.master(args);
  while ((await cluster.status()).waiting < count);
});

test('seeds: add says how many are added when the master stops meanwhile', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const master = await cluster.master([]);
  const list = Array.from({ length: 200_000 }, (_, i) => `http://127.0.0.1:1/${i}\n`).join('');
  const where = ['--master', cluster.address, '--authkey-file', join(cluster.data, 'authkey')];
  const add = cluster.run(['master.js', 'add', ...where, '--seeds', fileIn(cluster, list)]);
  while (((await cluster.status().catch(() => undefined))?.waiting ?? 0) === 0);
  await master.kill('SIGTERM');
  assert.deepEqual(await add.exited, { code: 2, signal: null });
  const said =
    /^master: .*: [\d,]+ of 200,000 seeds are added; the same command adds the others\n$/;
  assert.match(add.output, said);
});

test('seeds: a stop ends a command of seeds, and no seed is used', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  const file = join(cluster.folder, 'crawl.json');
  const fifo = join(cluster.folder, 'fifo');
  execFileSync('mkfifo', [fifo]);
  const command = ['/bin/sh', '-c', `echo > ${fifo}; exec sleep 50`];
  writeFileSync(file, JSON.stringify({ seeds: ['http://127.0.0.1:1/', { command }] }));
  const folders = ['--data', cluster.data, '--out', cluster.out];
  const master = cluster.run(['master.js', file, '--listen', '127.0.0.1:0', ...folders]);
  await readFile(fifo); // the command runs
  assert.deepEqual(await master.kill('SIGTERM'), { code: 0, signal: null });
  assert.equal(master.stderr, '');
  await cluster.master([]);
  assert.match(await cluster.ask('status'), /no crawls/);
});

test('seeds: a stop does not wait for a page that seeds come from', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  const asked = new Set<Socket>();
  const silent = createServer((socket) => asked.add(socket)).listen(0, '127.0.0.1');
  t.after(() => {
    silent.close();
    for (const socket of asked) socket.destroy();
  });
  await once(silent, 'listening');
  const sitemap = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/sitemap.xml`;
  const file = join(cluster.folder, 'crawl.json');
  writeFileSync(file, JSON.stringify({ seeds: [{ sitemap }] }));
  const folders = ['--data', cluster.data, '--out', cluster.out];
  const master = cluster.run(['master.js', file, '--listen', '127.0.0.1:0', ...folders]);
  await once(silent, 'connection');
  const before = performance.now();
  assert.deepEqual(await master.kill('SIGTERM'), { code: 0, signal: null });
  assert.ok(performance.now() - before < 15_000, 'long before the time-out of a fetch');
  assert.equal(master.stderr, '');
});

let files = 0;

function fileIn(cluster: Cluster, text: string): string {
  const path = join(cluster.folder, `seeds-${++files}.txt`);
  writeFileSync(path, text);
  return path;
}
