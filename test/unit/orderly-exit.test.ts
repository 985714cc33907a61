import assert from 'node:assert/strict';
import test from 'node:test';
import { OrderlyExits, queueOf } from '../../master/python/orderly-exit.ts';

const address = '127.0.0.1';

/** Orderly exits at a time that the test sets, in ms. */
function exitsAt(): { exits: OrderlyExits; clock: { now: number } } {
  const clock = { now: 0 };
  return { exits: new OrderlyExits(() => clock.now), clock };
}

function make(exits: OrderlyExits, queue: string, from = address): string {
  const ident = exits.created(from, queue);
  exits.incref(from, ident);
  exits.decref(from, ident);
  return ident;
}

test('orderly exit: each proxy has an ident of its own, the first of a queue its name', () => {
  const { exits } = exitsAt();
  const idents = [1, 2, 3].map(() => exits.created(address, 'jobs'));
  assert.equal(idents[0], 'jobs');
  assert.equal(new Set(idents).size, 3);
  assert.deepEqual(idents.map(queueOf), ['jobs', 'jobs', 'jobs']);
});

test('orderly exit: a client that died while it made a proxy takes no exit of another', () => {
  for (const steps of ['create', 'create, incref'] as const) {
    const { exits } = exitsAt();
    const honest = make(exits, 'jobs');
    const dead = exits.created(address, 'jobs');
    if (steps !== 'create') exits.incref(address, dead);
    exits.decref(address, honest);
    assert.ok(exits.take(address, honest, 'MainProcess', false), steps);
    assert.ok(!exits.take(address, dead, 'MainProcess', false), steps);
  }
});

test('orderly exit: one is good for its own proxy alone, and once', () => {
  const { exits, clock } = exitsAt();
  const [one, other] = [make(exits, 'jobs'), make(exits, 'jobs')];
  exits.decref(address, one);
  assert.ok(!exits.take(address, other, 'MainProcess', false));
  assert.ok(exits.take(address, one, 'MainProcess', false));
  assert.ok(!exits.take(address, one, 'MainProcess', false));
  assert.ok(exits.take(address, one, 'MainProcess', true), 'its threads end with it');
  exits.decref(address, other);
  clock.now += 2_001;
  assert.ok(!exits.take(address, other, 'MainProcess', false), 'too late');
});

test('orderly exit: forks of a process say one each', () => {
  const { exits } = exitsAt();
  const ident = make(exits, 'jobs');
  for (const fork of ['Fork-1', 'Fork-2']) {
    exits.incref(address, ident);
    exits.decref(address, ident);
    assert.ok(exits.take(address, ident, fork, false));
  }
});

test('orderly exit: a client that says only the name of a queue is counted by address', () => {
  const { exits } = exitsAt();
  for (let i = 0; i < 3; i++) {
    exits.created(address, 'jobs');
    exits.incref(address, 'jobs');
    exits.decref(address, 'jobs');
  }
  assert.ok(!exits.take(address, 'jobs', 'MainProcess', false));
  // One that dies before its incref takes no exit.
  exits.created(address, 'jobs');
  exits.decref(address, 'jobs');
  assert.ok(!exits.take('127.0.0.2', 'jobs', 'MainProcess', false));
  assert.ok(exits.take(address, 'jobs', 'MainProcess', false));
});

test('orderly exit: proxies made in a row, or used together, are of one process', () => {
  const { exits, clock } = exitsAt();
  const [tasks, results] = [make(exits, 'tasks'), make(exits, 'results')];
  clock.now += 5_000;
  const other = make(exits, 'tasks');
  assert.ok(exits.areRelated(address, tasks, results));
  assert.ok(!exits.areRelated(address, tasks, other));
  exits.link(address, [other, results]);
  assert.ok(exits.areRelated(address, tasks, other));
});

test('orderly exit: proxies of clients that begin at the same time are not of one process', () => {
  for (const order of [
    'connect 1, connect 2, make 1, make 2, make 1, make 2',
    'connect 1, make 1, connect 2, make 2, make 1, make 2',
    'connect 1, make 1, make 1, connect 2, make 2, make 2',
    'connect 1, create 1, connect 2, end 1, make 2, make 1',
    'connect 1, connect 2, create 1, create 2, end 1, end 2, make 1, make 2',
  ]) {
    const { exits, clock } = exitsAt();
    const made: Record<string, string[]> = { 1: [], 2: [] };
    for (const step of order.split(', ')) {
      const [what = '', who = ''] = step.split(' ');
      clock.now += 5;
      const idents = made[who] ?? [];
      if (what === 'connect') exits.connected(address);
      else if (what === 'make') idents.push(make(exits, `q${idents.length}`));
      else if (what === 'create') idents.push(exits.created(address, 'q0'));
      else {
        exits.incref(address, idents[0] ?? '');
        exits.decref(address, idents[0] ?? '');
      }
    }
    for (const one of made['1'] ?? []) {
      for (const other of made['2'] ?? []) {
        assert.ok(!exits.areRelated(address, one, other), order);
      }
    }
  }
  const { exits } = exitsAt();
  exits.connected(address);
  const [tasks, results] = [make(exits, 'tasks'), make(exits, 'results')];
  assert.ok(exits.areRelated(address, tasks, results));
});

test('orderly exit: proxies from before a restart and new ones may have the same idents', () => {
  const { exits } = exitsAt();
  // A thread goes on with its old proxies, which have the names alone.
  exits.link(address, ['jobs', 'results']);
  const made = [make(exits, 'results'), make(exits, 'jobs')];
  assert.deepEqual(made, ['results', 'jobs']);
  assert.ok(exits.areRelated(address, 'jobs', 'results'));
});

test('orderly exit: a fork of the first client exits after another client has made a proxy', () => {
  const { exits } = exitsAt();
  const first = make(exits, 'jobs');
  make(exits, 'jobs');
  exits.incref(address, first);
  exits.decref(address, first);
  assert.ok(exits.take(address, first, 'SpawnProcess-1', false));
});

test('orderly exit: an ident is dropped when the last of its proxies is', () => {
  const { exits } = exitsAt();
  make(exits, 'jobs');
  const ident = make(exits, 'jobs');
  assert.ok(!exits.isDropped(address, ident));
  exits.incref(address, ident);
  exits.decref(address, ident);
  assert.ok(!exits.isDropped(address, ident), 'a fork has ended');
  exits.decref(address, ident);
  assert.ok(exits.isDropped(address, ident));
});

test('orderly exit: what is remembered is bounded', () => {
  const { exits } = exitsAt();
  const first = make(exits, 'jobs');
  exits.decref(address, first);
  for (let i = 0; i < 30_000; i++) make(exits, `jobs${i % 7}`);
  assert.ok(!exits.take(address, first, 'MainProcess', false));
});
