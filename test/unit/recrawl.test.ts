/** The lines that a recrawl reads in the files of a crawl. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { earlierUrls } from '../../master/cli/recrawl.ts';
import { writeGallery } from '../../master/inspect/gallery.ts';
import { changes, noChanges } from '../../master/inspect/page-diff.ts';

test('recrawl: a URL that failed at first is asked for only if it changed since it was there', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const page = { status: 200, images: [], links: 0, etag: '"1"', title: 'an "error":{} of others' };
  const error = { kind: 'connect', message: 'refused', attempts: 3 };
  const [again, gone] = ['http://a.example/again', 'http://a.example/gone'];
  const lines = [
    { url: again, depth: 1, error },
    { url: gone, depth: 1, error },
    { url: again, finalUrl: again, depth: 1, ...page },
  ];
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
  writeFileSync(join(folder, 'pages.jsonl'), text);
  const found = [];
  for await (const urls of earlierUrls(undefined, folder)) found.push(...urls);
  assert.deepEqual(
    found.map(({ url, page }) => [url, page?.etag]),
    [
      [again, '"1"'],
      [again, undefined],
      [gone, undefined],
    ],
  );
});

test('recrawl, diff, gallery: a text with U+2028 does not end a line', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
  t.after(() => rmSync(folder, { recursive: true }));
  // Longer than what is read at once; an editor may have written the ends.
  const alt = `\u2028\u2029\u0085${'\u00e9'.repeat(100_000)}`;
  const urls = ['a', 'b', 'c'].map((name) => `http://a.example/${name}`);
  const text = (more: object, end: string) =>
    urls.map((url) => JSON.stringify({ url, finalUrl: url, ...more })).join(end);
  const page = { status: 200, images: [{ src: urls[0], alt }], links: 0, digest: 'd', depth: 0 };
  writeFileSync(join(folder, 'pages.jsonl'), text(page, '\r\n'));
  writeFileSync(join(folder, 'images.jsonl'), text({ file: 'f', alt }, '\n'));
  const found = [];
  for await (const some of earlierUrls(undefined, folder)) found.push(...some);
  assert.deepEqual(
    found.map(({ url }) => url),
    urls,
  );
  const counts = { ...noChanges };
  for await (const change of changes(folder, folder, counts)) assert.fail(change.url);
  assert.equal(counts.same, 3);
  assert.equal((await writeGallery(folder, 9)).counts.images, 3);
});

test('diff: a page that a recrawl found unchanged may differ from that of a crawl before', async (t) => {
  const folders = [1, 2].map(() => mkdtempSync(join(tmpdir(), 'orbweaver-')));
  t.after(() => folders.forEach((folder) => void rmSync(folder, { recursive: true })));
  const url = 'http://a.example/';
  const page = { url, finalUrl: url, depth: 0, status: 200, images: [], links: 0 };
  const later = { ...page, status: 304, unchanged: true };
  const date = 'Tue, 24 Nov 2026 05:00:00 GMT';
  for (const [before, after, verdict] of [
    [{ digest: 'a' }, { digest: 'b' }, 'changed'],
    [{ digest: 'a', etag: '"1"' }, { digest: 'a', etag: '"2"' }, 'same'],
    [{}, {}, 'same'],
    [{ etag: '"1"' }, { etag: 'W/"1"' }, 'same'],
    [{ etag: '"1"' }, { etag: '"2"' }, 'unknown'],
    [{ etag: '"1"', lastModified: date }, { etag: '"1-gzip"', lastModified: date }, 'same'],
  ] as const) {
    for (const [n, line] of [
      { ...page, ...before },
      { ...later, ...after },
    ].entries())
      writeFileSync(join(folders[n] ?? '', 'pages.jsonl'), `${JSON.stringify(line)}\n`);
    const counts = { ...noChanges };
    const found = [];
    for await (const { change } of changes(folders[0] ?? '', folders[1] ?? '', counts)) {
      found.push(change);
    }
    assert.equal(counts[verdict], 1, JSON.stringify([before, after, counts]));
    assert.deepEqual(found, verdict === 'changed' ? ['changed'] : []);
  }
});
