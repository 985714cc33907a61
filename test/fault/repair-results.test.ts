/** Repair reads the result files: the command that a start prints names them, and it wants them. */
import assert from 'node:assert/strict';
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { checkStore } from '../../master/repair/check.ts';
import { storeFile } from '../../master/store/lmdb.ts';
import { generateSite } from '../../selftest/site.ts';
import { Cluster, Program, root } from '../support/cluster.ts';
import { pagesOf, readPages } from '../support/exact.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';

const timeout = 90_000;
const pageBytes = 4096;

test('repair: the command that a start prints is whole, and writes nothing twice', {
  timeout,
}, async (t) => {
  const { site, cluster, address, slave } = await damaged(t);
  const start = ['master.js', '--listen', address, '--data', cluster.data, '--out', cluster.out];
  const refused = cluster.run(start);
  assert.deepEqual(await refused.exited, { code: 2, signal: null });
  const [, command = ''] =
    /save the readable part with: node master\.js (.*)\n$/.exec(refused.output) ?? [];
  assert.match(command, /^repair --data '.*' --out '.*'$/);
  // As it is printed, by a shell, elsewhere.
  const repairing = shell(cluster, `${command}`);
  assert.equal((await repairing.exited).code, 0, repairing.output);
  const again = await cluster.master(['--exit-when-done'], { listen: address });
  await assertLeaves(again, slave);
  const pages = pagesOf(readPages(cluster));
  assert.equal(new Set(pages).size, pages.length);
  const { pages: truth } = site.truth();
  assert.deepEqual(
    pages.filter((url) => !truth.includes(url)),
    [],
  );
});

test('repair: refuses without the result files, unless told to go on', { timeout }, async (t) => {
  const { cluster, slave } = await damaged(t);
  slave.signal('SIGTERM');
  const away = join(cluster.folder, 'away');
  const run = async (out: string, ...more: readonly string[]) => {
    const program = cluster.run([
      'master.js',
      'repair',
      '--data',
      cluster.data,
      '--out',
      out,
      ...more,
    ]);
    const { code } = await program.exited;
    return { code, said: program.output };
  };
  const path = storeFile(join(cluster.data, 'store'));
  const wanted = /^master: no results are at .*pages\.jsonl.*--without-results.*\n$/;
  const nowhere = await run(join(cluster.folder, 'nowhere'));
  assert.equal(nowhere.code, 2);
  assert.match(nowhere.said, wanted);
  renameSync(join(cluster.out, 'default'), away);
  assert.match((await run(cluster.out)).said, wanted);
  mkdirSync(join(cluster.out, 'default'));
  assert.match((await run(cluster.out)).said, wanted);
  assert.notEqual(checkStore(path), undefined, 'nothing was done');
  const { code, said } = await run(cluster.out, '--without-results');
  assert.equal(code, 0, said);
  assert.match(said, /^without .*pages\.jsonl$/m);
  assert.equal(checkStore(path), undefined);
});

/** A killed crawl whose store has flipped bytes, in folders that a shell must quote. */
async function damaged(t: TestContext) {
  const parent = mkdtempSync(join(tmpdir(), "orb it's "));
  t.after(() => rmSync(parent, { recursive: true, force: true }));
  const site = await siteFor(t, generateSite(93, 150), { delayMs: 20 });
  const cluster = new Cluster(t, parent);
  const master = await cluster.master([site.url, '--per-host', '4']);
  const slave = cluster.slave();
  await cluster.grown('pages.jsonl', 0);
  await cluster.grown('pages.jsonl', cluster.lines('pages.jsonl').length + 20);
  const { address } = cluster;
  await master.kill('SIGKILL');
  flip(storeFile(join(cluster.data, 'store')));
  return { site, cluster, address, slave };
}

/** Flips a byte in the first pages where that is damage, but none of them the store's root. */
function flip(path: string): void {
  const file = openSync(path, 'r+');
  const byte = Buffer.alloc(1);
  let flipped = 0;
  for (let page = 2; flipped < 3 && page < 400; page++) {
    const at = page * pageBytes + pageBytes - 40;
    readSync(file, byte, 0, 1, at);
    byte[0] = (byte[0] ?? 0) ^ 1;
    writeSync(file, byte, 0, 1, at);
    if (/value|seen|recent|runs/.test(checkStore(path) ?? '')) flipped++;
    else {
      byte[0] = (byte[0] ?? 0) ^ 1;
      writeSync(file, byte, 0, 1, at);
    }
  }
  closeSync(file);
  assert.notEqual(checkStore(path), undefined);
}

function shell(cluster: Cluster, command: string): Program {
  return new Program(['-c', `"$0" "$1" ${command}`, process.execPath, join(root, 'master.js')], {
    cwd: cluster.folder,
    program: 'sh',
  });
}
