/** The failed URLs of a crawl: from its store, its files, and the results between the two. */
import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Failures } from '../../master/inspect/failures.ts';
import { firstSpot, searchLines } from '../../master/inspect/line-search.ts';
import { lineOf } from '../../master/sinks/result-lines.ts';
import { MemoryStore } from '../../master/store/memory.ts';
import {
  commitKey,
  cursorKey,
  encodeBuried,
  encodeCursor,
  fingerprintKey,
} from '../../master/store/records.ts';
import { ResultRow, sectionsOf } from '../../master/store/result-rows.ts';
import type { FailedUrl } from '../../shared/protocol.ts';

const crawl = { id: 3, name: 'default' };

/** A crawl of which the tests say what is in its store, and what in its file. */
class Rig {
  readonly folder: string;
  readonly store = new MemoryStore();
  readonly failures = new Failures({ store: this.store, folderOf: (name) => this.of(name) });
  #bytes = 0;
  #commit = 0;
  #record = 1;
  #written = 0;

  constructor(t: TestContext) {
    this.folder = mkdtempSync(join(tmpdir(), 'orb-failures-'));
    t.after(() => rmSync(this.folder, { recursive: true, force: true }));
    mkdirSync(this.of(crawl.name));
  }

  of(name: string): string {
    return join(this.folder, name);
  }

  get file(): string {
    return join(this.of(crawl.name), 'pages.jsonl');
  }

  async bury(i: number): Promise<void> {
    const words = new Uint32Array([i, 0, 0, 0]);
    const error = { kind: 'dns', message: 'host not found' } as const;
    const value = encodeBuried({ url: url(i), depth: 0, priority: 0, attempts: 4, ...error });
    await this.store.commit([{ table: 'buried', key: fingerprintKey(crawl.id, words, 0), value }]);
    await this.report(rowOf((row) => row.add('failed', { ...head(i), error })));
  }

