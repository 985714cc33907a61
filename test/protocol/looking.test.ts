/** Verbs with which operators look at what the master knows. Source: PROTOCOL.md [C-70]. */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import type { Message, RawPeer } from '../support/raw-peer.ts';
import { nextTask, release, report, timeout } from '../support/raw-slave.ts';
import { Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

/** All pages of a list of failed URLs. */
async function failedOf(peer: RawPeer, crawl: string, more: object): Promise<Message[]> {
  const all: Message[] = [];
  let after: unknown;
  do {
    const page = await peer.must('crawl.failed', { crawl, ...more, ...(after ? { after } : {}) });
    all.push(...(page['urls'] as Message[]));
    after = page['next'];
  } while (after !== undefined);
  return all;
}

test('[C-70] failed gives every failed URL once, a page at a time', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const urls = Array.from({ length: 7 }, (_, i) => new URL(`/${i}`, seed).href);
  const crawl = await target.crawl(slave, urls, { attemptsMax: 1 });
  const definite: string[] = [];
  for (let i = 0; i < urls.length; i++) {
    const task = await nextTask(slave);
    if (i % 2 === 0) await release(slave, task, timeout);
    else {
      definite.push(task.url);
      const error = { kind: 'status', message: '404 Not Found' };
      await report(slave, task, {
        result: { finalUrl: task.url, status: 404, bytes: 0, ms: 1, error },
      });
    }
  }
  const all = await failedOf(slave, crawl, { limit: 2 });
  assert.deepEqual(all.map(({ url }) => url).sort(), urls);
  const found = all.filter(({ status }) => status === 404);
  assert.deepEqual(found.map(({ url }) => url).sort(), definite.sort());
  assert.deepEqual({ ...all[0], url: '' }, { url: '', ...timeout, attempts: 1 });
  const timeouts = await failedOf(slave, crawl, { limit: 3, kinds: ['timeout'] });
  assert.equal(timeouts.length, urls.length - definite.length);
  assert.deepEqual(await failedOf(slave, crawl, { kinds: ['dns'] }), []);

  const other = await target.crawl(slave, []);
  const { next } = await slave.must('crawl.failed', { crawl, limit: 3 });
  for (const after of [Buffer.alloc(0), Buffer.alloc(20), Buffer.alloc(5_000, 1)]) {
    assert.equal((await slave.request('crawl.failed', { crawl, after })).error, 'E_BAD_REQUEST');
  }
  const foreign = await slave.request('crawl.failed', { crawl: other, after: next });
  assert.equal(foreign.error, 'E_BAD_REQUEST');
  await slave.close();
});
