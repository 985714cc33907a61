/**
 * The files of a crawl after a crash between writing them and accounting for it: whatever stands
 * beyond the recorded length is cut and written again.
 */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  copyFileSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FileSink, noLengths } from '../../master/sinks/files.ts';
import { HeldError } from '../../master/sinks/sink.ts';
import { ResultRow, type Section, sectionsOf } from '../../master/store/result-rows.ts';
import { generateSite } from '../../selftest/site.ts';
import { ConfigError } from '../../shared/errors.ts';
import { Cluster } from '../support/cluster.ts';
import { assertExact } from '../support/exact.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';

const timeout = 60_000;
const time = '"depth":0,"at":"1970-01-01T00:00:00.000Z"}\n';
const pageLine = (n: number) => `{"url":"http://host/${n}",${time}`;
const skippedLine = (n: number) => `{"url":"http://host/${n}","skipped":"depth",${time}`;

/** The records of one commit: a page's, an image's, and with an even number that of a link. */
function row(n: number): Section[] {
  const made = new ResultRow();
  const record = { url: `http://host/${n}`, depth: 0, at: 0 };
  made.add('other', record);
  made.addImage(`http://host/${n}.png`);
  if (n % 2 === 0) made.add('skipped', { ...record, skipped: 'depth' });
  return sectionsOf(made.seal(n * 3).bytes);
}

test('sink: what was written but not accounted for is cut and written once', async (t) => {
  const folder = temporary(t);
  const first = await FileSink.open(folder, noLengths);
  const lengths = await first.write([...row(1), ...row(2)]);
  await first.write([...row(3)]); // the crash comes before the store hears of it
  await first.close();
  const second = await FileSink.open(folder, lengths);
  await second.write([...row(3), ...row(4)]);
  await second.close();
  assert.equal(
    readFileSync(join(folder, 'pages.jsonl'), 'utf8'),
    [1, 2, 3, 4].map((n) => pageLine(n)).join(''),
  );
  assert.equal(
    readFileSync(join(folder, 'img_src.txt'), 'utf8'),
    [1, 2, 3, 4].map((n) => `http://host/${n}.png\n`).join(''),
  );
  assert.equal(
    readFileSync(join(folder, 'skipped.jsonl'), 'utf8'),
    [2, 4].map((n) => skippedLine(n)).join(''),
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
    const lengths = await first.write([...row(1)]);
    await first.close();
    appendFileSync(join(folder, 'pages.jsonl'), torn);
    appendFileSync(join(folder, 'img_src.txt'), torn);
    const second = await FileSink.open(folder, lengths);
    await second.write([...row(2)]);
    await second.close();
    assert.equal(readFileSync(join(folder, 'pages.jsonl'), 'utf8'), pageLine(1) + pageLine(2));
  });
}

test('sink: one file may be ahead of the other', async (t) => {
  const folder = temporary(t);
  const first = await FileSink.open(folder, noLengths);
  const lengths = await first.write([...row(1)]);
  await first.close();
  appendFileSync(join(folder, 'pages.jsonl'), pageLine(2));
  const second = await FileSink.open(folder, lengths);
  const { pages, images, skipped } = await second.write([...row(2)]);
  assert.deepEqual(
    [pages, images, skipped],
    [lengths.pages * 2, lengths.images * 2, skippedLine(2).length],
  );
  await second.close();
});

