import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import type { TakenItem } from '../../master/queues/queue-items.ts';
import { UserQueues } from '../../master/queues/queues.ts';
import { GroupCommit } from '../../master/store/group-commit.ts';
import type { MemoryStore } from '../../master/store/memory.ts';
import { decodeItemRow } from '../../master/store/records.ts';
import { awakeSleep } from '../../shared/awake.ts';
import { LaggingStore } from '../support/lagging-store.ts';
import { standStill } from '../support/standstill.ts';

function open(disk?: MemoryStore, bytesMax = 1 << 26) {
  const store = new LaggingStore(disk);
  const onError = (error: unknown) => assert.fail(String(error));
  const commits = new GroupCommit({ store, everyMs: 0, onError });
  return { store, commits, queues: new UserQueues(store, commits, { bytesMax }) };
}

const bytes = (...values: (string | number)[]) => values.map((value) => Buffer.from(`${value}`));
const texts = (items: readonly TakenItem[]) =>
  items.map(({ value }) => Buffer.from(value).toString());

test('queue: gives what was put, in that order', async () => {
  const queue = open().queues.queue('jobs');
  await queue.put(bytes('a', 'b'));
  await queue.put(bytes('c'));
  assert.equal(queue.size, 3);
  assert.deepEqual(texts(await queue.get({}, 2, 0)), ['a', 'b']);
  assert.deepEqual(texts(await queue.get({}, 2, 0)), ['c']);
  assert.deepEqual(await queue.get({}, 2, 0), []);
  assert.equal(queue.size, 0);
});

test('queue: queues do not see each other, also with names that begin alike', async () => {
  const { queues } = open();
  for (const name of ['a', 'aa', 'a.b', 'ab']) await queues.queue(name).put(bytes(name));
  for (const name of ['ab', 'a', 'a.b', 'aa']) {
    assert.deepEqual(texts(await queues.queue(name).get({}, 9, 0)), [name]);
  }
});

test('queue: who waits gets the first that comes, in turn', async () => {
  const queue = open().queues.queue('jobs');
  const waiting = [1, 2, 3].map(() => queue.get({}, 1, 60_000));
  await queue.put(bytes('a', 'b'));
  assert.deepEqual(await Promise.all(waiting.slice(0, 2).map(async (w) => texts(await w))), [
    ['a'],
    ['b'],
  ]);
  queue.close();
  assert.deepEqual(await waiting[2], []);
});

test('queue: waiting ends with nothing at its time', async () => {
  const queue = open().queues.queue('jobs');
  assert.deepEqual(await queue.get({}, 1, 1), []);
  await queue.put(bytes('a'));
  assert.deepEqual(texts(await queue.get({}, 1, 0)), ['a'], 'and takes nothing later');
});

test('queue: a hold does not end while the master stands still', async () => {
  const queue = open().queues.queue('jobs');
  await queue.put(bytes('a'));
  const holder = {};
  const [item] = await queue.get(holder, 1, 0, { holdMs: 300 });
  assert.ok(item);
  // Its message waits to be read.
  const done = new Promise((resolve) => setImmediate(resolve)).then(() =>
    queue.done(holder, [item.id]),
  );
  standStill(700);
  await done;
  await awakeSleep(300);
  assert.deepEqual(await queue.get({}, 1, 0), []);
  queue.close();
});

test('queue: what a session held waits again when it ends, before what came later', async () => {
  const { queues } = open();
  const queue = queues.queue('jobs');
  const [one, two] = [{}, {}];
  await queue.put(bytes('a', 'b', 'c', 'd'));
  const [first] = await queue.get(one, 1, 0);
  await queue.get(two, 1, 0);
  await queue.get(one, 1, 0);
  assert.ok(first);
  await queue.done(one, [first.id]);
  queues.removeHolder(one);
  assert.equal(queue.size, 2);
  assert.deepEqual(texts(await queue.get({}, 9, 0)), ['c', 'd']);
  queues.removeHolder(two);
  assert.deepEqual(texts(await queue.get({}, 9, 0)), ['b']);
});

test('queue: a session that ends gives its item to who waits, and waits no more itself', async () => {
  const { queues } = open();
  const queue = queues.queue('jobs');
  const [one, two] = [{}, {}];
  await queue.put(bytes('a'));
  await queue.get(one, 1, 0);
  void queue.get(one, 1, 60_000).then(() => assert.fail('nobody is there to take it'));
  const waiting = queue.get(two, 1, 60_000);
  queues.removeHolder(one);
  assert.deepEqual(texts(await waiting), ['a']);
});

