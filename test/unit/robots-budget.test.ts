import assert from 'node:assert/strict';
import test from 'node:test';
import { RobotsBudget } from '../../master/frontier/robots/budget.ts';
import { RobotsGate } from '../../master/frontier/robots/gate.ts';

const record = { access: 'rules', askAt: 1e12, failures: 0, failingSince: 0 } as const;

/** Gates of hosts with a file of so many bytes each, and how often each of them was read. */
function gatesOf(count: number, fileBytes: number, budget: RobotsBudget) {
  const reads = new Array<number>(count).fill(0);
  const head = 'User-agent: *\nDisallow: /private/\n';
  const file = Buffer.from(head + '#'.repeat(fileBytes - head.length));
  const gates = reads.map((_, i) => {
    const load = () => {
      reads[i] = (reads[i] ?? 0) + 1;
      return file;
    };
    const gate = new RobotsGate(`http://h${i}.test`, Buffer.alloc(8, i), load, budget);
    gate.learn(record);
    return gate;
  });
  return { gates, reads };
}

function verdict(gate: RobotsGate, i: number): unknown {
  const allowed = gate.access('orbweaver', `http://h${i}.test/public`);
  const forbidden = gate.access('orbweaver', `http://h${i}.test/private/x`);
  return [allowed, forbidden];
}

test('robots budget: what was asked least lately is parsed again, and says the same', () => {
  const budget = new RobotsBudget(10 * 6_000);
  const { gates, reads } = gatesOf(30, 1_000, budget);
  for (let round = 0; round < 3; round++) {
    for (const [i, gate] of gates.entries()) {
      assert.deepEqual(verdict(gate, i), ['fetch', 'excluded']);
      assert.deepEqual(verdict(gate, i), ['fetch', 'excluded']);
      // One that is asked all the time stays.
      const [first] = gates;
      if (first) verdict(first, 0);
      assert.ok(budget.bytes <= 10 * 6_000, `${budget.bytes} bytes`);
    }
  }
  assert.equal(reads[0], 1);
  assert.deepEqual(reads.slice(1), new Array(29).fill(3));
});

test('robots budget: one that is larger than all is kept while it is the last', () => {
  const budget = new RobotsBudget(10);
  const { gates, reads } = gatesOf(2, 1_000, budget);
  for (const i of [0, 0, 1, 1, 0]) {
    const gate = gates[i];
    if (gate) verdict(gate, i);
  }
  assert.deepEqual(reads, [2, 1]);
});

test('robots budget: a file that is learned anew, or forgotten, takes nothing', () => {
  const budget = new RobotsBudget(1e6);
  const { gates } = gatesOf(2, 1_000, budget);
  for (const [i, gate] of gates.entries()) verdict(gate, i);
  assert.equal(budget.bytes, 12_000);
  gates[0]?.learn(record);
  if (gates[1]) budget.leave(gates[1]);
  assert.equal(budget.bytes, 0);
});
