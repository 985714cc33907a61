import assert from 'node:assert/strict';
import test from 'node:test';
import { GroupCommit } from '../../master/store/group-commit.ts';
import type { Change, Store } from '../../master/store/store.ts';

/** A store whose commits end when the test says so. */
class HeldStore implements Pick<Store, 'commit'> {
  readonly commits: { keys: string[]; end: () => void; fail: (error: Error) => void }[] = [];
  #awaited: (() => void) | undefined;

  commit(changes: readonly Change[]): Promise<void> {
    return new Promise((end, fail) => {
      this.commits.push({ keys: changes.map(({ key }) => Buffer.from(key).toString()), end, fail });
      this.#awaited?.();
    });
  }

  /** Resolves when there have been `count` commits. */
  async reached(count: number): Promise<void> {
    while (this.commits.length < count) {
      await new Promise<void>((resolve) => {
        this.#awaited = resolve;
      });
    }
  }
}

function bench() {
  const store = new HeldStore();
  const errors: unknown[] = [];
  const onError = (error: unknown) => void errors.push(error);
  const commits = new GroupCommit({ store: store as unknown as Store, everyMs: 1, onError });
  return { store, commits, errors };
}

const change = (key: string): Change => ({
  table: 'meta',
  key: Buffer.from(key),
  value: undefined,
});
/** The one in which it ends, and the next. */
const turns = async () => {
  for (let i = 0; i < 2; i++) await new Promise((resolve) => setImmediate(resolve));
};

/** Keeps the event loop busy. */
function block(ms: number): void {
  for (const began = performance.now(); performance.now() - began < ms; );
}

test('group commit: what comes in one turn goes in one transaction, in its order', async () => {
  const { store, commits } = bench();
  const done: string[] = [];
  for (const key of ['a', 'b', 'c']) commits.submit([change(key)], () => done.push(key));
  await store.reached(1);
  assert.deepEqual(store.commits[0]?.keys, ['a', 'b', 'c']);
  assert.deepEqual(done, [], 'nothing is done before it is on the disk');
  store.commits[0]?.end();
  await turns();
  assert.deepEqual(done, ['a', 'b', 'c']);
});

test('group commit: six are under way, a seventh waits for one of them', async () => {
  const { store, commits } = bench();
  for (let count = 1; count <= 6; count++) {
    commits.submit([change(`${count}`)]);
    await store.reached(count);
  }
  commits.submit([change('c')]);
  commits.submit([change('d')]);
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(store.commits.length, 6);
  store.commits[0]?.end();
  await store.reached(7);
  assert.deepEqual(store.commits[6]?.keys, ['c', 'd']);
});

test('group commit: what reaches the disk at once has a turn each, in order', async () => {
  const { store, commits } = bench();
  const done: string[] = [];
  let turn = 0;
  const count = setInterval(() => turn++);
  const turnOf = new Map<string, number>();
  const keys = ['a', 'b', 'c'];
  for (const [i, key] of keys.entries()) {
    commits.submit([change(key)], () => {
      done.push(key);
      turnOf.set(key, turn);
      block(5);
    });
    await store.reached(i + 1);
  }
  for (const { end } of store.commits) end();
  await commits.flushed();
  clearInterval(count);
  assert.deepEqual(done, keys);
  assert.equal(new Set(turnOf.values()).size, 3, `timers ran between them: ${[...turnOf]}`);
});

test('group commit: a gatherer that has more work has the next commit at once', async () => {
  const store = new HeldStore();
  const onError = (error: unknown) => assert.fail(String(error));
  const commits = new GroupCommit({ store: store as unknown as Store, everyMs: 60_000, onError });
  const todo = ['one', 'two', 'three'];
  commits.addGatherer(() => {
    const key = todo.shift();
    if (todo.length > 0) commits.requestMore();
    return key === undefined ? undefined : { changes: [change(key)], done: () => {} };
  });
  commits.request();
  await store.reached(3);
  assert.deepEqual(
    store.commits.flatMap(({ keys }) => keys),
    ['one', 'two', 'three'],
  );
});

test('group commit: its parts hold no changes while they are on the way to the disk', async () => {
  const { store, commits } = bench();
  const [first, second] = [[change('a')], [change('b'), change('c')]];
  commits.submit(first);
  commits.submit(second);
  await store.reached(1);
  assert.deepEqual(store.commits[0]?.keys, ['a', 'b', 'c']);
  assert.deepEqual([first.length, second.length], [0, 0]);
});

