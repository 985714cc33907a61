import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { Strangers } from '../../master/wire/strangers.ts';

test('strangers: who was refused goes first, then of those that most of an address are', () => {
  const strangers = new Strangers<string>();
  for (const peer of ['a1', 'a2', 'a3', 'b1', 'b2']) strangers.add(peer, peer.slice(0, 1));
  strangers.add('c1', 'c');
  strangers.refused('c1');
  strangers.refused('b2');
  strangers.proved('a3');
  const order: string[] = [];
  for (let peer = strangers.first(); peer !== undefined; peer = strangers.first()) {
    order.push(peer);
    strangers.delete(peer);
  }
  assert.deepEqual(order, ['c1', 'b2', 'a1', 'b1', 'a2', 'a3']);
  assert.equal(strangers.size, 0);
});

test('strangers: one of another address is never pushed out by those of an address with more', () => {
  const strangers = new Strangers<string>();
  strangers.add('honest', 'other');
  for (let i = 0; i < 100_000; i++) {
    strangers.add(`silent-${i}`, 'one');
    if (strangers.size > 2_000) strangers.delete(strangers.first() ?? '');
  }
  assert.ok(strangers.has('honest'));
  assert.ok(!strangers.has('silent-98000'));
  assert.ok(strangers.has('silent-98001'));
});

test('strangers: in any order of events the first is the one that the rule names', () => {
  const step = fc.record({
    peer: fc.integer({ min: 0, max: 11 }),
    what: fc.constantFrom('add', 'refused', 'proved', 'delete'),
  });
  type Known = { peer: string; address: string; state: string };
  fc.assert(
    fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
      const strangers = new Strangers<string>();
      let model: Known[] = [];
      for (const { peer: number, what } of steps) {
        const peer = `p${number}`;
        const address = `a${number % 3}`;
        const known = model.find((one) => one.peer === peer);
        if (what === 'add') {
          if (known !== undefined) continue;
          strangers.add(peer, address);
          model.push({ peer, address, state: 'unanswered' });
        } else if (what === 'delete') {
          strangers.delete(peer);
          model = model.filter((one) => one !== known);
        } else {
          strangers[what as 'refused' | 'proved'](peer);
          if (known === undefined || known.state === what) continue;
          // In the order in which they got there.
          model = [...model.filter((one) => one !== known), { ...known, state: what }];
        }
        const of = (state: string) => model.filter((one) => one.state === state);
        const counts = new Map<string, number>();
        for (const one of of('unanswered')) {
          counts.set(one.address, (counts.get(one.address) ?? 0) + 1);
        }
        const most = Math.max(0, ...counts.values());
        const first = strangers.first();
        assert.equal(strangers.size, model.length);
        const refused = of('refused')[0]?.peer;
        if (refused !== undefined) assert.equal(first, refused);
        else if (most > 0) {
          const oldest = of('unanswered').filter((one, at, all) => {
            const isFirst = all.findIndex((other) => other.address === one.address) === at;
            return isFirst && counts.get(one.address) === most;
          });
          assert.ok(oldest.some((one) => one.peer === first));
        } else assert.equal(first, of('proved')[0]?.peer);
      }
    }),
  );
});