test('queue: done counts for the holder alone, once', async () => {
  const { queues } = open();
  const queue = queues.queue('jobs');
  const [one, two] = [{}, {}];
  await queue.put(bytes('a'));
  const [item] = await queue.get(one, 1, 0);
  assert.ok(item);
  await queue.done(two, [item.id]);
  await queue.done(one, [item.id + 7]);
  queues.removeHolder(one);
  const [again] = await queue.get(two, 1, 0);
  assert.equal(again?.id, item.id);
  await queue.done(two, [item.id, item.id]);
  await queue.done(two, [item.id]);
  queues.removeHolder(two);
  assert.deepEqual(await queue.get({}, 1, 0), []);
});

test('queue: after a restart all is there that was put and not done', async () => {
  const { store, queues } = open();
  const queue = queues.queue('jobs');
  const holder = {};
  await queue.put(bytes('a', 'b', 'c'));
  const [first] = await queue.get(holder, 2, 0);
  assert.ok(first);
  await queue.done(holder, [first.id]);
  store.crash(0);
  const again = open(store.disk).queues.queue('jobs');
  assert.equal(again.size, 2);
  await again.put(bytes('d'));
  assert.deepEqual(texts(await again.get({}, 9, 0)), ['b', 'c', 'd']);
});

test('queue: one commit takes 16 MiB of what was put, and a put waits for its last item', async () => {
  const { store, commits, queues } = open();
  const queue = queues.queue('jobs');
  const written: number[] = [];
  const commit = store.commit.bind(store);
  store.commit = (changes) => {
    written.push(changes.reduce((sum, { value }) => sum + (value?.length ?? 0), 0));
    return commit(changes);
  };
  const items = Array.from({ length: 40 }, (_, i) => Buffer.alloc(1 << 20, i));
  const stored = () => store.range('items', { from: Buffer.from([0]), to: Buffer.alloc(64, 255) });
  const first = queue.put(items.slice(0, 2)).then(() => stored().length);
  const all = queue.put(items.slice(2)).then(() => stored().length);
  assert.ok((await first) >= 2);
  assert.equal(await all, 40);
  assert.ok(written.length >= 3);
  assert.ok(Math.max(...written) < 18 << 20);
  await commits.flushed();
});

test('queue: far more than the window come in order', async () => {
  const { store, queues } = open();
  const queue = queues.queue('jobs');
  const values = Array.from({ length: 5000 }, (_, i) => `${i}`);
  await queue.put(bytes(...values.slice(0, 3000)));
  assert.deepEqual(texts(await queue.get({}, 1500, 0)).length, 1024, 'a window at a time');
  await queue.put(bytes(...values.slice(3000)));
  store.crash(0);
  const again = open(store.disk).queues.queue('jobs');
  const got: string[] = [];
  while (got.length < 5000) {
    const items = texts(await again.get({}, 700, 0));
    assert.ok(items.length > 0);
    got.push(...items);
  }
  assert.deepEqual(got, values);
  assert.equal(again.size, 0);
});