test('sink: a file that is shorter than it was is refused, not filled with zeros', async (t) => {
  const folder = temporary(t);
  const first = await FileSink.open(folder, noLengths);
  const lengths = await first.write([...row(1), ...row(2)]);
  await first.close();
  truncateSync(join(folder, 'pages.jsonl'), 3);
  await assert.rejects(FileSink.open(folder, lengths), (error) => {
    assert.ok(error instanceof ConfigError);
    assert.match(
      error.message,
      new RegExp(
        `pages\\.jsonl has 3 bytes, but ${2 * pageLine(1).length} were written to it; put`,
      ),
    );
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

test('sink: nothing is made, cut or moved unless all files are what was written to', async (t) => {
  const folder = temporary(t);
  const first = await FileSink.open(folder, noLengths);
  await first.write([...row(1), ...row(2)]);
  const { marks } = first;
  await first.close();
  const [pages, images] = [join(folder, 'pages.jsonl'), join(folder, 'img_src.txt')];
  appendFileSync(pages, 'torn');
  rmSync(images);
  rmSync(join(folder, 'skipped.jsonl'));
  await assert.rejects(FileSink.open(folder, { ...marks, skipped: 0 }), HeldError);
  assert.deepEqual(readdirSync(folder), ['pages.jsonl']);
  assert.equal(readFileSync(pages, 'utf8'), `${pageLine(1)}${pageLine(2)}torn`);
  await assert.rejects(
    FileSink.open(join(folder, 'elsewhere'), marks),
    new RegExp(` is gone, and ${2 * pageLine(1).length} bytes`),
  );
  assert.deepEqual(readdirSync(folder), ['pages.jsonl'], 'no folder is made');
});

test('sink: a file as long as it was, and with other lines, is another file', async (t) => {
  const folder = temporary(t);
  const first = await FileSink.open(folder, noLengths);
  const { lines: _, ends: __, ...lengths } = await first.write([...row(1), ...row(2)]);
  const { marks } = first;
  await first.close();
  const path = join(folder, 'pages.jsonl');
  writeFileSync(path, pageLine(1) + pageLine(3) + pageLine(4));
  await assert.rejects(FileSink.open(folder, marks), / is not the file that was written to/);
  // A record of an earlier version says no more than the length.
  await (await FileSink.open(folder, lengths)).close();
  writeFileSync(path, pageLine(1) + pageLine(22));
  await assert.rejects(FileSink.open(folder, lengths), / is not the file that was written to/);
});

const meddlings: readonly (readonly [string, (path: string) => void, RegExp])[] = [
  ['removed', (path) => rmSync(path), / is gone/],
  ['cut', (path) => truncateSync(path), / bytes?, but \d+ were written/],
  ['cut and begun anew', (path) => writeFileSync(path, 'x'), / bytes?, but \d+ were written/],
  ['written to', (path) => appendFileSync(path, 'x'), / bytes?, but \d+ were written/],
  ['replaced', (path) => replace(path), / is not the file/],
];

for (const when of ['write', 'datasync'] as const) {
  for (const name of ['pages.jsonl', 'img_src.txt', 'skipped.jsonl']) {
    test(`sink: ${name} is meddled with at the ${when} of an append: nothing counts`, async (t) => {
      for (const [what, meddle, reason] of meddlings) {
        const folder = temporary(t);
        const sink = await FileSink.open(folder, noLengths);
        await sink.write([...row(1), ...row(2)]);
        const { marks } = sink;
        const path = join(folder, name);
        await meddling(
          t,
          when,
          () => meddle(path),
          async () => {
            await assert.rejects(sink.write([...row(3), ...row(4)]), (error) => {
              assert.ok(error instanceof HeldError, what);
              assert.match(error.message, reason);
              return true;
            });
          },
        );
        assert.deepEqual(sink.marks, marks, what);
        // Nobody gets a hole.
        if (what !== 'removed') assert.ok(!readFileSync(path).includes(0), what);
        await sink.close();
      }
    });
  }
}

test('sink: a file with other names, or behind a link, is what it is', async (t) => {
  const folder = temporary(t);
  const real = join(folder, 'real.jsonl');
  writeFileSync(real, '');
  const crawl = join(folder, 'crawl');
  mkdirSync(crawl);
  symlinkSync(real, join(crawl, 'pages.jsonl'));
  const sink = await FileSink.open(crawl, noLengths);
  await sink.write([...row(1)]);
  linkSync(real, join(folder, 'more.jsonl'));
  await sink.write([...row(2)]);
  assert.equal(readFileSync(real, 'utf8'), pageLine(1) + pageLine(2));
  rmSync(join(crawl, 'pages.jsonl'));
  symlinkSync(join(folder, 'more.jsonl'), join(crawl, 'pages.jsonl'));
  await sink.write([...row(3)]); // the same file by its other name
  replace(real);
  rmSync(join(crawl, 'pages.jsonl'));
  symlinkSync(real, join(crawl, 'pages.jsonl'));
  await assert.rejects(sink.write([...row(4)]), / is not the file/);
  await sink.close();
});

test('sink: a link to a file that is not there yet is made', async (t) => {
  const folder = temporary(t);
  const real = join(folder, 'real.jsonl');
  symlinkSync(real, join(folder, 'pages.jsonl'));
  const sink = await FileSink.open(folder, noLengths);
  await sink.write([...row(1)]);
  await sink.close();
  assert.equal(readFileSync(real, 'utf8'), pageLine(1));
});

test('sink: a file that another machine has removed is gone, and no fault of the disk', async (t) => {
  const folder = temporary(t);
  const sink = await FileSink.open(folder, noLengths);
  await sink.write([...row(1)]);
  const stale = Object.assign(new Error('stale file handle'), { code: 'ESTALE' });
  for (const when of ['write', 'datasync', 'stat'] as const) {
    await meddling(
      t,
      when,
      () => raise(stale),
      () =>
        // The files are written side by side, and any of them may be the first.
        assert.rejects(sink.write([...row(2)]), / is gone, and [1-9]\d+ bytes were written to it/),
    );
  }
  await sink.close();
});

test('sink: a write that fails halfway leaves nothing, and is done again', async (t) => {
  const folder = temporary(t);
  const sink = await FileSink.open(folder, noLengths);
  await sink.write([...row(1)]);
  const full = Object.assign(new Error('no space'), { code: 'ENOSPC' });
  await meddling(
    t,
    'datasync',
    () => raise(full),
    async () => {
      await assert.rejects(sink.write([...row(2)]), { code: 'ENOSPC' });
    },
  );
  assert.equal(readFileSync(join(folder, 'pages.jsonl'), 'utf8'), pageLine(1));
  await sink.write([...row(2)]);
  assert.equal(readFileSync(join(folder, 'pages.jsonl'), 'utf8'), pageLine(1) + pageLine(2));
  assert.deepEqual(sink.marks.lines, { pages: 2, images: 2, skipped: 1 });
  await sink.close();
});

/** Does something once, just before a file is written to, or just before it is synced. */
async function meddling(
  t: TestContext,
  when: 'write' | 'datasync' | 'stat',
  meddle: () => void,
  run: () => Promise<void>,
): Promise<void> {
  const handle = await open(tmpdir(), 'r');
  const prototype = Object.getPrototypeOf(handle) as Record<
    string,
    (...args: unknown[]) => unknown
  >;
  await handle.close();
  const real = prototype[when];
  const mocked = t.mock.method(
    prototype,
    when,
    function meddled(this: unknown, ...args: unknown[]) {
      mocked.mock.restore();
      meddle();
      return real?.apply(this, args);
    },
  );
  await run();
}

function replace(path: string): void {
  copyFileSync(path, `${path}.copy`);
  renameSync(`${path}.copy`, path);
}

function raise(error: Error): never {
  throw error;
}

function temporary(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-sink-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}
