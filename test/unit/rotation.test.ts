import assert from 'node:assert/strict';
import {
  appendFileSync,
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { dateAfter, datedName, dateOf, isDated } from '../../master/sinks/dated-files.ts';
import { filesKind } from '../../master/sinks/files-kind.ts';
import type { Rotation } from '../../master/sinks/sink.ts';
import { ResultRow, sectionsOf } from '../../master/store/result-rows.ts';

const crawl = { name: 'default', uid: Buffer.alloc(16, 9) };
const live = { after: undefined, isOver: false, isExact: true };
const date = '20261122T215501Z';

/** The files of a crawl with a page and an image each; the sink is closed. */
async function written(t: TestContext) {
  const out = mkdtempSync(join(tmpdir(), 'orb-rotation-'));
  t.after(() => rmSync(out, { recursive: true, force: true }));
  const kind = filesKind(out);
  const rotation = kind.rotation as Rotation;
  const sink = await kind.open(crawl, undefined);
  const row = new ResultRow();
  row.add('other', { url: 'http://a.example/', depth: 0, at: 0 });
  row.addImage('http://a.example/a.png');
  const mark = await sink.write(sectionsOf(row.seal(1).bytes));
  await sink.close();
  const folder = join(out, crawl.name);
  const text = readFileSync(join(folder, 'pages.jsonl'), 'utf8');
  return { kind, rotation, mark, folder, path: join(folder, 'pages.jsonl'), text };
}

test('rotation: names of dates order as time does, and say which file they are of', () => {
  assert.equal(dateOf(Date.UTC(2026, 10, 22, 21, 55, 1, 999)), date);
  assert.equal(dateAfter('20261231T235959Z'), '20270101T000000Z');
  assert.equal(dateAfter('20280228T235959Z'), '20280229T000000Z');
  assert.equal(datedName('img_src.txt', date), `img_src-${date}.txt`);
  for (const [name, isOne] of [
    [`pages-${date}.jsonl`, true],
    [`pages-${date}-mine.jsonl`, true],
    [`pages-${date}.jsonl.gz`, false],
    ['pages-20261122.jsonl', false],
    [`skipped-${date}.jsonl`, false],
    ['pages.jsonl', false],
  ] as const) {
    assert.equal(isDated(name, 'pages.jsonl'), isOne, name);
  }
});

test('rotation: a date is later than the last one and than all that are taken', async (t) => {
  const { rotation, mark, folder } = await written(t);
  const after = dateOf(Date.now() + 3_600_000);
  assert.equal(await rotation.plan(crawl, mark, { ...live, after }), dateAfter(after));
  writeFileSync(join(folder, datedName('skipped.jsonl', dateAfter(after))), '');
  const next = dateAfter(dateAfter(after));
  assert.equal(await rotation.plan(crawl, mark, { ...live, after }), next);
});

test('rotation: called again after a crash, it does what is left', async (t) => {
  for (const crash of [[], ['pages.jsonl'], ['img_src.txt'], ['pages.jsonl', 'img_src.txt']]) {
    const { rotation, mark, folder } = await written(t);
    for (const name of crash) renameSync(join(folder, name), join(folder, datedName(name, date)));
    const closed = await rotation.close(crawl, mark, date);
    assert.deepEqual(
      closed.closed.map(({ file, as, lines }) => [file, as, lines]),
      [
        ['pages.jsonl', `pages-${date}.jsonl`, 1],
        ['img_src.txt', `img_src-${date}.txt`, 1],
      ],
    );
    assert.deepEqual(readdirSync(folder).sort(), [
      `img_src-${date}.txt`,
      `pages-${date}.jsonl`,
      'skipped.jsonl',
    ]);
    assert.equal(closed.fault, undefined);
  }
});

test('rotation: a name that was taken meanwhile keeps one file open, and the mark says so', async (t) => {
  const { kind, rotation, mark, folder, path, text } = await written(t);
  writeFileSync(join(folder, datedName('pages.jsonl', date)), 'mine');
  const { closed, fault, mark: left, part } = await rotation.close(crawl, mark, date);
  assert.match(String(fault), /exists already; move it away/);
  assert.deepEqual(
    closed.map(({ file }) => file),
    ['img_src.txt'],
  );
  assert.equal((left as { pages: number }).pages, text.length);
  assert.equal((part as { pages: number }).pages, 0);
  // It goes on there.
  await (await kind.open(crawl, left)).close();
  assert.equal(readFileSync(path, 'utf8'), text);
});

test('rotation: a file that somebody has changed is left as it is', async (t) => {
  const harms: readonly ((path: string) => void)[] = [
    (path) => truncateSync(path, 5),
    (path) => appendFileSync(path, 'mine\n'),
    (path) => writeFileSync(path, 'x'.repeat(readFileSync(path).length)),
    (path) => rmSync(path),
    (path) => {
      copyFileSync(path, `${path}.1`);
      writeFileSync(path, 'a new one\n');
    },
  ];
  for (const harm of harms) {
    const { rotation, mark, folder, path } = await written(t);
    harm(path);
    const before = readdirSync(folder);
    await assert.rejects(rotation.plan(crawl, mark, live), /put (that|the file) back/);
    assert.deepEqual(readdirSync(folder), before);
  }
});

test('rotation: what logrotate has renamed or copied counts, and its torn end is cut', async (t) => {
  for (const [name, end] of [
    ['pages.jsonl.1', ''],
    ['pages.jsonl-20261122', '{"url":"torn'],
    [`pages.jsonl-${date}.log`, 'x'.repeat(10)],
  ] as const) {
    const { rotation, mark, folder, path, text } = await written(t);
    renameSync(path, join(folder, name));
    if (end !== '') writeFileSync(path, '');
    appendFileSync(join(folder, name), end);
    // Of another crawl, and one that is shorter.
    writeFileSync(join(folder, 'pages.jsonl.0'), text.slice(1));
    const planned = await rotation.plan(crawl, mark, live);
    const { closed } = await rotation.close(crawl, mark, String(planned));
    assert.equal(closed[0]?.as, name);
    assert.equal(readFileSync(join(folder, name), 'utf8'), text);
  }
});

test('rotation: files of a crawl that is over may have been moved away', async (t) => {
  const { rotation, mark, path } = await written(t);
  rmSync(path);
  const planned = await rotation.plan(crawl, mark, { ...live, isOver: true });
  const { closed, mark: left } = await rotation.close(crawl, mark, String(planned));
  assert.deepEqual(
    closed.map(({ file }) => file),
    ['img_src.txt'],
  );
  assert.equal(await rotation.plan(crawl, left, { ...live, isOver: true }), undefined);
});
