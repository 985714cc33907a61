/** Slaves as child processes: their ends are heard of, also when they were let go. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type SlaveEnd, SlaveProcesses } from '../../shared/slave-processes.ts';

/** Leaves in order when its parent lets it go. */
const leaver = "process.on('disconnect', () => process.exit(0));";

test('slave processes: one that was let go is gone when it has ended', {
  timeout: 10_000,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orb-slaves-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const program = join(folder, 'leaver.cjs');
  writeFileSync(program, leaver);
  let slaves: SlaveProcesses | undefined;
  const ended = new Promise<SlaveEnd>((onEnd) => {
    const flags = { argsOf: () => [], restartMs: 0, restartsMax: 1 };
    slaves = new SlaveProcesses({ program, output: 'keep', onEnd, ...flags });
  });
  slaves?.start('a');
  slaves?.release();
  const { code, isRestarted } = await ended;
  assert.deepEqual({ code, isRestarted }, { code: 0, isRestarted: false });
  assert.deepEqual(slaves?.pids, []);
});

/** Returns how many times one that dies is started, 5 at most. */
async function startsOf(steadyMs: number): Promise<number> {
  let starts = 0;
  await new Promise<void>((resolve) => {
    const slaves = new SlaveProcesses({
      program: '-e',
      argsOf: () => ["process.send('started', () => process.exit(1))"],
      output: 'keep',
      restartMs: 0,
      restartsMax: 2,
      steadyMs,
      onEnd: ({ isRestarted }) => {
        starts++;
        if (isRestarted && starts < 5) return;
        slaves.release();
        resolve();
      },
    });
    slaves.start('a');
  });
  return starts;
}

test('slave processes: one that keeps dying is given up, one that dies now and then is not', {
  timeout: 60_000,
}, async () => {
  assert.equal(await startsOf(60_000), 3);
  assert.equal(await startsOf(0), 5);
});

test('slave processes: one that hangs in its start is killed, and counts as one that died', {
  timeout: 20_000,
}, async () => {
  const ends: SlaveEnd[] = [];
  await new Promise<void>((resolve) => {
    const slaves = new SlaveProcesses({
      program: '-e',
      argsOf: () => ['for (;;);'],
      output: 'keep',
      startMs: 200,
      restartMs: 0,
      restartsMax: 1,
      steadyMs: 0,
      onEnd: (end) => {
        ends.push(end);
        if (slaves.count === 0) resolve();
      },
    });
    slaves.start('a');
  });
  assert.deepEqual(
    ends.map(({ isRestarted }) => isRestarted),
    [true, false],
  );
  assert.match(ends[0]?.why ?? '', /^it did not start within 0\.2 s/);
});
