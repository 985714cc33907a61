/** The messages of slaves for the archive of a crawl. Source: PROTOCOL.md [T-100] to [T-105],
 *  [C-120]. */
import assert from 'node:assert/strict';
import { after, afterEach, type TestContext, test } from 'node:test';
import { pack } from '../support/msgpack.ts';
import type { Answer, Message, RawPeer } from '../support/raw-peer.ts';
import { nextTask, page, pushed, report, type Task } from '../support/raw-slave.ts';
import { Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

const response = Buffer.from('HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n');
const head = (url: string) => ({
  url,
  at: 1,
  request: Buffer.from('GET / HTTP/1.1\r\n\r\n'),
  response,
});

/** An able slave, and a crawl with an archive of one page. */
async function begun(t: TestContext): Promise<[RawPeer, string, Task] | undefined> {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return undefined;
  await slave.must('slave.can', { what: ['archive', 'of tomorrow'] });
  const crawl = await target.crawl(slave, [target.seed()], { fetch: { archive: 'warc' } });
  return [slave, crawl, await nextTask(slave)];
}

function send(slave: RawPeer, { task, lease, url }: Task, more: Message): Promise<Answer> {
  const first = more['part'] === 0 ? { head: head(url) } : {};
  return slave.request('task.archive', {
    task,
    lease,
    body: Buffer.from('<p>'),
    ...first,
    ...more,
  });
}

function end(slave: RawPeer, { task, lease, url }: Task, archived?: number): Promise<Answer> {
  const none = { images: pack([]), links: Buffer.alloc(0) };
  const said = archived === undefined ? {} : { archived };
  return slave.request('task.report', { task, lease, result: pack(page(url)), ...none, ...said });
}

async function archiveOf(slave: RawPeer, crawl: string): Promise<Message> {
  const { crawls } = await slave.must('crawl.list', { crawl });
  return (crawls as Message[])[0]?.['archive'] as Message;
}

test('[T-100] [C-120] what was sent in parts is archived before the report is done', async (t) => {
  const [slave, crawl, task] = (await begun(t)) ?? [];
  if (slave === undefined || task === undefined || crawl === undefined) return;
  assert.deepEqual(await archiveOf(slave, crawl), { files: 0, bytes: 0 });
  assert.equal((await send(slave, task, { part: 0 })).ok, true);
  assert.equal((await send(slave, task, { part: 1, end: 'whole' })).ok, true);
  const redirect = { part: 2, head: head(`${task.url}b`), end: 'length' };
  assert.equal((await send(slave, task, redirect)).ok, true);
  assert.equal((await end(slave, task, 2))['state'], 'done');
  const { files, bytes } = await archiveOf(slave, crawl);
  assert.equal(files, 1);
  assert.ok(Number(bytes) > 500);
  await slave.close();
});

test('[T-101] a part that does not follow is refused; part 0 begins anew', async (t) => {
  const [slave, , task] = (await begun(t)) ?? [];
  if (slave === undefined || task === undefined) return;
  const refused = async (more: Message) =>
    assert.equal((await send(slave, task, more)).error, 'E_BAD_REQUEST');
  await refused({ part: 1 });
  await send(slave, task, { part: 0 });
  await refused({ part: 2 });
  await refused({ part: 1 });
  await send(slave, task, { part: 0 });
  await refused({ part: 1, head: head(task.url) });
  await send(slave, task, { part: 0, end: 'whole' });
  await refused({ part: 1 });
  await refused({ part: 0, head: undefined });
  await send(slave, task, { part: 0, end: 'whole' });
  await send(slave, task, { part: 0, end: 'whole' });
  assert.equal((await end(slave, task, 1))['state'], 'done');
  await slave.close();
});

test('[T-102] parts of a session that has ended are gone with it', async (t) => {
  const [slave, crawl, task] = (await begun(t)) ?? [];
  if (slave === undefined || task === undefined || crawl === undefined) return;
  await send(slave, task, { part: 0, end: 'whole' });
  await slave.close();
  const again = await target.slave(t, 1);
  if (again === undefined) return;
  assert.equal((await end(again, task, 1)).error, 'E_BAD_REQUEST');
  assert.equal((await archiveOf(again, crawl))['files'], 0);
  await send(again, task, { part: 0, end: 'whole' });
  assert.equal((await end(again, task, 1))['state'], 'done');
  await again.close();
});

test('[T-103] the message that ends a task says how many exchanges there are', async (t) => {
  const [slave, , task] = (await begun(t)) ?? [];
  if (slave === undefined || task === undefined) return;
  for (const wrong of [0, 2]) {
    await send(slave, task, { part: 0, end: 'whole' });
    assert.equal((await end(slave, task, wrong)).error, 'E_BAD_REQUEST', String(wrong));
  }
  await send(slave, task, { part: 0 });
  assert.equal((await end(slave, task, 1)).error, 'E_BAD_REQUEST', 'without its end');
  assert.equal((await end(slave, task, 257)).error, 'E_BAD_REQUEST', 'too many');
  assert.equal((await end(slave, task, 0))['state'], 'done', 'nothing was asked');
  await slave.close();
});

test('[T-104] a page of a crawl with an archive does not end without', async (t) => {
  const [slave, crawl, task] = (await begun(t)) ?? [];
  if (slave === undefined || task === undefined || crawl === undefined) return;
  assert.equal((await report(slave, task)).error, 'E_BAD_REQUEST');
  const { crawls } = await slave.must('crawl.list', { crawl });
  assert.equal((crawls as Message[])[0]?.['leased'], 1);
  assert.equal((await end(slave, task, 0))['state'], 'done');
  await slave.close();
});

test('[T-105] tasks of a crawl with an archive wait for an able slave', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed()], { fetch: { archive: 'warc' } });
  assert.match(String((await archiveOf(slave, crawl))['waits']), /no slave/);
  // Another crawl goes on.
  await target.crawl(slave, [target.seed()]);
  const other = await nextTask(slave);
  assert.equal((await report(slave, other))['state'], 'done');
  await slave.must('slave.can', { what: ['archive'] });
  const [task] = await pushed(slave);
  assert.equal((await archiveOf(slave, crawl))['waits'], undefined);
  assert.ok(task !== undefined);
  assert.equal((await end(slave, task, 0))['state'], 'done');
  await slave.close();
});
