/** Open tasks in two tables, against a plain map: no reader ever misses one, or sees it twice. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { type NewTask, TaskRows } from '../../master/frontier/tasks/task-rows.ts';
import { searchTasks } from '../../master/inspect/task-search.ts';
import { MemoryStore } from '../../master/store/memory.ts';
import { afterPrefix, crawlKey, encodeTask, pageKind } from '../../master/store/records.ts';
import type { Change, Row } from '../../master/store/store.ts';
import { parseTaskKey, taskKey } from '../../master/store/task-keys.ts';
import { readTask, taskBatches, taskKeyOf, unsortedKey } from '../../master/store/unsorted-rows.ts';
import { LaggingStore } from '../support/lagging-store.ts';

const crawl = 7;
const limits = { hostsMin: 2, perHost: 3, countMax: 5 };
/** Two of them in one bin, and the first and the last of all. */
const hosts = ['0000000000000000', '40000000000000aa', '40000000000000ab', 'ffffffffffffffff'].map(
  (hex) => Buffer.from(hex, 'hex'),
);
const kinds = ['add', 'add', 'change', 'remove', 'move', 'turn', 'turn', 'rest', 'crash'] as const;
type Step = { readonly kind: (typeof kinds)[number]; readonly pick: number };

/** Values by the keys of the tasks, in hexadecimal. */
type Model = ReadonlyMap<string, string>;

class Bench {
  store = new LaggingStore();
  rows = new TaskRows(this.store, limits);
  unsortedMost = 0;
  /** The rows on the disk after each commit; those before `#safe` are acknowledged. */
  #states: Model[] = [new Map()];
  #safe = 0;
  /** Tasks of commits under way. */
  readonly #busy = new Set<string>();
  #seq = 0;

