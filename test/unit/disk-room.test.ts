import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mock, type TestContext, test } from 'node:test';
import { DiskRoom, isDiskFull } from '../../master/machine/disk-room.ts';

function roomOf(t: TestContext, folders: readonly string[] = ['/data']) {
  mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
  let now = 0;
  mock.method(performance, 'now', () => now);
  const free = new Map(folders.map((folder) => [folder, 1000]));
  const said: string[] = [];
  const room = new DiskRoom({
    folders,
    reserveBytes: 100,
    freeBytes: (folder) => free.get(folder) ?? 0,
    events: {
      diskFull: ({ folder, freeBytes }) => said.push(`short ${folder} ${freeBytes}`),
      diskFree: () => said.push('room'),
    },
    onError: (error) => said.push(String(error)),
  });
  const pass = (ms: number) => {
    now += ms;
    mock.timers.tick(ms);
  };
  t.after(() => {
    room.close();
    mock.timers.reset();
    mock.restoreAll();
  });
  return { room, free, said, pass };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('disk room: below the reserve it is short, and by itself it is not any more', async (t) => {
  const { room, free, said, pass } = roomOf(t);
  assert.equal(room.isShort, false);
  free.set('/data', 99);
  pass(20);
  assert.equal(room.isShort, true);
  let isThere = false;
  const waiting = room.room().then(() => (isThere = true));
  pass(250);
  await turn();
  assert.deepEqual({ isThere, said }, { isThere: false, said: ['short /data 99'] });
  assert.equal(room.shortMs, 250);
  assert.deepEqual(room.shortage, { folder: '/data', freeBytes: 99 });
  free.set('/data', 100);
  pass(250);
  await waiting;
  assert.equal(room.isShort, false);
  assert.equal(room.shortMs, 0);
  assert.deepEqual(said, ['short /data 99', 'room']);
});

test('disk room: the folder with the least room counts', (t) => {
  const { room, free, said, pass } = roomOf(t, ['/data', '/out']);
  free.set('/data', 90).set('/out', 7);
  pass(20);
  assert.ok(room.isShort);
  assert.deepEqual(said, ['short /out 7']);
});

// A disk of the first row is full after 400 ms if it is filled as fast as any can be.
for (const [freeBytes, ms] of [
  [2_000_000_100, 400],
  [1e15, 1_000],
  [Number.POSITIVE_INFINITY, 1_000],
  [101, 20],
] as const) {
  test(`disk room: with ${freeBytes} bytes it is looked at again after ${ms} ms`, (t) => {
    const { room, free, pass } = roomOf(t);
    free.set('/data', freeBytes);
    assert.equal(room.isShort, false);
    free.set('/data', 0);
    pass(ms - 1);
    assert.equal(room.isShort, false);
    pass(1);
    assert.equal(room.isShort, true);
  });
}

test('disk room: a write that was refused needs a write that succeeds', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-room-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const { room, said, pass } = roomOf(t, ['/dev/null/no', folder]);
  room.refused();
  assert.equal(room.isShort, true, 'whatever the file system says of its free space');
  pass(250);
  assert.equal(room.isShort, true);
  assert.deepEqual(said, ['short /dev/null/no 0']);
});

test('disk room: a write that was refused on another disk is said of that one', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-room-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const { room, said, pass } = roomOf(t, [folder]);
  room.refused('/dev/null/images');
  assert.equal(room.isShort, true, 'until something can be written there');
  assert.equal(room.hasRoom(), true, 'what is watched has room');
  pass(250);
  assert.equal(room.isShort, true);
  assert.deepEqual(said, ['short /dev/null/images 0']);
});

test('disk room: after a refusal that is over it goes on', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-room-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const { room, said } = roomOf(t, [folder]);
  room.refused();
  await room.room();
  assert.deepEqual(said, []);
});

test('disk room: what is refused again and again is tried after pauses, and said once', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-room-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const { room, said, pass } = roomOf(t, [folder]);
  // A trial succeeds each time.
  room.refused();
  assert.equal(room.isShort, false);
  for (const ms of [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]) {
    room.refused();
    let isThere = false;
    const waiting = room.room().then(() => (isThere = true));
    pass(ms - 250);
    await turn();
    assert.equal(isThere, false, `before ${ms} ms`);
    pass(250);
    await waiting;
    assert.equal(room.shortage?.folder, folder, 'it is tried');
  }
  assert.deepEqual(said, [`short ${folder} 0`]);
  pass(10_000);
  assert.equal(room.shortage, undefined);
  assert.deepEqual(said, [`short ${folder} 0`, 'room']);
  room.refused();
  assert.equal(room.isShort, false, 'as at first');
});

test('disk room: a full disk is known by its code', () => {
  const codes = ['ENOSPC', 'EDQUOT', 'EIO'];
  const errors = codes.map((code) => Object.assign(new Error(code), { code }));
  assert.deepEqual(errors.map(isDiskFull), [true, true, false]);
  assert.equal(isDiskFull('ENOSPC'), false);
});
