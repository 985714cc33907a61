/** The key file of a master, which its operator changes while it runs. */
import assert from 'node:assert/strict';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { AuthkeyFile } from '../../shared/authkey.ts';
import { messageOf } from '../../shared/errors.ts';

test('authkey: a key counts as soon as it is in the file', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-key-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'authkey');
  const write = (text: string, to = path) => writeFileSync(to, text, { mode: 0o600 });
  write('the-first-key\n');
  const faults: string[] = [];
  const file = new AuthkeyFile(path, (error) => faults.push(messageOf(error)));
  const keys = () => file.keys.map(String);
  assert.deepEqual(keys(), ['the-first-key']);
  write('the-other-key\nthe-first-key\n');
  assert.deepEqual(keys(), ['the-other-key', 'the-first-key']);
  // Replaced by a file of the same size, as editors do.
  write('the-third-key\nthe-first-key\n', `${path}.new`);
  renameSync(`${path}.new`, path);
  assert.deepEqual(keys(), ['the-third-key', 'the-first-key']);
  write('');
  assert.deepEqual(keys(), ['the-third-key', 'the-first-key']);
  rmSync(path);
  assert.deepEqual(keys(), ['the-third-key', 'the-first-key']);
  assert.deepEqual(keys(), ['the-third-key', 'the-first-key']);
  assert.equal(faults.length, 2, faults.join());
  write('the-last-key\n');
  assert.deepEqual(keys(), ['the-last-key']);
});
