/** The effects of changed options, without a crawl. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { changeOf, wholePart, wholeSpec } from '../../master/frontier/crawl/spec-change.ts';
import { type CrawlSpec, type CrawlSpecInput, crawlSpecSchema } from '../../shared/crawl.ts';

const specOf = (spec: CrawlSpecInput): CrawlSpec => crawlSpecSchema.parse(spec);
const refuses = (run: () => unknown, message: RegExp) =>
  assert.throws(run, (error: Error & { code?: string }) => {
    assert.equal(error.code, 'E_BAD_REQUEST');
    assert.match(error.message, message);
    return true;
  });

test('spec-change: fields that are given take the place of those before, others stay', () => {
  const kept = specOf({ maxPages: 100, traps: { segments: 7 }, fetch: { timeoutMs: 9 } });
  const part = { maxPages: 200, traps: { length: 99 }, fetch: { redirectsMax: 1 } };
  const { spec, changed } = changeOf(kept, part);
  assert.deepEqual(
    spec,
    specOf({
      maxPages: 200,
      traps: { segments: 7, length: 99 },
      fetch: { timeoutMs: 9, redirectsMax: 1 },
    }),
  );
  assert.deepEqual(
    changed.map(({ field }) => field),
    ['maxPages', 'traps', 'fetch.redirectsMax'],
  );
  assert.deepEqual(changed[0], { field: 'maxPages', from: 100, to: 200 });
});

test('spec-change: null sets a field back to its default', () => {
  const kept = specOf({
    maxPages: 5,
    exclude: ['x'],
    fetch: { timeoutMs: 9, headers: [['A', 'b']] },
  });
  const part = {
    maxPages: null,
    exclude: null,
    traps: null,
    fetch: { timeoutMs: null, headers: null },
  };
  const { spec, changed } = changeOf(kept, part);
  assert.deepEqual(spec, specOf({}));
  assert.deepEqual(changed[0], { field: 'exclude', from: ['x'], to: [] });
  assert.deepEqual(
    changed.find(({ field }) => field === 'maxPages'),
    { field: 'maxPages', from: 5 },
  );
  assert.deepEqual(changeOf(specOf({}), part).changed, []);
});

test('spec-change: what is kept of an older version lacks fields, and that is no change', () => {
  const { crawlDelayMaxMs: _, ...older } = specOf({ maxPages: 5 });
  const { changed } = changeOf(older as CrawlSpec, { maxPages: 6 });
  assert.deepEqual(changed, [{ field: 'maxPages', from: 5, to: 6 }]);
});

test('spec-change: what cannot change says why, unless it is the same', () => {
  const kept = specOf({ order: 'dfs' });
  const fixed = [
    [{ order: 'bfs' }, /^--order cannot change: the URLs that wait/],
    [{ order: null }, /^--order/],
    [{ canonical: true }, /^--canonical cannot/],
    [{ urlsExpected: 7 }, /^--urls-expected cannot/],
    [{ fetch: { images: 'img' } }, /^--images cannot/],
    [{ fetch: { srcset: 'best' } }, /^--srcset cannot/],
    [{ fetch: { lazyAttributes: ['data-x'] } }, /^--lazy-attributes cannot/],
  ] as const;
  for (const [part, why] of fixed) {
    refuses(() => changeOf(kept, part), why);
    assert.equal(changeOf(kept, part, true).changed.length, 1, 'nothing was done by it');
  }
  assert.deepEqual(changeOf(kept, { order: 'dfs', canonical: false }).changed, []);
  refuses(() => changeOf(kept, { order: 'bfs', maxPages: 7 }), /--order/);
});

test('spec-change: a wrong field is named', () => {
  refuses(() => changeOf(specOf({}), { maxPages: 0 }), /^spec: maxPages /);
  refuses(() => changeOf(specOf({}), { fetch: { timeoutMs: 'x' } }), /^spec: fetch.timeoutMs /);
  refuses(() => changeOf(specOf({}), { galaxy: 1 }), /^spec: .*galaxy/);
  refuses(() => changeOf(specOf({}), { galaxy: null, fetch: null, traps: 7 }), /^spec: traps/);
  refuses(() => changeOf(specOf({}), { fetch: 7 }), /^spec: fetch/);
});

test('spec-change: secrets are not shown', () => {
  const { changed } = changeOf(specOf({}), {
    fetch: {
      headers: [['Authorization', 'Bearer s3cret']],
      cookies: [{ name: 'sid', value: 's3cret' }],
      proxies: ['http://me:s3cret@proxy.example:8080'],
    },
  });
  assert.doesNotMatch(JSON.stringify(changed), /s3cret/);
  assert.deepEqual(
    changed.map(({ field, to }) => [field, to]),
    [
      ['fetch.proxies', ['http://proxy.example:8080']],
      ['fetch.headers', ['Authorization']],
      ['fetch.cookies', ['sid']],
    ],
  );
});

const judged: readonly (readonly [
  CrawlSpecInput,
  Readonly<Record<string, unknown>>,
  readonly string[],
  boolean,
])[] = [
  [{}, { scope: 'domain' }, ['host'], false],
  [{ scope: 'any' }, { scope: 'domain' }, [], true],
  [{}, { maxDepth: 3 }, [], true],
  [{ maxDepth: 3 }, { maxDepth: 4 }, ['depth'], false],
  [{ maxDepth: 3 }, { maxDepth: null }, ['depth'], false],
  [{ exclude: ['a', 'b'] }, { exclude: ['a'] }, ['exclude'], false],
  [{ exclude: ['a'] }, { exclude: ['a', 'b'] }, [], true],
  [{ exclude: ['a'] }, { exclude: ['b'] }, ['exclude'], true],
  [{}, { include: ['a'] }, [], true],
  [{ include: ['a'] }, { include: ['a', 'b'] }, ['include'], false],
  [{ include: ['a'] }, { include: ['b'] }, ['include'], true],
  [{ include: ['a'] }, { include: null }, ['include'], false],
  [{}, { traps: { segments: 3 } }, [], true],
  [{}, { traps: { segments: 0, similar: 20_000 } }, ['segments', 'similar'], false],
  [{}, { traps: { queries: 3, session: 0 } }, ['session'], false],
  [{ traps: { length: 0 } }, { traps: { length: 100 } }, [], true],
  [{}, { sitemaps: 'none' }, [], true],
  [{}, { delayMs: 9, maxPages: 1, attemptsMax: 1, fetch: { timeoutMs: 9 } }, [], false],
];

for (const [before, part, wider, isNarrower] of judged) {
  const name = `${JSON.stringify(before)} and ${JSON.stringify(part)}`;
  test(`spec-change: ${name}: what is wider and narrower`, () => {
    const change = changeOf(specOf(before), part);
    assert.deepEqual([change.wider, change.isNarrower], [wider, isNarrower]);
  });
}

test('spec-change: a whole spec takes the place of another', () => {
  const kept = specOf({ maxPages: 3, delayMs: 9, order: 'dfs', fetch: { sitemapSinceMs: 7 } });
  const spec = specOf({ maxDepth: 2, fetch: { images: 'img' } });
  assert.deepEqual(changeOf(kept, wholePart(kept, spec), true).spec, spec);
  assert.deepEqual(changeOf(spec, wholePart(spec, spec), true).changed, []);
});

test('spec-change: outputs of a new crawl are named by themselves, those of a change go on', () => {
  const outputs = ['a', 'b'].map((name) => ({ kind: 'csv', target: `${name}.csv` }) as const);
  const base = wholeSpec(specOf({}), { outputs });
  const names = (part: Readonly<Record<string, unknown>>, isNew: boolean) =>
    wholeSpec(base, part, isNew).outputs?.map(({ name, target }) => `${name} ${target}`);
  const other = [{ kind: 'csv', target: 'c.csv' }, outputs[1]];
  assert.deepEqual(names({ outputs: other }, true), ['csv c.csv', 'csv-2 b.csv']);
  assert.deepEqual(names({ outputs: other }, false), ['csv-3 c.csv', 'csv-2 b.csv']);
  assert.deepEqual(names({}, true), ['csv a.csv', 'csv-2 b.csv']);
});
