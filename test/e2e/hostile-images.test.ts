/** Forty malformed and hostile images: each ends as it should, and no slot is lost. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { deflateSync, gzipSync } from 'node:zlib';
import sharp from 'sharp';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { chunk, png, pngHead } from '../support/pictures.ts';

type Line = Record<string, unknown>;
type Serve = (response: ServerResponse) => void;

const whole = (body: Buffer | string, headers: Record<string, string> = {}): Serve => {
  return (response) => void response.writeHead(200, headers).end(body);
};
const u16 = (n: number) => Buffer.from([n >> 8, n & 255]);
const big = Buffer.alloc(100_000, 7);

/** Names and answers. */
async function hostile(): Promise<Record<string, Serve>> {
  const good = png(1, { width: 200, height: 150 });
  const jpeg = await sharp(good).jpeg().toBuffer();
  const webp = await sharp(good).webp().toBuffer();
  const gif = await sharp(good).gif().toBuffer();
  const avif = await sharp(good).avif({ effort: 0 }).toBuffer();
  const tiff = await sharp(good).tiff().toBuffer();
  const cut = (image: Buffer, at: number) => whole(image.subarray(0, at));
  const idat = (body: Buffer) =>
    Buffer.concat([pngHead(30_000, 30_000), chunk('IDAT', body), chunk('IEND', Buffer.alloc(0))]);
  const frame = (width: number, height: number) =>
    Buffer.concat([
      Buffer.from([0xff, 0xd8, 0xff, 0xc0, 0, 17, 8]),
      ...[u16(height), u16(width), Buffer.alloc(20)],
    ]);
  const svg = (inner: string) =>
    whole(`<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">${inner}</svg>`);
  const exif = Buffer.concat([
    Buffer.from([0xff, 0xd8, 0xff, 0xe1, 0xff, 0xff]),
    ...[Buffer.from('Exif\0\0II*\0'), Buffer.alloc(4, 0xff), Buffer.alloc(70_000, 0xff)],
  ]);
  return {
    empty: whole(''),
    'one-byte': whole('\x89'),
    'only-magic': cut(good, 8),
    'cut-head': cut(good, 20),
    'cut-body': cut(good, 300),
    'jpg-cut': cut(jpeg, 200),
    'webp-cut': cut(webp, 60),
    'gif-cut': cut(gif, 40),
    'avif-cut': cut(avif, 100),
    'tiff-cut': cut(tiff, 50),
    bomb: whole(idat(deflateSync(Buffer.alloc(40 << 20)))),
    'png-1e9': whole(Buffer.concat([pngHead(40_000, 25_000), big])),
    'png-max': whole(Buffer.concat([pngHead(0x7fffffff, 0x7fffffff), big])),
    'png-zero': whole(Buffer.concat([pngHead(0, 0), big])),
    'jpg-65535': whole(Buffer.concat([frame(65_535, 65_535), big])),
    'jpg-zero': whole(Buffer.concat([frame(0, 0), big])),
    'jpg-fill': whole(Buffer.concat([Buffer.from([0xff, 0xd8]), Buffer.alloc(90_000, 0xff)])),
    'jpg-segments': whole(
      Buffer.concat([
        Buffer.from([0xff, 0xd8]),
        Buffer.alloc(90_000, Buffer.from([0xff, 0xe1, 0, 2])),
      ]),
    ),
    'exif-lies': whole(exif),
    'gif-65535': whole(Buffer.concat([Buffer.from('GIF89a\xff\xff\xff\xff', 'latin1'), big])),
    'bmp-lies': whole(
      Buffer.concat([
        Buffer.from('BM'),
        Buffer.alloc(12),
        Buffer.from([40, 0, 0, 0]),
        Buffer.alloc(40, 0x80),
      ]),
    ),
    'ico-lies': whole(Buffer.concat([Buffer.from([0, 0, 1, 0, 255, 255]), Buffer.alloc(60)])),
    'tiff-far': whole(Buffer.concat([Buffer.from('II*\0\xff\xff\xff\x7f', 'latin1'), big])),
    'tiff-loop': whole(
      Buffer.concat([Buffer.from('MM\0*\0\0\0\x08\xff\xff', 'latin1'), Buffer.alloc(900_000)]),
    ),
    'avif-lies': whole(
      Buffer.concat([
        Buffer.from('\0\0\0\x14ftypavif\0\0\0\0avif\xff\xff\xff\xffmeta', 'latin1'),
        big,
      ]),
    ),
    'webp-lies': whole(Buffer.concat([Buffer.from('RIFF\xff\xff\xff\xffWEBPVP8X', 'latin1'), big])),
    'webp-odd': whole(Buffer.concat([Buffer.from('RIFF\0\0\0\0WEBPNONE', 'latin1'), big])),
    jxl: whole(Buffer.concat([Buffer.from([0xff, 0x0a]), big])),
    'svg-script': svg('<script>fetch("/asked-by-svg")</script>'),
    'svg-entity': whole(
      '<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]><svg>&x;</svg>',
    ),
    'svg-image': svg('<image href="/asked-by-svg"/>'),
    'svg-use': svg('<use href="/asked-by-svg#a"/><style>@import "/asked-by-svg";</style>'),
    html: whole('<html><script>alert(1)</script>', { 'content-type': 'image/png' }),
    zip: whole(Buffer.concat([Buffer.from('PK\x03\x04'), big])),
    'png-then-zip': whole(Buffer.concat([good, Buffer.from('PK\x03\x04'), big])),
    'gzip-bomb': whole(gzipSync(Buffer.concat([good, Buffer.alloc(60 << 20)])), {
      'content-encoding': 'gzip',
    }),
    'too-long': whole(Buffer.concat([good, Buffer.alloc(3 << 20)])),
    'length-lies': (response) => {
      response.writeHead(200, { 'content-length': '999999' });
      response.write(good);
      setTimeout(() => response.destroy(), 50);
    },
    endless: (response) => {
      response.writeHead(200);
      const timer = setInterval(() => response.write(Buffer.alloc(100_000, 1)), 1);
      response.on('close', () => clearInterval(timer));
    },
    hung: (response) => void response.writeHead(200).write(good.subarray(0, 100)),
  };
}

