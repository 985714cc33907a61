import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { Heap } from '../../master/machine/heap.ts';

type Item = { heapIndex: number; order: number; readonly id: number };
const makeItem = (order: number, id: number): Item => ({ heapIndex: -1, order, id });
const makeHeap = () => new Heap<Item>((a, b) => a.order < b.order);

test('heap: gives its items in order', () => {
  fc.assert(
    fc.property(fc.array(fc.integer()), (orders) => {
      const heap = makeHeap();
      for (const [id, order] of orders.entries()) heap.set(makeItem(order, id));
      const popped: number[] = [];
      for (let item = heap.pop(); item; item = heap.pop()) popped.push(item.order);
      assert.deepEqual(
        popped,
        [...orders].sort((a, b) => a - b),
      );
      assert.equal(heap.size, 0);
    }),
  );
});

test('heap: random histories of set, move, remove and pop against a sorted list', () => {
  const step = fc.record({
    kind: fc.constantFrom('set', 'set', 'remove', 'pop'),
    id: fc.nat(30),
    order: fc.nat(20),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const heap = makeHeap();
      const items = Array.from({ length: 31 }, (_, id) => makeItem(0, id));
      const model = new Set<Item>();
      for (const { kind, id, order } of steps) {
        const item = items[id] ?? makeItem(0, id);
        if (kind === 'set') {
          item.order = order;
          heap.set(item);
          model.add(item);
        } else if (kind === 'remove') {
          heap.remove(item);
          model.delete(item);
        } else {
          const popped = heap.pop();
          assert.equal(popped?.order, leastOf(model));
          if (popped) model.delete(popped);
        }
        assert.equal(heap.size, model.size);
        assert.equal(heap.peek()?.order, leastOf(model));
        for (const each of items) assert.equal(each.heapIndex >= 0, model.has(each));
        assert.deepEqual(new Set(heap), model);
        const upTo = [...model].filter((each) => each.order <= order).length;
        assert.equal(
          heap.countFirst((each) => each.order <= order, 1_000),
          upTo,
        );
        assert.equal(
          heap.countFirst((each) => each.order <= order, 3),
          Math.min(upTo, 3),
        );
      }
    }),
  );
});

test('heap: what belongs to another heap is not taken out of this one', () => {
  const [here, there] = [makeHeap(), makeHeap()];
  const items = [1, 2, 3].map((order, id) => makeItem(order, id));
  const foreign = [1, 2].map((order, id) => makeItem(order, id + 10));
  for (const item of items) here.set(item);
  for (const item of foreign) there.set(item);
  for (const item of foreign) here.remove(item);
  assert.equal(here.size, 3);
  assert.equal(there.size, 2);
  assert.deepEqual([here.pop(), here.pop(), here.pop()], items);
  assert.deepEqual([there.pop(), there.pop()], foreign);
});

function leastOf(items: ReadonlySet<Item>): number | undefined {
  const orders = [...items].map(({ order }) => order);
  return orders.length === 0 ? undefined : Math.min(...orders);
}
