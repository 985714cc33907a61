/** Crawls whose rules ask for articles: which slaves get their tasks, and which are told alone.
 *  Source: PROTOCOL.md [T-130], [T-131]. */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import type { Message, RawPeer } from '../support/raw-peer.ts';
import { nextTask } from '../support/raw-slave.ts';
import { statusOf, Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

const items = { story: { article: true, fields: { page: { value: 'url' } } } };
const fetch = { items };

async function able(slave: RawPeer, ...what: readonly string[]): Promise<void> {
  await slave.must('slave.can', { what: ['rules', ...what] });
  await slave.must('task.credit', { count: 1, slots: 1 });
}

const pushesOf = ({ unread }: RawPeer, wanted: string) =>
  unread.filter(({ verb }) => verb === wanted);

test('[T-130] tasks of a crawl with articles are for slaves that find them', async (t) => {
  const older = await target.slave(t, 4);
  if (older === undefined) return;
  await older.must('slave.can', { what: ['rules'] });
  const crawl = await target.crawl(older, [target.seed()], { fetch });
  for (let i = 0; i < 3; i++) await older.sync();
  assert.deepEqual(pushesOf(older, 'task.push'), []);
  assert.equal((await statusOf(older, crawl))['wantsArticles' as never], true);
  const newer = await target.join('slave', target.name().slice(-40));
  await able(newer, 'article');
  const spec = await newer.push('crawl.spec');
  assert.deepEqual((spec['fetch'] as Message)['items'], items);
  await nextTask(newer);
  assert.equal((await statusOf(older, crawl))['wantsArticles' as never], undefined);
  // It would refuse a spec that it does not know.
  assert.deepEqual(pushesOf(older, 'crawl.spec'), []);
  await Promise.all([older.close(), newer.close()]);
});

test('[T-131] a slave without the packages is told the rules, and gets no task', async (t) => {
  const slave = await target.slave(t, 4);
  if (slave === undefined) return;
  const login = { url: 'https://a.example/in', fields: { user: 'me' }, until: 'a' };
  const first = await target.crawl(slave, [target.seed()], { fetch: { items, login } });
  const lacking = await target.join('slave', target.name().slice(-40));
  await able(lacking, 'login', 'no-article');
  const spec = await lacking.push('crawl.spec');
  assert.equal(spec['name'], first);
  assert.deepEqual((spec['fetch'] as Message)['items'], items);
  assert.equal((spec['fetch'] as Message)['login'], undefined);
  const second = await target.crawl(slave, [target.seed()], { fetch });
  assert.equal((await lacking.push('crawl.spec'))['name'], second);
  for (let i = 0; i < 3; i++) await lacking.sync();
  assert.deepEqual(pushesOf(lacking, 'task.push'), []);
  await slave.must('crawl.cancel', { crawl: second });
  await lacking.push('crawl.ended');
  await Promise.all([slave.close(), lacking.close()]);
});
