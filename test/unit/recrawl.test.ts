/** What a recrawl reads of the files of a crawl. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { earlierUrls } from '../../master/cli/recrawl.ts';

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
