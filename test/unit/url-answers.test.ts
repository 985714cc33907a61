/** `why` while what it looks for moves: from the tasks to the results, to the files, and back. */
import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { UrlLook } from '../../master/frontier/look/url-look.ts';
import { UrlAnswers } from '../../master/inspect/url-answers.ts';
import { lineOf } from '../../master/sinks/result-lines.ts';
import { MemoryStore } from '../../master/store/memory.ts';
import {
  type CrawlRecord,
  commitKey,
  cursorKey,
  encodeBuried,
  encodeCursor,
  encodeTask,
} from '../../master/store/records.ts';
import { ResultRow, sectionsOf } from '../../master/store/result-rows.ts';
import type { Change } from '../../master/store/store.ts';
import { taskKey } from '../../master/store/task-keys.ts';
import type { UrlFate } from '../../shared/url-fate.ts';
import { specOf } from '../support/world.ts';

const asked = new URL('http://site.example/asked');
const record = {
  id: 1,
  name: 'default',
  state: 'running',
  spec: specOf({}),
  specVersion: 1,
  uid: new Uint8Array(16),
  secret: new Uint8Array(16).fill(3),
  startedAt: 0,
  nextSeq: 1,
  nextCommit: 1,
  nextRecord: 1,
  seenSum: [0, 0, 0, 0],
} as unknown as CrawlRecord;

/** A crawl of which the tests say where its one URL is. */
class Rig {
  readonly folder: string;
  readonly store = new MemoryStore();
  readonly look = new UrlLook(this.store);
  readonly crawl = this.look.crawlOf({ ...record, counters: { skipped: {}, seen: 0 } as never });
  readonly answers: UrlAnswers;
  #bytes = 0;
  #commit = 0;

  constructor(t: TestContext) {
    this.folder = mkdtempSync(join(tmpdir(), 'orb-why-'));
    mkdirSync(join(this.folder, 'default'));
    t.after(() => rmSync(this.folder, { recursive: true, force: true }));
    const folderOf = (name: string) => join(this.folder, name);
    this.answers = new UrlAnswers({ store: this.store, look: this.look, folderOf });
  }

  get file(): string {
    return join(this.folder, 'default/pages.jsonl');
  }

