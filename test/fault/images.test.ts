/**
 * Downloaded images through kills of slaves and master: each content once, every file whole, each
 * URL once in images.jsonl. The long form:
 * STORE=files IMAGES=10000 KILLS=50 node scripts/test.mjs fault/images
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { throughKills } from '../support/kills.ts';
import { pngHead } from '../support/pictures.ts';

const timeout = 900_000;
/** With STORE, the long form of one alone. */
const runs = [
  { store: 'files', images: 900, kills: 12 },
  { store: 'tar', images: 360, kills: 4 },
]
  .filter(({ store }) => (process.env['STORE'] ?? store) === store)
  .map(({ store, ...run }) => ({
    store,
    images: Number(process.env['IMAGES'] ?? run.images),
    kills: Number(process.env['KILLS'] ?? run.kills),
  }));
type Run = (typeof runs)[number];
/** Small shards, so that there are several. */
const shardBytes = 400_000;
const perPage = 30;

/** 30 % of the URLs repeat the image of an earlier one. */
function contentOf(n: number): number {
  return n % 10 < 3 && n > 9 ? n - 10 + 3 : n;
}

function imageOf(n: number): Buffer {
  const seed = contentOf(n);
  return Buffer.concat([
    pngHead(10, 10),
    Buffer.alloc(2_000 + (seed % 97) * 300, `image ${seed} `),
  ]);
}

function page(n: number, images: number): string {
  const count = Math.ceil(images / perPage);
  const shown = Array.from({ length: perPage }, (_, i) => n * perPage + i).filter(
    (i) => i < images,
  );
  const links = [n * 2 + 1, n * 2 + 2].filter((m) => m < count);
  return [
    ...links.map((m) => `<a href="/p/${m}">on</a>`),
    ...shown.map((i) => `<img src="/i/${i}.png" alt="number ${i}">`),
  ].join('');
}

/** A file that no record knows, as a crash between file and commit leaves it. */
function loseFile(folder: string, n: number): void {
  const lost = createHash('sha256').update(`lost ${n}`).digest('hex');
  const leaf = join(folder, lost.slice(0, 2), lost.slice(2, 4));
  mkdirSync(leaf, { recursive: true });
  writeFileSync(join(leaf, `${lost}.png`), 'half');
}

/** The same in shards: more in the last one, and one more. */
function loseInShard(folder: string): void {
  mkdirSync(folder, { recursive: true });
  const names = readdirSync(folder).sort();
  const last = names.at(-1);
  if (last !== undefined) appendFileSync(join(folder, last), 'half');
  writeFileSync(join(folder, `${String(names.length).padStart(6, '0')}.tar`), 'half');
}

/** The bytes of all entries by shard and name, as tar reads them. */
function inShards(folder: string): Map<string, Buffer> {
  const found = new Map<string, Buffer>();
  for (const shard of readdirSync(folder)) {
    assert.ok(statSync(join(folder, shard)).size <= shardBytes, shard);
    const into = join(folder, '..', 'unpacked', shard);
    mkdirSync(into, { recursive: true });
    const listed = execFileSync('tar', ['-xvf', join(folder, shard), '-C', into]);
    for (const name of listed.toString().trim().split('\n')) {
      const key = `images/${shard}/${name}`;
      assert.ok(!found.has(key), `${key} is there once`);
      found.set(key, readFileSync(join(into, name)));
    }
  }
  return found;
}

async function exactImages(t: TestContext, { store, images, kills }: Run): Promise<void> {
  const port = await httpServer(t, ({ url = '' }, response) => {
    const [, kind, n] = /^\/([pi])\/(\d+)(?:\.png)?$/.exec(url) ?? [];
    const isPage = kind === 'p';
    if (n === undefined) return void response.writeHead(404).end();
    const type = isPage ? 'text/html' : 'image/png';
    const body = isPage ? page(Number(n), images) : imageOf(Number(n));
    const send = () => response.writeHead(200, { 'content-type': type }).end(body);
    return void setTimeout(send, 10);
  });
  const cluster = new Cluster(t);
  const site = `http://127.0.0.1:${port}`;
  // Enough time for all kills, whatever the machine does meanwhile.
  const perHost = images > 5_000 ? '16' : '2';
  const file = join(cluster.folder, 'images.yaml');
  const kept = `{store: ${store}, shard-bytes: ${shardBytes}}`;
  writeFileSync(file, `seeds: ["${site}/p/0"]\ndownload: {images: ${kept}}\n`);
  const args = [file, '--crawl', 'default', '--exit-when-done', '--per-host', perHost];
  const folder = await throughKills(t, cluster, {
    kills,
    args,
    crashed: (kill) => {
      const lies = join(cluster.out, 'default', 'images');
      if (store === 'tar') loseInShard(lies);
      else loseFile(lies, kill);
    },
  });

  const expected = new Map<string, string>();
  for (let n = 0; n < images; n++) {
    const sha256 = createHash('sha256').update(imageOf(n)).digest('hex');
    expected.set(`${site}/i/${n}.png`, sha256);
  }
  const text = readFileSync(join(folder, 'images.jsonl'), 'utf8').trim();
  const lines = text.split('\n').map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.equal(lines.length, images, 'each URL has one line');
  const bytesOf = store === 'tar' ? inShards(join(folder, 'images')) : undefined;
  for (const { url, sha256, file, entry, alt, pages } of lines) {
    const n = Number(/(\d+)\.png$/.exec(String(url))?.[1]);
    assert.equal(sha256, expected.get(String(url)), String(url));
    assert.equal(alt, `number ${n}`);
    assert.deepEqual(pages, [`${site}/p/${Math.floor(n / perPage)}`]);
    const bytes = bytesOf?.get(`${file}/${entry}`) ?? readFileSync(join(folder, String(file)));
    assert.ok(bytes.equals(imageOf(n)), `${file} ${entry}`);
  }
  const all = readdirSync(join(folder, 'images'), { recursive: true, withFileTypes: true });
  const files = all.filter((one) => one.isFile()).map(({ name }) => name.slice(0, 64));
  const entries = [...(bytesOf?.keys() ?? [])].filter((name) => name.endsWith('.png'));
  const names = bytesOf ? entries.map((name) => basename(name).slice(0, 64)) : files;
  assert.deepEqual(
    names.sort(),
    [...new Set(expected.values())].sort(),
    'each content is there once',
  );
  if (bytesOf) assert.equal(bytesOf.size, names.length * 2, 'each image has its facts');
}

for (const run of runs) {
  const name = `images: each content once through ${run.kills} kills, in ${run.store}`;
  test(name, { timeout }, (t) => exactImages(t, run));
}
