/** `npm start` on a terminal: its size changes, it is stopped and goes on. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { flatSite } from '../../selftest/site.ts';
import { Cluster, type Program, root } from '../support/cluster.ts';
import { siteFor } from '../support/parts.ts';
import { childrenOf, gone, treeOf, until } from '../support/process-tree.ts';
import { noTerminal, Terminal } from '../support/terminal.ts';

const timeout = 90_000;
const skip = noTerminal ?? false;
const start = join(root, 'scripts/start.mjs');

/** The blocks that were painted, as lines. */
function blocksIn(output: string): string[][] {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are a terminal's words
  const painted = output.matchAll(/\u001b\[\?2026h(?:\u001b\[\d+A\r\u001b\[0J)?([\s\S]*?)\u001b/g);
  return [...painted].map(([, text = '']) => text.trimEnd().split('\r\n'));
}

test('terminal: the status block follows its size, from 40 columns up', {
  timeout,
  skip,
}, async (t) => {
  const site = await siteFor(t, flatSite(400), { delayMs: 100 });
  const cluster = new Cluster(t);
  const where = { cwd: cluster.folder, rows: 30, columns: 120 };
  const args = [start, site.url, '--per-host', '2', '--crawl', `c${'x'.repeat(20)}`];
  const terminal = new Terminal(args, where);
  const { program } = terminal;
  t.after(() => program.kill('SIGTERM'));
  await program.said(/2 slaves at work/);
  for (const columns of [60, 40, 50, 100]) {
    const before = program.output.length;
    terminal.resize(30, columns);
    const painted = () => blocksIn(program.output.slice(before));
    // The first may have been under way.
    while (painted().length < 4) await program.grown();
    for (const line of painted().slice(1).flat()) {
      assert.ok([...line].length < columns, `${columns} columns: "${line}"`);
    }
    const last = painted().at(-1)?.join('\n') ?? '';
    assert.match(last, /2 slaves at work\n {2}cx+: \d+ pages?\b/, `${columns}`);
    assert.equal(/ images? · /.test(last), columns >= 100, `${columns}: ${last}`);
  }
  const pids = treeOf(await terminal.pid());
  program.signal('SIGTERM');
  await gone(pids);
});

/** Lines that were painted before a stop may still be on their way. Returns the length
 *  of the output when nothing came for a while. */
async function settled(program: Program): Promise<number> {
  for (let length = -1; length !== program.output.length; ) {
    length = program.output.length;
    await sleep(250);
  }
  return program.output.length;
}

test('terminal: Ctrl-Z stops all of it, and fg goes on without losing a lease', {
  timeout,
  skip,
}, async (t) => {
  const site = await siteFor(t, flatSite(40), { delayMs: 300 });
  const cluster = new Cluster(t);
  const where = { cwd: cluster.folder, rows: 30, columns: 100 };
  const short = ['--lease', '1', '--lease-margin', '0.1', '--heartbeat', '0.4', '--silence', '0.8'];
  const args = [start, site.url, '--per-host', '4', ...short];
  const terminal = new Terminal(args, where);
  const { program } = terminal;
  t.after(() => program.kill());
  await program.said(/2 slaves at work/);
  await site.requested(6);
  const pids = treeOf(await terminal.pid());
  assert.equal(pids.length, 4, 'wrapper, master, two slaves');
  for (const stoppedMs of [0, 2_500]) {
    terminal.suspend();
    await until(pids, (state) => state === 'T');
    const before = await settled(program);
    // Longer than a lease, and than the silence of a peer that is gone.
    await sleep(stoppedMs);
    assert.equal(program.output.length, before, 'nothing is painted while it is stopped');
    terminal.continue();
    while (blocksIn(program.output.slice(before)).length < 3) await program.grown();
  }
  assert.deepEqual(await program.exited, { code: 0, signal: null }, program.output);
  const { output } = program;
  assert.match(output, /41 pages and 0 images, 0 URLs failed/);
  assert.equal(output.match(/slave joined/g)?.length, 2, 'no session was lost');
  assert.doesNotMatch(output, /connection closed|released=[1-9]/);
  await gone(pids);
});

for (const [whose, index] of [
  ['the wrapper', 0],
  ['the master', 1],
] as const) {
  test(`terminal: when ${whose} is killed while all is stopped, its children end`, {
    timeout,
    skip,
  }, async (t) => {
    const site = await siteFor(t, flatSite(200), { delayMs: 50 });
    const cluster = new Cluster(t);
    const where = { cwd: cluster.folder, rows: 30, columns: 100 };
    const terminal = new Terminal([start, site.url, '--per-host', '2'], where);
    t.after(() => terminal.program.kill());
    await terminal.program.said(/2 slaves at work/);
    const pids = treeOf(await terminal.pid());
    assert.equal(pids.length, 4, 'wrapper, master, two slaves');
    terminal.suspend();
    await until(pids, (state) => state === 'T');
    // The shells that wait for that.
    const guards = pids.flatMap(childrenOf).filter((pid) => !pids.includes(pid));
    assert.equal(guards.length, 2);
    process.kill(pids[index] ?? 0, 'SIGKILL');
    await gone(pids.slice(index));
    if (index > 0) terminal.continue();
    await gone([...pids, ...guards]);
  });
}

test('terminal: slaves of --processes stop and go on with Ctrl-Z, too', {
  timeout,
  skip,
}, async (t) => {
  const site = await siteFor(t, flatSite(20), { delayMs: 200 });
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--per-host', '4', '--exit-when-done']);
  const key = join(cluster.data, 'authkey');
  const args = ['--processes', '2', '--master', cluster.address, '--authkey-file', key];
  const where = { cwd: cluster.folder, rows: 30, columns: 100 };
  const terminal = new Terminal([join(root, 'slave.js'), ...args], where);
  t.after(() => terminal.program.kill());
  await master.said(/slave joined[\s\S]*slave joined/);
  await site.requested(2);
  const pids = treeOf(await terminal.pid());
  assert.equal(pids.length, 3);
  terminal.suspend();
  await until(pids, (state) => state === 'T');
  terminal.continue();
  assert.deepEqual(await master.exited, { code: 0, signal: null });
  assert.equal(cluster.pages().length, 21);
});

test('terminal: when it is closed a master ends in order', { timeout, skip }, async (t) => {
  const cluster = new Cluster(t);
  const where = { cwd: cluster.folder, rows: 30, columns: 100 };
  const terminal = new Terminal([join(root, 'master.js'), '--listen', '127.0.0.1:0'], where);
  const { program } = terminal;
  t.after(() => program.kill());
  await program.said(/waiting for slaves|no crawl running/);
  const pid = await terminal.pid();
  // The shell sends it, and the kernel.
  for (let times = 0; times < 2; times++) process.kill(pid, 'SIGHUP');
  assert.deepEqual(await program.exited, { code: 0, signal: null }, program.output);
});
