/**
 * The files of a crawl after a crash between writing them and accounting for it: whatever stands
 * beyond the recorded length is cut and written again.
 */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FileSink, noLengths } from '../../master/sinks/files.ts';
import { encodeResults } from '../../master/store/records.ts';
import { generateSite } from '../../selftest/site.ts';
import { ConfigError } from '../../shared/errors.ts';
import { Cluster } from '../support/cluster.ts';
import { assertExact } from '../support/exact.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';

const timeout = 60_000;
const row = (n: number) =>
  encodeResults({
    pages: `{"page":${n}}\n`,
    images: `http://host/${n}.png\n`,
    skipped: n % 2 === 0 ? `{"skipped":${n}}\n` : '',
  });

test('sink: what was written but not accounted for is cut and written once', async (t) => {
  const folder = temporary(t);
  const first = await FileSink.open(folder, noLengths);
  const lengths = await first.write([row(1), row(2)]);
  await first.write([row(3)]); // the crash comes before the store hears of it
  await first.close();
  const second = await FileSink.open(folder, lengths);
  await second.write([row(3), row(4)]);
  await second.close();
  assert.equal(
    readFileSync(join(folder, 'pages.jsonl'), 'utf8'),
    [1, 2, 3, 4].map((n) => `{"page":${n}}\n`).join(''),
  );
  assert.equal(
    readFileSync(join(folder, 'img_src.txt'), 'utf8'),
    [1, 2, 3, 4].map((n) => `http://host/${n}.png\n`).join(''),
  );
  assert.equal(
    readFileSync(join(folder, 'skipped.jsonl'), 'utf8'),
    [2, 4].map((n) => `{"skipped":${n}}\n`).join(''),
  );
});

for (const torn of [
  '{"page":',
  '{"page":3}\n{"pa',
  '\0\0\0\0\0\0\0\0',
  `${'x'.repeat(70_000)}\n`,
]) {
  test(`sink: a torn tail of ${torn.length} bytes is cut`, async (t) => {
    const folder = temporary(t);
    const first = await FileSink.open(folder, noLengths);
    const lengths = await first.write([row(1)]);
    await first.close();
    appendFileSync(join(folder, 'pages.jsonl'), torn);
    appendFileSync(join(folder, 'img_src.txt'), torn);
    const second = await FileSink.open(folder, lengths);
    await second.write([row(2)]);
    await second.close();
    assert.equal(readFileSync(join(folder, 'pages.jsonl'), 'utf8'), '{"page":1}\n{"page":2}\n');
  });
}

test('sink: one file may be ahead of the other', async (t) => {
  const folder = temporary(t);
  const first = await FileSink.open(folder, noLengths);
  const lengths = await first.write([row(1)]);
  await first.close();
  appendFileSync(join(folder, 'pages.jsonl'), '{"page":2}\n');
  const second = await FileSink.open(folder, lengths);
  assert.deepEqual(await second.write([row(2)]), {
    pages: lengths.pages * 2,
    images: lengths.images * 2,
    skipped: '{"skipped":2}\n'.length,
  });
  await second.close();
});

test('sink: a file that is shorter than it was is refused, not filled with zeros', async (t) => {
  const folder = temporary(t);
  const first = await FileSink.open(folder, noLengths);
  const lengths = await first.write([row(1), row(2)]);
  await first.close();
  truncateSync(join(folder, 'pages.jsonl'), 3);
  await assert.rejects(FileSink.open(folder, lengths), (error) => {
    assert.ok(error instanceof ConfigError);
    assert.match(error.message, /pages\.jsonl has 3 bytes, but 22 were written to it; put/);
    return true;
  });
  assert.equal(statSync(join(folder, 'pages.jsonl')).size, 3, 'left as it was');
});

test('sink: garbage at the end of the files of a killed master', { timeout }, async (t) => {
  const site = await siteFor(t, generateSite(77, 200), { delayMs: 10 });
  const cluster = new Cluster(t);
  const args = [site.url, '--exit-when-done', '--per-host', '8'];
  const first = await cluster.master(args);
  const { address } = cluster;
  const slave = cluster.slave();
  await cluster.grown('pages.jsonl', 20);
  await first.kill('SIGKILL');
  appendFileSync(join(cluster.out, 'default/pages.jsonl'), '{"url":"http://half');
  appendFileSync(join(cluster.out, 'default/img_src.txt'), 'http://127.0.0.1/not-there.png\n');
  const second = await cluster.master(args, { listen: address });
  await assertLeaves(second, slave);
  assertExact(cluster, site.truth());
});

test('sink: files that a user has shortened stop the restart with one line', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, generateSite(78, 200), { delayMs: 10 });
  const cluster = new Cluster(t);
  const first = await cluster.master([site.url, '--per-host', '8']);
  cluster.slave();
  // Written again: the lengths of the first time are on the disk.
  await cluster.grown('pages.jsonl', 0);
  await cluster.grown('pages.jsonl', cluster.lines('pages.jsonl').length);
  await first.kill('SIGKILL');
  writeFileSync(join(cluster.out, 'default/pages.jsonl'), '');
  const folders = ['--data', cluster.data, '--out', cluster.out];
  const second = cluster.run(['master.js', '--listen', '127.0.0.1:0', ...folders]);
  assert.deepEqual(await second.exited, { code: 2, signal: null });
  assert.match(second.stderr, /^master: .*pages\.jsonl has 0 bytes, but \d+ were written.*\n$/);
});

function temporary(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-sink-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}
