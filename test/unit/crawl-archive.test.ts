/** The archive of a crawl after a start that cut its file, and how many writes it makes. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { CrawlArchive } from '../../master/archive/crawl-archive.ts';
import { Digests } from '../../master/archive/records.ts';
import type { Upload } from '../../master/archive/uploads.ts';
import type { ArchiveMark } from '../../master/store/archive-rows.ts';
import { readArchive } from '../support/warc.ts';

const crawl = { id: 1, name: 'c', uid: Buffer.alloc(16, 1) };

function archiveIn(folder: string, marks: readonly ArchiveMark[]): CrawlArchive {
  return new CrawlArchive(crawl, marks, 1 << 20, {
    commits: { written: () => Promise.resolve() },
    folder,
    room: { room: () => Promise.resolve(), refused: () => {} },
    digests: new Digests(),
    events: { archiveTaken: () => assert.fail('the file is its own') },
  } as unknown as ConstructorParameters<typeof CrawlArchive>[3]);
}

function append(archive: CrawlArchive, n: number, then: (mark: ArchiveMark) => void) {
  const body = Buffer.from(`<p>page ${n}`);
  const exchange = {
    ...{ url: `http://site/${n}`, at: 1_000_000 + n, end: 'whole' as const },
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
