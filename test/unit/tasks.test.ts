import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { TaskRows } from '../../master/frontier/tasks/task-rows.ts';
import { type Task, TaskBudget, TaskQueue } from '../../master/frontier/tasks/tasks.ts';
import { MemoryStore } from '../../master/store/memory.ts';
import { encodeTask, pageKind, type TaskRecord } from '../../master/store/records.ts';
import { taskKey } from '../../master/store/task-keys.ts';

const host = Buffer.from('hosthost');
const blank = {
  kind: pageKind,
  level: 0,
  depth: 0,
  priority: 0,
  attempts: 0,
  notBefore: 0,
} as const;
type Position = { readonly rank: number; readonly seq: number };

/** A task queue over a store, and a plain list of what it should hold. */
class Bench {
  readonly store = new MemoryStore();
  readonly rows = new TaskRows(this.store);
  queue: TaskQueue;
  budget: TaskBudget;
  readonly model = new Map<number, Position & { record: TaskRecord; state: Task['state'] }>();
  readonly #unadded: (Position & { record: TaskRecord })[] = [];
  leased: Task[] = [];
  now = 1000;
  #lastSeq = 0;

  constructor(tasksMax = 1_000_000) {
    this.budget = new TaskBudget(tasksMax);
    this.queue = this.#open(true);
  }

  #open(empty: boolean): TaskQueue {
    return new TaskQueue({ crawl: 1, host, rows: this.rows, empty, budget: this.budget });
  }

  /** The row reaches the store; the queue is told of it later, or at once. */
  async put(rank: number, later = false): Promise<number> {
    const seq = ++this.#lastSeq;
    const record = { ...blank, url: `http://a/${seq}` };
    await this.#write({ rank, seq }, record);
    this.model.set(seq, { rank, seq, record, state: 'waiting' });
    this.#unadded.push({ rank, seq, record });
    if (!later) this.tell();
    return seq;
  }

  tell(): void {
    for (const { record, ...position } of this.#unadded.splice(0)) {
      const before = this.queue.dueAt(this.now);
      const isSooner = this.queue.add(position, record);
      assert.ok(isSooner || this.queue.dueAt(this.now) === before, 'nobody has to be woken');
    }
  }

  /** The task that the queue should give: the first that is due; undefined entries are not told
   *  yet. */
  due(): number[] {
    return [...this.model.values()]
      .filter(({ state, record }) => state === 'waiting' && record.notBefore <= this.now)
      .sort((a, b) => a.rank - b.rank || a.seq - b.seq)
      .map(({ seq }) => seq);
  }

  lease(): Task | undefined {
    const task = this.queue.peek(this.now);
    if (task === undefined) return undefined;
    this.queue.lease(task);
    const known = this.model.get(task.seq);
    assert.equal(known?.state, 'waiting', `${task.seq} is handed out once`);
    assert.equal(task.url, known.record.url);
    known.state = 'leased';
    this.leased.push(task);
    return task;
  }

  release(task: Task): void {
    this.queue.release(task, task);
    this.#unlease(task, 'waiting', task);
  }

  async retry(task: Task, waitMs: number): Promise<void> {
    const { kind, level, url, depth, priority, attempts: before } = task;
    const notBefore = this.now + waitMs;
    const record = { kind, level, url, depth, priority, attempts: before + 1, notBefore };
    this.queue.commit(task);
    await this.#write(task, record);
    this.queue.release(task, record);
    this.#unlease(task, 'waiting', record);
  }

  async finish(task: Task): Promise<void> {
    this.queue.commit(task);
    await this.store.commit([{ table: 'tasks', key: keyAt(task), value: undefined }]);
    this.queue.remove(task);
    this.leased = this.leased.filter(({ seq }) => seq !== task.seq);
    this.model.delete(task.seq);
  }

  restart(): void {
    this.#unadded.length = 0;
    this.leased = [];
    for (const known of this.model.values()) known.state = 'waiting';
    this.queue.close();
    assert.equal(this.budget.count, 0);
    this.queue = this.#open(false);
  }

  #unlease(task: Task, state: Task['state'], record: TaskRecord): void {
    this.leased = this.leased.filter(({ seq }) => seq !== task.seq);
    const known = this.model.get(task.seq);
    if (known) Object.assign(known, { state, record });
  }

  #write(position: Position, record: TaskRecord): Promise<void> {
    return this.store.commit([{ table: 'tasks', key: keyAt(position), value: encodeTask(record) }]);
  }
}

