/** `extract`: the rows of an archive are those of the crawl, once, whatever happens meanwhile. */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { brotliCompressSync, gunzipSync, gzipSync } from 'node:zlib';
import type { Cluster } from '../support/cluster.ts';
import { changed, crawled, manyShelves, start } from '../support/extract.ts';
import { itemLines, shelf } from '../support/items.ts';

const timeout = 120_000;
const killsMax = 6;
const html = { 'content-type': 'text/html; charset=utf-8' };
const rules = `items:
  book:
    match: "shelf|search|moved|twin|data|part"
    each: article
    fields:
      title: h3
      price: { css: .price, regex: "[\\\\d.]+", type: number, required: true }
      page: { value: url }
      final: { value: finalUrl }
      depth: { value: depth }
      server: { header: x-place }
  page:
    fields: { title: title, path: "//h3" }
  data:
    match: /data
    each: $.rows[*]
    fields: { n: { json: $.n, type: integer } }
`;

/** A site of all that decides how a page is read, and whether it counts. */
function answers(): (request: IncomingMessage, response: ServerResponse) => void {
  const asked = new Map<string, number>();
  return ({ url = '', method }, response) => {
    const times = (asked.get(url) ?? 0) + 1;
    asked.set(url, times);
    const send = (status: number, headers: Record<string, string>, body: string | Buffer = '') =>
      void response.writeHead(status, headers).end(body);
    switch (url) {
      case '/robots.txt':
        return send(200, { 'content-type': 'text/plain' }, 'User-agent: *\nDisallow: /no\n');
      case '/': {
        const paths = [
          ...['shelf-1', 'gzip-shelf', 'br-shelf', 'gbk-shelf', 'moved-known', 'moved-new'],
          ...[
            'moved-too',
            'twin-1',
            'twin-2',
            'data',
            'gone',
            'flaky-shelf',
            'noindex-shelf',
            'no',
          ],
          ...['odd-shelf', 'file.pdf', 'untyped-shelf', 'chunks-shelf', 'stalled-shelf'],
        ];
        return send(200, html, paths.map((path) => `<a href="/${path}">x</a>`).join(''));
      }
      case '/search':
        return send(200, html, shelf(`found by ${method}`, 3));
      case '/gzip-shelf':
        return send(200, { ...html, 'content-encoding': 'gzip' }, gzipSync(shelf('zip', 30)));
      case '/br-shelf':
        return send(200, { ...html, 'content-encoding': 'br' }, brotliCompressSync(shelf('br', 3)));
      case '/gbk-shelf': {
        const page = Buffer.from('<meta charset=gbk><article><h3>\xd6\xd0\xce\xc4</h3>', 'latin1');
        const price = Buffer.from('<p class=price>7.5</article>');
        return send(200, { 'content-type': 'text/html' }, Buffer.concat([page, price]));
      }
      case '/moved-known':
        return send(302, { location: '/shelf-1' });
      case '/moved-new':
      case '/moved-too':
        return send(302, { location: '/shelf-hidden' }, shelf('not this', 2));
      case '/twin-1':
      case '/twin-2':
        return send(200, html, shelf('twin', 2));
      case '/data':
        return send(200, { 'content-type': 'application/json' }, '{"rows":[{"n":1},{"n":"x"}]}');
      case '/flaky-shelf':
        return times === 1 ? send(503, html, shelf('broken', 1)) : send(200, html, shelf('ok', 1));
      case '/noindex-shelf':
        return send(200, html, `<meta name=robots content=noindex>${shelf('hidden', 1)}`);
      case '/odd-shelf':
        return send(
          200,
          { ...html, 'x-place': 'a\u00e9' },
          shelf('\u202e\ud83d\ude00 "q" \x7f', 1),
        );
      case '/untyped-shelf':
        return send(200, {}, `<html>${shelf('untyped', 1)}`);
      case '/chunks-shelf':
        response.writeHead(200, { ...html, 'x-place': 'here' });
        response.write(shelf('chunk', 1));
        return void response.end(shelf('more', 1));
      case '/stalled-shelf':
        // Its end never comes: the part counts at the last attempt.
        return void response.writeHead(200, html).write(shelf('stalled', 1));
      case '/file.pdf':
        return send(200, { 'content-type': 'application/pdf' }, Buffer.alloc(100_000, 1));
      case '/shelf-1':
      case '/shelf-hidden':
        return send(200, html, shelf(url, 6));
      default:
        return send(404, html, shelf('not here', 2));
    }
  };
}

