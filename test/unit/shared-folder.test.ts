/** A folder of images that all slaves share (`--images-to`), and cannot be written for a while. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { SharedFolders } from '../../slave/images/shared-folder.ts';

test('shared folder: one tries one that is away, and what it says is said once', async (t) => {
  const parent = mkdtempSync(join(tmpdir(), 'orb-shared-'));
  t.after(() => rmSync(parent, { recursive: true }));
  const [folder, other] = [join(parent, 'a'), join(parent, 'b')];
  writeFileSync(folder, '');
  const said: string[] = [];
  const say = (text: unknown) => void said.push(String(text));
  const log = { warn: say, info: say } as never;
  const files = [['x/1.png', Buffer.from('1')]] as const;
  const folders = new SharedFolders();
  const told: string[] = [];
  folders.onChange = () => {
    told.push(folders.troubles.map((one) => `${one.folder} ${one.reason.slice(0, 5)}`).join());
  };
  assert.equal(folders.waitMs(folder), 0);
  const waitMs = await folders.keep(folder, files, log);
  assert.ok(waitMs >= 1_000);
  assert.ok(folders.waitMs(folder) > waitMs / 2);
  assert.equal(folders.waitMs(other), 0);
  // Writes under way when it went away say nothing of it.
  rmSync(folder);
  assert.equal(await folders.keep(folder, files, log), 0);
  assert.ok(folders.waitMs(folder) > waitMs / 2);
  const later = performance.now() + waitMs;
  assert.equal(folders.waitMs(folder, later), 0);
  assert.ok(folders.waitMs(folder, later) > waitMs / 2, 'the others wait for the one that tries');
  rmSync(folder, { recursive: true });
  writeFileSync(folder, '');
  assert.equal(await folders.keep(folder, files, log), waitMs);
  assert.equal(said.length, 1);
  rmSync(folder);
  assert.equal(folders.waitMs(folder, performance.now() + waitMs), 0);
  assert.equal(await folders.keep(folder, files, log), 0);
  assert.equal(folders.waitMs(folder), 0);
  assert.match(said.join('\n'), /^cannot write to [^\n]*E\w+[^\n]*\ncan write to [^\n]* again$/);
  assert.deepEqual(told, [`${folder} ENOTD`, '']);
  assert.equal(readFileSync(join(folder, 'x/1.png'), 'utf8'), '1');
});

test('shared folder: one that no crawl wants any more is no trouble', async (t) => {
  const folder = join(mkdtempSync(join(tmpdir(), 'orb-shared-')), 'a');
  t.after(() => rmSync(dirname(folder), { recursive: true }));
  writeFileSync(folder, '');
  const log = { warn() {}, info() {} } as never;
  const files = [['x/1.png', Buffer.from('1')]] as const;
  const folders = new SharedFolders();
  const told: number[] = [];
  folders.onChange = () => void told.push(folders.troubles.length);
  await folders.keep(folder, files, log);
  folders.crawlEnded();
  assert.deepEqual(told, [1], 'another crawl wants it');
  folders.isWanted = () => false;
  folders.crawlEnded();
  assert.deepEqual(told, [1, 0]);
  assert.equal(folders.waitMs(folder), 0);
  // An image that was being written as its crawl ended.
  assert.ok((await folders.keep(folder, files, log)) > 0);
  assert.deepEqual(told, [1, 0]);
});
