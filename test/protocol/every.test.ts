/** Crawls that are repeated, and digests of pages: [C-150] to [C-153]. */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import { pack } from '../support/msgpack.ts';
import type { Message } from '../support/raw-peer.ts';
import { nextTask, page, report } from '../support/raw-slave.ts';
import { Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

test('[C-150] `everyMs` and `keep` are bounded, and refuse outputs of one crawl', async () => {
  const peer = await target.join();
  const outputs = [
    { kind: 'redis', target: 'redis://127.0.0.1:1/0', stream: 'x' },
    { kind: 'csv', target: '/tmp/orbweaver-every.csv' },
  ];
  const specs: Message[] = [
    ...[{ everyMs: 999 }, { everyMs: 367 * 86_400_000 }, { everyMs: '24h' }],
    ...[{ everyMs: 60_000, keep: 0 }, { keep: 10_001 }],
    ...outputs.map((output) => ({ everyMs: 60_000, outputs: [output] })),
  ];
  for (const spec of specs) {
    const crawl = target.name();
    const { error } = await peer.request('crawl.add', { crawl, seeds: [target.seed()], spec });
    assert.equal(error, 'E_BAD_REQUEST', JSON.stringify(spec));
  }
  const crawl = await target.crawl(peer, [target.seed()]);
  const { changed } = await peer.must('crawl.set', { crawl, spec: { everyMs: 60_000, keep: 2 } });
  const fields = (changed as { field: string; to: unknown }[]).map(({ field, to }) => [field, to]);
  assert.deepEqual(fields, [
    ['everyMs', 60_000],
    ['keep', 2],
    ['fetch.digest', true],
  ]);
});

test('[C-151] crawl.list says which crawl is repeated, and when', async () => {
  const peer = await target.join();
  const before = Date.now();
  const spec = { everyMs: 3_600_000, keep: 7 };
  const crawl = await target.crawl(peer, [target.seed()], spec);
  const repeats = async (name: string) => {
    const { crawls } = await peer.must('crawl.list', { crawl: name });
    return (crawls as Message[])[0]?.['repeats'] as Message | undefined;
  };
  const { nextAt, ...rest } = (await repeats(crawl)) ?? {};
  assert.deepEqual(rest, { series: crawl.slice(0, 47), everyMs: 3_600_000, keep: 7 });
  assert.ok(Math.abs(Number(nextAt) - before - 3_600_000) < 60_000, String(nextAt));
  // One that takes over its options is no part of the series, and begins none.
  const like = target.name();
  await peer.must('crawl.recrawl', { crawl: like, like: crawl, urls: [] });
  assert.equal(await repeats(like), undefined);
  await peer.must('crawl.cancel', { crawl: like });
  await peer.must('crawl.set', { crawl, spec: { everyMs: null } });
  assert.deepEqual(await repeats(crawl), { series: crawl.slice(0, 47) });
});

test('[C-152] a crawl with `digest` says so to slaves, and takes 40 hexadecimal digits', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seeds = [target.seed('1'), target.seed('2')];
  await target.crawl(slave, seeds, { fetch: { digest: true } });
  const task = await nextTask(slave);
  const { fetch } = await slave.push('crawl.spec');
  assert.equal((fetch as Message)['digest'], true);
  for (const digest of ['0'.repeat(39), 'F'.repeat(40), 'x', 1]) {
    const { error } = await report(slave, task, { result: { ...page(task.url), digest } });
    assert.equal(error, 'E_BAD_REQUEST', String(digest));
  }
  const result = { ...page(task.url), digest: 'af'.repeat(20) };
  assert.equal((await report(slave, task, { result }))['state'], 'done');
  // A slave of an earlier version sends none.
  const next = await nextTask(slave);
  assert.equal((await report(slave, next))['state'], 'done');
});

test('[C-153] a page that is saved is not done before its body was sent', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  await slave.must('slave.can', { what: ['archive'] });
  const crawl = await target.crawl(slave, [target.seed()], { fetch: { save: 'html' } });
  const task = await nextTask(slave);
  assert.equal((await report(slave, task))['error'], 'E_BAD_REQUEST');
  const head = {
    url: task.url,
    at: 1,
    request: Buffer.from('GET / HTTP/1.1\r\n\r\n'),
    response: Buffer.from('HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n'),
  };
  const part = { part: 0, head, body: Buffer.from('<p>'), end: 'whole' };
  const { task: id, lease, url } = task;
  await slave.must('task.archive', { task: id, lease, ...part });
  const none = { images: pack([]), links: Buffer.alloc(0), archived: 1 };
  const said = { task: id, lease, result: pack(page(url)), ...none };
  assert.equal((await slave.request('task.report', said))['state'], 'done');
  const fixed = await slave.request('crawl.set', { crawl, spec: { fetch: { save: null } } });
  assert.equal(fixed['error'], 'E_BAD_REQUEST');
});
