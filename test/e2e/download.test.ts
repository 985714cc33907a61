/** `--download images` by real processes: what is kept, once, and what images.jsonl says. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import sharp from 'sharp';
import { Cluster, root } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { png } from '../support/pictures.ts';
import { readArchive } from '../support/warc.ts';

const timeout = 60_000;
const html = { 'content-type': 'text/html' };
type Answer = { body?: Buffer | string; status?: number; headers?: Record<string, string> };
type Line = Record<string, unknown>;
type Site = Record<string, Answer | string>;

/** Serves pages (texts) and pictures; counts what was asked. */
async function serve(t: TestContext, site: Site): Promise<{ origin: string; asked: string[] }> {
  const asked: string[] = [];
  const port = await httpServer(t, (request: IncomingMessage, response: ServerResponse) => {
    const url = request.url ?? '';
    asked.push(url);
    const found = site[url];
    if (found === undefined) return void response.writeHead(404, html).end('none');
    if (typeof found === 'string') return void response.writeHead(200, html).end(found);
    const { status = 200, headers = { 'content-type': 'image/png' }, body = '' } = found;
    response.writeHead(status, headers).end(body);
  });
  return { origin: `http://127.0.0.1:${port}`, asked };
}

async function crawl(t: TestContext, args: readonly string[], slave: readonly string[] = []) {
  const cluster = new Cluster(t);
  const master = await cluster.master([...args, '--exit-when-done']);
  cluster.slave(slave);
  assert.equal((await master.exited).code, 0, master.output);
  return { cluster, lines: linesOf(cluster), master };
}

function linesOf(cluster: Cluster, crawlName = 'default'): Map<string, Line> {
  const path = join(cluster.out, crawlName, 'images.jsonl');
  const lines = readFileSync(path, 'utf8').trim().split('\n');
  const parsed = lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Line);
  const byUrl = new Map(parsed.map((line) => [String(line['url']), line]));
  assert.equal(byUrl.size, parsed.length, 'each image has one line');
  return byUrl;
}

function filesIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  const all = readdirSync(folder, { recursive: true, withFileTypes: true });
  return all
    .filter((one) => one.isFile())
    .map((one) => one.name)
    .sort();
}

const shaOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