  get #key(): Buffer {
    const { from } = this.look.tasksOf(this.crawl, asked);
    return taskKey(1, from.subarray(4, 12), 5, 70_000);
  }

  /** The name was admitted, and many tasks of the host are before it. */
  async admit(others = 30_000): Promise<void> {
    const hash = this.#key.subarray(4, 12);
    const changes: Change[] = Array.from({ length: others }, (_, i) => {
      const value = encodeTask({ ...task, url: `http://site.example/${i}` });
      return { table: 'tasks', key: taskKey(1, hash, 1, i), value };
    });
    const seen = this.look.buriedKey(this.crawl, asked);
    changes.push({ table: 'recent', key: commitKey(1, 1), value: seen.subarray(4) });
    await this.store.commit(changes);
    await this.wait();
  }

  async wait(): Promise<void> {
    const value = encodeTask({ ...task, url: asked.href });
    const buried = this.look.buriedKey(this.crawl, asked);
    await this.store.commit([
      { table: 'tasks', key: this.#key, value },
      { table: 'buried', key: buried, value: undefined },
    ]);
  }

  /** Its task ends with a line: a 404, or given up. */
  async end(how: 'missing' | 'given up'): Promise<void> {
    const error = { kind: 'status', message: '404 Not Found' } as const;
    const result = { finalUrl: asked.href, status: 404, bytes: 0, ms: 1, error };
    const row = new ResultRow();
    const head = { url: asked.href, depth: 1, at: 0, task: 9 };
    if (how === 'missing') row.add('failed', { ...head, attempts: 1 }, { result });
    else row.add('failed', { ...head, error: { ...error, attempts: 4 } });
    const changes: Change[] = [
      { table: 'tasks', key: this.#key, value: undefined },
      { table: 'results', key: commitKey(1, ++this.#commit), value: row.seal(1).bytes },
    ];
    if (how === 'given up') {
      const key = this.look.buriedKey(this.crawl, asked);
      const value = encodeBuried({ ...task, url: asked.href, attempts: 4, ...error });
      changes.push({ table: 'buried', key, value });
    }
    await this.store.commit(changes);
  }

  /** Waiting rows become lines. */
  async write(before = ''): Promise<void> {
    const key = commitKey(1, this.#commit);
    const lines = sectionsOf(this.store.get('results', key) ?? Buffer.alloc(0)).map(lineOf);
    const text = before + lines.join('');
    appendFileSync(this.file, text);
    this.#bytes += Buffer.byteLength(text);
    const mark = { pages: this.#bytes, images: 0, skipped: 0 };
    await this.store.commit([
      { table: 'results', key, value: undefined },
      {
        table: 'meta',
        key: cursorKey(1, 'files'),
        value: encodeCursor({ commit: this.#commit, mark }),
      },
    ]);
  }

  /** Asks to the end; `between` is called before each further slice. */
  async ask(between: (slice: number) => void | Promise<void> = () => {}) {
    let slices = 1;
    let reply = await this.answers.slice(this.crawl, asked.href);
    for (; reply.next !== undefined; slices++) {
      await between(slices);
      reply = await this.answers.slice(this.crawl, asked.href, reply.next);
    }
    const [fate, ...others] = reply.fates;
    assert.ok(fate);
    assert.deepEqual(others, []);
    return { fate: fate satisfies UrlFate, slices };
  }
}

const task = { kind: 0, level: 0, depth: 1, priority: 0, attempts: 0, notBefore: 0, url: '' };
/** More than one slice of lines. */
const filler = `${JSON.stringify({ url: 'http://site.example/x', title: 'y'.repeat(900) })}\n`;

test('why: a task behind many others of its host is found, with its place', async (t) => {
  const rig = new Rig(t);
  await rig.admit();
  const { fate, slices } = await rig.ask();
  assert.deepEqual([fate.state, fate.before], ['waiting', 30_000]);
  assert.ok(slices > 1);
});

test('why: a URL that is done between two slices is done', async (t) => {
  for (const moves of ['result', 'line'] as const) {
    const rig = new Rig(t);
    await rig.admit();
    const { fate } = await rig.ask(async (slice) => {
      if (slice !== 1) return;
      await rig.end('missing');
      if (moves === 'line') await rig.write(filler.repeat(20_000));
    });
    assert.equal(fate.state, 'done', moves);
    assert.equal((JSON.parse(fate.line ?? '{}') as { url?: string }).url, asked.href);
  }
});

test('why: a URL that is given up, and put back, while it is looked for', async (t) => {
  const rig = new Rig(t);
  await rig.admit();
  const buried = await rig.ask(async (slice) => {
    if (slice === 1) await rig.end('given up');
  });
  assert.deepEqual([buried.fate.state, buried.fate.attempts], ['buried', 4]);
  await rig.write(filler.repeat(20_000));
  await rig.wait();
  assert.equal((await rig.ask()).fate.state, 'waiting');
  // It leaves as soon as the tasks were looked at, and comes back behind that.
  let isGone = false;
  const back = await rig.ask(async (slice) => {
    if (slice === 1) await rig.end('given up');
    if (slice === 3) await rig.wait();
    isGone ||= slice === 3;
  });
  assert.equal(back.fate.state, isGone ? 'waiting' : 'buried');
});

test('why: the file is rotated between two slices', async (t) => {
  const rig = new Rig(t);
  await rig.admit(0);
  await rig.end('missing');
  await rig.write(filler.repeat(20_000));
  const { fate, slices } = await rig.ask((slice) => {
    if (slice === 1) renameSync(rig.file, rig.file.replace('pages', 'pages-20261122T200000Z'));
  });
  assert.ok(slices > 1);
  assert.equal(fate.state, 'done');
});

test('why: a cursor of another crawl, or of nobody, is refused', async (t) => {
  const rig = new Rig(t);
  await rig.admit();
  const { next } = await rig.answers.slice(rig.crawl, asked.href);
  const other = rig.look.crawlOf({ ...record, id: 2, counters: { skipped: {}, seen: 0 } as never });
  const code = { code: 'E_BAD_REQUEST' };
  await assert.rejects(rig.answers.slice(other, asked.href, next), code);
  for (const after of [Buffer.alloc(0), Buffer.from([0x91, 1]), Buffer.alloc(9_000, 0x81)]) {
    await assert.rejects(rig.answers.slice(rig.crawl, asked.href, after), code);
  }
});
