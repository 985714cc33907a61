/**
 * A store of a crawl that was killed, damaged at random: a start refuses it or runs right, and
 * after a repair the crawl goes on with what repair says it has saved. Native code never sees
 * damage.
 */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import {
  closeSync,
  cpSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { checkStore } from '../../master/repair/check.ts';
import { repair } from '../../master/repair/repair.ts';
import { openLmdbStore, storeFile } from '../../master/store/lmdb.ts';
import { randomOf } from '../../selftest/site.ts';
import { Cluster } from '../support/cluster.ts';
import { killedCrawl } from '../support/crash-points.ts';
import { linesOf, ModelSite, runStoredCrawl, wrongWithEnd } from '../support/stored-crawl.ts';

/** SEED=n runs the same again. */
const seed = Number(process.env['SEED'] ?? randomInt(1 << 30));
const timeout = 150_000;
const pageBytes = 4096;
/** Of the store: more than is used of it. */
const copiedBytes = 4 << 20;
const roundsCount = Number(process.env['ROUNDS'] ?? 40);

type Harm = (path: string, usedPages: number, random: () => number) => void;

const harms: Readonly<Record<string, Harm>> = {
  'a flipped bit': (path, pages, random) => {
    const at = Math.floor(random() * pages * pageBytes);
    change(path, at, 1, (bytes) => {
      bytes[0] = (bytes[0] ?? 0) ^ (1 << Math.floor(random() * 8));
    });
  },
  'a zeroed page': (path, pages, random) => {
    change(path, Math.floor(random() * pages) * pageBytes, pageBytes, (bytes) => bytes.fill(0));
  },
  'a page of noise': (path, pages, random) => {
    change(path, Math.floor(random() * pages) * pageBytes, pageBytes, (bytes) => {
      for (let i = 0; i < bytes.length; i++) bytes[i] = Math.floor(random() * 256);
    });
  },
  'a page in the place of another': (path, pages, random) => {
    const from = Math.floor(random() * pages) * pageBytes;
    const to = Math.floor(random() * pages) * pageBytes;
    change(path, from, pageBytes, (page) => {
      const copy = Buffer.from(page);
      change(path, to, pageBytes, (bytes) => copy.copy(bytes));
    });
  },
  'a cut file': (path, pages, random) =>
    truncateSync(path, Math.floor(random() * pages * pageBytes)),
};

test(`damage is seen before the start, and repaired (seed ${seed})`, { timeout }, async (t) => {
  const random = randomOf(seed);
  const site = new ModelSite(seed, 60, 0);
  const folder = await killed(t, site, seed);
  const pages = usedPages(folder);
  const seen = { refused: 0, harmless: 0 };
  const rounds = Array.from({ length: roundsCount }, (_, round) => round);
  const work = async () => {
    for (let round = rounds.shift(); round !== undefined; round = rounds.shift()) {
      const [name = '', harm] = Object.entries(harms)[round % 5] ?? [];
      const harmed = copyOf(t, folder, `${round}`);
      harm?.(storeFile(join(harmed, 'data/store')), pages, random);
      const damage = checkStore(storeFile(join(harmed, 'data/store')));
      seen[damage === undefined ? 'harmless' : 'refused']++;
      const what = `round ${round}, ${name}: ${damage}`;
      if (damage === undefined) await assertExact(harmed, site, what);
      else await assertRepaired(harmed, site, what);
      rmSync(harmed, { recursive: true });
    }
  };
  // Most of the time is waiting.
  await Promise.all(Array.from({ length: 5 }, work));
  t.diagnostic(JSON.stringify(seen));
  assert.ok(seen.refused >= roundsCount / 4, JSON.stringify(seen));
});

for (const [name, harm] of Object.entries({
  'the meta pages are gone': (path: string) => change(path, 0, 2 * pageBytes, (b) => b.fill(0)),
  'it is empty': (path: string) => truncateSync(path, 0),
  'it is another file': (path: string) => writeFileSync(path, 'something else\n'.repeat(1000)),
})) {
  test(`nothing can be read when ${name}: start and repair say so`, { timeout }, async (t) => {
    const cluster = new Cluster(t);
    const first = await cluster.master([]);
    await first.kill('SIGTERM');
    harm(storeFile(join(cluster.data, 'store')));
    const folders = ['--data', cluster.data, '--out', cluster.out];
    const second = cluster.run(['master.js', ...folders, '--listen', '127.0.0.1:0']);
    assert.deepEqual(await second.exited, { code: 2, signal: null });
    assert.match(
      second.stderr,
      /^master: the store .* is damaged .*: node master\.js repair --data .*\n$/,
    );
    const repairing = cluster.run(['master.js', 'repair', ...folders]);
    assert.deepEqual(await repairing.exited, { code: 2, signal: null });
    assert.match(repairing.stderr, /^master: nothing of .* can be read; put a backup .*\n$/);
    assert.ok(existsSync(storeFile(join(cluster.data, 'store'))), 'the file is where it was');
  });
}

test('one meta page that is gone costs nothing', { timeout }, async (t) => {
  const site = new ModelSite(seed, 60, 0);
  const folder = await killed(t, site, seed);
  for (const page of [0, 1]) {
    const harmed = copyOf(t, folder, `meta-${page}`);
    change(storeFile(join(harmed, 'data/store')), page * pageBytes, pageBytes, (b) => b.fill(0));
    await assertRepaired(harmed, site, `meta page ${page}`);
  }
});

test('repair leaves a whole store alone', { timeout }, async (t) => {
  const site = new ModelSite(seed, 60, 0);
  const folder = await killed(t, site, seed);
  const lines = await repairOf(folder);
  assert.match(lines.join('\n'), /is whole: there is nothing to repair/);
  await assertExact(folder, site, 'whole');
});

test('repair while a master runs is refused', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  await cluster.master([]);
  const repairing = cluster.run(['master.js', 'repair', '--data', cluster.data]);
  assert.deepEqual(await repairing.exited, { code: 2, signal: null });
  assert.match(repairing.stderr, /is in use by the master with process id/);
});