function keyAt({ rank, seq }: Position): Buffer {
  return taskKey(1, host, rank, seq);
}

test('tasks: come by rank, then in the order they were admitted', async () => {
  const bench = new Bench();
  for (const rank of [5, 1, 5, 0, 1]) await bench.put(rank);
  const seqs = Array.from({ length: 5 }, () => bench.lease()?.seq);
  assert.deepEqual(seqs, [4, 2, 5, 1, 3]);
  assert.equal(bench.lease(), undefined);
  assert.ok(!bench.queue.isEmpty, 'they are leased');
  for (const task of bench.leased) await bench.finish(task);
  assert.ok(bench.queue.isEmpty);
});

test('tasks: far more than the window come in order, all of them', async () => {
  for (const isRestarted of [false, true]) {
    const bench = new Bench();
    for (let i = 0; i < 1500; i++) await bench.put((i * 7) % 13);
    if (isRestarted) bench.restart();
    const expected = bench.due();
    const seqs: (number | undefined)[] = [];
    for (const _ of expected) {
      const task = bench.lease();
      seqs.push(task?.seq);
      if (task) await bench.finish(task);
    }
    assert.deepEqual(seqs, expected);
    assert.equal(bench.lease(), undefined);
    assert.ok(bench.queue.isEmpty);
  }
});

test('tasks: where many are in memory a queue keeps few, and loses none', async () => {
  const bench = new Bench(100);
  for (let i = 0; i < 1500; i++) await bench.put((i * 7) % 13);
  assert.ok(bench.budget.count <= 110, `${bench.budget.count} in memory`);
  const expected = bench.due();
  for (const seq of expected) {
    assert.equal(bench.lease()?.seq, seq);
    assert.ok(bench.budget.count <= 110 + bench.leased.length, `${bench.budget.count} in memory`);
  }
  for (const task of bench.leased) await bench.finish(task);
  assert.ok(bench.queue.isEmpty);
  assert.equal(bench.budget.count, 0);
});

test('tasks: new ones of a lower rank go first, however full the window is', async () => {
  const bench = new Bench();
  for (let i = 0; i < 1200; i++) await bench.put(100);
  for (let i = 0; i < 600; i++) {
    const seq = await bench.put(50 - (i % 10));
    assert.equal(bench.lease()?.seq, seq);
  }
});

test('tasks: a task far back that comes back does not jump the queue', async () => {
  const bench = new Bench();
  await bench.put(9);
  const far = bench.lease();
  assert.ok(far);
  for (let i = 0; i < 1000; i++) await bench.put(1);
  for (let i = 0; i < 100; i++) {
    const task = bench.lease();
    if (task) await bench.finish(task);
  }
  bench.release(far);
  for (let rest = 900; rest > 0; rest--) {
    const task = bench.lease();
    assert.equal(task?.rank, 1, `${rest} of rank 1 are left`);
    await bench.finish(task);
  }
  assert.equal(bench.lease()?.rank, 9);
});

test('tasks: a delayed one waits for its time, also over a restart', async () => {
  const bench = new Bench();
  await bench.put(1);
  await bench.put(2);
  const first = bench.lease();
  assert.ok(first);
  await bench.retry(first, 500);
  assert.equal(bench.queue.dueAt(bench.now), bench.now, 'the other one');
  for (const isRestarted of [false, true]) {
    if (isRestarted) bench.restart();
    assert.equal(bench.queue.peek(bench.now)?.seq, 2);
    bench.now = 1499;
    assert.equal(bench.queue.peek(bench.now)?.seq, 2);
  }
  bench.now = 1500;
  const again = bench.lease();
  assert.equal(again?.seq, 1);
  assert.equal(again.attempts, 1);
});

test('tasks: one that is committed while it is delayed is not handed out again', async () => {
  const bench = new Bench();
  for (let i = 0; i < 4; i++) await bench.put(1);
  const first = bench.lease();
  assert.ok(first);
  await bench.retry(first, 10);
  const found = bench.queue.find(first);
  assert.ok(found);
  await bench.finish(found);
  bench.now += 1000;
  assert.deepEqual(
    [1, 2, 3, 4].map(() => bench.lease()?.seq),
    [2, 3, 4, undefined],
  );
});