async function crawl(
  t: TestContext,
): Promise<{ lines: Map<string, Line>; asked: string[]; names: string[] }> {
  const answers = await hostile();
  const names = Object.keys(answers);
  const asked: string[] = [];
  const port = await httpServer(t, (request: IncomingMessage, response: ServerResponse) => {
    const name = (request.url ?? '').slice(1);
    asked.push(name);
    const shown = [...names, 'good'].map((one) => `<img src="/${one}">`).join('');
    if (name === '') return whole(shown, { 'content-type': 'text/html' })(response);
    if (name === 'good') return whole(png(7))(response);
    return (answers[name] ?? ((one) => void one.writeHead(404).end()))(response);
  });
  const cluster = new Cluster(t);
  const file = join(cluster.folder, 'file.yaml');
  writeFileSync(
    file,
    `seeds: ["http://127.0.0.1:${port}/"]\nattempts: 2\nfetch-timeout: 3000\n` +
      'download: {images: {max-bytes: 2000000, similar: true, thumbnails: 64}}\n',
  );
  const master = await cluster.master([file, '--exit-when-done']);
  const slave = cluster.slave(['--slots', '4']);
  assert.equal((await master.exited).code, 0, master.output);
  assert.equal((await slave.exited).code, 0, slave.output);
  assert.doesNotMatch(slave.output, /internal error/);
  const text = readFileSync(join(cluster.out, 'default/images.jsonl'), 'utf8').trim();
  const all = text.split('\n').map((line) => JSON.parse(line) as Line);
  const nameOf = (line: Line) => new URL(String(line['url'])).pathname.slice(1);
  return { lines: new Map(all.map((line) => [nameOf(line), line])), asked, names };
}

test('images: forty hostile ones end as they should', { timeout: 120_000 }, async (t) => {
  const { lines, asked, names } = await crawl(t);
  assert.equal(names.length, 40);
  assert.deepEqual([...lines.keys()].sort(), [...names, 'good'].sort(), 'each has a line');
  assert.ok(!asked.includes('asked-by-svg'));
  assert.equal(lines.get('good')?.['fault'], undefined);
  assert.equal(String(lines.get('good')?.['dhash']).length, 16);
  const excluded = (name: string) => lines.get(name)?.['excluded'];
  for (const name of ['empty', 'one-byte', 'html', 'zip']) assert.ok(excluded(name), name);
  for (const name of ['too-long', 'gzip-bomb', 'endless']) assert.ok(excluded(name), name);
  for (const name of ['bomb', 'png-1e9', 'png-max', 'cut-body', 'jpg-65535']) {
    assert.ok(lines.get(name)?.['fault'], name);
    assert.equal(lines.get(name)?.['dhash'], undefined, name);
  }
  for (const name of ['hung', 'length-lies']) assert.ok(lines.get(name)?.['error'], name);
  for (const name of ['svg-script', 'svg-image', 'svg-use', 'svg-entity']) {
    assert.equal(lines.get(name)?.['type'], 'image/svg+xml', name);
    assert.equal(lines.get(name)?.['dhash'], undefined, name);
  }
});
