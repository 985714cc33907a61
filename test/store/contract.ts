/** The contract of every store. */
import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import {
  type Change,
  type Range,
  type Row,
  type Snapshot,
  type Store,
  tables,
} from '../../master/store/store.ts';

type Opened = { readonly store: Store; readonly close: () => Promise<void> };

const bytes = (text: string) => Buffer.from(text, 'latin1');
const put = (key: string, value: string): Change => ({
  table: 'tasks',
  key: bytes(key),
  value: bytes(value),
});
const drop = (key: string): Change => ({ table: 'tasks', key: bytes(key), value: undefined });
const texts = (rows: readonly Row[]) =>
  rows.map(({ key, value }) => `${key.toString('latin1')}=${value.toString('latin1')}`);

export function storeContract(name: string, open: () => Promise<Opened>): void {
  const contract = (behaviour: string, run: (store: Store) => Promise<void>) => {
    test(`store: ${name}: ${behaviour}`, async () => {
      const { store, close } = await open();
      try {
        await run(store);
      } finally {
        await close();
      }
    });
  };
  const range = (store: Store, from: string, to: string, more: Partial<Range> = {}) =>
    texts(store.range('tasks', { from: bytes(from), to: bytes(to), ...more }));

  contract('gives back what was committed, and nothing else', async (store) => {
    await store.commit([put('a', '1'), put('b', '')]);
    assert.equal(store.get('tasks', bytes('a'))?.toString(), '1');
    assert.equal(store.get('tasks', bytes('b'))?.length, 0, 'an empty value is a value');
    assert.ok(store.has('tasks', bytes('b')));
    assert.equal(store.get('tasks', bytes('c')), undefined);
    assert.ok(!store.has('tasks', bytes('c')));
    assert.ok(!store.has('tasks', bytes('aa')));
  });

  contract('keeps its tables apart', async (store) => {
    const key = bytes('key');
    await store.commit(tables.map((table) => ({ table, key, value: bytes(table) })));
    for (const table of tables) assert.equal(store.get(table, key)?.toString(), table);
    await store.commit([{ table: 'seen', key, value: undefined }]);
    for (const table of tables) assert.equal(store.has(table, key), table !== 'seen');
  });

  contract('orders rows by the bytes of their keys', async (store) => {
    const keys = [
      '\x00',
      '\x00\x00',
      '\x00\x01',
      '\x01',
      'a',
      'a\x00',
      'aa',
      'b',
      '\x7f',
      '\x80',
      '\xff',
    ];
    await store.commit(keys.toReversed().map((key) => put(key, '')));
    const sorted = keys.toSorted().map((key) => `${key}=`);
    assert.deepEqual(range(store, '\x00', '\xff\xff'), sorted);
  });

  contract('cuts ranges at from, after, to and limit', async (store) => {
    await store.commit(['a', 'b', 'c', 'd', 'e'].map((key) => put(key, key)));
    assert.deepEqual(range(store, 'b', 'd'), ['b=b', 'c=c']);
    assert.deepEqual(range(store, 'b', 'd', { after: true }), ['c=c']);
    assert.deepEqual(range(store, 'aa', 'd', { after: true }), ['b=b', 'c=c']);
    assert.deepEqual(range(store, 'a', 'z', { limit: 2 }), ['a=a', 'b=b']);
    assert.deepEqual(range(store, 'a', 'z', { after: true, limit: 2 }), ['b=b', 'c=c']);
    assert.deepEqual(range(store, 'a', 'z', { limit: 99 }).length, 5);
    assert.deepEqual(range(store, 'f', 'z'), []);
    assert.deepEqual(range(store, 'c', 'c'), []);
    assert.deepEqual(range(store, 'd', 'b'), []);
  });

  contract('changes apply in their order', async (store) => {
    await store.commit([put('a', '1'), drop('a'), put('b', '1'), put('b', '2'), drop('c')]);
    assert.deepEqual(range(store, 'a', 'z'), ['b=2']);
    await store.commit([drop('b'), put('b', '3'), drop('none')]);
    assert.deepEqual(range(store, 'a', 'z'), ['b=3']);
  });

  contract('commits apply in the order of the calls, and end in it', async (store) => {
    const ended: number[] = [];
    const commits = Array.from({ length: 20 }, (_, i) =>
      store.commit([put('last', `${i}`), put(`c${i}`, '')]).then(() => ended.push(i)),
    );
    await Promise.all(commits);
    assert.equal(store.get('tasks', bytes('last'))?.toString(), '19');
    assert.deepEqual(
      ended,
      ended.toSorted((a, b) => a - b),
    );
    assert.equal(ended.length, 20);
  });

  contract('does not show what is not committed yet', async (store) => {
    await store.commit([put('a', 'old')]);
    const commit = store.commit([put('a', 'new'), put('b', 'new')]);
    assert.equal(store.get('tasks', bytes('a'))?.toString(), 'old');
    assert.ok(!store.has('tasks', bytes('b')));
    assert.deepEqual(range(store, 'a', 'z'), ['a=old']);
    await commit;
    assert.deepEqual(range(store, 'a', 'z'), ['a=new', 'b=new']);
  });

  contract('shows a commit whole or not at all while it is under way', async (store) => {
    for (let round = 0; round < 10; round++) {
      const keys = Array.from({ length: 500 }, (_, i) => `k${i}`);
      let isDone = false;
      const commit = store.commit(keys.map((key) => put(key, `${round}`))).then(() => {
        isDone = true;
      });
      while (!isDone) {
        const values = new Set(range(store, 'k', 'l').map((row) => row.split('=')[1]));
        assert.ok(values.size <= 1, `${[...values]}`);
        await new Promise((resolve) => setImmediate(resolve));
      }
      await commit;
    }
  });

  contract('rows stay what they were while the store goes on', async (store) => {
    await store.commit([put('a', 'x'.repeat(100)), put('b', 'y'.repeat(5000))]);
    const rows = store.range('tasks', { from: bytes('a'), to: bytes('z') });
    const got = store.get('tasks', bytes('b'));
    for (let i = 0; i < 20; i++) {
      await store.commit([
        put('a', 'z'.repeat(100)),
        put('b', `${i}`.repeat(3000)),
        put(`n${i}`, 'n'),
      ]);
      range(store, 'a', 'z');
      store.get('tasks', bytes('a'));
    }
    assert.deepEqual(texts(rows), [`a=${'x'.repeat(100)}`, `b=${'y'.repeat(5000)}`]);
    assert.equal(got?.toString(), 'y'.repeat(5000));
  });

  contract('an empty commit is one', async (store) => {
    await store.commit([]);
    assert.deepEqual(range(store, 'a', 'z'), []);
  });

  contract('holds large values', async (store) => {
    const value = Buffer.alloc(3 << 20, 'large');
    await store.commit([{ table: 'results', key: bytes('a'), value }]);
    assert.ok(store.get('results', bytes('a'))?.equals(value));
  });

  contract('shows a value until the next read', async (store) => {
    const values = [0, 15, 3600, 5000, 3 << 20].map((length) => Buffer.alloc(length, `v${length}`));
    const keys = values.map((_, i) => bytes(`k${i}`));
    await store.commit(values.map((value, i) => ({ table: 'runs', key: keys[i] ?? value, value })));
    const snapshot = store.snapshot();
    for (const i of [0, 4, 1, 3, 2, 4, 0]) {
      for (const from of [store, snapshot]) {
        const peeked = from.peek('runs', keys[i] ?? bytes('')) ?? assert.fail('it is there');
        assert.equal(peeked.length, values[i]?.length);
        assert.ok(values[i]?.equals(peeked.bytes.subarray(0, peeked.length)));
      }
    }
    assert.equal(store.peek('runs', bytes('k')), undefined);
    snapshot.close();
  });

  contract('a snapshot stays as it was, whatever is committed after it', async (store) => {
    await store.commit([put('a', '1'), put('b', '1')]);
    const before = store.snapshot();
    await store.commit([put('a', '2'), drop('b'), put('c', '2')]);
    const after = store.snapshot();
    await store.commit([drop('a'), put('d', '3')]);
    const all = { from: bytes(''), to: bytes('z') };
    const rowsOf = (snapshot: Snapshot) => texts(snapshot.range('tasks', all));
    assert.deepEqual(rowsOf(before), ['a=1', 'b=1']);
    assert.deepEqual(rowsOf(after), ['a=2', 'c=2']);
    assert.equal(before.get('tasks', bytes('b'))?.toString(), '1');
    assert.ok(!after.has('tasks', bytes('b')));
    assert.deepEqual(after.keys('tasks', all).map(String), ['a', 'c']);
    assert.deepEqual(range(store, 'a', 'z'), ['c=2', 'd=3']);
    before.close();
    before.close();
    after.close();
    assert.deepEqual(range(store, 'a', 'z'), ['c=2', 'd=3']);
  });

  contract('agrees with a plain map in random histories', async (store) => {
    const key = fc.constantFrom('a', 'b', 'bb', 'c', '\x00', '\xff', 'a\x00');
    const change = fc.tuple(key, fc.option(fc.string({ maxLength: 4 }), { nil: undefined }));
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(change, { maxLength: 6 }), { maxLength: 6 }),
        async (all) => {
          const old = store.range('tasks', { from: bytes('\x00'), to: bytes('\xff\xff') });
          await store.commit(
            old.map((row) => ({ table: 'tasks', key: row.key, value: undefined })),
          );
          const model = new Map<string, string>();
          const commits = all.map((changes) =>
            store.commit(
              changes.map(([at, value]) => (value === undefined ? drop(at) : put(at, value))),
            ),
          );
          for (const [at, value] of all.flat()) {
            if (value === undefined) model.delete(at);
            else model.set(at, bytes(value).toString('latin1'));
          }
          await Promise.all(commits);
          const rows = [...model].sort(([a], [b]) => (a < b ? -1 : 1));
          assert.deepEqual(
            range(store, '\x00', '\xff\xff'),
            rows.map((row) => row.join('=')),
          );
        },
      ),
      { numRuns: 40 },
    );
  });
}