  step({ kind, pick }: Step): Promise<void> | undefined {
    const idle = [...this.#last.keys()].filter((key) => !this.#busy.has(key));
    const key = Buffer.from(idle[pick % Math.max(1, idle.length)] ?? '', 'hex');
    if (kind === 'add') this.add(1 + (pick % 7), pick);
    else if (kind === 'turn') return turn();
    else if (kind === 'crash') return this.crash(pick % 3);
    else if (kind === 'move') this.#move(pick % 4);
    else if (kind === 'rest') this.rows.rest(crawl);
    else if (key.length === 0) return;
    else if (kind === 'change') this.#change(key, `again ${pick}`);
    else this.#change(key, undefined);
    return;
  }

  add(count: number, pick: number): void {
    const added = Array.from({ length: count }, (_, i) => {
      const host = hosts[(pick + i * (1 + (pick % 3))) % hosts.length] ?? Buffer.alloc(8);
      return newTask(host, (pick + i) % 3, ++this.#seq);
    });
    const { changes, landed } = this.rows.added(crawl, added);
    this.#commit(changes, added.map(rowOf), landed);
  }

  /** The process dies, with so many commits more on the disk. */
  async crash(applied: number): Promise<void> {
    this.store.crash(applied);
    await turn();
    this.store = new LaggingStore(this.store.disk);
    this.rows = new TaskRows(this.store, limits);
    this.rows.restore(crawl);
    this.#busy.clear();
    const found = new Map<string, string>();
    for (const { key, value } of this.#everything()) {
      assert.ok(!found.has(key.toString('hex')), 'a task is in one table');
      found.set(key.toString('hex'), value.toString());
    }
    const state = this.#states.slice(this.#safe).find((one) => isSame(one, found));
    assert.ok(state, 'the disk is as it was after one of the commits');
    this.#states = [state];
    this.#safe = 0;
    this.check();
  }

  async settle(): Promise<void> {
    while (!this.store.isQuiet) await turn();
    await turn();
    assert.equal(this.#busy.size, 0);
    this.check();
    const found = this.#everything().map(({ key }) => key.toString('hex'));
    assert.deepEqual(found.sort(), [...this.#last.keys()].sort());
  }

  /** A task that waits, and is in no commit under way, is seen by all readers, once. */
  check(): void {
    const listed: Row[] = [];
    for (const host of hosts) {
      let range = { from: taskKey(crawl, host, 0, 0), after: false, limit: 2 };
      for (;;) {
        const rows = this.rows.ofHost(crawl, host, range);
        for (const { key } of rows) assert.ok(parseTaskKey(key)?.host.equals(host));
        listed.push(...rows);
        const last = rows.at(-1);
        if (last === undefined || rows.length < range.limit) break;
        range = { ...range, from: last.key, after: true };
      }
    }
    this.#compare(listed);
    const walked: string[] = [];
    for (let from = crawlKey(crawl); ; ) {
      const row = this.rows.firstFrom(crawl, from);
      if (row === undefined) break;
      const prefix = row.key.subarray(0, 12);
      walked.push(prefix.toString('hex'));
      from = afterPrefix(prefix);
    }
    const hostsOf = new Set(listed.map(({ key }) => key.toString('hex', 0, 12)));
    assert.deepEqual(walked, [...hostsOf]);
    for (const { key, value } of listed) {
      assert.ok(this.rows.get(key)?.equals(value));
      assert.ok(readTask(this.store, key)?.equals(value));
    }
    this.unsortedMost = Math.max(this.unsortedMost, this.store.disk.keys('unsorted', all).length);
  }

  /** The rows in order, and those of no commit under way as they should be. */
  #compare(rows: readonly Row[]): void {
    const found = new Map(rows.map(({ key, value }) => [key.toString('hex'), value.toString()]));
    assert.equal(found.size, rows.length, 'once each');
    assert.deepEqual([...found.keys()], [...found.keys()].sort());
    const isIdle = ([key]: [string, string]) => !this.#busy.has(key);
    assert.deepEqual([...found].filter(isIdle), [...this.#last].filter(isIdle).sort());
  }

  get #last(): Model {
    return this.#states.at(-1) ?? new Map();
  }

  #everything(): Row[] {
    return [...taskBatches(this.store, crawl, 3)].flat();
  }

  #change(key: Buffer, text: string | undefined): void {
    const value = text === undefined ? undefined : Buffer.from(text);
    const changes = value === undefined ? [this.rows.removed(key)] : this.rows.changed(key, value);
    this.#commit(changes, [{ key, value }], () => this.rows.gone(key));
  }

  #move(came: number): void {
    const move = this.rows.move(came);
    if (move !== undefined) this.#commit(move.changes, [], move.done);
  }

  #commit(
    changes: readonly Change[],
    set: readonly { readonly key: Buffer; readonly value: Buffer | undefined }[],
    done: () => void,
  ): void {
    const state = new Map(this.#last);
    const names = set.map(({ key }) => key.toString('hex'));
    for (const [i, { value }] of set.entries()) {
      if (value === undefined) state.delete(names[i] ?? '');
      else state.set(names[i] ?? '', value.toString());
    }
    this.#states.push(state);
    for (const name of names) this.#busy.add(name);
    const number = this.#states.length - 1;
    const { store } = this;
    void store.commit(changes).then(() => {
      if (store !== this.store) return;
      this.#safe = number;
      done();
      for (const name of names) this.#busy.delete(name);
    });
  }
}

function newTask(hash: Buffer, rank: number, seq: number): NewTask {
  return { host: { hash }, rank, seq, record: { ...blank, url: `task ${seq}` } };
}

function rowOf({ host, rank, seq, record }: NewTask): Row {
  return { key: taskKey(crawl, host.hash, rank, seq), value: encodeTask(record) };
}

const blank = { kind: pageKind, level: 0, depth: 0, priority: 0, attempts: 0, notBefore: 0 };
const all = { from: crawlKey(0), to: crawlKey(2 ** 32 - 1) };

function isSame(a: Model, b: Model): boolean {
  return a.size === b.size && [...a].every(([key, value]) => b.get(key) === value);
}

test('task rows: every task is in one table, and found, whatever moves and whenever it crashes', async () => {
  const steps = fc.array(fc.record({ kind: fc.constantFrom(...kinds), pick: fc.nat(1000) }), {
    minLength: 10,
    maxLength: 60,
  });
  let unsorted = 0;
  await fc.assert(
    fc.asyncProperty(steps, async (history) => {
      const bench = new Bench();
      for (const step of history) {
        await bench.step(step);
        bench.check();
      }
      await bench.settle();
      await bench.crash(0);
      unsorted = Math.max(unsorted, bench.unsortedMost);
    }),
    { numRuns: 200 },
  );
  assert.ok(unsorted > limits.countMax, 'some were not sorted');
});

test('task rows: only tasks of many hosts, and few of each, wait to be sorted', async () => {
  const store = new MemoryStore();
  const rows = new TaskRows(store);
  const tablesOf = async (hostsCount: number, each: number) => {
    const tasks = Array.from({ length: hostsCount * each }, (_, i) => {
      const host = Buffer.alloc(8);
      host.writeUInt32BE(Math.floor(i / each) * 65_537);
      return newTask(host, 0, i + 1);
    });
    const { changes, landed } = rows.added(crawl, tasks);
    await store.commit(changes);
    landed();
    return new Set(changes.map(({ table }) => table));
  };
  assert.deepEqual([...(await tablesOf(100, 7))], ['tasks']);
  assert.deepEqual([...(await tablesOf(300, 8))], ['tasks']);
  assert.equal(rows.move(1_000), undefined);
  assert.deepEqual([...(await tablesOf(40_000, 7))], ['unsorted']);
  const move = rows.move(1_000);
  const moved = move?.changes.filter(({ table }) => table === 'tasks').length ?? 0;
  assert.ok(moved >= 1_506 && moved < 1_600, `${moved} tasks moved`);
  const marks = move?.changes.map(({ table, key }) => (table === 'tasks' ? key[4] : 0)) ?? [];
  assert.ok(Math.max(...marks.map((mark) => mark ?? 0)) < 40, 'of the first hosts');
});

test('task rows: a key goes to the other table and back', () => {
  const key = taskKey(3, Buffer.from('fedcba9876543210', 'hex'), 0x01020304, 2 ** 40 + 5);
  assert.ok(taskKeyOf(unsortedKey(key))?.equals(key));
  assert.equal(taskKeyOf(key), undefined);
  const other = unsortedKey(key);
  other[4] = 0;
  assert.equal(taskKeyOf(other), undefined, 'on the shelf of another host');
});

test('task rows: a search finds a task in either table, and counts those before it', async () => {
  const store = new MemoryStore();
  const [host = Buffer.alloc(8), other = Buffer.alloc(8)] = hosts.slice(1);
  for (let seq = 1; seq <= 20; seq++) {
    const key = taskKey(crawl, seq % 5 === 0 ? other : host, 0, seq);
    const value = encodeTask({ ...blank, url: `http://a/${seq}` });
    const isUnsorted = seq % 3 === 0;
    const row = isUnsorted ? { table: 'unsorted', key: unsortedKey(key) } : { table: 'tasks', key };
    await store.commit([{ ...row, value } as Change]);
  }
  const range = { from: taskKey(crawl, host, 0, 0), to: taskKey(crawl, host, 1, 0) };
  for (const [seq, before] of [
    [1, 0],
    [9, 7],
    [18, 14],
    [19, 15],
  ]) {
    let after: Awaited<ReturnType<typeof searchTasks>>['next'];
    let found: number[] = [];
    do {
      const options = { after, rowsMax: 4, tasksMax: 1 };
      const { tasks, next } = await searchTasks(store, `http://a/${seq}`, range, options);
      found = [...found, ...tasks.map((task) => task.before)];
      after = next;
    } while (after !== undefined && found.length === 0);
    assert.deepEqual(found, [before]);
  }
});
