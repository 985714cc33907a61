/** The memory watch, by figures that the test makes up. */
import assert from 'node:assert/strict';
import test, { mock, type TestContext } from 'node:test';
import v8 from 'node:v8';
import { MemoryWatch } from '../../master/machine/memory-watch.ts';

const bytesMax = 1_000_000_000;

/** A watch that finds what `look` is told: as used, of which so much is garbage. */
function makeWatch(commits = { count: 0 }) {
  let [used, garbage] = [0, 0];
  let looks = 0;
  const figures = v8.getHeapStatistics();
  mock.method(v8, 'getHeapStatistics', () => {
    // The second look of a turn is the one after a collection.
    const external = looks++ === 0 ? used : used - garbage;
    return { ...figures, used_heap_size: 0, total_heap_size: 0, external_memory: external };
  });
  const tight: number[] = [];
  const exceeded: number[] = [];
  const watch = new MemoryWatch({ bytesMax, commits });
  watch.subscribe({
    memoryShort: (bytes) => tight.push(bytes),
    memoryExceeded: (bytes) => exceeded.push(bytes),
  });
  const look = (share: number, garbageShare = 0) => {
    [used, garbage, looks] = [share * bytesMax, garbageShare * bytesMax, 0];
    watch.look();
    return watch.isTight;
  };
  return { watch, look, tight, exceeded, looks: () => looks };
}

/** The same, on timers that the test moves. */
function watchOnTimers(t: TestContext, commits?: { count: number }) {
  mock.timers.enable({ apis: ['setTimeout'] });
  const made = makeWatch(commits);
  t.after(() => {
    made.watch.close();
    mock.timers.reset();
    mock.restoreAll();
  });
  return made;
}

test('memory: it is tight from three quarters of the limit until five eighths', (t) => {
  const { watch, look, tight, exceeded } = makeWatch();
  t.after(() => {
    watch.close();
    mock.restoreAll();
  });
  assert.equal(look(0.74), false);
  assert.equal(look(0.76), true);
  assert.equal(look(0.7), true, 'it does not flicker');
  assert.equal(look(0.63), true);
  assert.equal(look(0.62), false);
  assert.deepEqual(tight, [0.76 * bytesMax], 'told once');
  assert.deepEqual(exceeded, []);
});

test('memory: above the limit so much has to go that it is calm again', (t) => {
  const { watch, look, tight, exceeded } = makeWatch();
  t.after(() => {
    watch.close();
    mock.restoreAll();
  });
  assert.equal(look(1.125), true);
  assert.deepEqual(exceeded, [0.5 * bytesMax]);
  assert.equal(tight.length, 1);
});

test('memory: garbage is none', (t) => {
  const { watch, look, tight, exceeded } = makeWatch();
  t.after(() => {
    watch.close();
    mock.restoreAll();
  });
  assert.equal(look(1.2, 0.6), false);
  assert.deepEqual([tight, exceeded], [[], []]);
});

test('memory: buffers that are garbage are none either, as soon as they were looked at', (t) => {
  const mebi = 2 ** 20;
  const { heapUsed, external } = process.memoryUsage();
  const exceeded: number[] = [];
  const watch = new MemoryWatch({
    bytesMax: heapUsed + external + 64 * mebi,
    commits: { count: 0 },
  });
  watch.subscribe({ memoryExceeded: (bytes) => exceeded.push(bytes) });
  t.after(() => watch.close());
  for (let i = 0; i < 5; i++) {
    Array.from({ length: 10 }, () => Buffer.alloc(10 * mebi, 1));
    watch.look();
  }
  assert.deepEqual(exceeded, []);
});

test('memory: it is looked at the more rarely the farther it is from being tight', (t) => {
  const { looks } = watchOnTimers(t);
  mock.timers.tick(100);
  const far = looks();
  mock.timers.tick(700);
  assert.equal(looks(), far, 'it could not have filled');
  mock.timers.tick(100);
  assert.ok(looks() > far);
});

test('memory: a busy master has a young heap of its size, a slow crawl the one it needs', (t) => {
  const commits = { count: 0 };
  watchOnTimers(t, commits);
  const held = mock.method(v8, 'getHeapSpaceStatistics').mock;
  const heldAt = (more: number) => {
    const before = held.callCount();
    commits.count += more;
    mock.timers.tick(1_000);
    return held.callCount() > before;
  };
  assert.ok(!heldAt(2));
  assert.ok(!heldAt(2));
  assert.equal(heldAt(40), process.version.startsWith('v20.'));
  assert.ok(!heldAt(0));
});

test('memory: garbage is given back after five seconds without a commit, not within a crawl', (t) => {
  let now = 0;
  mock.method(performance, 'now', () => now);
  const commits = { count: 1 };
  watchOnTimers(t, commits);
  const read = mock.method(v8, 'getHeapStatistics').mock;
  const readsIn = (seconds: number) => {
    const before = read.callCount();
    for (let i = 0; i < seconds; i++) {
      now += 1_000;
      mock.timers.tick(1_000);
    }
    return read.callCount() - before;
  };
  const each = readsIn(1);
  assert.equal(readsIn(4), 4 * each, 'only whether memory is short');
  commits.count++;
  assert.equal(readsIn(4), 4 * each);
  assert.ok(readsIn(3) > 3 * each, 'and what is to be given back');
});
