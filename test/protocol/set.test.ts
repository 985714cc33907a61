/** Options of a crawl that change. Source: PROTOCOL.md [C-43]..[C-48]. */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import type { Message, RawPeer } from '../support/raw-peer.ts';
import { nextTask, page, pushed, release, report, timeout } from '../support/raw-slave.ts';
import { statusOf, Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

type Changed = { field: string; from?: unknown; to?: unknown };
type Reply = {
  state: string;
  changed: Changed[];
  waiting: number;
  reopened?: true;
  narrower?: true;
  full?: true;
  skipped?: Record<string, number>;
};

async function set(peer: RawPeer, crawl: string, spec: Message): Promise<Reply> {
  return (await peer.must('crawl.set', { crawl, spec })) as unknown as Reply;
}

async function refused(peer: RawPeer, crawl: string, spec: Message): Promise<string> {
  const answer = await peer.request('crawl.set', { crawl, spec });
  assert.equal(answer['error'], 'E_BAD_REQUEST', JSON.stringify(answer));
  return String(answer['message']);
}

function unreadSpecs({ unread }: RawPeer): number {
  return unread.filter(({ verb }) => verb === 'crawl.spec').length;
}

async function until(peer: RawPeer, crawl: string, state: string) {
  let now = await statusOf(peer, crawl);
  while (now['state'] !== state) now = await statusOf(peer, crawl);
  return now;
}

test('[C-43] fields that are given change, and the reply says from what to what', async () => {
  const peer = await target.join();
  const crawl = await target.crawl(peer, [], { maxPages: 5, fetch: { timeoutMs: 9_000 } });
  const headers = [['Authorization', 'Bearer s3cret']];
  const proxies = ['socks5://me:s3cret@127.0.0.1:9'];
  const spec = {
    maxPages: null,
    traps: { segments: 7 },
    fetch: { timeoutMs: 8_000, headers, proxies },
  };
  const reply = await set(peer, crawl, spec);
  const by = new Map(reply.changed.map((one) => [one.field, one]));
  assert.deepEqual(by.get('maxPages'), { field: 'maxPages', from: 5 });
  assert.deepEqual(by.get('fetch.timeoutMs'), { field: 'fetch.timeoutMs', from: 9_000, to: 8_000 });
  assert.deepEqual(by.get('fetch.headers')?.to, ['Authorization']);
  assert.deepEqual(by.get('fetch.proxies')?.to, ['socks5://127.0.0.1:9']);
  const { segments, length } = Object(by.get('traps')?.to);
  assert.deepEqual([segments, length], [7, 2083], 'the other rules stay');
  assert.equal(reply.changed.length, 5);
  assert.doesNotMatch(JSON.stringify(reply), /s3cret/);
  assert.deepEqual((await set(peer, crawl, spec)).changed, []);
  await peer.close();
});

test('[C-43] what is wrong, or cannot change, is refused with a reason, and nothing changes', async () => {
  const peer = await target.join();
  const crawl = await target.crawl(peer, [], { maxPages: 5 });
  const wrong: readonly (readonly [Message, RegExp])[] = [
    [{ order: 'dfs' }, /--order cannot change: /],
    [{ canonical: true }, /--canonical cannot change: /],
    [{ urlsExpected: 5 }, /--urls-expected cannot change: /],
    [{ fetch: { images: 'img' } }, /--images cannot change: /],
    [{ fetch: { srcset: 'best' } }, /--srcset cannot change: /],
    [{ fetch: { lazyAttributes: [] } }, /--lazy-attributes cannot change: /],
    [{ more: 1 }, /more/],
    [{ maxPages: 0 }, /maxPages/],
    [{ fetch: { timeoutMs: 0 } }, /timeoutMs/],
    [{ include: ['(?=x)'] }, /--include/],
    [{ exclude: ['('] }, /--exclude/],
  ];
  for (const [spec, why] of wrong) {
    assert.match(await refused(peer, crawl, { maxPages: 7, ...spec }), why);
  }
  assert.deepEqual((await set(peer, crawl, { maxPages: 8 })).changed, [
    { field: 'maxPages', from: 5, to: 8 },
  ]);
  await peer.must('crawl.cancel', { crawl });
  assert.match(await refused(peer, crawl, { maxPages: 9 }), /was cancelled/);
  const unknown = await peer.request('crawl.set', { crawl: target.name(), spec: {} });
  assert.equal(unknown['error'], 'E_NO_CRAWL');
  await peer.close();
});

test('[C-43] a change is on the disk when it is answered', async (t) => {
  if (target.process(t) === undefined) return;
  const peer = await target.join();
  const crawl = await target.crawl(peer, [target.seed()]);
  await set(peer, crawl, { maxPages: 3, exclude: ['/x'] });
  await target.restart('SIGKILL');
  const other = await target.join();
  const { changed } = await set(other, crawl, { maxPages: 4, exclude: ['/x'] });
  assert.deepEqual(changed, [{ field: 'maxPages', from: 3, to: 4 }]);
  await other.close();
});

test('[C-44] a slave that has the spec gets the new one before the reply, and no other does', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed(), target.seed()]);
  const task = await nextTask(slave);
  const first = await slave.push('crawl.spec');
  assert.equal(first['crawl'], task.crawl);
  await set(slave, crawl, { fetch: { timeoutMs: 7_000, headers: [['X-A', 'b']] } });
  assert.equal(unreadSpecs(slave), 1, 'it came before the reply');
  const { fetch, crawl: id } = await slave.push('crawl.spec');
  assert.equal(id, task.crawl);
  assert.deepEqual((fetch as Message)['headers'], [['X-A', 'b']]);
  assert.equal((fetch as Message)['timeoutMs'], 7_000);
  const other = await target.join('slave');
  await set(slave, crawl, { fetch: { timeoutMs: 6_000 } });
  await other.must('ping');
  assert.equal(unreadSpecs(other), 0);
  await report(slave, task);
  await nextTask(slave);
  assert.equal(unreadSpecs(slave), 1, 'once a change, not once a task');
  await other.close();
  await slave.close();
});

