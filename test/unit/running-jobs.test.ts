/** Jobs whose slave is away, in a master that stands still. Source: PROTOCOL.md [T-127]. */
import assert from 'node:assert/strict';
import test from 'node:test';
import type { Executor } from '../../master/jobs/executors.ts';
import { RunningJobs } from '../../master/jobs/running-jobs.ts';
import { awakeSleep } from '../../shared/awake.ts';
import { standStill } from '../support/standstill.ts';

test('jobs: a job is not lost while the master stands still', async () => {
  const ended: (string | undefined)[] = [];
  type Options = ConstructorParameters<typeof RunningJobs>[0];
  // Nothing is handed out here.
  const others = { commits: {}, executors: {}, watchers: {} } as unknown as Options;
  const jobs = new RunningJobs({
    ...others,
    lostMs: 300,
    put: () => {},
    waitAgain: () => ended.push('again'),
    end: (_, { reason }) => Promise.resolve(void ended.push(reason)),
  });
  const lease = Buffer.from('ab', 'hex');
  const record = {
    ...{ job: 1, args: [], on: 'any', retries: 0, addedAt: 0, attempts: 1 },
    running: { lease: 'ab', instance: 'cd' },
  };
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
