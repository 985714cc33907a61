import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { NewSources, Sources } from '../../master/frontier/commit/sources.ts';
import { MemoryStore } from '../../master/store/memory.ts';

/** A crawl, as far as its sources need one. */
class Numbers {
  readonly id: number;
  #next = 1;

  constructor(id: number) {
    this.id = id;
  }

  takeSource(): number {
    return this.#next++;
  }
}

const origin = (url: string) => ({ url, depth: 0, priority: 0 });
const found = (crawl: number, from: number | undefined) => ({ queue: { crawl }, from });

test('sources: each number has its URL, whatever the commits and the order of asking', async () => {
  const commits = fc.array(fc.array(fc.nat(70), { maxLength: 3 }), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(commits, fc.infiniteStream(fc.nat()), async (counts, picks) => {
      const store = new MemoryStore();
      const crawls = [new Numbers(1), new Numbers(2), new Numbers(3)];
      const expected: { crawl: number; number: number; url: string }[] = [];
      for (const commit of counts) {
        for (const [i, count] of commit.entries()) {
          const crawl = crawls[i];
          assert.ok(crawl);
          const sources = new NewSources(crawl);
          for (let n = 0; n < count; n++) {
            const url = `http://s${crawl.id}.example/${expected.length}`;
            const page = origin(url);
            const number = sources.numberOf(page);
            assert.equal(sources.numberOf(page), number);
            assert.equal(sources.numberOf(origin('')), undefined);
            assert.ok(number !== undefined);
            expected.push({ crawl: crawl.id, number, url });
          }
          await store.commit(sources.changes());
        }
      }
      const sources = new Sources(store);
      for (let i = 0; i < expected.length; i++) {
        const one = expected[(picks.next().value ?? 0) % expected.length];
        assert.ok(one);
        assert.equal(sources.urlOf(found(one.crawl, one.number)), one.url);
      }
      const last = expected.length + 1;
      for (const { id } of crawls) {
        assert.equal(sources.urlOf(found(id, last)), undefined);
        assert.equal(sources.urlOf(found(id, undefined)), undefined);
      }
      assert.equal(sources.urlOf(found(4, 1)), undefined);
    }),
    { numRuns: 100 },
  );
});

test('sources: a row that is lost takes no other for its own', async () => {
  const store = new MemoryStore();
  const crawl = new Numbers(1);
  for (const names of [['a', 'b'], ['c'], ['d', 'e']]) {
    const sources = new NewSources(crawl);
    for (const name of names) sources.numberOf(origin(`http://site.example/${name}`));
    const changes = sources.changes();
    if (names.length > 1) await store.commit(changes);
  }
  const sources = new Sources(store);
  assert.equal(sources.urlOf(found(1, 3)), undefined);
  assert.equal(sources.urlOf(found(1, 4)), 'http://site.example/d');
});
