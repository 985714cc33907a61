/** Rates of crawls over the last minute, and when they will have ended. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Rates } from '../../master/machine/rates.ts';

/** A crawl whose numbers a test sets, and a clock. */
class Rig {
  now = 0;
  readonly rates = new Rates(() => this.now);
  readonly crawl = {
    id: 1,
    isOpen: true,
    isRunning: true,
    spec: {} as { maxPages?: number },
    slowestHostMs: 0,
    counters: { pages: 0, others: 0, failed: 0, excluded: 0, bytes: 0, waiting: 100 },
  };

  /** Seconds in which so much happens each. */
  pass(seconds: number, each: Partial<Rig['crawl']['counters']>): void {
    for (let i = 0; i < seconds; i++) {
      this.rates.counted([this.crawl]);
      this.now += 1_000;
      for (const [name, by] of Object.entries(each)) {
        this.crawl.counters[name as 'pages'] += by;
      }
    }
  }

  get found() {
    return this.rates.of(this.crawl);
  }
}

test('rates: nothing is said of the first second', () => {
  const rig = new Rig();
  assert.equal(rig.found, undefined);
  rig.rates.counted([rig.crawl]);
  rig.now += 999;
  assert.equal(rig.found, undefined);
});

test('rates: they are those of the last minute, not of the whole crawl', () => {
  const rig = new Rig();
  rig.crawl.counters.waiting = 10_000;
  rig.pass(300, { pages: 10, bytes: 1_000, waiting: -10 });
  assert.deepEqual(rig.found, { pagesPerS: 10, bytesPerS: 1_000, etaMs: 700_000 });
  rig.pass(70, { pages: 1, bytes: 100, waiting: -1 });
  assert.equal(rig.found?.pagesPerS, 1);
});

test('rates: a queue that grows has no end, unless there is a page limit', () => {
  const rig = new Rig();
  rig.pass(60, { pages: 10, waiting: 50 });
  assert.deepEqual(rig.found, { pagesPerS: 10, bytesPerS: 0 });
  rig.crawl.spec.maxPages = 1_000;
  assert.equal(rig.found?.etaMs, 40_000);
});

test('rates: the page limit ends a crawl earlier than its queue, not later', () => {
  const rig = new Rig();
  rig.crawl.counters.waiting = 1_000;
  rig.pass(60, { pages: 5, failed: 5, waiting: -10 });
  assert.equal(rig.found?.etaMs, 40_000);
  rig.crawl.spec.maxPages = 310;
  assert.equal(rig.found?.etaMs, 2_000);
  rig.crawl.spec.maxPages = 1_000_000;
  assert.equal(rig.found?.etaMs, 40_000);
});

test('rates: the slowest host ends the crawl, however fast the others are', () => {
  const rig = new Rig();
  rig.crawl.counters.waiting = 10_000;
  rig.pass(60, { pages: 100, waiting: -100 });
  rig.crawl.slowestHostMs = 3_000_000;
  assert.equal(rig.found?.etaMs, 3_000_000);
});

test('rates: a crawl that does not run has no end, and one that ended is forgotten', () => {
  const rig = new Rig();
  rig.pass(10, { pages: 1, waiting: -1 });
  rig.crawl.isRunning = false;
  assert.equal(rig.found?.etaMs, undefined);
  rig.crawl.isOpen = false;
  rig.rates.counted([rig.crawl]);
  assert.equal(rig.found, undefined);
});