/** The lines of a file without their times: an archive has those of the requests. */
function rowsOf(cluster: Cluster, crawl: string, file: 'items' | 'rejected'): string[] {
  const path = join(cluster.out, crawl, `${file}.jsonl`);
  const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
  return text.split('\n').map((line) => line.replace(/,"at":"[^"]*"\}$/, ''));
}

function assertSame(cluster: Cluster, crawl: string): void {
  for (const file of ['items', 'rejected'] as const) {
    assert.deepEqual(rowsOf(cluster, crawl, file), rowsOf(cluster, 'shop', file), file);
  }
}

const manyFile = (url: string) => `crawl: shop\ndelay: 0\nseeds: ["${url}/"]\n${rules}`;

describe('extract', { concurrency: 1 }, () => {
  test('extract: the rows of an archive are those of the crawl, byte for byte', {
    timeout,
  }, async (t) => {
    const { cluster, path } = await crawled(
      t,
      answers(),
      (url) => `crawl: shop
delay: 0
attempts: 2
fetch-timeout: 2000
obey: noindex
seeds: ["${url}/", {url: "${url}/search", method: POST, form: {q: x}}]
${rules}`,
    );
    const live = rowsOf(cluster, 'shop', 'items');
    assert.ok(live.length > 60, `${live.length}`);
    assert.ok(live.some((line) => line.includes('found by POST')));
    assert.ok(live.some((line) => line.includes('stalled')));
    assert.ok(live.some((line) => line.includes('中文')));
    for (const [as, processes] of [
      ['one', '1'],
      ['two', '2'],
    ] as const) {
      const program = start(cluster, path, as, ['--processes', processes]);
      assert.equal((await program.exited).code, 0, program.output);
      assertSame(cluster, as);
    }
    // Nothing is left to be done, and nothing is done twice.
    const again = start(cluster, path, 'two', ['--json']);
    assert.equal((await again.exited).code, 0, again.output);
    assertSame(cluster, 'two');
    const { pages, rows, rules: counted } = JSON.parse(again.stdout);
    assert.equal(rows, live.length - 1);
    assert.equal(pages, (await pagesOf(cluster)).length);
    assert.ok(counted.book.matched > 5 && counted['book.price'].wrong === 0);
  });

  test('extract: kill -9 at any moment leaves every row once', { timeout }, async (t) => {
    const { cluster, path } = await crawled(t, manyShelves(200), manyFile);
    let kills = 0;
    for (;;) {
      const program = start(cluster, path, 'again');
      const ended = new AbortController();
      void program.exited.then(() => ended.abort());
      // Rows were appended, and are not on record; or they are: then the next run gets further.
      const file = kills % 2 === 0 ? 'items.jsonl' : 'extract.json';
      const isDone = await changed(cluster, `again/${file}`, ended.signal).then(
        () => false,
        () => true,
      );
      if (isDone || kills === killsMax) {
        assert.equal((await program.exited).code, 0, program.output);
        break;
      }
      await program.kill();
      kills++;
      if (kills === 1) appendFileSync(join(cluster.out, 'again/items.jsonl'), '{"url":"half');
    }
    assert.ok(kills > 0);
    assertSame(cluster, 'again');
    assert.equal(itemLines(cluster, 'items', 'again').length, itemLines(cluster, 'items').length);
  });

  test('extract: what it cannot do is one clear line', { timeout }, async (t) => {
    const { cluster, path } = await crawled(t, manyShelves(5), manyFile);
    const refused = async (as: string, file: string, from: string, pattern: RegExp) => {
      const args = ['extract', file, '--from', from, '--as', as, '--out', cluster.out];
      const program = cluster.run(['master.js', ...args]);
      assert.equal((await program.exited).code, 2, program.output);
      assert.equal(program.stderr.trimEnd().split('\n').length, 1, program.output);
      assert.match(program.stderr, pattern);
    };
    const archive = join(cluster.out, 'shop');
    const write = (name: string, text: string) => {
      writeFileSync(join(cluster.folder, name), text);
      return join(cluster.folder, name);
    };
    await refused('x', path, join(cluster.folder, 'none'), /cannot read the archive .*none/);
    await refused('x', path, cluster.data, /has no files \*\.warc\.gz/);
    await refused(
      'shop',
      path,
      archive,
      /holds the results of something else; choose another --as/,
    );
    await refused('../x', path, archive, /--as/);
    const bare = write('bare.yaml', 'seeds: ["http://127.0.0.1/"]\n');
    await refused('x', bare, archive, /has no items, so there is nothing to extract/);
    const wrong = write('wrong.yaml', 'items: { a: { fields: { t: "p:::x" } } }\n');
    await refused('x', wrong, archive, /the rules are not valid: a/);
    const other = write('other.yaml', 'items: { a: { fields: { t: title } } }\n');
    const first = start(cluster, path, 'x');
    assert.equal((await first.exited).code, 0, first.output);
    await refused('x', other, archive, /holds items that were made by other rules; choose another/);
    renameSync(join(cluster.out, 'x/items.jsonl'), join(cluster.out, 'x/taken'));
    await refused('x', path, archive, /items\.jsonl/);
    const copy = join(cluster.folder, 'copy');
    // As some other programs write them.
    const [file = ''] = readdirSync(join(archive, 'archive')).filter((one) => /gz$/.test(one));
    const unpacked = gunzipSync(readFileSync(join(archive, 'archive', file)));
    const plain = join(cluster.folder, 'plain.warc');
    writeFileSync(plain, unpacked);
    await refused('p', path, plain, /its records are not compressed \(.*recompress/);
    writeFileSync(`${plain}.gz`, gzipSync(unpacked));
    await refused('q', path, `${plain}.gz`, /several records in one gzip member .* at byte 0/);
    cpSync(join(archive, 'archive'), copy, { recursive: true });
    const [name = ''] = readdirSync(copy).filter((one) => one.endsWith('.warc.gz'));
    const bytes = readFileSync(join(copy, name));
    const middle = bytes.length >> 1;
    bytes.fill(0, middle, middle + 400);
    writeFileSync(join(copy, name), bytes);
    await refused('y', path, copy, /at byte \d+; give the archive of a crawl, or repair it/);
  });

  test('extract: an archive that grows is gone on with', { timeout }, async (t) => {
    const { cluster, path } = await crawled(t, manyShelves(30), manyFile);
    const folder = join(cluster.out, 'shop/archive');
    const file = join(folder, '000001.warc.gz');
    const whole = readFileSync(file);
    truncateSync(file, Math.floor(whole.length * 0.6));
    const first = start(cluster, path, 'part');
    assert.equal((await first.exited).code, 0, first.output);
    assert.match(first.stderr, /ends in the middle of a record, at byte \d+/);
    const before = itemLines(cluster, 'items', 'part').length;
    assert.ok(before > 0 && before < itemLines(cluster, 'items').length);
    writeFileSync(file, whole);
    const second = start(cluster, path, 'part');
    assert.equal((await second.exited).code, 0, second.output);
    assertSame(cluster, 'part');
  });
});

function pagesOf(cluster: Cluster): unknown[] {
  const text = readFileSync(join(cluster.out, 'shop/pages.jsonl'), 'utf8');
  const lines = text.trimEnd().split('\n');
  return lines.filter((line) => Array.isArray((JSON.parse(line) as { images?: unknown }).images));
}