test('queue: its size is never below nothing, also while a put is on its way', async () => {
  const queue = open().queues.queue('jobs');
  const put = queue.put(bytes('a', 'b'));
  let isPut = false;
  void put.then(() => {
    isPut = true;
  });
  // The store shows what it has not acknowledged yet.
  for (let turns = 0; !isPut && turns < 1000; turns++) {
    await queue.get({}, 1, 0);
    assert.ok(queue.size >= 0, `${queue.size}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await put;
  await queue.get({}, 9, 0);
  assert.equal(queue.size, 0);
});

const rowsOf = ({ disk }: LaggingStore) =>
  disk
    .range('items', { from: Buffer.alloc(1), to: Buffer.alloc(64, 0xff) })
    .map(({ value }) => decodeItemRow(value).map((item) => Buffer.from(item).toString()));

test('queue: an item can be had before its commit, and is never written when done by then', async () => {
  const { store, queues } = open();
  const queue = queues.queue('jobs');
  queue.add(Buffer.from('a'));
  queue.add(Buffer.from('b'));
  const item = queue.take();
  assert.ok(item);
  assert.deepEqual(texts([item]), ['a']);
  queue.finish(item);
  await queue.committed();
  assert.deepEqual(rowsOf(store), [['b']]);
  const next = queue.take();
  assert.ok(next);
  queue.finish(next);
  await queue.committed();
  assert.deepEqual(rowsOf(store), []);
});

test('queue: what was taken and given back comes first, and is on the disk all the time', async () => {
  const { store, queues } = open();
  const queue = queues.queue('jobs');
  queue.add(Buffer.from('a'));
  const item = queue.take();
  assert.ok(item);
  await queue.put(bytes('b'));
  assert.deepEqual(rowsOf(store), [['a', 'b']]);
  queue.giveBack([item]);
  assert.deepEqual(texts(await queue.get({}, 9, 0)), ['a', 'b']);
});

test('queue: items of one commit share rows of the store, which lose the finished ones', async () => {
  const { store, queues } = open();
  const queue = queues.queue('jobs');
  const values = Array.from({ length: 100 }, (_, i) => `${i}`);
  await queue.put(bytes(...values, 'x'.repeat(20_000), 'last'));
  assert.deepEqual(
    rowsOf(store).map(({ length }) => length),
    [64, 36, 1, 1],
  );
  const holder = {};
  const held = await queue.get(holder, 70, 0);
  await queue.done(
    holder,
    held.slice(0, 66).map(({ id }) => id),
  );
  assert.deepEqual(rowsOf(store)[0], values.slice(66));
  store.crash(0);
  const again = open(store.disk).queues.queue('jobs');
  assert.equal(again.size, 36);
  await again.put(bytes('new'));
  assert.deepEqual(texts(await again.get({}, 34, 0)), values.slice(66));
  const [big, last, added] = await again.get({}, 9, 0);
  assert.equal(big?.value.length, 20_000);
  assert.deepEqual(texts([last, added] as TakenItem[]), ['last', 'new']);
});

test('queue: bursts and takers at any pace keep the order, through memory and the disk', async () => {
  const burst = fc.record({ puts: fc.nat(1500), takes: fc.nat(1500), turns: fc.nat(3) });
  await fc.assert(
    fc.asyncProperty(fc.array(burst, { maxLength: 6 }), async (bursts) => {
      const { store, queues } = open();
      const queue = queues.queue('jobs');
      let [last, taken] = [0, 0];
      const takeOne = () => {
        const item = queue.take();
        if (item === undefined) return false;
        assert.equal(Buffer.from(item.value).toString(), `${++taken}`);
        queue.finish(item);
        return true;
      };
      for (const { puts, takes, turns } of bursts) {
        for (let n = 0; n < puts; n++) queue.add(Buffer.from(`${++last}`));
        for (let n = 0; n < takes && takeOne(); n++);
        assert.equal(queue.size, last - taken);
        for (let n = 0; n < turns; n++) await new Promise((resolve) => setImmediate(resolve));
      }
      while (takeOne());
      assert.equal(taken, last);
      await queue.committed();
      assert.deepEqual(rowsOf(store), []);
    }),
    { numRuns: 60 },
  );
});

test('queue: what is held and large is in the store, and comes back as it was', async () => {
  const { queues } = open();
  const queue = queues.queue('jobs');
  const holder = {};
  const [a, b, c] = ['a', 'b', 'c'].map((text) => text.repeat(10_000));
  await queue.put(bytes(`${a}`, 'small', `${b}`));
  const stored = await queue.get(holder, 3, 0);
  queue.rest(stored);
  // This one is given before it is on the disk.
  const put = queue.put(bytes(`${c}`));
  const fresh = await queue.get(holder, 1, 0);
  queue.rest(fresh);
  assert.deepEqual(texts(fresh), [c]);
  await put;
  const inMemory = [...stored, ...fresh].map(({ value }) => value?.length);
  assert.deepEqual(inMemory, [undefined, 5, undefined, undefined]);
  queues.removeHolder(holder);
  assert.equal(queue.size, 4);
  assert.deepEqual(texts(await queue.get({}, 4, 0)), [a, 'small', b, c]);
});

test('queue: all holders have a bound in common, and each that has none gets one item', async () => {
  const { queues } = open(undefined, 2_000);
  const queue = queues.queue('jobs');
  await queue.put(bytes(...Array.from({ length: 20 }, (_, i) => i)));
  const [first, second] = [{}, {}];
  assert.equal((await queue.get(first, 12, 0)).length, 12);
  assert.deepEqual(texts(await queue.get(second, 8, 0)), ['12'], 'there is no more room');
  for (const holder of [first, second]) {
    assert.throws(() => queue.get(holder, 1, 0), { code: 'E_QUEUE_FULL' });
  }
  await queue.done(first, [1, 2, 3, 4, 5, 6]);
  assert.equal((await queue.get(second, 7, 0)).length, 7);
});

test('queue: many full queues take no more memory than there is room, and give all', async () => {
  const { queues } = open(undefined, 4_000);
  const all = Array.from({ length: 30 }, (_, i) => queues.queue(`q${i}`));
  const values = bytes(...Array.from({ length: 20 }, (_, i) => `${i}`.padStart(200, '0')));
  for (const queue of all) await queue.put(values);
  for (const queue of all) {
    for (const value of values) {
      const item = queue.take();
      assert.deepEqual(item?.value, value);
      queue.finish(item);
    }
    assert.equal(queue.take(), undefined);
  }
});

const step = fc.record({
  kind: fc.constantFrom('put', 'put', 'get', 'get', 'done', 'leave', 'crash'),
  pick: fc.nat(50),
});

test('queue: random histories lose nothing and give nothing twice', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      let { store, queues } = open();
      let waiting: string[] = [];
      let holders = [{}, {}];
      let held: { holder: object; item: TakenItem; text: string }[] = [];
      let last = 0;
      for (const { kind, pick } of steps) {
        const queue = queues.queue('jobs');
        const holder = holders[pick % 2] ?? {};
        const one = held[pick % Math.max(1, held.length)];
        if (kind === 'put') {
          const values = Array.from({ length: 1 + (pick % 4) }, () => `${++last}`);
          await queue.put(bytes(...values));
          waiting.push(...values);
        } else if (kind === 'get') {
          const items = await queue.get(holder, 1 + (pick % 3), 0);
          const expected = waiting.splice(0, 1 + (pick % 3));
          assert.deepEqual(texts(items), expected);
          held.push(...items.map((item) => ({ holder, item, text: texts([item])[0] ?? '' })));
          if (pick % 5 > 0) queue.rest(items);
        } else if (kind === 'done' && one) {
          await queue.done(one.holder, [one.item.id]);
          held = held.filter((other) => other !== one);
        } else if (kind === 'leave') {
          queues.removeHolder(holder);
          const back = held.filter((each) => each.holder === holder).map(({ text }) => text);
          waiting = [...back, ...waiting].sort((a, b) => Number(a) - Number(b));
          held = held.filter((each) => each.holder !== holder);
        } else if (kind === 'crash') {
          store.crash(0);
          ({ store, queues } = open(store.disk));
          waiting = [...held.map(({ text }) => text), ...waiting];
          waiting.sort((a, b) => Number(a) - Number(b));
          held = [];
          holders = [{}, {}];
        }
        assert.equal(queues.queue('jobs').size, waiting.length);
      }
    }),
    { numRuns: 40 },
  );
});

test('queue: is empty as soon as its only item is taken, be its put on the way', async () => {
  const { queues, store } = open();
  const queue = queues.queue('jobs');
  const put = queue.put(bytes('a'));
  // The store shows it before the put is told so.
  while (
    store.range('items', { from: Buffer.from('j'), to: Buffer.from('k'), limit: 1 }).length < 1
  )
    await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(texts(await queue.get({}, 1, 0)), ['a']);
  assert.equal(queue.size, 0);
  await put;
  assert.equal(queue.size, 0);
});

test('queue: an item behind one that was done before its commit is not skipped', async () => {
  const { queues } = open();
  const queue = queues.queue('jobs');
  const holder = {};
  const put = queue.put(bytes(...Array.from({ length: 1_100 }, (_, i) => i + 1)));
  const taken = await queue.get(holder, 1_024, 0);
  const last = taken.at(-1);
  const done = queue.done(holder, [last?.id ?? 0]);
  await Promise.all([put, done]);
  const rest = texts(await queue.get(holder, 1_024, 0));
  assert.deepEqual([rest[0], rest.length, queue.size], ['1025', 76, 0]);
});
