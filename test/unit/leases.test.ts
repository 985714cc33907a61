import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { type Lease, Leases } from '../../master/frontier/dispatch/leases.ts';
import { Group, Host } from '../../master/frontier/politeness/host.ts';
import { TaskRows } from '../../master/frontier/tasks/task-rows.ts';
import { TaskQueue } from '../../master/frontier/tasks/tasks.ts';
import { MemoryStore } from '../../master/store/memory.ts';
import { pageKind } from '../../master/store/records.ts';
import { FakeSlave } from '../support/fake-slave.ts';

const group = new Group('http://a', Buffer.alloc(8), 0);
const host = new Host('http://a', Buffer.alloc(8), group, () => undefined);
const rows = new TaskRows(new MemoryStore());
const queue = new TaskQueue({ crawl: 1, host: host.hash, rows, empty: true });
const name = Buffer.alloc(0);
const terms = { room: { kind: 'slot', line: 'free' }, lifeMs: 1_000_000 } as const;
let lastSeq = 0;

function makeTask() {
  const seq = ++lastSeq;
  const url = `http://a/${seq}`;
  queue.add(
    { rank: 0, seq },
    { kind: pageKind, level: 0, url, depth: 0, priority: 0, attempts: 0, notBefore: 0 },
  );
  const task = queue.peek(0);
  assert.ok(task);
  queue.lease(task);
  return task;
}

test('lease: is held by its holder alone, until it ends', () => {
  const leases = new Leases(100, 1000);
  const [one, other] = [new FakeSlave('one'), new FakeSlave('other')];
  const lease = leases.give({ ...terms, task: makeTask(), name, host, holder: one }, 0);
  assert.equal(leases.held({ id: lease.id, holder: one }), lease);
  assert.equal(leases.held({ id: lease.id, holder: other }), undefined);
  assert.equal(leases.held({ id: lease.id + 1, holder: one }), undefined);
  assert.deepEqual([...one.leases], [lease]);
  leases.end(lease);
  leases.end(lease);
  assert.equal(leases.held({ id: lease.id, holder: one }), undefined);
  assert.equal(one.leases.size, 0);
  assert.equal(leases.count, 0);
});

test('lease: ids begin behind the first one and are never used twice', () => {
  const leases = new Leases(100, 5000);
  const slave = new FakeSlave('a');
  const ids = Array.from({ length: 10 }, () => {
    const lease = leases.give({ ...terms, task: makeTask(), name, host, holder: slave }, 0);
    leases.end(lease);
    return lease.id;
  });
  assert.deepEqual(ids, [...new Set(ids)]);
  assert.ok(ids.every((id) => id > 5000));
});

test('lease: expires at its deadline, later when it was extended', () => {
  const leases = new Leases(100, 0);
  const slave = new FakeSlave('a');
  const first = leases.give({ ...terms, task: makeTask(), name, host, holder: slave }, 0);
  const second = leases.give({ ...terms, task: makeTask(), name, host, holder: slave }, 10);
  assert.equal(leases.expired(99), undefined);
  leases.extend(first, 50);
  assert.equal(leases.expired(110), second);
  assert.equal(leases.expired(150), second);
  leases.end(second);
  assert.equal(leases.expired(149), undefined);
  assert.equal(leases.expired(150), first);
});

test('lease: the lease of a task is found whoever holds it', () => {
  const leases = new Leases(100, 0);
  const task = makeTask();
  const lease = leases.give({ ...terms, task, name, host, holder: new FakeSlave('a') }, 0);
  assert.equal(leases.of(task), lease);
  assert.equal(leases.of(makeTask()), undefined);
});

test('lease: random histories agree with a plain list', () => {
  const step = fc.record({
    kind: fc.constantFrom('give', 'extend', 'end', 'expire'),
    pick: fc.nat(),
    elapse: fc.nat(60),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const leases = new Leases(100, 0);
      const slaves = [new FakeSlave('a'), new FakeSlave('b')];
      let model: Lease[] = [];
      let now = 0;
      for (const { kind, pick, elapse } of steps) {
        now += elapse;
        const lease = model[pick % Math.max(1, model.length)];
        const slave = slaves[pick % 2];
        if (kind === 'give' && slave)
          model.push(leases.give({ ...terms, task: makeTask(), name, host, holder: slave }, now));
        else if (kind === 'extend' && lease) leases.extend(lease, now);
        else if (kind === 'end' && lease) {
          leases.end(lease);
          model = model.filter((other) => other !== lease);
        }
        const ends = model.map(({ deadline, endsBy }) => Math.min(deadline, endsBy));
        const first = leases.expired(now);
        assert.equal(first !== undefined, Math.min(...ends) <= now);
        if (first !== undefined) assert.equal(ends[model.indexOf(first)], Math.min(...ends));
        assert.equal(leases.count, model.length);
        for (const each of slaves) {
          const own = model.filter(({ holder }) => holder === each);
          assert.deepEqual(each.leases, new Set(own));
        }
      }
    }),
    { numRuns: 50 },
  );
});
