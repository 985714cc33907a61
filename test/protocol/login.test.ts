/** Logins of crawls: which slaves get their tasks, what they are told, and what a failure does.
 *  Source: PROTOCOL.md [T-93], [T-94], [C-101]. */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import type { Message, RawPeer } from '../support/raw-peer.ts';
import { nextTask, nothingPushed, release, unreadPushes } from '../support/raw-slave.ts';
import { statusOf, Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

const login = { url: 'https://a.example/in', fields: { user: 'me' }, until: 'a' };
const fetch = { login };

/** A slave that logs in. */
async function able(slave: RawPeer): Promise<void> {
  await slave.must('slave.can', { what: ['rules', 'login'] });
  await slave.must('task.credit', { count: 1, slots: 1 });
}

test('[T-93] tasks of a crawl with a login are for slaves that log in', async (t) => {
  const older = await target.slave(t, 4);
  if (older === undefined) return;
  await older.must('slave.can', { what: ['rules'] });
  const crawl = await target.crawl(older, [target.seed()], { fetch });
  await nothingPushed(older);
  assert.equal((await statusOf(older, crawl))['wantsLogin' as never], true);
  const newer = await target.join('slave', target.name().slice(-40));
  await able(newer);
  const spec = await newer.push('crawl.spec');
  assert.deepEqual((spec['fetch'] as Message)['login'], login);
  assert.ok(Number.isInteger(spec['round']));
  await nextTask(newer);
  assert.equal((await statusOf(older, crawl))['wantsLogin' as never], undefined);
  assert.deepEqual(unreadPushes(older), []);
  await Promise.all([older.close(), newer.close()]);
});

test('[T-94] a failed login holds its crawl, once a round', async (t) => {
  const slave = await target.slave(t);
  if (slave === undefined) return;
  await able(slave);
  const crawl = await target.crawl(slave, [target.seed()], { fetch });
  const spec = await slave.push('crawl.spec');
  const task = await nextTask(slave);
  const { crawl: number, round } = spec as Message & { crawl: number; round: number };
  // Of no such crawl, and of another round.
  await slave.must('login.failed', { crawl: 4_000_000_000, round, why: 'no form' });
  await slave.must('login.failed', { crawl: number, round: round - 1, why: 'no form' });
  assert.equal((await statusOf(slave, crawl))['state'], 'running');
  await slave.must('login.failed', { crawl: number, round, why: 'no form' });
  await release(slave, task);
  const { state, held } = (await statusOf(slave, crawl)) as { state: string; held?: string };
  assert.equal(state, 'held');
  assert.match(held ?? '', /the login failed: no form/);
  // [C-101]
  await slave.must('crawl.resume', { crawl });
  const next = await slave.push('crawl.spec');
  assert.ok((next['round'] as number) > round);
  // That the attempt did not count.
  assert.equal((await nextTask(slave)).attempt, 1);
  await slave.must('login.failed', { crawl: number, round, why: 'late' });
  assert.equal((await statusOf(slave, crawl))['state'], 'running');
  await slave.close();
});

test('[T-94] login.failed is for slaves, and of a crawl without a login has no effect', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed()]);
  const spec = await slave.push('crawl.spec');
  await slave.must('login.failed', { crawl: spec['crawl'], round: 0, why: 'x' });
  assert.equal((await statusOf(slave, crawl))['state'], 'running');
  const client = await target.join();
  const refused = await client.request('login.failed', { crawl: 1, round: 0, why: 'x' });
  assert.equal(refused.error, 'E_BAD_REQUEST');
  await Promise.all([slave.close(), client.close()]);
});

test('[C-101] a login that names a variable which is not set holds the crawl', async () => {
  const peer = await target.join();
  const fields = { password: '$ORBWEAVER_TEST_NOT_SET' };
  const crawl = await target.crawl(peer, [target.seed()], {
    fetch: { login: { ...login, fields } },
  });
  const { state, held } = (await statusOf(peer, crawl)) as { state: string; held?: string };
  assert.equal(state, 'held');
  assert.match(held ?? '', /ORBWEAVER_TEST_NOT_SET is not set/);
  const refused = await peer.request('crawl.resume', { crawl });
  assert.equal(refused.error, 'E_BAD_REQUEST');
  // The names of changed fields are said without the values.
  const reply = await peer.must('crawl.set', { crawl, spec: { fetch: { login } } });
  assert.deepEqual(reply['changed'], [{ field: 'fetch.login', from: login.url, to: login.url }]);
  await peer.must('crawl.resume', { crawl });
  assert.equal((await statusOf(peer, crawl))['state'], 'running');
  await peer.close();
});
