/** The archive of a crawl: after a start that cut its file, how many writes it makes, and what
 *  becomes of its index when somebody else is at it. */
import assert from 'node:assert/strict';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { CrawlArchive } from '../../master/archive/crawl-archive.ts';
import { Digests } from '../../master/archive/records.ts';
import type { Upload } from '../../master/archive/uploads.ts';
import type { ArchiveMark } from '../../master/store/archive-rows.ts';
import { checkIndexes, readArchive } from '../support/warc.ts';

const crawl = { id: 1, name: 'c', uid: Buffer.alloc(16, 1) };

function archiveIn(
  folder: string,
  marks: readonly ArchiveMark[],
  told: string[] = [],
  fileBytesMax = 1 << 20,
): CrawlArchive {
  return new CrawlArchive(crawl, marks, fileBytesMax, {
    commits: { written: () => Promise.resolve() },
    folder,
    room: { room: () => Promise.resolve(), refused: () => {} },
    digests: new Digests(),
    events: {
      archiveTaken: (_: string, file: string, next: string) => told.push(`${file}: ${next}`),
      indexMade: (_: string, index: string) => told.push(`made ${index}`),
      indexFailed: (_: string, index: string) => told.push(`failed ${index}`),
    },
  } as unknown as ConstructorParameters<typeof CrawlArchive>[3]);
}

function append(archive: CrawlArchive, n: number, then: (mark: ArchiveMark) => void) {
  const body = Buffer.from(`<p>page ${n}`);
  const exchange = {
    url: `http://site/${n}`,
    at: 1_000_000 + n,
    end: 'whole' as const,
    request: Buffer.from('GET / HTTP/1.1\r\n\r\n'),
    response: Buffer.from('HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n'),
    body: { bytes: body.length, read: () => Promise.resolve([body]), drop: () => {} },
  };
  const upload = { exchanges: [exchange], drop: () => {} } as unknown as Upload;
  const about = { task: exchange.url, isAnswered: true, isPage: true, depth: 1, kind: 'page' };
  return archive.append({ upload, about, then } as Parameters<CrawlArchive['append']>[0]);
}