  /** A row of waiting results. */
  async report(make: (row: ResultRow) => void): Promise<void> {
    const row = new ResultRow();
    make(row);
    const { bytes } = row.seal(this.#record);
    this.#record += row.count;
    const key = commitKey(crawl.id, ++this.#commit);
    await this.store.commit([{ table: 'results', key, value: bytes }]);
  }

  /** Stands in for the sink: the waiting rows become lines. */
  async write(): Promise<void> {
    for (let commit = this.#written + 1; commit <= this.#commit; commit++) {
      const key = commitKey(crawl.id, commit);
      const lines = sectionsOf(this.store.get('results', key) ?? Buffer.alloc(0)).map(lineOf);
      appendFileSync(this.file, lines.join(''));
      this.#bytes += Buffer.byteLength(lines.join(''));
      await this.store.commit([{ table: 'results', key, value: undefined }]);
    }
    this.#written = this.#commit;
    const mark = { pages: this.#bytes, images: 0, skipped: 0 };
    const value = encodeCursor({ commit: this.#commit, mark });
    await this.store.commit([{ table: 'meta', key: cursorKey(crawl.id, 'files'), value }]);
  }

  /** All pages; `between` is called after each. */
  async all(limit: number, between: () => void | Promise<void> = () => {}): Promise<FailedUrl[]> {
    const urls: FailedUrl[] = [];
    let after: Uint8Array | undefined;
    do {
      const page = await this.failures.page(crawl, { after, limit });
      assert.ok(page.urls.length <= limit);
      urls.push(...page.urls);
      after = page.next;
      await between();
    } while (after !== undefined);
    return urls;
  }
}

const url = (i: number) => `http://site.example/${i}`;
const head = (i: number) => ({ url: url(i), depth: 1, at: 0, task: i });
const rowOf = (make: (row: ResultRow) => void) => make;

/** A page, and a 404, whose number is even. */
function found(i: number): (row: ResultRow) => void {
  return (row) => {
    const result = { finalUrl: url(i), status: 404, bytes: 0, ms: 1 };
    const error = { kind: 'status', message: '404 Not Found' } as const;
    row.add('failed', { ...head(i), attempts: 1 }, { result: { ...result, error } });
    // A title that looks like a failure.
    const title = ',"error":{"kind":"dns","message":"no","attempts":1}';
    const page = { ...result, finalUrl: url(i + 1), status: 200, type: 'text/html', title };
    row.add('page', { ...head(i + 1), links: 0 }, { result: page, images: [] });
  };
}

const namesOf = (urls: readonly FailedUrl[]) => urls.map((one) => one.url).sort();

test('failures: every failed URL comes once, whatever a page holds', async (t) => {
  const rig = new Rig(t);
  for (let i = 0; i < 10; i++) await rig.bury(i);
  for (let i = 10; i < 50; i += 2) await rig.report(found(i));
  await rig.write();
  for (let i = 50; i < 70; i += 2) await rig.report(found(i));
  const expected = Array.from({ length: 70 }, (_, i) => i).filter((i) => i < 10 || i % 2 === 0);
  for (const limit of [1, 3, 7, 1_000]) {
    assert.deepEqual(namesOf(await rig.all(limit)), expected.map(url).sort(), `${limit}`);
  }
  const [first] = await rig.all(10);
  assert.deepEqual(first, { url: url(0), kind: 'dns', message: 'host not found', attempts: 4 });
  assert.deepEqual((await rig.all(10)).at(-1), {
    url: url(68),
    kind: 'status',
    message: '404 Not Found',
    attempts: 1,
    status: 404,
  });
});

test('failures: results that are written between two pages come once', async (t) => {
  for (const limit of [1, 2, 5]) {
    for (let writtenAfter = 0; writtenAfter < 12; writtenAfter++) {
      const rig = new Rig(t);
      for (let i = 0; i < 8; i += 2) await rig.report(found(i));
      await rig.write();
      for (let i = 8; i < 20; i += 2) await rig.report(found(i));
      let pages = 0;
      const urls = await rig.all(limit, () => (pages++ === writtenAfter ? rig.write() : undefined));
      const expected = Array.from({ length: 10 }, (_, i) => url(i * 2));
      assert.deepEqual(namesOf(urls), expected.sort(), `${limit}, ${writtenAfter}`);
    }
  }
});

test('failures: a URL that was put back is not listed, though it has a line', async (t) => {
  const rig = new Rig(t);
  await rig.bury(1);
  await rig.bury(2);
  await rig.write();
  const key = fingerprintKey(crawl.id, new Uint32Array([1, 0, 0, 0]), 0);
  await rig.store.commit([{ table: 'buried', key, value: undefined }]);
  assert.deepEqual(namesOf(await rig.all(10)), [url(2)]);
});

test('failures: bytes behind the recorded end are not read, and a lost file is said', async (t) => {
  const rig = new Rig(t);
  await rig.bury(1);
  await rig.report(found(2));
  await rig.write();
  const torn = '{"url":"http://x.example/","finalUrl":"u","error":{"kind":"dns","message":"m"}}\n';
  appendFileSync(rig.file, torn);
  assert.deepEqual(namesOf(await rig.all(10)), [url(1), url(2)]);
  renameSync(rig.file, `${rig.file}.away`);
  const page = await rig.failures.page(crawl, { limit: 1_000 });
  const last = await rig.failures.page(crawl, { limit: 1_000, after: page.next });
  assert.deepEqual([namesOf(page.urls), last.urls, last.missing], [[url(1)], [], true]);
});

test('failures: files that were rotated count, also when that happens between two pages', async (t) => {
  const rig = new Rig(t);
  for (let i = 0; i < 10; i += 2) await rig.report(found(i));
  await rig.write();
  let pages = 0;
  const urls = await rig.all(2, () => {
    if (pages++ !== 1) return;
    renameSync(rig.file, join(rig.of(crawl.name), 'pages-20261122T180000Z.jsonl'));
    writeFileSync(rig.file, '');
  });
  assert.deepEqual(namesOf(urls), [0, 2, 4, 6, 8].map(url));
});

test('failures: without a store, the lines of the files are listed', async (t) => {
  const rig = new Rig(t);
  await rig.bury(1);
  await rig.report(found(2));
  await rig.write();
  const folderOf = (name: string) => rig.of(name);
  const failures = new Failures({ store: undefined, folderOf });
  const { urls, next } = await failures.page(crawl, { limit: 10 });
  assert.deepEqual([namesOf(urls), next], [[url(1), url(2)], undefined]);
});

test('failures: of a cancelled crawl, whose rows are erased, the lines are listed', async (t) => {
  const rig = new Rig(t);
  for (const i of [1, 2]) await rig.bury(i);
  await rig.report(found(4));
  await rig.write();
  const key = fingerprintKey(crawl.id, new Uint32Array([1, 0, 0, 0]), 0);
  await rig.store.commit([{ table: 'buried', key, value: undefined }]);
  const { urls } = await rig.failures.page({ ...crawl, state: 'cancelled' }, { limit: 10 });
  assert.deepEqual(namesOf(urls), [1, 2, 4].map(url));
});

test('line search: lines longer than a block are found, and a search goes on in pieces', async (t) => {
  const rig = new Rig(t);
  const long = 'x'.repeat(3 << 20);
  const lines = ['a needle', long, `needle ${long}`, 'nothing', 'needle at the end'];
  writeFileSync(rig.file, `${lines.join('\n')}\nneedle without an end`);
  const texts: string[] = [];
  let from = firstSpot;
  for (let isEnd = false; !isEnd; ) {
    const wanted = { needle: 'needle', from, bytesMax: 100, linesMax: 1 };
    const found = await searchLines(rig.of(crawl.name), wanted);
    texts.push(...found.lines.map(({ text }) => text));
    ({ next: from, isEnd } = found);
  }
  assert.deepEqual(
    texts,
    [0, 2, 4].map((i) => lines[i]),
  );
});