test('tasks: find gives the task that is there, loads it, or knows that it is done', async () => {
  const bench = new Bench();
  for (let i = 0; i < 3; i++) await bench.put(1);
  assert.equal(bench.queue.find({ rank: 1, seq: 2 }), bench.queue.find({ rank: 1, seq: 2 }));
  bench.restart();
  const task = bench.queue.find({ rank: 1, seq: 2 });
  assert.equal(task?.url, 'http://a/2');
  assert.equal(bench.queue.find({ rank: 1, seq: 99 }), undefined);
  await bench.finish(task);
  assert.equal(bench.queue.find({ rank: 1, seq: 2 }), undefined);
  assert.deepEqual(
    [1, 2, 3].map(() => bench.lease()?.seq),
    [1, 3, undefined],
  );
});

test('tasks: a host of delayed tasks alone is not read through', async () => {
  const bench = new Bench();
  const count = 1500;
  const rows = Array.from({ length: count }, (_, i) => {
    const record = { ...blank, url: `http://a/${i}`, attempts: 1, notBefore: 9000 };
    return {
      table: 'tasks' as const,
      key: keyAt({ rank: 0, seq: i + 1 }),
      value: encodeTask(record),
    };
  });
  await bench.store.commit(rows);
  bench.restart();
  let read = 0;
  const { range } = bench.store;
  bench.store.range = (table, options) => {
    const found = range.call(bench.store, table, options);
    read += found.length;
    return found;
  };
  for (let i = 0; i < 50; i++) assert.equal(bench.queue.peek(1000), undefined);
  assert.ok(read <= 1024, `${read} rows`);
  const urls = new Set<string | undefined>();
  for (let i = 0; i < count; i++) {
    const task = bench.queue.peek(10_000);
    urls.add(task?.url);
    if (task) bench.queue.lease(task);
  }
  assert.equal(urls.size, count);
  assert.equal(bench.queue.peek(10_000), undefined);
});

const kinds = ['put', 'puts', 'late', 'tell', 'lease', 'leases', 'release', 'retry'] as const;
const step = fc.record({
  kind: fc.constantFrom(...kinds, 'finish', 'finish', 'find', 'time', 'restart'),
  pick: fc.nat(1000),
});

/** Plenty, one that gets narrow on the way, and none. */
const budgets = fc.constantFrom(1_000_000, 400, 0);

test('tasks: random histories hand out every task once, in order', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 80 }), budgets, async (steps, tasksMax) => {
      const bench = new Bench(tasksMax);
      for (const { kind, pick } of steps) {
        const task = bench.leased[pick % Math.max(1, bench.leased.length)];
        if (kind === 'put') await bench.put(pick % 7);
        else if (kind === 'puts') for (let i = 0; i < 300; i++) await bench.put((pick + i) % 7);
        else if (kind === 'late') for (let i = 0; i < 5; i++) await bench.put(pick % 7, true);
        else if (kind === 'tell') bench.tell();
        else if (kind === 'lease' || kind === 'leases') {
          for (let i = kind === 'lease' ? 1 : pick; i > 0; i--) {
            bench.tell();
            const [first] = bench.due();
            assert.equal(bench.lease()?.seq, first);
            if (first === undefined) break;
          }
        } else if (kind === 'release' && task) bench.release(task);
        else if (kind === 'retry' && task) await bench.retry(task, pick);
        else if (kind === 'finish' && task) await bench.finish(task);
        else if (kind === 'find') {
          const known = [...bench.model.values()][pick % Math.max(1, bench.model.size)];
          if (known) assert.equal(bench.queue.find(known)?.url, known.record.url);
        } else if (kind === 'time') bench.now += pick;
        else if (kind === 'restart') bench.restart();
        // Read ahead of the news: a refill may see rows that the queue was not told of.
        if (pick % 3 === 0) bench.queue.peek(bench.now);
      }
      bench.tell();
      bench.now += 10_000;
      while (bench.due().length > 0) {
        const task = bench.lease();
        assert.ok(task, 'nothing is lost');
        await bench.finish(task);
      }
      assert.equal(bench.lease(), undefined);
      assert.equal(bench.budget.count, bench.leased.length);
    }),
    { numRuns: 60 },
  );
});
