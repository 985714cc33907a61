/**
 * Peers that know the key and lie: what a slave reports of others' tasks, of other crawls, of URLs
 * out of scope, or in sizes that no page has, changes nothing but, at most, its own task. [X-3]
 */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import { encodeFrame } from '../../shared/frame.ts';
import { memoryPeak } from '../support/memory.ts';
import { pack } from '../support/msgpack.ts';
import { type Answer, type Message, RawPeer } from '../support/raw-peer.ts';
import {
  nextTask,
  page,
  pushed,
  release,
  report,
  type Task,
  timeout,
} from '../support/raw-slave.ts';
import { statusOf, Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

const mebi = 1 << 20;

/** A crawl with so many seeds on one host. */
async function seeded(by: RawPeer, count: number, spec = {}): Promise<string> {
  const seed = target.seed();
  const urls = Array.from({ length: count }, (_, i) => new URL(`/${i}`, seed).href);
  return await target.crawl(by, urls, spec);
}

/** A crawl with so many hosts: all its tasks can be leased at once. */
function spread(by: RawPeer, count: number): Promise<string> {
  return target.crawl(
    by,
    Array.from({ length: count }, () => target.seed()),
  );
}

/** So many tasks, and no more. */
async function take(slave: RawPeer, count: number): Promise<Task[]> {
  await slave.must('task.credit', { count, slots: count * 16 });
  const tasks: Task[] = [];
  while (tasks.length < count) tasks.push(...(await pushed(slave)));
  await slave.must('task.credit', { count: 0 });
  return tasks;
}

async function takeOne(slave: RawPeer): Promise<Task> {
  return (await take(slave, 1))[0] as Task;
}

/** The same task with other bytes in its name. */
function renamed(task: Task, change: (name: Buffer) => void): Task {
  const name = Buffer.from(task.task);
  change(name);
  return { ...task, task: name };
}

test('[X-3] pages that were never leased: a guessed name is stale', async (t) => {
  const liar = await target.slave(t);
  if (liar === undefined) return;
  const crawl = await seeded(liar, 4);
  const task = await takeOne(liar);
  const victim = await target.join('slave', 'conformance-victim');
  const theirs = await takeOne(victim);
  const before = await statusOf(liar, crawl);
  // Keys end with a number that counts up: those of the victim and of the waiting ones.
  for (let next = 1; next < 8; next++) {
    const guess = renamed(task, (name) => {
      name.writeUInt8((name[21] ?? 0) + next, 21);
    });
    for (const lease of [task.lease, theirs.lease, 1]) {
      const lie = { ...guess, lease };
      assert.equal((await report(liar, lie))['state'], 'stale');
      assert.equal((await release(liar, lie, timeout))['state'], 'stale');
    }
  }
  assert.deepEqual(await statusOf(liar, crawl), before);
  assert.equal((await report(victim, theirs))['state'], 'done');
  assert.equal((await report(liar, task))['state'], 'done');
  await victim.close();
  await liar.close();
});

test('[X-3] results for another crawl: no name leads there', async (t) => {
  const liar = await target.slave(t);
  if (liar === undefined) return;
  const other = await seeded(liar, 1);
  await liar.must('crawl.pause', { crawl: other });
  const crawl = await seeded(liar, 1);
  const task = await takeOne(liar);
  const before = await statusOf(liar, other);
  for (let id = 0; id < 32; id++) {
    const lie = renamed(task, (name) => name.writeUInt32BE(id, 0));
    if (lie.task.equals(task.task)) continue;
    assert.equal((await report(liar, lie))['state'], 'stale');
  }
  assert.deepEqual(await statusOf(liar, other), before);
  assert.equal((await statusOf(liar, crawl))['leased'], 1);
  await liar.close();
});

test('[X-3] leases of others are neither extended nor released', async (t) => {
  const liar = await target.slave(t);
  if (liar === undefined) return;
  const crawl = await seeded(liar, 2);
  const mine = await takeOne(liar);
  const victim = await target.join('slave', 'conformance-victim');
  const theirs = await takeOne(victim);
  const leases = [theirs.lease, mine.lease, theirs.lease + 1, Number.MAX_SAFE_INTEGER];
  const { lost } = await liar.must('task.extend', { leases });
  assert.deepEqual(
    lost,
    leases.filter((lease) => lease !== mine.lease),
  );
  assert.equal((await release(liar, theirs))['state'], 'stale');
  await liar.must('task.started', { lease: theirs.lease });
  assert.equal((await statusOf(liar, crawl))['leased'], 2);
  assert.deepEqual((await victim.must('task.extend', { leases: [theirs.lease] }))['lost'], []);
  await victim.close();
  await liar.close();
});

test('[X-3] URLs out of scope are never admitted, whatever a report says', async (t) => {
  const liar = await target.slave(t);
  if (liar === undefined) return;
  const crawl = await seeded(liar, 2);
  const [task, moved] = (await take(liar, 2)) as [Task, Task];
  const { host } = new URL(task.url);
  const links = [
    'http://elsewhere.invalid/',
    'http://127.0.0.1/',
    'http://169.254.169.254/latest/',
    `http://${host}.elsewhere.invalid/`,
    `http://${host}@elsewhere.invalid/`,
    `https://${host}:8443/`,
    `ftp://${host}/`,
    'file:///etc/passwd',
    'javascript:alert(1)',
    `http://${host.toUpperCase()}/X`,
    `http://${host}/a/../b`,
    `http://${host}/#fragment`,
    `http://${host}/\u0000`,
    'x'.repeat(100_000),
  ];
  assert.equal((await report(liar, task, { links }))['state'], 'done');
  // A final URL that is elsewhere names no page.
  const result = page('http://elsewhere.invalid/page');
  assert.equal((await report(liar, moved, { result }))['state'], 'done');
  const { known, waiting, pages, others } = await statusOf(liar, crawl);
  assert.deepEqual(
    { known, waiting, pages, others },
    { known: 2, waiting: 0, pages: 1, others: 1 },
  );
  await liar.close();
});

test('[X-3] ten million links for one page are refused, and the task is still there', async (t) => {
  const program = target.process(t);
  const liar = await target.slave(t);
  if (program === undefined || liar === undefined) return;
  const crawl = await seeded(liar, 2);
  const [task, next] = (await take(liar, 2)) as [Task, Task];
  const before = await statusOf(liar, crawl);
  await using memory = memoryPeak(program.pid);
  const send = ({ task: name, lease, url }: Task, links: Buffer) =>
    liar.request('task.report', {
      task: name,
      lease,
      result: pack(page(url)),
      images: pack([]),
      links,
    });
  assert.equal((await send(task, Buffer.alloc(20_000_000, 'x\n'))).error, 'E_BAD_REQUEST');
  assert.deepEqual(await statusOf(liar, crawl), before);
  // Just what fits, none of them a URL.
  const other = await target.join();
  const taken = send(task, Buffer.alloc(16 * mebi, 'x\n'));
  await other.sync();
  assert.equal((await taken)['state'], 'done');
  const { known, waiting } = await statusOf(liar, crawl);
  assert.deepEqual({ known, waiting }, { known: 2, waiting: 1 });
  // One line without an end.
  assert.equal((await send(next, Buffer.alloc(16 * mebi, 'x')))['state'], 'done');
  assert.ok(memory.grownBytes() < 320 * mebi, `${memory.grownBytes() / mebi} MiB`);
  await other.close();
  await liar.close();
});

test('[X-3] a title of 100 MB is never read, one of 30 MB is refused', async (t) => {
  const program = target.process(t);
  const liar = await target.slave(t);
  if (program === undefined || liar === undefined) return;
  const crawl = await seeded(liar, 1);
  const task = await takeOne(liar);
  const before = await statusOf(liar, crawl);
  await using memory = memoryPeak(program.pid);
  const result = { ...page(task.url), title: 'x'.repeat(30 * mebi) };
  assert.equal((await report(liar, task, { result })).error, 'E_BAD_REQUEST');
  assert.deepEqual(await statusOf(liar, crawl), before);
  const second = await target.join('slave', 'conformance-long');
  const header = Buffer.alloc(4);
  header.writeInt32BE(100 * mebi);
  second.write(header);
  assert.equal((await second.push('error'))['error'], 'E_BAD_FRAME');
  await second.ended;
  assert.deepEqual(await statusOf(liar, crawl), before);
  assert.ok(memory.grownBytes() < 320 * mebi, `${memory.grownBytes() / mebi} MiB`);
  await liar.close();
});

test('[X-3] every page a 404: its own tasks end so, nothing else does', async (t) => {
  const liar = await target.slave(t);
  if (liar === undefined) return;
  const other = await seeded(liar, 2);
  await liar.must('crawl.pause', { crawl: other });
  const before = await statusOf(liar, other);
  const crawl = await spread(liar, 8);
  const error = { kind: 'status', message: '404' };
  for (const task of await take(liar, 8)) {
    const result = { ...page(task.url), status: 404, error };
    assert.equal((await report(liar, task, { result }))['state'], 'done');
  }
  const { failed, pages, state } = await statusOf(liar, crawl);
  assert.deepEqual([failed, pages], [8, 0]);
  assert.match(String(state), /running|finished/);
  assert.deepEqual(await statusOf(liar, other), before);
  await liar.close();
});

test('[X-3] reports that are replayed, at once and later, count once', async (t) => {
  const liar = await target.slave(t);
  if (liar === undefined) return;
  const crawl = await seeded(liar, 2);
  const task = await takeOne(liar);
  const links = [new URL('/new', task.url).href];
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => report(liar, task, { links })),
  );
  assert.deepEqual(statesOf(answers), { done: 1, stale: 49 });
  const other = await target.join('slave', 'conformance-other');
  assert.equal((await report(other, task, { links }))['state'], 'stale');
  const { pages, known, waiting } = await statusOf(liar, crawl);
  assert.deepEqual({ pages, known, waiting }, { pages: 1, known: 3, waiting: 2 });
  await other.close();
  await liar.close();
});

