/** `--save html`: each page as a plain file that its line in pages.jsonl names. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import * as zlib from 'node:zlib';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';

const timeout = 60_000;
const count = 60;
const codings: Record<string, (body: Buffer) => Buffer> = {
  gzip: (body) => zlib.gzipSync(body),
  br: (body) => zlib.brotliCompressSync(body),
  deflate: (body) => zlib.deflateSync(body),
  raw: (body) => zlib.deflateRawSync(body),
};

/** `/0` to `/59`, in all codings; every tenth page has the same content as the first. */
async function site(t: TestContext): Promise<string> {
  const port = await httpServer(t, ({ url = '' }, response) => {
    const n = Number(url.slice(1));
    const all = Array.from({ length: count }, (_, i) => `<a href="/${i}">x</a>`).join('');
    const own = n % 10 === 0 ? 'the same' : `page ${n} ${'x'.repeat(n * 100)}`;
    if (url === '/robots.txt' || url === '/missing') response.writeHead(404).end('<p>none');
    else if (url === '/pdf') response.setHeader('content-type', 'application/pdf').end('%PDF');
    else {
      const name = ['', ...Object.keys(codings)][n % 5] ?? '';
      const links = url === '/' ? `${all}<a href="/missing">x</a><a href="/pdf">x</a>` : '';
      const body = Buffer.from(`<title>t</title>${links}${url === '/' ? '' : own}`);
      if (name !== '') response.setHeader('content-encoding', name === 'raw' ? 'deflate' : name);
      response.setHeader('content-type', 'text/html; charset=utf-8');
      response.end(codings[name]?.(body) ?? body);
    }
  });
  return `http://127.0.0.1:${port}/`;
}

function filesIn(folder: string): string[] {
  const names = existsSync(folder)
    ? readdirSync(folder, { recursive: true, encoding: 'utf8' })
    : [];
  return names.filter((name) => name.includes('.')).sort();
}

/** Each page has its file, by its digest, and there is no other. */
function assertSaved(cluster: Cluster, crawl: string): void {
  const folder = join(cluster.out, crawl, 'html');
  const lines = cluster.fetched(crawl) as unknown as { images?: unknown; digest?: string }[];
  const pages = lines.filter(({ images }) => images !== undefined);
  assert.equal(pages.length, count + 1);
  const wanted = new Set<string>();
  for (const { digest = '' } of pages) {
    const name = join(digest.slice(0, 2), `${digest}.html`);
    wanted.add(name);
    const body = readFileSync(join(folder, name));
    assert.equal(createHash('sha1').update(body).digest('hex'), digest);
    assert.match(body.toString(), /^<title>t/);
  }
  assert.deepEqual(filesIn(folder), [...wanted].sort());
}

describe('--save html', { concurrency: 2 }, () => {
  for (const more of [[], ['--archive', 'warc']]) {
    test(`save: each page once, by its digest ${more.join(' ')}`, { timeout }, async (t) => {
      const cluster = new Cluster(t);
      const flags = ['--save', 'html', '--delay', '0', '--slaves', '1', '--exit-when-done'];
      const master = await cluster.master([await site(t), ...flags, ...more]);
      assert.equal((await master.exited).code, 0, master.output);
      assertSaved(cluster, 'default');
      const hasArchive = existsSync(join(cluster.out, 'default', 'archive', '000001.warc.gz'));
      assert.equal(hasArchive, more.length > 0);
    });
  }

  test('save: kill -9 of the master loses none, and rename and remove take them along', {
    timeout,
  }, async (t) => {
    const url = await site(t);
    const cluster = new Cluster(t);
    const flags = [url, '--save', 'html', '--delay', '20', '--per-host', '4', '--slaves', '1'];
    for (let round = 1; round <= 4; round++) {
      const master = await cluster.master(flags);
      await cluster.grown('pages.jsonl', round * 10);
      await master.kill('SIGKILL');
    }
    const master = await cluster.master(flags);
    await master.said(/crawl default is done/);
    assertSaved(cluster, 'default');
    await cluster.ask('rename', 'default', 'other');
    assertSaved(cluster, 'other');
    writeFileSync(join(cluster.out, 'other', 'html', 'mine.txt'), 'x');
    await cluster.ask('remove', 'other', '--files');
    assert.deepEqual(filesIn(join(cluster.out, 'other')), ['html/mine.txt']);
  });

  test('save: files of somebody else are refused, and it cannot be switched later', {
    timeout,
  }, async (t) => {
    const cluster = new Cluster(t);
    mkdirSync(join(cluster.out, 'default', 'html', 'ab'), { recursive: true });
    const url = 'http://127.0.0.1:1/';
    const folders = ['--data', cluster.data, '--out', cluster.out, '--listen', '127.0.0.1:0'];
    const refused = cluster.run(['master.js', url, '--save', 'html', ...folders]);
    assert.equal((await refused.exited).code, 2);
    assert.match(
      refused.output,
      /html holds the results of a crawl that this data folder does not/,
    );
    const wrong = cluster.run(['master.js', url, '--save', 'pdf', ...folders]);
    assert.equal((await wrong.exited).code, 2);
    assert.match(wrong.output, /--save.*html/);
    await cluster.master([url, '--crawl', 'plain']);
    await assert.rejects(cluster.ask('set', 'plain', '--save', 'html'), /--save cannot change/);
  });
});
