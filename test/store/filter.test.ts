import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import fc from 'fast-check';
import { Filter } from '../../master/frontier/filter/filter.ts';
import { RecentTable } from '../../master/frontier/filter/recent.ts';
import { WaitingRoom } from '../../master/frontier/filter/waiting-room.ts';
import { MemoryStore } from '../../master/store/memory.ts';
import { randomWords } from '../support/random.ts';

const crawl = 7;

/** A filter with its store and file, as a crawl uses it. */
class Bench {
  readonly store = new MemoryStore();
  readonly folder = mkdtempSync(join(tmpdir(), 'orbweaver-filter-'));
  readonly path = join(this.folder, 'bloom-7');
  /** Keys that become a run. */
  freezeKeys = 256;
  seen = 0;
  commit = 0;
  bloomBytesLeft = 1 << 30;
  filter = this.open();

  open(): Filter {
    const filter = new Filter({
      crawl,
      store: this.store,
      recent: new RecentTable(16),
      room: new WaitingRoom(this.freezeKeys),
      urlsExpected: 1024,
      path: this.path,
      bloomBytesLeft: () => this.bloomBytesLeft,
      seenCount: () => this.seen,
    });
    filter.wake();
    return filter;
  }

  /** Admits these and commits them. */
  async admit(words: Uint32Array): Promise<void> {
    const done = this.gather(words);
    await this.store.commit(done.changes);
    this.seen += words.length / 4;
    done.unpend();
  }

  gather(words: Uint32Array) {
    for (let at = 0; at < words.length; at += 4) this.filter.admit(words, at);
    const changes = this.filter.changes(++this.commit);
    return { changes, unpend: this.filter.seal() };
  }

  async save(): Promise<void> {
    await this.store.commit(await this.filter.save(this.commit));
  }

  /** How many of these are known. */
  known(words: Uint32Array): number {
    let count = 0;
    for (let at = 0; at < words.length; at += 4) if (this.filter.knows(words, at)) count++;
    return count;
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true });
  }
}

function filterTest(name: string, run: (bench: Bench) => Promise<void>): void {
  test(`filter: ${name}`, async () => {
    const bench = new Bench();
    try {
      await run(bench);
    } finally {
      bench[Symbol.dispose]();
    }
  });
}

filterTest('is exact, however often the Bloom filter errs', async (bench) => {
  const mine = randomWords(30_000, 1);
  const others = randomWords(30_000, 2);
  await bench.admit(mine);
  assert.equal(bench.known(mine), 30_000);
  assert.equal(bench.known(others), 0);
});

filterTest('knows what is being committed, and what is being gathered', async (bench) => {
  const [one, two, three] = [1, 2, 3].map((seed) => randomWords(100, seed));
  assert.ok(one && two && three);
  const first = bench.gather(one);
  const second = bench.gather(two);
  for (let at = 0; at < three.length; at += 4) bench.filter.admit(three, at);
  assert.equal(bench.known(one) + bench.known(two) + bench.known(three), 300);
  await bench.store.commit(first.changes);
  first.unpend();
  assert.equal(bench.known(one) + bench.known(two) + bench.known(three), 300);
  await bench.store.commit(second.changes);
  second.unpend();
  second.unpend();
  assert.equal(bench.known(one) + bench.known(two) + bench.known(three), 300);
});

filterTest('knows what was settled, until it is forgotten', async (bench) => {
  const words = randomWords(1, 1);
  bench.filter.settle(words, 0);
  assert.equal(bench.known(words), 1);
});

filterTest('puts one row of what is new', async (bench) => {
  const { changes } = bench.gather(randomWords(50, 1));
  assert.deepEqual(
    changes.map(({ table, value }) => [table, value?.length]),
    [['recent', 50 * 16]],
  );
  assert.deepEqual(bench.filter.changes(9), []);
});

const batches = Array.from({ length: 6 }, (_, i) => randomWords(700, i + 1));
const all = (bench: Bench) => batches.reduce((sum, words) => sum + bench.known(words), 0);

filterTest('comes back from its file and the rows since', async (bench) => {
  for (const [i, words] of batches.entries()) {
    await bench.admit(words);
    if (i % 2 === 0) await bench.save();
    bench.filter = bench.open();
    assert.equal(all(bench), 700 * (i + 1), `after ${i}`);
    assert.equal(bench.known(randomWords(2000, 99)), 0);
  }
});

