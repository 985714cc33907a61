/** One job of a slave that stands still. Linux only, as jobs are. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { JobProcess } from '../../slave/exec/job-process.ts';
import { findTools } from '../../slave/exec/limits.ts';
import { standStill } from '../support/standstill.ts';

const skip = process.platform !== 'linux';
const large = 1 << 30;

test('job: time in which the slave stands still is none of the job', { skip }, async (t) => {
  const base = mkdtempSync(join(tmpdir(), 'orbweaver-test-'));
  t.after(() => rmSync(base, { recursive: true, force: true }));
  const job = new JobProcess({
    mark: '1.a.standstill',
    path: '/bin/sh',
    args: ['-c', 'echo a; sleep 0.1; echo b'],
    tools: findTools(),
    user: undefined,
    base,
    timeoutMs: 900,
    bounds: {
      memoryBytes: large,
      processes: 10_000,
      cpuS: 10,
      fileBytes: large,
      folderBytes: large,
      outputBytes: 1_000,
      timeoutMs: 900,
    },
    onOutput: () => {},
    onMembers: () => {},
    warn: () => {},
  });
  const running = job.run();
  standStill(1_300);
  const { outcome, code, reason, stdout } = await running;
  assert.deepEqual({ outcome, code, reason }, { outcome: 'exited', code: 0, reason: undefined });
  assert.equal(stdout.kept.toString(), 'a\nb\n');
});