test('[C-45] links are judged anew, and the reply counts those that were skipped', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const crawl = await target.crawl(slave, [seed], { maxDepth: 1, exclude: ['/x'] });
  const elsewhere = target.seed();
  const links = [`${seed}1`, `${seed}x`, elsewhere];
  await report(slave, await nextTask(slave), { links });
  const deeper = await nextTask(slave);
  const { skipped } = await set(slave, crawl, { scope: 'any', exclude: null, maxDepth: 2 });
  assert.deepEqual(skipped, { host: 1, exclude: 1 });
  await report(slave, deeper, { links });
  const found = [await nextTask(slave)];
  await report(slave, found[0] ?? deeper);
  found.push(await nextTask(slave));
  assert.deepEqual(found.map(({ url }) => url).sort(), [elsewhere, `${seed}x`].sort());
  await slave.close();
});

test('[C-46] URLs that wait are left out when their turn comes', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const crawl = await target.crawl(slave, [seed]);
  await report(slave, await nextTask(slave), { links: [1, 2, 3].map((n) => `${seed}x/${n}`) });
  const held = await nextTask(slave);
  const { narrower, waiting } = await set(slave, crawl, { exclude: ['/x/'] });
  assert.deepEqual([narrower, waiting], [true, 3]);
  assert.equal((await report(slave, held))['state'], 'done', 'it was leased already');
  const { excluded, ledger } = await until(slave, crawl, 'finished');
  assert.equal(excluded, 2);
  const { page: row } = ledger as { page: Record<string, number> };
  assert.deepEqual([row['admitted'], row['pages'], row['excluded']], [4, 2, 2]);
  await slave.close();
});

test('[C-47] a higher limit opens a finished crawl again, a lower one ends it', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const crawl = await target.crawl(slave, [seed], { maxPages: 1 });
  await report(slave, await nextTask(slave), { links: [1, 2, 3].map((n) => `${seed}${n}`) });
  await until(slave, crawl, 'finished');
  const reply = await set(slave, crawl, { maxPages: 10 });
  assert.deepEqual([reply.state, reply.reopened, reply.waiting], ['running', true, 3]);
  const task = await nextTask(slave);
  const { full } = await set(slave, crawl, { maxPages: 1 });
  assert.equal(full, true);
  await release(slave, task);
  const { ending } = await until(slave, crawl, 'finished');
  assert.equal((ending as { why: string }).why, 'max-pages');
  assert.equal((await set(slave, crawl, { delayMs: 5 })).state, 'finished');
  await slave.close();
});

test('[C-48] a crawl of which no seed was answered takes any option, also with a seed', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const crawl = await target.crawl(slave, [seed]);
  await release(slave, await nextTask(slave), timeout, { final: true });
  await until(slave, crawl, 'finished');
  assert.equal((await set(slave, crawl, { order: 'dfs' })).changed.length, 1);
  const spec = { canonical: true, fetch: { images: 'img' } };
  await slave.must('crawl.add', { crawl, seeds: [seed], spec });
  const [task] = await pushed(slave);
  assert.ok(task);
  const { fetch } = await slave.push('crawl.spec');
  assert.ok(fetch);
  await report(slave, task, { result: page(seed) });
  await until(slave, crawl, 'finished');
  // The same may be said again. [C-9]
  await slave.must('crawl.add', { crawl, seeds: [seed], spec });
  const other = { ...spec, order: 'bfs' };
  const again = await slave.request('crawl.add', { crawl, seeds: [seed], spec: other });
  assert.equal(again['error'], 'E_BAD_REQUEST');
  await slave.close();
});
