/**
 * Result files that somebody removes, moves, cuts or writes into while a master works: their crawl
 * is held, others go on, and nothing is lost or written twice.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { Cluster } from '../support/cluster.ts';
import { assertExact } from '../support/exact.ts';
import {
  assertStops,
  fileIn,
  gone,
  held,
  keptOf,
  pace,
  started,
  statusOf,
  written,
} from '../support/held.ts';

const timeout = 240_000;

type Harm = {
  readonly name: string;
  readonly reason: RegExp;
  /** Does it, to the folder of the crawl or a file in it. */
  readonly harm: (folder: string) => void;
  /** Puts back what the crawl wrote. */
  readonly mend: (folder: string) => void;
};

/** Harm to one file, whose content is at `kept` before. */
function ofFile(name: string, what: string, reason: RegExp, harm: (path: string) => void): Harm {
  return {
    name: `${name} is ${what}`,
    reason,
    harm: (folder) => {
      const path = fileIn(folder, name);
      linkSync(path, keptOf(folder, name));
      harm(path);
    },
    mend: (folder) => renameSync(keptOf(folder, name), fileIn(folder, name)),
  };
}

const other = / is not the file that was written to; put that back/;
const cutBack: Harm['mend'] = () => {};

const harms: readonly Harm[] = [
  ofFile('pages.jsonl', 'removed', gone, (path) => rmSync(path)),
  ofFile('img_src.txt', 'removed', gone, (path) => rmSync(path)),
  ofFile('skipped.jsonl', 'removed', gone, (path) => rmSync(path)),
  ofFile('pages.jsonl', 'replaced by a copy of itself', other, (path) => {
    copyFileSync(path, `${path}.copy`);
    renameSync(`${path}.copy`, path);
  }),
  ofFile('pages.jsonl', 'replaced by a link to nowhere', gone, (path) => {
    rmSync(path);
    symlinkSync(`${path}.nowhere`, path);
  }),
  {
    name: 'the folder is moved away',
    reason: gone,
    harm: (folder) => renameSync(folder, `${folder}-away`),
    mend: (folder) => renameSync(`${folder}-away`, folder),
  },
  {
    name: 'pages.jsonl is written to by somebody else',
    reason: / has \d+ bytes, but \d+ were written to it/,
    harm: (folder) => appendFileSync(fileIn(folder), '{"foreign":1}\n'),
    mend: cutBack,
  },
];

test('held: what is done to the files of a crawl holds it alone', { timeout }, async (t) => {
  const { site, cluster, master, slave, client } = await started(t, []);
  for (const [i, { name, reason, harm }] of harms.entries()) {
    const crawl = `crawl-${i}`;
    // Added now, lest it ends before its turn comes.
    site.delayMs = pace.slow;
    await client.request('crawl.add', { crawl, seeds: [site.url], priority: 0 });
    await written(cluster, crawl);
    harm(join(cluster.out, crawl));
    site.delayMs = pace.fast;
    await master.said(new RegExp(`crawl ${crawl} is held: .*`));
    const status = await statusOf(client, crawl);
    assert.equal(status.state, 'held', name);
    assert.match(status.held ?? '', reason, name);
    assert.equal((await client.request('crawl.pause', { crawl })).state, 'held');
  }
  // Another crawl goes on to its end.
  await client.request('crawl.add', { crawl: 'other', seeds: [site.url], priority: 0 });
  await master.said(/crawl other is done/);
  assertExact(cluster, site.truth(), 'other');
  assert.match(await cluster.ask('status'), /^crawl-0: held: .*then run: resume crawl-0/m);
  for (const [i, { name, mend }] of harms.entries()) {
    const crawl = `crawl-${i}`;
    mend(join(cluster.out, crawl));
    assert.equal((await client.request('crawl.resume', { crawl })).state, 'running', name);
    await master.said(new RegExp(`crawl ${crawl} is done`));
    assertExact(cluster, site.truth(), crawl);
  }
  await client.close();
  await assertStops(master, slave);
});

const losses: readonly (readonly [string, (path: string) => void])[] = [
  ['cut to nothing', (path) => truncateSync(path)],
  ['cut and written anew', (path) => writeFileSync(path, '{"foreign":1}\n')],
  ['overwritten in its place', overwrite],
  ['removed', (path) => rmSync(path)],
  ['a folder now', madeFolder],
];

