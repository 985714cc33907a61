/**
 * The folder of downloaded images in the hands of an operator: one that cannot be written, or is
 * gone; crawls that are renamed, rotated, backed up, removed; images that were given up; a full
 * disk.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Cluster } from '../support/cluster.ts';
import { assertStops } from '../support/held.ts';
import { httpServer } from '../support/http-server.ts';
import { png } from '../support/pictures.ts';
import { SmallDisk } from '../support/small-disk.ts';

const timeout = 90_000;
type Site = Record<string, string | Buffer | ((response: ServerResponse) => void)>;
type Line = Record<string, unknown>;

async function serve(t: TestContext, site: Site): Promise<string> {
  const port = await httpServer(t, ({ url = '' }, response) => {
    const found = site[url];
    if (typeof found === 'function') return void found(response);
    if (found === undefined) return void response.writeHead(404).end();
    const type = typeof found === 'string' ? 'text/html' : 'image/png';
    response.writeHead(200, { 'content-type': type }).end(found);
  });
  return `http://127.0.0.1:${port}`;
}

const nameOf = (bytes: Buffer) => `${createHash('sha256').update(bytes).digest('hex')}.png`;

/** Names of the images of a folder of results, each of which has the bytes of its name. */
function imagesOf(folder: string): string[] {
  if (!existsSync(join(folder, 'images'))) return [];
  const all = readdirSync(join(folder, 'images'), { recursive: true, withFileTypes: true });
  const files = all.filter((one) => one.isFile() && one.name.endsWith('.png'));
  for (const { parentPath, name } of files) {
    assert.equal(nameOf(readFileSync(join(parentPath, name))), name);
  }
  return files.map(({ name }) => name).sort();
}

function linesOf(folder: string): Line[] {
  const names = readdirSync(folder).filter((name) => /^images.*\.jsonl$/.test(name));
  const texts = names.map((name) => readFileSync(join(folder, name), 'utf8'));
  return texts
    .join('')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line);
}

