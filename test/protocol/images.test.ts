/** The messages of slaves about images. Source: PROTOCOL.md [T-110] to [T-114], [C-130]. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, afterEach, type TestContext, test } from 'node:test';
import { pack } from '../support/msgpack.ts';
import type { Answer, Message, RawPeer } from '../support/raw-peer.ts';
import { nextTask, page, pushed, report, type Task } from '../support/raw-slave.ts';
import { Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

type Begun = { slave: RawPeer; crawl: string; image: Task & { kind?: string }; url: string };

/** A slave that can do that, and the first image of a crawl. */
async function begun(
  t: TestContext,
  { images = {}, what = ['images'] }: { images?: Message; what?: readonly string[] } = {},
): Promise<Begun | undefined> {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return undefined;
  await slave.must('slave.can', { what });
  const spec = { fetch: { download: { images } } };
  const crawl = await target.crawl(slave, [target.seed()], spec);
  const first = await nextTask(slave);
  const url = new URL('/image.png', first.url).href;
  const shown = [url, new URL('/image-2.png', url).href].map((src) => ({ src, via: 'img' }));
  await report(slave, first, { images: shown });
  return { slave, crawl, image: await nextTask(slave), url };
}

const body = Buffer.from('bytes of an image');
const sha256 = createHash('sha256').update(body).digest();
const facts = { type: 'png', width: 2, height: 1, sha256 };

function known(slave: RawPeer, { task, lease }: Task, digest: Uint8Array = sha256) {
  return slave.request('task.known', { task, lease, digest });
}

function send(slave: RawPeer, { task, lease }: Task, part: number, bytes = body): Promise<Answer> {
  return slave.request('task.content', { task, lease, part, body: bytes });
}

function tell(slave: RawPeer, { task, lease, url }: Task, more: Message = {}): Promise<Answer> {
  const result = pack({ ...page(url), type: 'image/png' });
  return slave.request('task.image', { task, lease, result, image: pack(facts), ...more });
}

async function downloadsOf(slave: RawPeer, crawl: string): Promise<Message> {
  const { crawls } = await slave.must('crawl.list', { crawl });
  return (crawls as Message[])[0]?.['downloads'] as Message;
}

test('[T-110] an image is a task of its own kind, for slaves that can', async (t) => {
  const { slave, image, url } = (await begun(t)) ?? {};
  if (slave === undefined || image === undefined) return;
  assert.equal(image.kind, 'image');
  assert.equal(image.url, url);
  const excluded = { image: pack({ type: 'png', excluded: 'width' }) };
  assert.equal((await tell(slave, image, excluded))['state'], 'done');
  const next = await nextTask(slave);
  const mistaken = await report(slave, next);
  assert.equal(mistaken['state'], 'done', 'a page is a failed attempt');
  await slave.close();
});

test('[T-111] [T-114] bytes are asked for once, and known when they are kept', async (t) => {
  const { slave, image, crawl } = (await begun(t)) ?? {};
  if (slave === undefined || image === undefined || crawl === undefined) return;
  assert.equal((await known(slave, image))['state'], 'send');
  assert.equal((await send(slave, image, 0, body.subarray(0, 5))).ok, true);
  assert.equal((await send(slave, image, 1, body.subarray(5))).ok, true);
  assert.equal((await tell(slave, image, { sent: true }))['state'], 'done');
  const second = await nextTask(slave);
  assert.equal((await known(slave, second))['state'], 'have');
  assert.equal((await tell(slave, second))['state'], 'done');
  assert.equal((await known(slave, second))['state'], 'lost');
  await slave.close();
});

test('[T-112] a part that does not follow is refused; part 0 begins anew', async (t) => {
  const { slave, image } = (await begun(t)) ?? {};
  if (slave === undefined || image === undefined) return;
  assert.equal((await send(slave, image, 1)).error, 'E_BAD_REQUEST');
  await send(slave, image, 0, Buffer.from('wrong'));
  assert.equal((await send(slave, image, 2)).error, 'E_BAD_REQUEST');
  await send(slave, image, 0);
  assert.equal((await tell(slave, image, { sent: true }))['state'], 'done');
  await slave.close();
});

test('[T-114] other bytes than said are refused; none at all leave the task open', async (t) => {
  const { slave, image } = (await begun(t)) ?? {};
  if (slave === undefined || image === undefined) return;
  assert.equal((await tell(slave, image, { sent: true })).error, 'E_BAD_REQUEST');
  await send(slave, image, 0, Buffer.from('others'));
  assert.equal((await tell(slave, image, { sent: true })).error, 'E_BAD_REQUEST');
  assert.equal((await tell(slave, image))['state'], 'stale');
  const urls: string[] = [];
  for (let n = 0; n < 2; n++) {
    const next = await nextTask(slave);
    urls.push(next.url);
    await tell(slave, next, { image: pack({ excluded: 'type' }) });
  }
  assert.ok(urls.includes(image.url), `${urls}`);
  await slave.close();
});

test('[T-103] [T-114] after other bytes than said, what was sent to be archived is still there', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  await slave.must('slave.can', { what: ['images', 'archive'] });
  const spec = { fetch: { archive: 'warc', download: { images: {} } } };
  await target.crawl(slave, [target.seed()], spec);
  const archived = async ({ task, lease, url }: Task) => {
    const lines = {
      request: Buffer.from('GET / HTTP/1.1\r\n\r\n'),
      response: Buffer.from('HTTP/1.1 200 OK\r\n\r\n'),
    };
    const head = { url, at: 1, ...lines };
    await slave.must('task.archive', { task, lease, part: 0, head, body, end: 'whole' });
    return { archived: 1 };
  };
  const first = await nextTask(slave);
  const images = pack([{ src: new URL('/image.png', first.url).href, via: 'img' }]);
  const { task, lease } = first;
  const found = { task, lease, result: pack(page(first.url)), images, links: Buffer.alloc(0) };
  await slave.must('task.report', { ...found, ...(await archived(first)) });
  const image = await nextTask(slave);
  const said = { sent: true, ...(await archived(image)) };
  await send(slave, image, 0, Buffer.from('others'));
  assert.equal((await tell(slave, image, said)).error, 'E_BAD_REQUEST');
  await send(slave, image, 0);
  assert.equal((await tell(slave, image, said))['state'], 'done');
  await slave.close();
});

test('[T-113] [C-130] a crawl waits for a slave that can, and says so', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const spec = { fetch: { download: { images: { similar: 'on' } } } };
  const crawl = await target.crawl(slave, [target.seed()], spec);
  assert.match(String((await downloadsOf(slave, crawl))['waits']), /fetch images/);
  await slave.must('slave.can', { what: ['images'] });
  assert.match(String((await downloadsOf(slave, crawl))['waits']), /decode/);
  await slave.must('slave.can', { what: ['images', 'pixels'] });
  assert.equal((await pushed(slave)).length, 1);
  const { waits, ...counts } = await downloadsOf(slave, crawl);
  assert.equal(waits, undefined);
  assert.deepEqual(counts, { stored: 0, bytes: 0 });
  await slave.close();
});
