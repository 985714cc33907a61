/** The lock of a data folder, where a master stood still until another one took it for dead. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs, {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { DataFolder } from '../../master/machine/data-folder.ts';
import { awakeSleep } from '../../shared/awake.ts';

test('data folder: a master whose lock another one has taken ends, and leaves that lock', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'orbweaver-test-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  const folder = DataFolder.open(path);
  const faults: string[] = [];
  folder.onFault = (error) => faults.push(String(error));
  const lock = join(path, 'master.lock');
  const other = JSON.stringify({ host: 'another.example', pid: 1, started: '1' });
  writeFileSync(lock, other);
  for (let i = 0; i < 100 && faults.length === 0; i++) await awakeSleep(50);
  assert.match(faults[0] ?? '', /another master has taken the data folder/);
  folder.close();
  assert.equal(readFileSync(lock, 'utf8'), other);
});

test('data folder: who removes the lock of a dead process removes no other', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'orbweaver-test-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  const lock = join(path, 'master.lock');
  const owner = { host: hostname(), pid: process.pid };
  const dead = JSON.stringify({ ...owner, started: 'never' });
  const live = JSON.stringify({ host: 'another.example', pid: 1, started: '1' });
  for (const left of [dead, '']) {
    writeFileSync(lock, left);
    // Between the look at the lock and its removal another process takes the folder.
    const { rmSync: rm, renameSync: rename } = fs;
    const taken = () => writeFileSync(lock, live);
    t.mock.method(fs, 'rmSync', (...args: Parameters<typeof rm>) => {
      if (args[0] === lock) taken();
      rm(...args);
    });
    t.mock.method(fs, 'renameSync', (...args: Parameters<typeof rename>) => {
      if (args[0] === lock) taken();
      rename(...args);
    });
    syncBuiltinESMExports();
    assert.throws(() => DataFolder.open(path), /is in use by another master/);
    t.mock.restoreAll();
    syncBuiltinESMExports();
    assert.equal(readFileSync(lock, 'utf8'), live);
  }
});

test('data folder: a lock that is a folder is named, since no start can remove it', (t) => {
  const path = mkdtempSync(join(tmpdir(), 'orbweaver-test-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  mkdirSync(join(path, 'master.lock'));
  assert.throws(() => DataFolder.open(path), /master\.lock is a folder, .*; remove it$/);
});

test('data folder: a master of another container with the same host name keeps it', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'orbweaver-test-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  const lock = join(path, 'master.lock');
  // No process of this container: here its id is free.
  const owner = { host: hostname(), space: 'pid:[1]', pid: 2 ** 30, started: '1' };
  writeFileSync(lock, JSON.stringify(owner));
  // It touches the lock for a master; as one of 4 s ago, so that the start need not look for long.
  const touch = `const { utimesSync } = require('node:fs');
    setInterval(() => {
      const at = Date.now() / 1000 - 4;
      utimesSync(process.argv[1], at, at);
      process.stdout.write('.');
    }, 20)`;
  const toucher = spawn(process.execPath, ['-e', touch, lock]);
  t.after(() => toucher.kill('SIGKILL'));
  await once(toucher.stdout, 'data');
  toucher.stdout.resume();
  assert.throws(
    () => DataFolder.open(path),
    /in use by the master with process id 1073741824 of another container; stop it/,
  );
  toucher.kill('SIGKILL');
  await once(toucher, 'exit');
  const longAgo = Date.now() / 1000 - 60;
  utimesSync(lock, longAgo, longAgo);
  const begun = performance.now();
  DataFolder.open(path).close();
  assert.ok(performance.now() - begun < 2_000, 'a lock of long ago is left over');
});
