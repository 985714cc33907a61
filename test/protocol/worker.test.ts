/** Programs that take pages. Source: PROTOCOL.md [T-128]. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { SlaveRow } from '../../shared/protocol.ts';
import { nextTask, report } from '../support/raw-slave.ts';
import { Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());

test('[T-128] a session that takes pages gets pages, and no robots.txt', async (t) => {
  const client = await target.join();
  const peer = await target.join('slave', 'worker-128');
  await peer.must('task.credit', { count: 1, takes: 'pages' });
  const { slaves } = await client.must('slave.list');
  const row = (slaves as SlaveRow[]).find(({ name }) => name === 'worker-128');
  assert.equal(row?.takes, 'pages');
  await target.crawl(client, ['http://192.0.2.1/'], { ignoreRobots: true });
  const task = await nextTask(peer);
  assert.equal(task.url, 'http://192.0.2.1/');
  assert.equal((await report(peer, task))['state'], 'done');
  t.after(() => Promise.all([client.close(), peer.close()]));
});
