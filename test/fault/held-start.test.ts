/** A start that finds result files missing holds their crawl alone; what gets it out of that. */
import assert from 'node:assert/strict';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Cluster } from '../support/cluster.ts';
import { assertExact } from '../support/exact.ts';
import {
  assertStops,
  fileIn,
  gone,
  held,
  heldFlags,
  keptOf,
  pace,
  started,
  statusOf,
  written,
} from '../support/held.ts';
import { assertLeaves } from '../support/parts.ts';

const timeout = 240_000;

test('held: a missing file at the start holds its crawl alone, and none is made', {
  timeout,
}, async (t) => {
  const { site, cluster, master, slave } = await started(t);
  const folder = join(cluster.out, 'default');
  const { address } = cluster;
  await master.kill('SIGKILL');
  renameSync(fileIn(folder), keptOf(folder));
  const images = readFileSync(fileIn(folder, 'img_src.txt'));
  const again = await cluster.master([`${site.origin}/page/3`, '--crawl', 'second', ...heldFlags], {
    listen: address,
  });
  assert.match(again.output, held);
  assert.match(again.output, gone);
  await again.said(/crawl second is done/);
  assert.equal((await cluster.status()).state, 'held');
  assert.ok(!existsSync(fileIn(folder)));
  assert.deepEqual(readFileSync(fileIn(folder, 'img_src.txt')), images, 'left as it is');
  assert.match((await refused(cluster, 'resume', 'default')).said, gone);
  assert.ok(!existsSync(fileIn(folder)));
  // Once more, and a kill while it is held.
  await again.kill('SIGKILL');
  const third = await cluster.master([], { listen: address });
  assert.match(third.output, held);
  renameSync(keptOf(folder), fileIn(folder));
  assert.equal(await cluster.ask('resume', 'default'), 'crawl default resumed\n');
  await third.said(/crawl default is done/);
  assertExact(cluster, site.truth());
  await assertStops(third, slave);
});

test('held: a start finds the file put back, and goes on by itself', { timeout }, async (t) => {
  const { site, cluster, master, slave } = await started(t);
  const folder = join(cluster.out, 'default');
  const { address } = cluster;
  renameSync(folder, `${folder}-away`);
  await master.said(held);
  await master.kill('SIGKILL');
  renameSync(`${folder}-away`, folder);
  const again = await cluster.master(['--exit-when-done'], { listen: address });
  await assertLeaves(again, slave);
  assertExact(cluster, site.truth());
});

test('held: a cancel ends it, held at the start or later', { timeout }, async (t) => {
  const { cluster, master, slave } = await started(t);
  const folder = join(cluster.out, 'default');
  const { address } = cluster;
  await master.kill('SIGKILL');
  rmSync(folder, { recursive: true });
  const again = await cluster.master(['--exit-when-done'], { listen: address });
  await again.said(/exiting with code 2 in 10 s/);
  assert.equal(await cluster.ask('cancel', 'default'), 'crawl default is cancelled\n');
  // Nothing is open any more.
  await assertLeaves(again);
  slave.signal('SIGTERM');
  assert.ok(!existsSync(folder), 'no empty files');
  const third = await cluster.master([]);
  assert.doesNotMatch(third.output, /held/);
  const status = await cluster.status();
  assert.deepEqual([status.state, status.unwritten], ['cancelled', 0]);
  await assertStops(third);
});

test('held: a master that leaves when done leaves with 2 when nothing else is left', {
  timeout,
}, async (t) => {
  const { site, cluster, master, slave } = await started(t, ['default'], ['--exit-when-done']);
  const folder = join(cluster.out, 'default');
  const away = join(cluster.folder, 'away');
  renameSync(folder, away);
  await master.said(/only held crawls are left/);
  const { address } = cluster;
  assert.deepEqual(await master.exited, { code: 2, signal: null }, master.output);
  assert.match(
    master.stderr,
    /^master: held crawls are not done: default \(.*pages\.jsonl is gone, .*; put the file back\); .*\n$/,
  );
  assert.ok(!existsSync(folder));
  mkdirSync(cluster.out, { recursive: true });
  cpSync(away, folder, { recursive: true });
  const again = await cluster.master(['--exit-when-done'], { listen: address });
  await assertLeaves(again, slave);
  assertExact(cluster, site.truth());
});

test('held: kill -9 in the middle of a resume with new files loses and doubles nothing', {
  timeout,
}, async (t) => {
  const { site, cluster, master, slave, client } = await started(t, ['default'], ['--delay', '40']);
  const folder = join(cluster.out, 'default');
  const { address } = cluster;
  let running = master;
  let peer = client;
  const old: string[] = [];
  // It must not be over before the last round.
  site.delayMs = 2 * pace.slow;
  for (const afterMs of [0, 20, 40, 80]) {
    await written(cluster, 'default');
    renameSync(fileIn(folder), keptOf(folder, `${afterMs}`));
    let bytes = Number.NaN;
    // A start may have said before that it is held.
    while (Number.isNaN(bytes)) {
      const { held: why = '' } = await statusOf(peer, 'default');
      bytes = Number(/ gone, and (\d+) bytes/.exec(why)?.[1]);
    }
    old.push(
      readFileSync(keptOf(folder, `${afterMs}`))
        .subarray(0, bytes)
        .toString(),
    );
    peer.request('crawl.resume', { crawl: 'default', newFiles: true }).catch(() => {});
    // Anywhere in it.
    await new Promise((resolve) => setTimeout(resolve, afterMs));
    await running.kill('SIGKILL');
    running = await cluster.master([], { listen: address });
    peer = await cluster.connect();
    await peer.request('crawl.resume', { crawl: 'default', newFiles: true });
  }
  site.delayMs = pace.fast;
  await running.said(/crawl default is done/);
  writeFileSync(fileIn(folder), old.join('') + readFileSync(fileIn(folder), 'utf8'));
  assertExact(cluster, site.truth());
  await peer.close();
  await assertStops(running, slave);
});

async function refused(cluster: Cluster, ...args: readonly string[]) {
  const [verb = '', ...rest] = args;
  const key = ['--master', cluster.address, '--authkey-file', join(cluster.data, 'authkey')];
  const program = cluster.run(['master.js', verb, ...key, ...rest]);
  const { code } = await program.exited;
  return { code, said: program.output };
}
