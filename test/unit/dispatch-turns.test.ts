/** Reads and leases in a turn of the event loop, from a store that answers slowly. */
import assert from 'node:assert/strict';
import { mock } from 'node:test';
import type { Lease } from '../../master/frontier/dispatch/leases.ts';
import { FakeSlave } from '../support/fake-slave.ts';
import { worldTest } from '../support/world.ts';

worldTest(
  'with a slow disk a turn reads in a few hosts, and hands out a few tasks',
  async (world) => {
    const urls = Array.from({ length: 60 }, (_, i) => `http://host-${i}.example/`);
    await world.seed(urls, { delayMs: 0 });
    // After a start all tasks are in the store alone.
    world.crash();
    world.slowDown(5);
    const slave = new FakeSlave('slave', urls.length);
    const handedOut: number[] = [];
    mock.method(slave, 'push', (leases: readonly Lease[]) => handedOut.push(leases.length));
    const { queues } = world.rooms.crawls;
    const readIn: number[] = [];
    while (queues.hasParked && readIn.length < 2 * urls.length) {
      const before = queues.count;
      world.rooms.dispatcher.dispatchSoon();
      await world.settle(1);
      readIn.push(queues.count - before);
    }
    assert.equal(queues.count, urls.length);
    assert.ok(Math.max(...readIn) <= 2, `read in: ${readIn}`);
    world.frontier.give(slave);
    await world.settle(urls.length);
    assert.equal(slave.leases.size, urls.length);
    assert.ok(Math.max(...handedOut) <= 2, `handed out: ${handedOut}`);
  },
);

worldTest(
  'with a slow disk a second counts a few rows of what an earlier master left',
  async (world) => {
    const slave = world.slave('slave', 1);
    await world.seed('http://a.example/', { delayMs: 0 });
    const links = Array.from({ length: 3_000 }, (_, i) => `http://a.example/${i}`);
    await world.page(slave, 'http://a.example/', { links });
    world.crash();
    world.rooms.dispatcher.dispatchSoon();
    await world.settle();
    const [place] = world.crawl()?.queues.values() ?? [];
    assert.ok(place);
    world.slowDown(5);
    const counts: number[] = [];
    while (!place.queue.isCounted && counts.length < 100) {
      const before = place.queue.waiting;
      world.rooms.crawls.queues.countWaiting();
      counts.push(place.queue.waiting - before);
    }
    assert.equal(place.queue.waiting, links.length);
    assert.ok(Math.max(...counts) <= 1_024, `at once: ${counts}`);
  },
);
