/** The lines of jobs, while the master stops. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { JobFile } from '../../master/jobs/job-file.ts';
import { changeOf, type JobRecord, noRun } from '../../master/jobs/job-record.ts';
import type { GroupCommit } from '../../master/store/group-commit.ts';
import { MemoryStore } from '../../master/store/memory.ts';
import type { Change } from '../../master/store/store.ts';

test('job file: a job that ends after the file was closed has its line after the next start', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-jobs-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const store = new MemoryStore();
  const commits = {
    written: (changes: readonly Change[]) => store.commit(changes),
  } as unknown as GroupCommit;
  const jobs = [1, 2].map((job) => ({
    ...({ job, program: '/bin/true', args: [`${job}`], on: 'any', attempts: 1 } as const),
    retries: 0,
    addedAt: 0,
    ended: { seq: job, at: 0, end: noRun('lost', 'x') },
  }));
  await store.commit(jobs.map((job) => changeOf(job as unknown as JobRecord)));
  const errors: unknown[] = [];
  const start = () =>
    new JobFile({
      store,
      commits,
      folder,
      warn: () => {},
      onWritten: () => {},
      onHeld: () => {},
      room: { isShort: false, room: async () => {}, refused: () => {} },
      onError: (error) => errors.push(error),
    });
  const before = start();
  before.add({ job: 1, seq: 1 });
  await before.close();
  before.add({ job: 2, seq: 2 });
  await before.close();
  assert.deepEqual(errors, []);
  assert.equal(before.upTo, 1);
  const after = start();
  after.add({ job: 2, seq: 2 });
  await after.close();
  const lines = readFileSync(join(folder, 'jobs.jsonl'), 'utf8').trim().split('\n');
  const args = lines.map((line) => (JSON.parse(line) as { args: string[] }).args);
  assert.deepEqual([args, errors], [[['1'], ['2']], []]);
});