test('group commit: gatherers are asked when a commit starts, behind what was submitted', async () => {
  const { store, commits } = bench();
  const todo = ['one', 'two'];
  const done: string[] = [];
  commits.addGatherer(() => {
    const key = todo.shift();
    if (key === undefined) return undefined;
    if (todo.length > 0) commits.request();
    return { changes: [change(key)], done: () => done.push(key) };
  });
  commits.request();
  commits.submit([change('submitted')]);
  await store.reached(2);
  assert.deepEqual(
    store.commits.map(({ keys }) => keys),
    [['submitted', 'one'], ['two']],
  );
  store.commits[0]?.end();
  store.commits[1]?.end();
  await commits.flushed();
  assert.deepEqual(done, ['one', 'two']);
});

test('group commit: flushed waits for all that was asked for, and for nothing else', async () => {
  const { store, commits } = bench();
  await commits.flushed();
  const events: string[] = [];
  commits.submit([change('a')], () => events.push('a'));
  const flushed = commits.flushed().then(() => events.push('flushed'));
  await store.reached(1);
  commits.submit([change('b')], () => events.push('b'));
  await store.reached(2);
  store.commits[0]?.end();
  await turns();
  assert.deepEqual(events, ['a']);
  store.commits[1]?.end();
  await flushed;
  assert.deepEqual(events, ['a', 'b', 'flushed']);
});

test('group commit: a request with nothing to commit ends by itself', async () => {
  const { store, commits } = bench();
  commits.request();
  await commits.flushed();
  assert.equal(store.commits.length, 0);
});

test('group commit: a failure is told, and nothing of it is done', async () => {
  const { store, commits, errors } = bench();
  let isDone = false;
  commits.submit([change('a')], () => {
    isDone = true;
  });
  await store.reached(1);
  const error = new Error('disk full');
  store.commits[0]?.fail(error);
  await turns();
  assert.deepEqual(errors, [error]);
  assert.ok(!isDone);
});

test('group commit: after a failure nothing is done or begun any more', async () => {
  const { store, commits, errors } = bench();
  const done: string[] = [];
  commits.submit([change('a')], () => done.push('a'));
  await store.reached(1);
  commits.submit([change('b')], () => done.push('b'));
  await store.reached(2);
  commits.submit([change('c')], () => done.push('c'));
  store.commits[0]?.fail(new Error('read-only'));
  store.commits[1]?.end();
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(done, []);
  assert.equal(store.commits.length, 2);
  assert.equal(errors.length, 1);
});

test('group commit: an error is explained by the commit under way that fails', async () => {
  const { store, commits, errors } = bench();
  const [unreadable, readOnly] = [new Error('cannot read'), new Error('read-only')];
  assert.equal(await commits.causeOf(unreadable), unreadable);
  commits.submit([change('a')]);
  await store.reached(1);
  commits.submit([change('b')]);
  await store.reached(2);
  const cause = commits.causeOf(unreadable);
  store.commits[0]?.fail(readOnly);
  assert.equal(await cause, readOnly);
  assert.equal(await commits.causeOf(unreadable), readOnly);
  store.commits[1]?.fail(new Error('nothing works any more'));
  await turns();
  assert.deepEqual(errors, [readOnly]);
});

test('group commit: one that changes nothing ends with those that are under way', async () => {
  const { store, commits } = bench();
  const done: string[] = [];
  commits.submit([change('a')], () => done.push('a'));
  await store.reached(1);
  commits.submit([], () => done.push('nothing'));
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(done, []);
  store.commits[0]?.end();
  await commits.flushed();
  assert.deepEqual(done, ['a', 'nothing']);
});

test('group commit: what may wait joins the next commit', async () => {
  const { store, commits } = bench();
  const done: string[] = [];
  commits.submit([change('patient')], () => done.push('patient'), 60_000);
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(store.commits.length, 0);
  commits.submit([change('now')], () => done.push('now'));
  await store.reached(1);
  assert.deepEqual(store.commits[0]?.keys, ['patient', 'now']);
  store.commits[0]?.end();
  await commits.flushed();
  assert.deepEqual(done, ['patient', 'now']);
});

test('group commit: what may wait goes alone after its time, and at once when all is awaited', async () => {
  const { store, commits } = bench();
  commits.submit([change('a')], undefined, 5);
  await store.reached(1);
  store.commits[0]?.end();
  await commits.flushed();
  commits.submit([change('b')], undefined, 60_000);
  const flushed = commits.flushed();
  // Behind one that waits for all, nothing may wait.
  commits.submit([change('c')], undefined, 60_000);
  await store.reached(2);
  assert.deepEqual(store.commits[1]?.keys, ['b', 'c']);
  store.commits[1]?.end();
  await flushed;
  commits.submit([change('d')], undefined, 60_000);
  commits.submit([change('e')], undefined, 5);
  await store.reached(3);
  assert.deepEqual(store.commits[2]?.keys, ['d', 'e']);
});