filterTest('a file from before is worth nothing, whatever it counts', async (bench) => {
  const [first, second, third] = batches;
  assert.ok(first && second && third);
  await bench.admit(first);
  // Admitted, saved, and lost with a crash before it was committed: the file counts them.
  bench.gather(randomWords(5_000, 50));
  await bench.save();
  copyFileSync(bench.path, `${bench.path}.old`);
  await bench.admit(second);
  await bench.save();
  copyFileSync(`${bench.path}.old`, bench.path);
  bench.filter = bench.open();
  assert.equal(all(bench), 1400);
});

const damages: Record<string, (path: string) => void> = {
  missing: (path) => rmSync(path),
  empty: (path) => writeFileSync(path, ''),
  short: (path) => writeFileSync(path, 'short'),
  'cut in the middle': (path) => writeFileSync(path, readFileSync(path).subarray(0, 1000)),
  'cut by a byte': (path) => writeFileSync(path, readFileSync(path).subarray(0, -1)),
  longer: (path) => writeFileSync(path, Buffer.concat([readFileSync(path), Buffer.alloc(32)])),
  'wrong by a bit': (path) => {
    const bytes = readFileSync(path);
    bytes[700] = (bytes[700] ?? 0) ^ 4;
    writeFileSync(path, bytes);
  },
  zeros: (path) => writeFileSync(path, Buffer.alloc(4096)),
};

for (const [damage, harm] of Object.entries(damages)) {
  filterTest(`a saved filter that is ${damage} is built anew`, async (bench) => {
    for (const words of batches) await bench.admit(words);
    await bench.save();
    harm(bench.path);
    bench.filter = bench.open();
    assert.equal(all(bench), 700 * batches.length);
    assert.equal(bench.known(randomWords(2000, 99)), 0);
  });
}

filterTest('two saves at once end well', async (bench) => {
  for (const words of batches) await bench.admit(words);
  await Promise.all([bench.save(), bench.save()]);
  bench.filter = bench.open();
  assert.equal(all(bench), 700 * batches.length);
});

filterTest('what is admitted while it is saved is there after a crash', async (bench) => {
  const [first, second, third] = batches;
  assert.ok(first && second && third);
  await bench.admit(first);
  const saving = bench.save();
  await bench.admit(second);
  await saving;
  await bench.admit(third);
  bench.filter = bench.open();
  assert.equal(all(bench), 2100);
});

test('filter: random histories with restarts and damage never call a known one new', async () => {
  const step = fc.constantFrom('admit', 'admit', 'lost', 'save', 'crash', 'remove', 'old', 'keep');
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      const bench = new Bench();
      try {
        const admitted: Uint32Array[] = [];
        for (const [i, kind] of steps.entries()) {
          const words = randomWords(40, i);
          if (kind === 'admit') {
            await bench.admit(words);
            admitted.push(words);
          } else if (kind === 'save') await bench.save();
          else if (kind === 'keep') {
            await bench.save();
            copyFileSync(bench.path, `${bench.path}.old`);
          } else {
            if (kind === 'lost') {
              bench.gather(words);
              bench.commit--; // its number is given again
            }
            if (kind === 'remove') rmSync(bench.path, { force: true });
            if (kind === 'old') {
              try {
                copyFileSync(`${bench.path}.old`, bench.path);
              } catch {} // none yet
            }
            bench.filter = bench.open();
          }
          for (const known of admitted) assert.equal(bench.known(known), 40, kind);
          assert.equal(bench.known(randomWords(50, 1000 + i)), 0);
        }
      } finally {
        bench[Symbol.dispose]();
      }
    }),
    { numRuns: 40 },
  );
});

filterTest('a Bloom filter beyond its budget costs reads, and nothing else', async (bench) => {
  bench.bloomBytesLeft = 0;
  const words = randomWords(100_000, 21);
  for (let at = 0; at < words.length; at += 40_000) {
    await bench.admit(words.slice(at, at + 40_000));
  }
  // 100,000 keys want 120 KB.
  assert.ok(bench.filter.bloomBytes < 72 << 10, `${bench.filter.bloomBytes} bytes`);
  assert.equal(bench.known(words), 100_000);
  assert.equal(bench.known(randomWords(10_000, 22)), 0);
  await bench.save();
  bench.filter = bench.open();
  assert.equal(bench.known(words), 100_000, 'over a restart, too');
  assert.equal(bench.known(randomWords(10_000, 22)), 0);
});