async function assertExact(folder: string, site: ModelSite, what: string): Promise<void> {
  await runStoredCrawl({ folder, site });
  assert.deepEqual(await wrongWithEnd(folder, site), [], what);
}

/** The repaired store is whole, holds what repair says, and its crawl ends. */
async function assertRepaired(folder: string, site: ModelSite, what: string): Promise<void> {
  let lines: string[];
  try {
    lines = await repairOf(folder);
  } catch (error) {
    assert.match(String(error), /nothing of .* can be read/, what);
    return;
  }
  const path = storeFile(join(folder, 'data/store'));
  assert.equal(checkStore(path), undefined, what);
  assert.ok(readdirSync(join(folder, 'data/store')).some((name) => name.includes('.damaged-')));
  const store = await openLmdbStore(join(folder, 'data/store'));
  const all = { from: Buffer.alloc(0), to: Buffer.alloc(40, 0xff) };
  for (const table of ['crawls', 'tasks', 'results', 'buried', 'items'] as const) {
    const saved = savedOf(lines, table);
    assert.equal(store.range(table, all).length, saved, `${what}: ${table}\n${lines.join('\n')}`);
  }
  await store.close();
  if (savedOf(lines, 'crawls') === 0) return;
  await runStoredCrawl({ folder, site });
  // All that is written is of the site; what is missing was said to be lost.
  const written = linesOf(folder, 'pages.jsonl').map((line) => JSON.parse(line) as { url: string });
  for (const { url } of written) assert.ok(site.pages.has(url) || site.missing.has(url), what);
  const isWhole = lines
    .slice(2)
    .every((line) => /^ {2}\w+ +[\d,]+ {2}0$|kept as|made of its lines$/.test(line));
  if (isWhole)
    assert.deepEqual(await wrongWithEnd(folder, site), [], `${what}\n${lines.join('\n')}`);
}

function savedOf(lines: readonly string[], table: string): number {
  const line = lines.find((text) => text.startsWith(`  ${table} `)) ?? '';
  return Number(/^ {2}\w+ +([\d,]+)/.exec(line)?.[1]?.replaceAll(',', ''));
}

function repairOf(folder: string): Promise<string[]> {
  return repair({ dataFolder: join(folder, 'data'), outFolder: join(folder, 'out') });
}

function copyOf(t: TestContext, folder: string, name: string): string {
  const copy = `${folder}-${name}`;
  const store = storeFile(join(folder, 'data/store'));
  cpSync(folder, copy, { recursive: true, filter: (path) => path !== store });
  // Not the gigabyte of nothing behind it.
  const pages = Buffer.alloc(copiedBytes);
  const file = openSync(store, 'r');
  readSync(file, pages, 0, copiedBytes, 0);
  closeSync(file);
  writeFileSync(storeFile(join(copy, 'data/store')), pages);
  t.after(() => rmSync(copy, { recursive: true, force: true }));
  return copy;
}

/** A crawl that was killed when some of it was written and some was not. How far a part of its
 *  writes gets it differs from run to run. */
async function killed(t: TestContext, site: ModelSite, siteSeed: number): Promise<string> {
  for (const part of [0.4, 0.3, 0.2, 0.1]) {
    const folder = mkdtempSync(join(tmpdir(), 'orbweaver-damage-'));
    t.after(() => rmSync(folder, { recursive: true }));
    await killedCrawl(folder, siteSeed, part);
    assert.equal(checkStore(storeFile(join(folder, 'data/store'))), undefined);
    const lines = linesOf(folder, 'pages.jsonl').length;
    if (lines < site.pages.size + site.missing.size) return folder;
  }
  assert.fail('it was done whenever it was killed');
}

/** Pages up to the last one with anything in it. */
function usedPages(folder: string): number {
  const file = openSync(storeFile(join(folder, 'data/store')), 'r');
  const page = Buffer.alloc(pageBytes);
  let pages = 2;
  for (let number = 0; number < 4096; number++) {
    if (readSync(file, page, 0, pageBytes, number * pageBytes) === 0) break;
    if (page.some((byte) => byte !== 0)) pages = number + 1;
  }
  closeSync(file);
  return pages;
}

function change(path: string, at: number, length: number, alter: (bytes: Buffer) => void): void {
  const file = openSync(path, 'r+');
  const bytes = Buffer.alloc(length);
  readSync(file, bytes, 0, length, at);
  alter(bytes);
  writeSync(file, bytes, 0, length, at);
  closeSync(file);
}
