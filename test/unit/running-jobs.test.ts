/** Jobs whose slave is away, in a master that stands still. Source: PROTOCOL.md [T-127]. */
import assert from 'node:assert/strict';
import test from 'node:test';
import type { Executor } from '../../master/jobs/executors.ts';
import { RunningJobs } from '../../master/jobs/running-jobs.ts';
import { awakeSleep } from '../../shared/awake.ts';
import type { JobEnd } from '../../shared/jobs.ts';
import { standStill } from '../support/standstill.ts';

type Options = ConstructorParameters<typeof RunningJobs>[0];
const record = {
  job: 1,
  args: [],
  on: 'any',
  retries: 0,
  addedAt: 0,
  attempts: 1,
  running: { lease: 'ab', instance: 'cd' },
};
const lease = Buffer.from('ab', 'hex');

test('jobs: a job is not lost while the master stands still', async () => {
  const ended: (string | undefined)[] = [];
  // Nothing is handed out here.
  const others = { commits: {}, executors: {}, watchers: {} } as unknown as Options;
  const jobs = new RunningJobs({
    ...others,
    lostMs: 300,
    put: () => {},
    waitAgain: () => Promise.resolve(void ended.push('again')),
    end: (_, { reason }) => Promise.resolve(void ended.push(reason)),
  });
  const slave = { peer: {}, instance: 'cd', jobs: new Set() } as unknown as Executor;
  jobs.restore(record);
  // The slave that is back waits to be read.
  const back = new Promise((resolve) => setImmediate(resolve)).then(() =>
    jobs.returned(slave, [lease]),
  );
  standStill(700);
  assert.deepEqual(await back, []);
  await awakeSleep(300);
  assert.deepEqual(ended, []);
  assert.deepEqual([...slave.jobs], [1]);
  jobs.left(slave);
  await awakeSleep(400);
  assert.deepEqual(ended, ['its slave was gone for 0.3 s']);
});

test('jobs: a report that comes again is answered when the first one is on the disk', async () => {
  let land = () => {};
  const disk = new Promise<void>((resolve) => {
    land = resolve;
  });
  const written = () => disk;
  const others = { commits: { written }, executors: {}, watchers: {} } as unknown as Options;
  const jobs = new RunningJobs({
    ...others,
    lostMs: 60_000,
    put: () => {},
    waitAgain: written,
    end: written,
  });
  jobs.restore(record);
  const answers: boolean[] = [];
  const report = () => jobs.report(lease, { outcome: 'exited' } as JobEnd);
  // Its connection breaks before the first answer.
  const all = [report(), report()].map((one) => one.then((answer) => answers.push(answer)));
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(answers, []);
  land();
  await Promise.all(all);
  assert.deepEqual(answers, [true, false]);
});