test('[X-3] credit as it likes: a greedy slave does not starve a modest one', async (t) => {
  const greedy = await target.slave(t);
  if (greedy === undefined) return;
  const modest = await target.join('slave', 'conformance-modest');
  await modest.must('task.credit', { count: 2, slots: 8 });
  for (const count of [4096, 0, 4096, 1, 4096]) greedy.send({ verb: 'task.credit', count });
  await greedy.sync();
  const crawl = await spread(greedy, 100);
  assert.ok((await pushed(modest)).length > 0);
  await greedy.sync();
  assert.equal((await statusOf(greedy, crawl))['leased'], 100);
  await modest.close();
  await greedy.close();
});

test('[X-3] peers that mix the dialects', async (t) => {
  if (target.process(t) === undefined) return;
  const accept = Buffer.from(
    '80034e58110000006163636570745f636f6e6e656374696f6e580100000078857d74712e',
    'hex',
  );
  // A native session that sends a pickle.
  const native = await target.join();
  native.frame(accept);
  assert.equal((await native.push('error'))['error'], 'E_BAD_FRAME');
  await native.ended;
  // A Python one that sends msgpack: every message is refused, nothing is done.
  const python = await RawPeer.dial(target);
  await python.shake(target.authkey, 'frames');
  const first = Buffer.from('8003284e580500000064756d6d79297d742e', 'hex');
  python.write(Buffer.concat([encodeFrame(first), encodeFrame(pack({ verb: 'ping', id: 1 }))]));
  assert.match((await python.nextFrame()).toString('latin1'), /#RETURN/);
  await python.ended;
  const good = await target.join();
  await good.sync();
  await good.close();
});

function statesOf(answers: readonly Answer[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const answer of answers) {
    const state = String(answer['state']);
    counts[state] = (counts[state] ?? 0) + 1;
  }
  return counts;
}

test('[T-54] images that are no http or https URLs are left out and counted', async (t) => {
  const liar = await target.slave(t, 1);
  if (liar === undefined || target.cluster === undefined) return;
  const { cluster } = target;
  const crawl = await target.crawl(liar, [target.seed()]);
  const task = await nextTask(liar);
  const srcs = [`${task.url}a.png`, 'javascript:alert(1)', `x\n${task.url}b.png`, '/c.png'];
  await report(liar, task, { images: srcs.map((src) => ({ src, via: 'img' })) });
  while ((await statusOf(liar, crawl))['state'] !== 'finished') await liar.sync();
  const [line] = cluster.lines('pages.jsonl', crawl).map((text) => JSON.parse(text) as Message);
  assert.deepEqual(line?.['images'], [{ src: srcs[0], via: 'img' }]);
  assert.equal(line?.['imagesCut'], 3);
  assert.deepEqual(cluster.lines('img_src.txt', crawl), [srcs[0]]);
  await liar.close();
});

test('[X-3] numbers that no output takes as an integer hold no crawl', async (t) => {
  const liar = await target.slave(t);
  if (liar === undefined || target.cluster === undefined) return;
  const { cluster } = target;
  const outputs = [{ kind: 'parquet', target: 'pages.parquet' }];
  const crawl = await seeded(liar, 1, { outputs });
  const task = await takeOne(liar);
  const say = (lie: Message, images: readonly Message[] = []) =>
    report(liar, task, { result: { ...page(task.url), ...lie }, images });
  for (const ms of [2 ** 53, 1e308]) assert.equal((await say({ ms })).error, 'E_BAD_REQUEST');
  // The one image that is left out counts, too.
  const most = Number.MAX_SAFE_INTEGER;
  const lie = { ms: most, bytes: most, imagesCut: most };
  assert.equal((await say(lie, [{ src: '/a.png', via: 'img' }]))['state'], 'done');
  let state: unknown;
  while (state !== 'finished') {
    state = (await statusOf(liar, crawl))['state'];
    assert.match(String(state), /running|finished/);
  }
  const [line] = cluster.lines('pages.jsonl', crawl).map((text) => JSON.parse(text) as Message);
  assert.equal(line?.['imagesCut'], most);
  await liar.close();
});

test('[X-3] what a slave says reaches no terminal raw', async (t) => {
  const liar = await target.slave(t, 1);
  if (liar === undefined || target.cluster === undefined) return;
  const crawl = await target.crawl(liar, [target.seed()], { attemptsMax: 1 });
  const message = '\x1b]0;owned\x07\x9b2J\u202e\nforged\t1';
  await release(liar, await nextTask(liar), { kind: 'connect', message });
  for (const flags of [[], ['--json']]) {
    const text = await target.cluster.ask('buried', crawl, ...flags);
    assert.match(text, /u001b/);
    assert.ok(!/(?![\n\t])[\p{C}\p{Zl}\p{Zp}]/u.test(text), JSON.stringify(text));
    assert.equal(text.trim().split('\n').length, 1);
  }
  await liar.close();
});