test('images: one folder that cannot be written, others, and what operators do to them', {
  timeout,
}, async (t) => {
  const contents = [png(1), png(2), png(3)];
  let isFlaky = true;
  const flaky = png(9);
  const origin = await serve(t, {
    '/': '<img src="/1.png"><img src="/1b.png"><img src="/flaky.png" alt="Flaky"><a href="/b">b</a>',
    '/b': '<img src="/2.png"><img src="/3.png"><img src="/flaky.png">',
    '/1.png': contents[0] ?? '',
    '/1b.png': contents[0] ?? '',
    '/2.png': contents[1] ?? '',
    '/3.png': contents[2] ?? '',
    '/flaky.png': (response) => void response.writeHead(isFlaky ? 503 : 200).end(flaky),
  });
  const names = contents.map(nameOf).sort();
  const cluster = new Cluster(t);
  const folderOf = (crawl: string) => join(cluster.out, crawl);
  const [a, b, c] = ['a', 'b', 'c'].map(folderOf) as [string, string, string];
  mkdirSync(a, { recursive: true });
  writeFileSync(join(a, 'images'), 'a file of mine');
  const flags = ['--download', 'images', '--attempts', '1'];
  const master = await cluster.master([]);
  const slave = cluster.slave();
  await cluster.ask('add', `${origin}/`, '--crawl', 'a', ...flags);
  await master.said(/crawl a is held: cannot write to \S*images: ENOTDIR.*mend that, then run/);
  // Another crawl with the same content goes on.
  await cluster.ask('add', `${origin}/`, '--crawl', 'b', ...flags);
  await master.said(/crawl b is done/);
  assert.deepEqual(imagesOf(b), names);
  assert.equal((await cluster.status('a')).state, 'held');
  assert.equal(readFileSync(join(a, 'images'), 'utf8'), 'a file of mine');
  rmSync(join(a, 'images'));
  await cluster.ask('resume', 'a');
  await master.said(/crawl a is done/);
  assert.deepEqual(imagesOf(a), names);
  assert.equal(linesOf(a).length, 5);

  // An image that was given up is tried again, and what showed it is known.
  const failed = linesOf(a).find(({ url }) => url === `${origin}/flaky.png`);
  assert.match(JSON.stringify(failed?.['error']), /503/);
  assert.match(await cluster.ask('buried', 'a'), /flaky\.png/);
  isFlaky = false;
  await cluster.ask('buried', 'a', '--replay');
  await master.said(/crawl a is done[\s\S]*crawl a is done/);
  const taken = linesOf(a).find((line) => line['file'] && line['url'] === `${origin}/flaky.png`);
  assert.equal(taken?.['alt'], 'Flaky');
  assert.deepEqual(taken['pages'], [`${origin}/`, `${origin}/b`]);
  assert.deepEqual(imagesOf(a), [...names, nameOf(flaky)].sort());

  await assert.rejects(cluster.ask('set', 'a', '--images-to', '/tmp'), /cannot change/);
  assert.match(await cluster.ask('set', 'a', '--max-images', '9'), /--max-images 9/);
  await cluster.ask('rename', 'a', 'c');
  assert.deepEqual([existsSync(a), imagesOf(c).length], [false, 4]);
  await cluster.ask('rotate', 'c');
  assert.equal(linesOf(c).length, 6);
  assert.match(await cluster.ask('status', '--ledger', '--verify'), /image/);
  await cluster.ask('backup', 'sunday');
  writeFileSync(join(b, 'images', 'note.txt'), 'mine');
  const said = await cluster.ask('remove', 'b', '--files');
  assert.match(said, /images \(3\)/);
  assert.deepEqual(readdirSync(join(b, 'images')), ['note.txt']);
  assert.equal(imagesOf(c).length, 4, 'images of another crawl stay');
  await assertStops(slave, master);

  // A master goes on with the backup, and asks for no image that is in it.
  const backup = join(cluster.data, 'backups/sunday');
  assert.equal(imagesOf(join(backup, 'out/c')).length, 4);
  assert.deepEqual(imagesOf(join(backup, 'out/b')), names);
  const key = join(cluster.data, 'authkey');
  const where = ['--data', join(backup, 'data'), '--out', join(backup, 'out')];
  const check = cluster.run(['master.js', 'repair', ...where]);
  assert.equal((await check.exited).code, 0, check.output);
  assert.ok(existsSync(key));
});

test('images: those that were taken away are there again where they are wanted', {
  timeout,
}, async (t) => {
  let release: () => void = () => {};
  const asked = new Promise<void>((resolve) => {
    release = resolve;
  });
  const [one, two, three] = [png(1), png(2), png(3)];
  const late = '<img src="/1b.png"><img src="/3.png">';
  const origin = await serve(t, {
    '/': '<img src="/1.png"><img src="/2.png"><a href="/late">late</a>',
    '/late': (response) => {
      void asked.then(() => response.writeHead(200, { 'content-type': 'text/html' }).end(late));
    },
    '/1.png': one,
    '/1b.png': one,
    '/2.png': two,
    '/3.png': three,
  });
  const cluster = new Cluster(t);
  const folder = join(cluster.out, 'default');
  const flags = ['--download', 'images', '--exit-when-done'];
  const master = await cluster.master([`${origin}/`, ...flags]);
  cluster.slave();
  while ((await cluster.status()).downloads?.stored !== 2);
  assert.equal(imagesOf(folder).length, 2);
  rmSync(join(folder, 'images'), { recursive: true });
  release();
  assert.equal((await master.exited).code, 0, master.output);
  assert.deepEqual(imagesOf(folder), [one, three].map(nameOf).sort());
  assert.equal(linesOf(folder).length, 4);
});