describe('download', () => {
  test('download: images of a seed come before further seeds', { timeout }, async (t) => {
    const numbers = Array.from({ length: 400 }, (_, i) => i);
    const pages = numbers.map((n) => [`/${n}`, `<img src="/${n}.png">`]);
    const { origin, asked } = await serve(t, Object.fromEntries(pages));
    const seeds = numbers.map((n) => `${origin}/${n}`);
    await crawl(t, [...seeds, '--download', 'images', '--per-host', '2']);
    const isImage = (url: string) => url.endsWith('.png');
    const lastPage = asked.findLastIndex((url) => !isImage(url));
    const before = asked.slice(0, lastPage).filter(isImage).length;
    assert.ok(before > 200, `${before} of 400 images before the last page`);
  });

  test('download: each content is kept once, under its hash', { timeout }, async (t) => {
    const [one, two, tiny] = [
      png(1),
      png(2, { width: 40, height: 30 }),
      png(3, { width: 4, height: 4 }),
    ];
    const { origin } = await serve(t, {
      '/': '<a href="/b">b</a><img src="/1.png" alt="The first"><img src="/copy.png"><img src="/2.png#x">',
      '/b': '<img src="/1.png"><img src="/tiny.png"><img src="/none.png"><img src="/page"><img src="/moved.png">',
      '/1.png': { body: one },
      '/copy.png': { body: one, headers: { 'content-type': 'application/octet-stream' } },
      '/2.png': { body: two },
      '/tiny.png': { body: tiny },
      '/page': 'no image',
      '/moved.png': { status: 302, headers: { location: '/2.png' } },
    });
    const { cluster, lines } = await crawl(t, [
      `${origin}/`,
      '--download',
      'images',
      '--delay',
      '1',
    ]);
    const folder = join(cluster.out, 'default/images');
    const expected = [one, two, tiny].map((bytes) => `${shaOf(bytes)}.png`).sort();
    assert.deepEqual(filesIn(folder), expected);
    for (const bytes of [one, two, tiny]) {
      const sha = shaOf(bytes);
      const path = join(folder, sha.slice(0, 2), sha.slice(2, 4), `${sha}.png`);
      assert.ok(readFileSync(path).equals(bytes));
    }
    assert.equal(lines.size, 7);
    const first = lines.get(`${origin}/1.png`) ?? {};
    assert.equal(first['sha256'], shaOf(one));
    assert.equal(
      first['file'],
      `images/${shaOf(one).slice(0, 2)}/${shaOf(one).slice(2, 4)}/${shaOf(one)}.png`,
    );
    assert.deepEqual([first['width'], first['height'], first['bytes']], [24, 16, one.length]);
    assert.equal(first['alt'], 'The first');
    assert.ok((first['pages'] as string[]).includes(`${origin}/`));
    const copy = lines.get(`${origin}/copy.png`) ?? {};
    assert.equal(copy['sha256'], shaOf(one));
    assert.equal(copy['type'], 'image/png');
    assert.equal(lines.get(`${origin}/moved.png`)?.['sha256'], shaOf(two));
    assert.equal(lines.get(`${origin}/moved.png`)?.['finalUrl'], `${origin}/2.png`);
    const failed = lines.get(`${origin}/none.png`)?.['error'] as { message: string };
    assert.equal(failed.message, '404 Not Found');
    assert.equal(lines.get(`${origin}/page`)?.['excluded'], 'type');
    const addresses = readFileSync(join(cluster.out, 'default/img_src.txt'), 'utf8');
    assert.equal(addresses.trim().split('\n').length, 7);
  });

  test('download: what the filters leave out is not read to its end', { timeout }, async (t) => {
    const endless = {
      body: Buffer.concat([png(1, { width: 640, height: 10 }), Buffer.alloc(4 << 20)]),
    };
    const { origin } = await serve(t, {
      '/': ['wide', 'small', 'gif', 'huge', 'good', 'unknown']
        .map((name) => `<img src="/${name}.png">`)
        .join(''),
      '/wide.png': endless,
      '/small.png': { body: png(2, { width: 20, height: 100 }) },
      '/gif.png': { body: Buffer.concat([Buffer.from('GIF89a'), Buffer.alloc(40, 90)]) },
      '/huge.png': {
        body: Buffer.concat([png(3, { width: 90, height: 90 }), Buffer.alloc(90_000)]),
      },
      '/good.png': { body: png(4, { width: 100, height: 90 }) },
      '/unknown.png': { body: Buffer.alloc(5_000, 'not an image') },
    });
    const file = join(new Cluster(t).folder, 'file.yaml');
    const images = 'types: [png, jpg], min-width: 64, max-bytes: 80000, max-aspect: 4';
    writeFileSync(file, `seeds: ["${origin}/"]\ndownload: {images: {${images}}}\n`);
    const { cluster, lines } = await crawl(t, [file]);
    const why = (name: string) => lines.get(`${origin}/${name}.png`)?.['excluded'];
    assert.deepEqual(['wide', 'small', 'gif', 'huge', 'good', 'unknown'].map(why), [
      'aspect',
      'width',
      'type',
      'bytes',
      undefined,
      'type',
    ]);
    assert.equal(filesIn(join(cluster.out, 'default/images')).length, 1);
    const said = run(['master.js', 'check', bad(t, 'download: {images: {min-widht: 3}}')]);
    assert.match(said, /:2: download\.images\.min-widht: .*did you mean min-width\?/);
    assert.match(run(['master.js', 'check', bad(t, 'download: {pictures: {}}')]), /images/);
  });

  test('download: pages and answers that forbid it are honoured', { timeout }, async (t) => {
    const forbids = (content: string) => `<meta name="robots" content="${content}">`;
    const site: Site = {
      '/': `<a href="/no">n</a><a href="/also">a</a><img src="/own.png"><img src="/header.png">`,
      '/no': `${forbids('noimageai')}<img src="/only.png"><img src="/both.png">`,
      '/also': '<img src="/both.png">',
      '/own.png': { body: png(1) },
      '/only.png': { body: png(2) },
      '/both.png': { body: png(3) },
      '/header.png': {
        body: png(4),
        headers: { 'content-type': 'image/png', 'x-robots-tag': 'noai' },
      },
    };
    const { origin } = await serve(t, site);
    const { lines } = await crawl(t, [`${origin}/`, '--download', 'images']);
    const names = (of: ReadonlyMap<string, Line>) =>
      [...of]
        .filter(([, line]) => line['sha256'])
        .map(([url]) => url.slice(origin.length))
        .sort();
    assert.deepEqual(names(lines), ['/both.png', '/own.png']);
    assert.deepEqual(lines.get(`${origin}/both.png`)?.['pages'], [`${origin}/also`]);
    const { excluded, optOut } = lines.get(`${origin}/header.png`) ?? {};
    assert.deepEqual([excluded, optOut], ['opt-out', 'noai']);
    assert.equal(lines.has(`${origin}/only.png`), false);
    const file = join(new Cluster(t).folder, 'file.yaml');
    writeFileSync(
      file,
      `seeds: ["${origin}/"]\ndownload: {images: {ignore-opt-out: true, similar: off}}\n`,
    );
    const all = await crawl(t, [file]);
    assert.deepEqual(names(all.lines), ['/both.png', '/header.png', '/only.png', '/own.png']);
  });

  test('download: limits of pages and of images, hosts of images', { timeout }, async (t) => {
    const other = await serve(t, { '/far.png': { body: png(9) }, '/there.png': { body: png(8) } });
    const site: Site = {
      '/there.png': { status: 302, headers: { location: `${other.origin}/there.png` } },
    };
    for (let n = 0; n < 12; n++) {
      site[n === 0 ? '/' : `/p${n}`] =
        `<a href="/p${n + 1}">on</a><img src="/i${n}.png"><img src="${other.origin}/far.png"><img src="/there.png">`;
      site[`/i${n}.png`] = { body: png(n + 20) };
    }
    const { origin } = await serve(t, site);
    const flags = ['--download', 'images', '--allow-private=all'];
    const few = await crawl(t, [`${origin}/`, ...flags, '--max-pages', '3']);
    const kept = [...few.lines]
      .filter(([, line]) => line['sha256'])
      .map(([url]) => url)
      .sort();
    const mine = [0, 1, 2].map((n) => `${origin}/i${n}.png`);
    const theirs = [`${other.origin}/far.png`, `${other.origin}/there.png`];
    assert.deepEqual(kept, [...mine, ...theirs].sort());
    assert.equal(few.lines.get(`${origin}/there.png`)?.['redirectedTo'], theirs[1]);
    const limited = await crawl(t, [`${origin}/`, ...flags, '--max-images', '4']);
    assert.equal([...limited.lines.values()].filter((line) => line['sha256']).length, 4);
    const file = join(new Cluster(t).folder, 'file.yaml');
    const seeds = `seeds: ["${origin}/"]\nallow-private: all\n`;
    writeFileSync(file, `${seeds}max-depth: 0\ndownload: {images: {scope: host}}\n`);
    const near = await crawl(t, [file]);
    assert.deepEqual([...near.lines.keys()].sort(), [`${origin}/i0.png`, `${origin}/there.png`]);
  });

  test('download: an image that failed is tried again at the page limit', {
    timeout,
  }, async (t) => {
    const body = png(1);
    const site: Site = { '/': '<img src="/1.png"><a href="/2">on</a><a href="/3">on</a>' };
    site['/1.png'] = {
      get status() {
        return asked.filter((url) => url === '/1.png').length < 2 ? 503 : 200;
      },
      body,
    };
    const { origin, asked } = await serve(t, site);
    const flags = ['--download', 'images', '--max-pages', '1'];
    const { lines, master } = await crawl(t, [`${origin}/`, ...flags]);
    assert.ok(lines.get(`${origin}/1.png`)?.['sha256'], master.output);
    assert.match(master.output, /stopped at --max-pages 1 with 2 URLs left/);
  });

  test('download: a folder that slaves share, and one without files', { timeout }, async (t) => {
    const bytes = [png(1), png(2)];
    const { origin } = await serve(t, {
      '/': '<img src="/1.png"><img src="/2.png"><img src="/3.png">',
      '/1.png': { body: bytes[0] ?? '' },
      '/2.png': { body: bytes[1] ?? '' },
      '/3.png': { body: bytes[1] ?? '' },
    });
    const shared = join(new Cluster(t).folder, 'shared');
    const { cluster, lines } = await crawl(t, [
      ...[`${origin}/`, '--download', 'images', '--images-to', shared],
    ]);
    assert.deepEqual(filesIn(shared), bytes.map((one) => `${shaOf(one)}.png`).sort());
    assert.ok(!existsSync(join(cluster.out, 'default/images')));
    for (const line of lines.values()) assert.ok(existsSync(String(line['file'])));
    const file = join(new Cluster(t).folder, 'file.yaml');
    writeFileSync(
      file,
      `seeds: ["${origin}/"]\narchive: warc\narchive-bytes: 80\ndownload: {images: {store: none}}\n`,
    );
    const none = await crawl(t, [file]);
    assert.equal(none.lines.get(`${origin}/1.png`)?.['sha256'], shaOf(bytes[0] ?? Buffer.alloc(0)));
    assert.ok(!existsSync(join(none.cluster.out, 'default/images')));
    const warc = readArchive(join(none.cluster.out, 'default/archive'));
    const kept = warc.find(
      (one) => one.fields['warc-target-uri'] === `${origin}/1.png` && one.type === 'response',
    );
    // Nothing else has it, so it is not cut.
    assert.ok(kept?.payload.equals(bytes[0] ?? Buffer.alloc(0)));
  });

  test('download: images that look the same, and thumbnails', { timeout }, async (t) => {
    const original = png(5, { width: 320, height: 240 });
    const smaller = await sharp(original).resize(200).jpeg({ quality: 60 }).toBuffer();
    const { origin } = await serve(t, {
      '/': '<img src="/a.png"><a href="/b">b</a>',
      '/b': '<img src="/b.jpg"><img src="/c.png"><img src="/flat.png"><img src="/broken.png">',
      '/a.png': { body: original },
      '/b.jpg': { body: smaller, headers: { 'content-type': 'image/jpeg' } },
      '/c.png': { body: png(6, { width: 320, height: 240 }) },
      '/flat.png': {
        body: await sharp({ create: { width: 50, height: 50, channels: 3, background: '#333' } })
          .png()
          .toBuffer(),
      },
      '/broken.png': { body: original.subarray(0, 400) },
    });
    const file = join(new Cluster(t).folder, 'file.yaml');
    writeFileSync(
      file,
      `seeds: ["${origin}/"]\ndelay: 30\ndownload: {images: {similar: true, thumbnails: 64}}\n`,
    );
    const { cluster, lines } = await crawl(t, [file]);
    const of = (name: string) => lines.get(`${origin}/${name}`) ?? {};
    // Whichever came first.
    assert.ok([shaOf(original), shaOf(smaller)].includes(String(of('a.png')['group'])));
    assert.equal(of('b.jpg')['group'], of('a.png')['group']);
    assert.equal(of('c.png')['group'], of('c.png')['sha256']);
    assert.equal(of('flat.png')['group'], undefined);
    assert.match(String(of('broken.png')['fault']), /\w/);
    assert.equal(of('broken.png')['sha256'], shaOf(original.subarray(0, 400)));
    const thumbnail = join(cluster.out, 'default', String(of('a.png')['thumbnail']));
    const { width, format } = await sharp(readFileSync(thumbnail)).metadata();
    assert.deepEqual([width, format], [64, 'webp']);
  });

  test('download: shards for training programs', { timeout }, async (t) => {
    const bytes = [png(1), png(2), png(3, { text: { Author: 'Ada' } })];
    const { origin } = await serve(t, {
      '/': [1, 2, 3, 4].map((n) => `<img src="/${n}.png">`).join(''),
      '/1.png': { body: bytes[0] ?? '' },
      '/2.png': { body: bytes[1] ?? '' },
      '/3.png': { body: bytes[2] ?? '' },
      '/4.png': { body: bytes[0] ?? '' },
    });
    const file = join(new Cluster(t).folder, 'file.yaml');
    const images = 'store: tar, thumbnails: 16';
    writeFileSync(file, `seeds: ["${origin}/"]\ndownload: {images: {${images}}}\n`);
    const { cluster, lines } = await crawl(t, [file]);
    const folder = join(cluster.out, 'default');
    const path = join(folder, 'images/000000.tar');
    const read = (entry: unknown) => execFileSync('tar', ['-xOf', path, String(entry)]);
    assert.deepEqual(filesIn(join(folder, 'images')), ['000000.tar']);
    for (const [n, body] of bytes.entries()) {
      const { file: shard, entry, thumbnail } = lines.get(`${origin}/${n + 1}.png`) ?? {};
      assert.deepEqual([shard, thumbnail], ['images/000000.tar', undefined]);
      assert.ok(read(entry).equals(body));
    }
    const again = lines.get(`${origin}/4.png`)?.['entry'];
    assert.equal(again, lines.get(`${origin}/1.png`)?.['entry']);
    const listed = execFileSync('tar', ['-tf', path], { encoding: 'utf8' }).trim().split('\n');
    assert.equal(listed.length, 9, 'each content is there once: image, thumbnail, facts');
    const facts = read(`${shaOf(bytes[2] ?? png(0))}.json`);
    const { url, creator, width } = JSON.parse(facts.toString()) as Line;
    assert.deepEqual([url, creator, width], [`${origin}/3.png`, 'Ada', 24]);
    const gallery = cluster.run(['master.js', 'gallery', 'default', '--out', cluster.out]);
    assert.equal((await gallery.exited).code, 0, gallery.output);
    assert.ok(readFileSync(join(folder, 'gallery.html'), 'utf8').includes(String(again)));
    const both = bad(t, 'download: {images: {store: tar, similar: drop}}');
    assert.match(run(['master.js', 'check', both]), /cannot have two of: store: tar/);
  });

  test('download: of images that look the same, one is kept', { timeout }, async (t) => {
    const original = png(5, { width: 320, height: 240 });
    const smaller = await sharp(original).resize(200).jpeg({ quality: 60 }).toBuffer();
    const jpeg = { body: smaller, headers: { 'content-type': 'image/jpeg' } };
    const other = png(6, { width: 320, height: 240 });
    const { origin } = await serve(t, {
      '/': '<img src="/a.png"><a href="/b">b</a>',
      '/b': '<img src="/b.jpg"><img src="/c.png"><img src="/again.jpg">',
      '/a.png': { body: original },
      '/b.jpg': jpeg,
      '/again.jpg': jpeg,
      '/c.png': { body: other },
    });
    const file = join(new Cluster(t).folder, 'file.yaml');
    const images = 'similar: drop, thumbnails: 32';
    const spec = `seeds: ["${origin}/"]\nper-host: 1\ndownload: {images: {${images}}}\n`;
    writeFileSync(file, spec);
    const { cluster, lines } = await crawl(t, [file]);
    const kept = [original, other].flatMap((one) => [
      ...[`${shaOf(one)}.png`, `${shaOf(one)}.thumb.webp`],
    ]);
    assert.deepEqual(filesIn(join(cluster.out, 'default/images')), kept.sort());
    for (const name of ['b.jpg', 'again.jpg']) {
      const line = lines.get(`${origin}/${name}`) ?? {};
      assert.deepEqual(
        [line['excluded'], line['file'], line['thumbnail']],
        [...['similar', undefined, undefined]],
      );
      assert.deepEqual([line['sha256'], line['group']], [shaOf(smaller), shaOf(original)]);
    }
  });

  test('download: the gallery works from the folder, and escapes', { timeout }, async (t) => {
    const { origin } = await serve(t, {
      '/': '<img src="/1.png" alt="&quot;><script>x</script>"><figure><img src="/2.png"><a href="/by" rel=license>by</a></figure>',
      '/by': 'terms',
      '/1.png': { body: png(1) },
      '/2.png': { body: png(1, { text: { Author: '<b>Ada' } }) },
    });
    const { cluster, lines } = await crawl(t, [`${origin}/`, '--download', 'images']);
    assert.equal(lines.get(`${origin}/2.png`)?.['creator'], '<b>Ada');
    assert.equal(lines.get(`${origin}/2.png`)?.['license'], `${origin}/by`);
    assert.equal(lines.get(`${origin}/1.png`)?.['license'], undefined);
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ['master.js', 'gallery', 'default', '--out', cluster.out],
      { cwd: root, encoding: 'utf8' },
    );
    assert.equal(status, 0, stderr);
    assert.match(stdout, /2 images of 1 page, 1 group /);
    const page = readFileSync(join(cluster.out, 'default/gallery.html'), 'utf8');
    assert.doesNotMatch(page, /<script>|<b>/);
    const files = [...page.matchAll(/<img [^>]*src="([^"]+)"/g)].map(([, file = '']) => file);
    assert.equal(files.length, 4);
    for (const file of files) assert.ok(existsSync(join(cluster.out, 'default', file)), file);
    assert.match(run(['master.js', 'gallery', 'none', '--out', cluster.out]), /see --download/);
  });

  test('download: without it, images.jsonl is any name', { timeout }, async (t) => {
    const { origin } = await serve(t, { '/': '<img src="/1.png">', '/1.png': { body: png(1) } });
    const output = ['--output', 'jsonl:images.jsonl#records=images'];
    const cluster = new Cluster(t);
    const master = await cluster.master([`${origin}/`, '--exit-when-done', ...output]);
    cluster.slave();
    assert.equal((await master.exited).code, 0, master.output);
    const path = join(cluster.out, 'default/images.jsonl');
    assert.equal(readFileSync(path, 'utf8'), `{"url":"${origin}/1.png"}\n`);
    const refused = new Cluster(t);
    const both = ['--download', 'images', ...output];
    const said = run([
      'master.js',
      `${origin}/`,
      ...both,
      '--data',
      refused.data,
      '--out',
      refused.out,
    ]);
    assert.match(said, /images\.jsonl/);
    const table = await crawl(t, [
      ...[`${origin}/`, '--download', 'images', '--output', 'csv:kept.csv#records=downloads'],
    ]);
    const csv = readFileSync(join(table.cluster.out, 'default/kept.csv'), 'utf8');
    assert.match(csv, new RegExp(shaOf(png(1))));
  });
});

/** A crawl file with a fault. */
function bad(t: TestContext, text: string): string {
  const path = join(new Cluster(t).folder, 'bad.yaml');
  writeFileSync(path, `seeds: ["http://127.0.0.1/"]\n${text}\n`);
  return path;
}

/** The error of a command that fails. */
function run(args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: root,
    encoding: 'utf8',
    timeout: 20_000,
  });
  assert.equal(status, 2, stdout + stderr);
  return stdout + stderr;
}
