/** Rules of crawls: which slaves get their pages, what they report of them, and what is counted.
 *  Source: PROTOCOL.md [T-80]..[T-82], [C-90]. */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import { pack } from '../support/msgpack.ts';
import type { Message, RawPeer } from '../support/raw-peer.ts';
import { nextTask, nothingPushed, page, pushed, type Task } from '../support/raw-slave.ts';
import { statusOf, Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

const items = { book: { fields: { title: 'title', price: '.price' } } };
const fetch = { items };
const counts = { book: [1, 1, 0, 0, 0, 2, 1], 'book.price': [1, 0, 1, 0, 0, 0, 0] };

/** Reports a page with what the rules made of it. */
async function reported(slave: RawPeer, { task, lease, url }: Task, made: unknown, type?: string) {
  const result = pack({ ...page(url), ...(type !== undefined && { type }) });
  const empty = { images: pack([]), links: Buffer.alloc(0) };
  return await slave.request('task.report', { task, lease, result, ...empty, items: pack(made) });
}

/** A slave that evaluates rules. */
async function ruled(slave: RawPeer, count = 1): Promise<void> {
  await slave.must('slave.can', { what: ['rules', 'what a newer one can'] });
  await slave.must('task.credit', { count, slots: count * 4 });
}

test('[T-80] pages of a crawl with items are for slaves that evaluate rules', async (t) => {
  const older = await target.slave(t, 4);
  if (older === undefined) return;
  const seed = target.seed();
  const crawl = await target.crawl(older, [seed], { fetch });
  await nothingPushed(older);
  assert.equal((await statusOf(older, crawl))['wantsRules' as never], true);
  const newer = await target.join('slave', target.name().slice(-40));
  await ruled(newer);
  const spec = await newer.push('crawl.spec');
  assert.deepEqual((spec['fetch'] as Message)['items'], items);
  const task = await nextTask(newer);
  assert.equal(task.url, seed);
  assert.equal((await statusOf(older, crawl))['wantsRules' as never], undefined);
  // While it runs, the other one gets no pages at all.
  const plain = await target.crawl(older, [target.seed()]);
  await nothingPushed(older);
  await reported(newer, task, { rows: [], rejected: [], failures: [], counts: {} });
  await older.must('crawl.cancel', { crawl });
  const [other] = (await Promise.race([pushed(newer), pushed(older)])) as [Task];
  assert.ok(other.url.length > 0 && plain.length > 0);
  await Promise.all([older.close(), newer.close()]);
});

test('[T-81] a report has rows, rejected rows, failures and counts of the rules', async (t) => {
  const slave = await target.slave(t);
  if (slave === undefined) return;
  await ruled(slave);
  const crawl = await target.crawl(slave, [target.seed()], { fetch });
  const made = {
    rows: [
      ['book', { title: 'a', price: 1.5, tags: ['x', { y: null }] }],
      ['book', { title: 'b', price: null }],
    ],
    rejected: [['book', { title: null }, 'title: is missing']],
    failures: [],
    counts,
  };
  const reply = await reported(slave, await nextTask(slave), made, 'application/json');
  assert.equal(reply['state'], 'done');
  // An answer that rules have read is a page.
  const { pages, others } = await statusOf(slave, crawl);
  assert.deepEqual([pages, others], [1, 0]);
  await slave.close();
});

test('[T-82] rows that are no rows are refused, and so are too many', async (t) => {
  const slave = await target.slave(t);
  if (slave === undefined) return;
  await ruled(slave);
  await target.crawl(slave, [target.seed()], { fetch });
  const task = await nextTask(slave);
  const fine = { rows: [], rejected: [], failures: [], counts: {} };
  const row = ['book', { a: 1 }];
  const wrong: unknown[] = [
    null,
    [],
    {},
    { ...fine, more: [] },
    { ...fine, rows: [['book']] },
    { ...fine, rows: [['no name', {}]] },
    { ...fine, rows: [['book', []]] },
    { ...fine, rows: [['book', { a: Buffer.from('bytes') }]] },
    { ...fine, rows: new Array(50_001).fill(row) },
    { ...fine, rejected: [row] },
    { ...fine, rejected: [[...row, 'x'.repeat(513)]] },
    { ...fine, failures: [['book', 7]] },
    { ...fine, counts: { book: [1, 2] } },
    { ...fine, counts: { book: [1, 1, 0, 0, 0, -1, 0] } },
    { ...fine, counts: { 'a.b.c': [1, 1, 0, 0, 0, 0, 0] } },
  ];
  for (const made of wrong) {
    assert.equal((await reported(slave, task, made)).error, 'E_BAD_REQUEST', String(made));
  }
  const long = { ...fine, rows: [['book', { a: 'x'.repeat(7 << 20) }]] };
  assert.equal((await reported(slave, task, long)).error, 'E_BAD_REQUEST');
  assert.equal((await reported(slave, task, fine))['state'], 'done');
  await slave.close();
});

test('[C-90] the status of a crawl has the counts of its rules and fields', async (t) => {
  const slave = await target.slave(t);
  if (slave === undefined) return;
  await ruled(slave);
  const seed = target.seed();
  const crawl = await target.crawl(slave, [`${seed}1`, `${seed}2`, `${seed}3`], { fetch });
  const rows = [
    ['book', { title: 'a' }],
    ['book', { title: 'b' }],
  ];
  const rejected = [['book', {}, 'why']];
  const made = { rows, rejected, failures: [], counts };
  for (let i = 0; i < 2; i++) await reported(slave, await nextTask(slave), made);
  const failed = { book: [1, 0, 0, 0, 1, 0, 0] };
  const failures = [['book', 'took longer than 5 s']];
  const lost = { rows: [], rejected: [], failures, counts: failed };
  await reported(slave, await nextTask(slave), lost);
  const status = (await statusOf(slave, crawl)) as unknown as Message;
  const { book, 'book.price': price } = status['rules'] as Message;
  assert.deepEqual(book, {
    pages: 3,
    matched: 2,
    empty: 0,
    wrong: 0,
    failed: 1,
    rows: 4,
    rejected: 2,
  });
  assert.deepEqual((price as Message)['empty'], 2);
  // The pages are none the less pages.
  assert.deepEqual([status['pages'], status['failed']], [3, 0]);
  assert.deepEqual(status['errors'], { rule: 1 });
  await slave.close();
});

test('[T-80] a crawl keeps its items, and they do not change', async () => {
  const client = await target.join();
  const crawl = await target.crawl(client, [target.seed()], { fetch });
  const other = { fetch: { items: { book: { fields: { title: 'h1' } } } } };
  const reply = await client.request('crawl.set', { crawl, spec: other });
  assert.equal(reply.error, 'E_BAD_REQUEST');
  assert.match(String(reply['message']), /items cannot change/);
  const wrong = { fetch: { items: { book: { fields: {} } } } };
  const name = target.name();
  const refused = await client.request('crawl.add', { crawl: name, seeds: [], spec: wrong });
  assert.equal(refused.error, 'E_BAD_REQUEST');
  await client.close();
});