test('images: with --images-to a folder that cannot be written costs no image, and pages go on', {
  timeout,
}, async (t) => {
  const all = Array.from({ length: 12 }, (_, n) => png(n));
  const asked: string[] = [];
  const site: Site = {};
  for (const [n, bytes] of all.entries()) {
    const next = n + 1 < all.length ? `<a href="/p${n + 1}">next</a>` : '';
    site[`/p${n}`] = `<img src="/${n}.png">${next}`;
    site[`/${n}.png`] = (response) => {
      asked.push(`${n}`);
      response.writeHead(200, { 'content-type': 'image/png' }).end(bytes);
    };
  }
  const origin = await serve(t, site);
  const cluster = new Cluster(t);
  const shared = join(cluster.folder, 'shared');
  writeFileSync(shared, 'a file of mine');
  // The delay would let the images that wait take the turns of the pages.
  const flags = ['--download', 'images', '--images-to', shared, '--delay', '50'];
  const more = ['--attempts', '1', '--exit-when-done'];
  const master = await cluster.master([`${origin}/p0`, ...flags, ...more]);
  const slave = cluster.slave();
  await slave.said(/cannot write to --images-to \S*shared: E\w+.*its images wait/);
  assert.match(await cluster.ask('status'), /cannot write to \S*shared: E\w+.*; its images wait/);
  const ended = join(cluster.folder, 'ended');
  writeFileSync(ended, 'mine, too');
  const again = ['--download', 'images', '--images-to', ended];
  await cluster.ask('add', `${origin}/p11`, '--crawl', 'ended', ...again);
  await slave.said(/cannot write to --images-to \S*ended: E\w+/);
  assert.match(await cluster.ask('status'), /cannot write to \S*ended/);
  await cluster.ask('cancel', 'ended');
  while (/cannot write to \S*ended/.test(await cluster.ask('status')));
  assert.match(await cluster.ask('status'), /cannot write to \S*shared/);
  // All pages are read before an image may be tried again.
  await cluster.grown('pages.jsonl', all.length - 1);
  // Those that were asked for before the first of them was to be written.
  assert.ok(asked.length < all.length / 2, `${asked.length} were asked for in vain`);
  const { buried, failed } = await cluster.status();
  assert.deepEqual([buried, failed], [0, 0]);
  rmSync(shared);
  assert.equal((await master.exited).code, 0, master.output);
  await slave.said(/can write to --images-to \S*shared again/);
  assert.equal(slave.output.match(/cannot write to --images-to \S*shared/g)?.length, 1);
  const lines = linesOf(join(cluster.out, 'default'));
  assert.equal(lines.length, all.length);
  for (const { file, error } of lines) assert.ok(error === undefined && existsSync(String(file)));
});

for (const [what, fill, says] of [
  ['that is full', 'fill', /^\d+ MB are free under .*; free some space: until then nothing/],
  [
    'without a free inode',
    'fillFiles',
    /^\d+ inodes? (?:is|are) free under .*; remove some files: until then nothing/,
  ],
] as const) {
  test(`images: a disk ${what} for a while costs time and nothing else`, { timeout }, async (t) => {
    const disk = SmallDisk.mount(t, 96);
    if (disk === undefined) return;
    const contents = Array.from({ length: 60 }, (_, n) =>
      Buffer.concat([png(n), Buffer.alloc(40_000, n)]),
    );
    const site: Site = { '/': contents.map((_, n) => `<img src="/${n}.png">`).join('') };
    let count = 0;
    for (const [n, bytes] of contents.entries()) {
      site[`/${n}.png`] = (response) => {
        if (++count === 20) disk[fill]();
        setTimeout(() => response.writeHead(200).end(bytes), 15);
      };
    }
    const origin = await serve(t, site);
    const cluster = new Cluster(t, disk.path);
    const flags = ['--download', 'images', '--disk-reserve', '24', '--exit-when-done'];
    const master = await cluster.master([`${origin}/`, ...flags]);
    cluster.slave();
    const [, said = ''] = await master.said(/the disk is full: (.*)/);
    assert.match(said, says);
    assert.ok(imagesOf(join(cluster.out, 'default')).length < 60);
    assert.match(await cluster.ask('status'), /^the disk is full: \d+ .* free under .*; nothing/m);
    disk.free();
    assert.equal((await master.exited).code, 0, master.output);
    assert.deepEqual(imagesOf(join(cluster.out, 'default')), contents.map(nameOf).sort());
    assert.equal(linesOf(join(cluster.out, 'default')).length, 60);
  });
}