test('held: what is lost is refused until there are new files', { timeout }, async (t) => {
  const { site, cluster, master, slave, client } = await started(t, []);
  for (const [i, [name, harm]] of losses.entries()) {
    const crawl = `crawl-${i}`;
    site.delayMs = pace.slow;
    await client.request('crawl.add', { crawl, seeds: [site.url], priority: 0 });
    const folder = join(cluster.out, crawl);
    await written(cluster, crawl);
    copyFileSync(fileIn(folder), keptOf(folder));
    harm(fileIn(folder));
    site.delayMs = pace.fast;
    await master.said(new RegExp(`crawl ${crawl} is held: .*`));
    await assert.rejects(client.request('crawl.resume', { crawl }), (error) => {
      assert.match(String(error), /stays held: .*pages\.jsonl/, name);
      return true;
    });
    const { unwritten } = await statusOf(client, crawl);
    assert.ok(unwritten > 0);
  }
  for (const [i, [name]] of losses.entries()) {
    const crawl = `crawl-${i}`;
    const folder = join(cluster.out, crawl);
    // Of a folder, too.
    const leftover = existsSync(fileIn(folder)) ? statSync(fileIn(folder)).size : 0;
    const { begun = [] } = await client.request('crawl.resume', { crawl, newFiles: true });
    const [{ bytes = 0, lines = 0, movedTo } = {}] = begun;
    assert.deepEqual([begun.length, begun[0]?.file], [1, 'pages.jsonl'], name);
    await master.said(new RegExp(`crawl ${crawl} is done`));
    // Bytes behind the recorded lines are written again.
    const old = readFileSync(keptOf(folder)).subarray(0, bytes).toString();
    // Unless a write came between the copy and the harm.
    if (Buffer.byteLength(old) === bytes) {
      assert.equal(lines, old.split('\n').length - 1);
      writeFileSync(fileIn(folder), old + readFileSync(fileIn(folder), 'utf8'));
      assertExact(cluster, site.truth(), crawl);
    }
    // Nothing that stood there is gone.
    assert.equal(movedTo, leftover > 0 ? 'pages.jsonl.old-1' : undefined, name);
    assert.equal(existsSync(fileIn(folder, 'pages.jsonl.old-1')), leftover > 0);
  }
  await client.close();
  await assertStops(master, slave);
});

test('held: a cancel while it is written drops what cannot be written', { timeout }, async (t) => {
  const { cluster, master, slave } = await started(t);
  rmSync(join(cluster.out, 'default'), { recursive: true });
  await master.said(held);
  await cluster.ask('cancel', 'default');
  assert.match(master.output, /dropped unwritten results of the cancelled crawl default/);
  const { state, unwritten } = await cluster.status();
  assert.deepEqual([state, unwritten], ['cancelled', 0]);
  await assertStops(master, slave);
});

test('held: files that are moved while it is paused are told at its resume', {
  timeout,
}, async (t) => {
  const { site, cluster, master, slave, client } = await started(t);
  const crawl = 'default';
  const folder = join(cluster.out, crawl);
  await client.request('crawl.pause', { crawl });
  const isBusy = async () => {
    const { leased, unwritten } = await statusOf(client, crawl);
    return leased + unwritten > 0;
  };
  while (await isBusy());
  // Its answer comes behind those of the last reports, whose rows are written then.
  await client.request('crawl.add', { crawl, seeds: [site.url], priority: 0 });
  while (await isBusy());
  const old = readFileSync(fileIn(folder), 'utf8');
  const oldImages = readFileSync(fileIn(folder, 'img_src.txt'), 'utf8');
  renameSync(folder, `${folder}-away`);
  await assert.rejects(client.request('crawl.resume', { crawl }), /stays held: .* is gone/);
  const { begun = [] } = await client.request('crawl.resume', { crawl, newFiles: true });
  assert.deepEqual(begun.map(({ file: name, lines }) => [name, lines]).slice(0, 2), [
    ['pages.jsonl', linesOf(old)],
    ['img_src.txt', linesOf(oldImages)],
  ]);
  await master.said(/crawl default is done/);
  // The old files and the new ones, one behind the other, are the crawl.
  writeFileSync(fileIn(folder), old + readFileSync(fileIn(folder), 'utf8'));
  const images = fileIn(folder, 'img_src.txt');
  writeFileSync(images, oldImages + readFileSync(images, 'utf8'));
  assertExact(cluster, site.truth());
  await client.close();
  await assertStops(master, slave);
});

test('held: a crawl whose files are gone is not said to be done', { timeout }, async (t) => {
  let answerLast = () => {};
  const server = createServer(({ url }, response) => {
    if (url === '/') response.writeHead(200, { 'content-type': 'text/html' }).end('<p>');
    // A sitemap that was guessed, and is missing, is the one task that writes no line.
    else if (url === '/sitemap.xml') answerLast = () => response.writeHead(404).end();
    else response.writeHead(404).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const cluster = new Cluster(t);
  const master = await cluster.master([url, '--sitemaps', 'all']);
  const slave = cluster.slave();
  await cluster.grown('pages.jsonl', 0);
  const client = await cluster.connect();
  while ((await statusOf(client, 'default')).unwritten > 0);
  rmSync(join(cluster.out, 'default'), { recursive: true });
  answerLast();
  await master.said(held);
  assert.doesNotMatch(master.output, /is done/);
  await client.request('crawl.resume', { crawl: 'default', newFiles: true });
  await master.said(/crawl default is done/);
  // It has ended, so its files are closed. Its new ones were empty: nothing of them is missed.
  rmSync(join(cluster.out, 'default'), { recursive: true });
  await client.request('crawl.add', { crawl: 'default', seeds: [`${url}?again`], priority: 0 });
  await master.said(/is held[\s\S]*is done[\s\S]*is done/);
  await client.close();
  await assertStops(master, slave);
});

function linesOf(text: string): number {
  return text.split('\n').length - 1;
}

function madeFolder(path: string): void {
  rmSync(path);
  mkdirSync(path);
}

function overwrite(path: string): void {
  const { length } = readFileSync(path);
  writeFileSync(path, Buffer.alloc(length, 'x'), { flag: 'r+' });
}
