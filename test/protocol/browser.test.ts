/** Crawls that render: which slaves get their tasks, frames, and what many requests cost.
 *  Source: PROTOCOL.md [T-140], [T-142] to [T-144]. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, afterEach, test } from 'node:test';
import { packValue } from '../../shared/frame.ts';
import type { Message, RawPeer } from '../support/raw-peer.ts';
import { nextTask, nothingPushed, page, type Task, unreadPushes } from '../support/raw-slave.ts';
import { statusOf, Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

const render = { when: 'auto', wait: '.list' };
const fetch = { render };

/** A slave that has a browser. */
async function able(slave: RawPeer): Promise<void> {
  await slave.must('slave.can', { what: ['rules', 'browser'] });
  await slave.must('task.credit', { count: 2, slots: 2 });
}

test('[T-140] tasks of a crawl that renders are for slaves with a browser', async (t) => {
  const older = await target.slave(t, 4);
  if (older === undefined) return;
  await older.must('slave.can', { what: ['rules'] });
  const crawl = await target.crawl(older, [target.seed()], { fetch });
  await nothingPushed(older);
  assert.equal((await statusOf(older, crawl))['wantsBrowser' as never], true);
  const newer = await target.join('slave', target.name().slice(-40));
  await able(newer);
  const spec = await newer.push('crawl.spec');
  assert.deepEqual((spec['fetch'] as Message)['render'], render);
  const { task, lease } = await nextTask(newer);
  assert.equal((await statusOf(older, crawl))['wantsBrowser' as never], undefined);
  // Its browser does not start any more.
  await newer.must('slave.can', { what: ['rules'] });
  await newer.must('task.release', { task, lease });
  for (let i = 0; i < 3; i++) await newer.sync();
  assert.deepEqual([...unreadPushes(older), ...unreadPushes(newer)], []);
  assert.equal((await statusOf(older, crawl))['wantsBrowser' as never], true);
  await Promise.all([older.close(), newer.close()]);
});

test('[T-142] a host waits its delay for every ten requests, too', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  await able(slave);
  const seed = target.seed();
  await target.crawl(slave, [seed, `${seed}next`], { fetch, delayMs: 300 });
  const one = await nextTask(slave);
  await slave.must('task.started', { lease: one.lease });
  const result = { ...page(one.url), rendered: true, requests: 20 };
  const begun = performance.now();
  const body = { task: one.task, lease: one.lease, images: packValue([]), links: Buffer.alloc(0) };
  await slave.must('task.report', { ...body, result: packValue(result) });
  await nextTask(slave);
  const tookMs = performance.now() - begun;
  assert.ok(tookMs >= 880 && tookMs < 4_000, `${tookMs} ms`);
  await slave.close();
});

test('[T-143] a frame of a page in the browser may be on any host, at its turn', async (t) => {
  const slave = await target.slave(t, 2);
  if (slave === undefined) return;
  await able(slave);
  const seed = target.seed();
  const other = target.seed();
  const hop = (task: Task, url: string, frame = true) =>
    slave.request('task.hop', { lease: task.lease, url, ...(frame && { frame }) });
  await target.crawl(slave, [seed], { fetch, delayMs: 300 });
  const task = await nextTask(slave);
  await slave.must('task.started', { lease: task.lease });
  const begun = performance.now();
  assert.deepEqual((await hop(task, `${other}a`))['state'], 'go');
  const first = await hop(task, `${other}b`);
  assert.deepEqual([first['state'], first['timed']], ['go', undefined]);
  const tookMs = performance.now() - begun;
  assert.ok(tookMs >= 290 && tookMs < 4_000, `${tookMs} ms`);
  assert.equal((await hop(task, `${other}c`, false))['error'], 'E_BAD_REQUEST');
  await slave.must('slave.can', { what: ['rules'] });
  await slave.must('task.release', { task: task.task, lease: task.lease });
  // A crawl that does not render has no frames.
  const plain = target.seed();
  await target.crawl(slave, [plain]);
  assert.equal((await hop(await nextTask(slave), `${other}d`))['error'], 'E_BAD_REQUEST');
  await slave.close();
});

test('[T-144] what a browser made of a page is a file before its report is done', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  await slave.must('slave.can', { what: ['rules', 'browser', 'archive'] });
  await slave.must('task.credit', { count: 2, slots: 2 });
  const kept = { render: { screenshot: true } };
  await target.crawl(slave, [target.seed()], { fetch: kept });
  const { task, lease, url } = await nextTask(slave);
  const response = Buffer.from('HTTP/1.1 200 OK\r\ncontent-type: image/png\r\n\r\n');
  const part = (number: number, view: string) => {
    const head = { url, at: 1, request: Buffer.alloc(0), response, view };
    const body = Buffer.from('PNG');
    return slave.request('task.archive', { task, lease, part: number, head, body, end: 'whole' });
  };
  assert.equal((await part(0, 'thumbnail'))['error'], 'E_BAD_REQUEST');
  await part(0, 'screenshot');
  // The crawl does not keep it, and it counts.
  await part(1, 'html');
  const said = { task, lease, images: packValue([]), links: Buffer.alloc(0) };
  const named = (screenshot: string) =>
    packValue({ ...page(url), rendered: true as const, screenshot });
  const digest = createHash('sha1').update('PNG').digest('hex');
  const bad = await slave.request('task.report', {
    ...said,
    result: named('../../x.png'),
    archived: 2,
  });
  assert.equal(bad['error'], 'E_BAD_REQUEST');
  const result = named(`screenshots/${digest.slice(0, 2)}/${digest}.png`);
  const done = await slave.request('task.report', { ...said, result, archived: 2 });
  assert.equal(done['state'], 'done');
  await slave.close();
});
