/**
 * Downloaded images through kills of slaves and master: each content once, every file whole, each
 * URL once in images.jsonl. The long form: IMAGES=10000 KILLS=50 node scripts/test.mjs fault/images
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, watch, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Cluster, type Program } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { pngHead } from '../support/pictures.ts';
import { randomUint32s } from '../support/random.ts';

const timeout = 900_000;
const images = Number(process.env['IMAGES'] ?? 900);
const kills = Number(process.env['KILLS'] ?? 12);
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

function page(n: number): string {
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

async function moved(folder: string, ms: number): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const watcher = watch(folder);
  try {
    await Promise.race([once(watcher, 'change'), wait(ms)]);
  } finally {
    watcher.close();
  }
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

test(`images: each content once through ${kills} kills`, { timeout }, async (t) => {
  const port = await httpServer(t, ({ url = '' }, response) => {
    const [, kind, n] = /^\/([pi])\/(\d+)(?:\.png)?$/.exec(url) ?? [];
    const isPage = kind === 'p';
    if (n === undefined) return void response.writeHead(404).end();
    const type = isPage ? 'text/html' : 'image/png';
    const body = isPage ? page(Number(n)) : imageOf(Number(n));
    const send = () => response.writeHead(200, { 'content-type': type }).end(body);
    return void setTimeout(send, 10);
  });
  const cluster = new Cluster(t);
  const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e6));
  t.diagnostic(`seed ${seed}`);
  const next = randomUint32s(seed);
  const random = () => next() / 2 ** 32;
  const site = `http://127.0.0.1:${port}`;
  // Enough time for all kills, whatever the machine does meanwhile.
  const perHost = images > 5_000 ? '16' : '2';
  const args = [`${site}/p/0`, '--exit-when-done', '--download', 'images', '--per-host', perHost];
  let master = await cluster.master(args);
  const { address } = cluster;
  const slaves: Program[] = [cluster.slave(), cluster.slave()];
  const folder = join(cluster.out, 'default');
  let masterKills = 0;
  let done = 0;
  for (let i = 0; i < kills; i++) {
    await moved(folder, 300);
    await wait(random() * 60);
    if (!master.isAlive) break;
    done++;
    if (random() < 0.5) {
      await master.kill();
      masterKills++;
      // A file that no record knows, as a crash between file and commit leaves it.
      const lost = createHash('sha256').update(`lost ${i}`).digest('hex');
      const leaf = join(folder, 'images', lost.slice(0, 2), lost.slice(2, 4));
      mkdirSync(leaf, { recursive: true });
      writeFileSync(join(leaf, `${lost}.png`), 'half');
      master = await cluster.master(args, { listen: address });
    } else {
      const at = Math.floor(random() * slaves.length);
      await slaves[at]?.kill();
      slaves[at] = cluster.slave([], address);
    }
  }
  assert.equal(done, kills, 'the crawl lasted long enough');
  t.diagnostic(`${masterKills} kills of the master`);
  assert.equal((await master.exited).code, 0, master.output);

  const expected = new Map<string, string>();
  for (let n = 0; n < images; n++) {
    const sha256 = createHash('sha256').update(imageOf(n)).digest('hex');
    expected.set(`${site}/i/${n}.png`, sha256);
  }
  const text = readFileSync(join(folder, 'images.jsonl'), 'utf8').trim();
  const lines = text.split('\n').map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.equal(lines.length, images, 'each URL has one line');
  for (const { url, sha256, file, alt, pages } of lines) {
    const n = Number(/(\d+)\.png$/.exec(String(url))?.[1]);
    assert.equal(sha256, expected.get(String(url)), String(url));
    assert.equal(alt, `number ${n}`);
    assert.deepEqual(pages, [`${site}/p/${Math.floor(n / perPage)}`]);
    assert.ok(readFileSync(join(folder, String(file))).equals(imageOf(n)), String(file));
  }
  const all = readdirSync(join(folder, 'images'), { recursive: true, withFileTypes: true });
  const names = all.filter((one) => one.isFile()).map(({ name }) => name.slice(0, 64));
  assert.deepEqual(
    names.sort(),
    [...new Set(expected.values())].sort(),
    'each content has one file',
  );
});
