import assert from 'node:assert/strict';
import test from 'node:test';
import { Farewells, queueOf } from '../../master/python/farewells.ts';

const address = '127.0.0.1';

/** Farewells at a time that the test sets, in ms. */
function farewellsAt(): { farewells: Farewells; clock: { now: number } } {
  const clock = { now: 0 };
  return { farewells: new Farewells(() => clock.now), clock };
}

function make(farewells: Farewells, queue: string, from = address): string {
  const ident = farewells.created(from, queue);
  farewells.incref(from, ident);
  farewells.decref(from, ident);
  return ident;
}

test('farewells: each proxy has an ident of its own, the first of a queue its name', () => {
  const { farewells } = farewellsAt();
  const idents = [1, 2, 3].map(() => farewells.created(address, 'jobs'));
  assert.equal(idents[0], 'jobs');
  assert.equal(new Set(idents).size, 3);
  assert.deepEqual(idents.map(queueOf), ['jobs', 'jobs', 'jobs']);
});

test('farewells: a client that died while it made a proxy takes no farewell of another', () => {
  for (const steps of ['create', 'create, incref'] as const) {
    const { farewells } = farewellsAt();
    const honest = make(farewells, 'jobs');
    const dead = farewells.created(address, 'jobs');
    if (steps !== 'create') farewells.incref(address, dead);
    farewells.decref(address, honest);
    assert.ok(farewells.take(address, honest, 'MainProcess', false), steps);
    assert.ok(!farewells.take(address, dead, 'MainProcess', false), steps);
  }
});

test('farewells: one is good for its own proxy alone, and once', () => {
  const { farewells, clock } = farewellsAt();
  const [one, other] = [make(farewells, 'jobs'), make(farewells, 'jobs')];
  farewells.decref(address, one);
  assert.ok(!farewells.take(address, other, 'MainProcess', false));
  assert.ok(farewells.take(address, one, 'MainProcess', false));
  assert.ok(!farewells.take(address, one, 'MainProcess', false));
  assert.ok(farewells.take(address, one, 'MainProcess', true), 'its threads end with it');
  farewells.decref(address, other);
  clock.now += 2_001;
  assert.ok(!farewells.take(address, other, 'MainProcess', false), 'too late');
});

test('farewells: forks of a process say one each', () => {
  const { farewells } = farewellsAt();
  const ident = make(farewells, 'jobs');
  for (const fork of ['Fork-1', 'Fork-2']) {
    farewells.incref(address, ident);
    farewells.decref(address, ident);
    assert.ok(farewells.take(address, ident, fork, false));
  }
});

test('farewells: a client that says only the name of a queue is counted by address', () => {
  const { farewells } = farewellsAt();
  for (let i = 0; i < 3; i++) {
    farewells.created(address, 'jobs');
    farewells.incref(address, 'jobs');
    farewells.decref(address, 'jobs');
  }
  assert.ok(!farewells.take(address, 'jobs', 'MainProcess', false));
  // One that dies before its incref takes no farewell.
  farewells.created(address, 'jobs');
  farewells.decref(address, 'jobs');
  assert.ok(!farewells.take('127.0.0.2', 'jobs', 'MainProcess', false));
  assert.ok(farewells.take(address, 'jobs', 'MainProcess', false));
});

test('farewells: proxies made in a row, or used together, are of one process', () => {
  const { farewells, clock } = farewellsAt();
  const [tasks, results] = [make(farewells, 'tasks'), make(farewells, 'results')];
  clock.now += 5_000;
  const other = make(farewells, 'tasks');
  assert.ok(farewells.areRelated(address, tasks, results));
  assert.ok(!farewells.areRelated(address, tasks, other));
  farewells.link(address, [other, results]);
  assert.ok(farewells.areRelated(address, tasks, other));
});

test('farewells: what is remembered is bounded', () => {
  const { farewells } = farewellsAt();
  const first = make(farewells, 'jobs');
  farewells.decref(address, first);
  for (let i = 0; i < 30_000; i++) make(farewells, `jobs${i % 7}`);
  assert.ok(!farewells.take(address, first, 'MainProcess', false));
});