function inFolder(work: (folder: string) => Promise<void>): () => Promise<void> {
  return async () => {
    const folder = mkdtempSync(join(tmpdir(), 'orbweaver-archive-'));
    try {
      await work(folder);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  };
}

test(
  'crawl archive: a file that a start cut to nothing begins with its warcinfo again',
  inFolder(async (folder) => {
    mkdirSync(join(folder, 'c', 'archive'), { recursive: true });
    writeFileSync(join(folder, 'c', 'archive', '000001.warc.gz'), 'of a killed master');
    const archive = archiveIn(folder, [{ file: 1, length: 0, records: 0 }]);
    await archive.restore();
    await append(archive, 1, () => {});
    await archive.leave();
    const types = readArchive(join(folder, 'c', 'archive')).map(({ type }) => type);
    assert.deepEqual(types, ['warcinfo', 'response', 'request', 'metadata']);
  }),
);

test(
  'crawl archive: what comes within 50 ms is one write, in its order',
  inFolder(async (folder) => {
    const archive = archiveIn(folder, []);
    const marks: ArchiveMark[] = [];
    const began = performance.now();
    await append(archive, 0, (mark) => marks.push(mark));
    assert.ok(performance.now() - began < 2_000);
    // The second write waits, and takes all that came.
    const jobs = Array.from({ length: 50 }, (_, i) =>
      append(archive, i + 1, (mark) => marks.push(mark)),
    );
    await Promise.all(jobs);
    await archive.close();
    const lengths = marks.map(({ length }) => length);
    assert.deepEqual(
      lengths,
      [...lengths].sort((a, b) => a - b),
    );
    // All records of one write are numbered before its first mark.
    assert.equal(new Set(marks.slice(1).map(({ records }) => records)).size, 1);
    const urls = readArchive(join(folder, 'c', 'archive'))
      .filter(({ type }) => type === 'response')
      .map(({ fields }) => fields['warc-target-uri']);
    assert.deepEqual(
      urls,
      Array.from({ length: 51 }, (_, i) => `http://site/${i}`),
    );
  }),
);

test(
  'crawl archive: what is written after its file was moved away is in one file alone',
  inFolder(async (folder) => {
    const told: string[] = [];
    const archive = archiveIn(folder, [], told);
    const files = join(folder, 'c', 'archive');
    for (const n of [1, 2, 3, 4]) {
      await append(archive, n, () => {});
      if (n === 2) renameSync(join(files, '000001.warc.gz'), join(folder, 'moved'));
    }
    await archive.close();
    assert.deepEqual(told, ['000001.warc.gz: 000002.warc.gz']);
    renameSync(join(folder, 'moved'), join(files, '000001.warc.gz'));
    const urls = readArchive(files)
      .filter(({ type }) => type === 'response')
      .map(({ fields }) => fields['warc-target-uri']);
    assert.deepEqual(
      urls,
      [1, 2, 3, 4].map((n) => `http://site/${n}`),
    );
  }),
);

const index = (folder: string, n = 1) => join(folder, 'c', 'archive', `00000${n}.cdxj`);

/** The index says where each answer is, and is sorted if its file is complete. */
function assertIndexed(folder: string, answers: number, isClosed: boolean): void {
  const records = readArchive(join(folder, 'c', 'archive'));
  assert.equal(records.filter(({ type }) => type === 'response').length, answers);
  checkIndexes(join(folder, 'c', 'archive'), records, isClosed);
}

const harms: readonly (readonly [string, (path: string) => void])[] = [
  ['is deleted', (path) => rmSync(path)],
  ['is moved away', (path) => renameSync(path, `${path}.moved`)],
  ['is cut', (path) => truncateSync(path, 20)],
  ['has the lines of another program', (path) => writeFileSync(path, 'a\n', { flag: 'a' })],
  ['is replaced', (path) => [rmSync(path), writeFileSync(path, 'a\n')]],
];
for (const [what, harm] of harms) {
  test(
    `crawl archive: an index that ${what} is made again by the next write`,
    inFolder(async (folder) => {
      const told: string[] = [];
      const archive = archiveIn(folder, [], told);
      for (const n of [9, 1]) await append(archive, n, () => {});
      harm(index(folder));
      for (const n of [5, 3]) await append(archive, n, () => {});
      rmSync(`${index(folder)}.moved`, { force: true });
      assertIndexed(folder, 4, false);
      assert.deepEqual(told, ['made 000001.cdxj']);
      await archive.close();
      assertIndexed(folder, 4, true);
      assert.deepEqual(told, ['made 000001.cdxj']);
    }),
  );

  test(
    `crawl archive: an index that ${what} is made again at the end of the crawl`,
    inFolder(async (folder) => {
      const told: string[] = [];
      const archive = archiveIn(folder, [], told);
      for (const n of [9, 1]) await append(archive, n, () => {});
      harm(index(folder));
      await archive.close();
      rmSync(`${index(folder)}.moved`, { force: true });
      assertIndexed(folder, 2, true);
      assert.deepEqual(told, ['made 000001.cdxj']);
    }),
  );
}

test(
  'crawl archive: an index that cannot be written loses nothing, also not in the files after it',
  inFolder(async (folder) => {
    const told: string[] = [];
    const archive = archiveIn(folder, [], told, 4_000);
    await append(archive, 0, () => {});
    rmSync(index(folder));
    mkdirSync(join(index(folder), 'in-the-way'), { recursive: true });
    for (let n = 1; archive.marks.length < 3; n++) await append(archive, n, () => {});
    assert.equal(told[0], 'failed 000001.cdxj');
    assert.ok(!archive.marks[0]?.isClosed);
    // A master that is started while it is so goes on, and the one after that makes it.
    await archive.leave();
    const second = archiveIn(folder, archive.marks, told, 4_000);
    await second.restore();
    await append(second, 100, () => {});
    await second.leave();
    rmSync(index(folder), { recursive: true });
    const third = archiveIn(folder, second.marks, told, 4_000);
    await third.restore();
    await third.close();
    assert.ok(third.marks.every(({ isClosed }) => isClosed));
    const answers = readArchive(join(folder, 'c', 'archive')).filter((r) => r.type === 'response');
    assertIndexed(folder, answers.length, true);
    assert.deepEqual(
      readdirSync(join(folder, 'c', 'archive')).filter((name) => !/\.(warc\.gz|cdxj)$/.test(name)),
      [],
    );
  }),
);

test(
  'crawl archive: the index of the file that is written is made when it can be',
  inFolder(async (folder) => {
    const told: string[] = [];
    const archive = archiveIn(folder, [], told);
    await append(archive, 1, () => {});
    rmSync(index(folder));
    mkdirSync(index(folder));
    for (const n of [2, 3]) await append(archive, n, () => {});
    assert.deepEqual(told, ['failed 000001.cdxj']);
    rmdirSync(index(folder));
    await archive.close();
    assertIndexed(folder, 3, true);
    assert.deepEqual(told, ['failed 000001.cdxj', 'made 000001.cdxj']);
  }),
);

test(
  'crawl archive: a file that was taken away with its index ends nothing',
  inFolder(async (folder) => {
    const told: string[] = [];
    const archive = archiveIn(folder, [], told);
    await append(archive, 1, () => {});
    rmSync(join(folder, 'c'), { recursive: true });
    await archive.close();
    assert.ok(archive.marks.every(({ isClosed }) => isClosed));
    assert.deepEqual(told, []);
  }),
);
