/** The selftest as a user runs it, for a short time; and that it sees what is wrong. */
import assert from 'node:assert/strict';
import { createHash, randomInt } from 'node:crypto';
import {
  appendFileSync,
  mkdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Cluster as Faulty } from '../../selftest/cluster.ts';
import { addPictures, verifyDownloads } from '../../selftest/downloads.ts';
import { type CrawlFile, type Violation, verifyCrawl, verifyItems } from '../../selftest/exact.ts';
import { Jobs } from '../../selftest/jobs.ts';
import { type Due, schedule } from '../../selftest/schedule.ts';
import { generateSite, sitePages } from '../../selftest/site.ts';
import type { CrawlStatus } from '../../shared/protocol.ts';
import { Cluster, Program, root } from '../support/cluster.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';

/** Printed with the test: SEED=n does the same again. */
const seed = Number(process.env['SEED'] ?? randomInt(1 << 30));

test(`chaos: nothing is lost and nothing doubled (seed ${seed})`, {
  timeout: 170_000,
}, async (t) => {
  const flags = ['--seed', String(seed), '--for', '8s', '--pages', '300', '--every', '400'];
  const args = [join(root, 'master.js'), 'selftest', '--chaos', '--slaves', '2', ...flags];
  const program = new Program(args);
  // Told twice it ends at once, and takes with it what it has started.
  t.after(async () => {
    program.signal('SIGTERM');
    program.signal('SIGINT');
    await program.exited;
  });
  assert.deepEqual(await program.exited, { code: 0, signal: null }, program.output);
  assert.match(program.stdout, /^lost=0 duplicated=0$/m);
  const [, kills = 0, cuts = 0] = /; (\d+) kills .*, (\d+) cuts/.exec(program.stdout) ?? [];
  assert.ok(Number(kills) + Number(cuts) > 0, program.stdout);
});

test('chaos: a slave that was stopped before it began may be ended', {
  timeout: 60_000,
}, async (t) => {
  const { folder } = new Cluster(t);
  const cluster = new Faulty({
    programs: root,
    slaves: 1,
    address: () => '127.0.0.1:1',
    onDied: assert.fail,
    data: join(folder, 'data'),
    out: join(folder, 'out'),
    logs: join(folder, 'logs'),
  });
  t.after(() => cluster.close());
  await cluster.start();
  assert.ok(cluster.stopSlave(0, 500));
  assert.deepEqual(await cluster.stop(), []);
});

test('chaos: a line less, a line more and a torn one are seen', { timeout: 60_000 }, async (t) => {
  const site = await siteFor(t, generateSite(5, 60));
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url]);
  const slave = cluster.slave();
  await master.said(/crawl default is done/);
  const status = await cluster.status();
  await slave.kill('SIGTERM');
  await master.kill('SIGTERM');
  await assertLeaves(master, slave);
  const folder = join(cluster.out, 'default');
  const verify = () => verifyCrawl(folder, site.truth(), status).violations;
  assert.deepEqual(verify(), []);

  const whats = (kind: Violation['kind']) =>
    verify()
      .filter((violation) => violation.kind === kind)
      .map(({ what }) => what);
  const change = (file: CrawlFile, act: (lines: string[]) => string[]) => {
    const path = join(folder, file);
    const before = readFileSync(path, 'utf8');
    writeFileSync(path, act(before.split('\n')).join('\n'));
    return () => writeFileSync(path, before);
  };
  const [firstImage = ''] = cluster.lines('img_src.txt');
  let restore = change('img_src.txt', (lines) => lines.slice(1));
  assert.deepEqual(whats('lost'), [`image ${firstImage}`]);
  restore();
  restore = change('img_src.txt', (lines) => [firstImage, ...lines]);
  assert.deepEqual(whats('duplicated'), [`image ${firstImage}`]);
  restore();
  restore = change('pages.jsonl', (lines) => lines.slice(1));
  assert.ok(whats('lost').includes(`page ${site.url}`));
  restore();
  restore = change('pages.jsonl', (lines) => ['{"url":', ...lines]);
  assert.deepEqual(whats('wrong'), ['line 1 of pages.jsonl: {"url":']);
  restore();
  appendFileSync(join(folder, 'pages.jsonl'), '{"url":"http://half');
  assert.deepEqual(whats('wrong'), ['pages.jsonl ends in a torn line: {"url":"http://half']);
});

test('chaos: a row less, a row twice and a strange one are seen', (t) => {
  const { folder } = new Cluster(t);
  const truth = {
    pages: ['http://a/1', 'http://a/2'],
    images: [],
    broken: [],
    files: [],
    moved: [],
  };
  const json = truth.pages.map((page) => `${JSON.stringify({ item: { page } })}\n`);
  const csv = ['page,title\n', 'http://a/1,x\n', 'http://a/2,"y, z"\n'];
  const whats = (items: readonly string[], rows: readonly string[]) => {
    writeFileSync(join(folder, 'items.jsonl'), items.join(''));
    writeFileSync(join(folder, 'items.csv'), rows.join(''));
    return verifyItems(folder, truth).map(({ kind, what }) => `${kind} ${what}`);
  };
  assert.deepEqual(whats(json, csv), []);
  assert.deepEqual(whats(json.slice(1), csv), ['lost row of items.jsonl: http://a/1']);
  const twice = ['duplicated row of items.csv: http://a/1'];
  assert.deepEqual(whats(json, [...csv, csv[1] ?? '']), twice);
  assert.deepEqual(whats([...json, '{"it'], csv), ['wrong row of items.jsonl: {"it']);
  assert.deepEqual(whats(json, [...csv, '"\n']), ['wrong row of items.csv: "']);
});

test('chaos: an image less, one twice, one too many and a torn one are seen', (t) => {
  const { folder } = new Cluster(t);
  const paths = ['/img/0.png', '/img/2.png'];
  const resources = sitePages({ '/': [] });
  resources.set('/', { kind: 'page', links: [], images: paths });
  addPictures(resources);
  const lines = paths.map((path) => {
    const { body = '' } = { body: '', ...resources.get(path) };
    const sha256 = createHash('sha256').update(body).digest('hex');
    const file = `images/${sha256}.png`;
    mkdirSync(join(folder, 'images'), { recursive: true });
    writeFileSync(join(folder, file), body);
    return { url: `http://a${path}`, sha256, file };
  });
  const truth = { images: lines.map(({ url }) => url) };
  const status = { downloads: { stored: 2, bytes: 0 } } as CrawlStatus;
  const whats = (kept: readonly object[]) => {
    const texts = kept.map((line) => `${JSON.stringify(line)}\n`);
    writeFileSync(join(folder, 'images.jsonl'), texts.join(''));
    const found = verifyDownloads(folder, truth, { store: 'files', status, isOver: true });
    return found.map(({ kind, what }) => `${kind} ${what.replace(/ [0-9a-f/]{40}.*/, '')}`);
  };
  assert.deepEqual(whats(lines), []);
  const [first, second] = lines;
  assert.deepEqual(whats(lines.slice(1)), ['lost line of image http://a/img/0.png']);
  const twice = ['duplicated line of image http://a/img/0.png'];
  assert.deepEqual(whats([...lines, { ...first }]), twice);
  writeFileSync(join(folder, `images/${'0'.repeat(64)}.png`), 'more');
  assert.match(whats(lines).join(), /^wrong images.* has the bytes of.*wrong content that is none/);
  rmSync(join(folder, `images/${'0'.repeat(64)}.png`));
  truncateSync(join(folder, second?.file ?? ''), 40);
  assert.ok(whats(lines).includes('lost bytes of http://a/img/2.png'));
  rmSync(join(folder, second?.file ?? ''));
  assert.deepEqual(whats(lines), ['lost bytes of http://a/img/2.png', 'lost content']);
});

test('chaos: a job without a record, with two, or that ran twice is seen', (t) => {
  const { folder } = new Cluster(t);
  const jobs = Jobs.prepare(folder, folder);
  if (jobs === undefined) return t.skip('it needs Linux');
  const record = (n: number, more: object = {}) =>
    `${JSON.stringify({ args: [`${n}`], outcome: 'exited', code: 0, stdout: `${n}\n`, ...more })}\n`;
  const lines = [record(1), record(1), record(2), record(3, { outcome: 'lost' }), record(5)];
  writeFileSync(join(folder, 'jobs.jsonl'), lines.join(''));
  for (const [n, marks] of ['x\n', '', '', '', 'x\nx\n'].entries()) {
    if (marks !== '') writeFileSync(join(folder, 'marks', `${n + 1}`), marks);
  }
  const whats = jobs.verify().map(({ kind, what }) => `${kind} ${what.replace(/, and.*/, '')}`);
  assert.deepEqual(whats, [
    'duplicated record of job 1',
    'wrong job 2 ran 0 times',
    'duplicated job 5 ran 2 times',
  ]);
});

test('chaos: a seed gives the same faults, all kinds of them', () => {
  const take = (from: number) => {
    const timing = { everyMs: 1_000, leaseMs: 5_000, silenceMs: 3_000 };
    const all: Due[] = [];
    for (const due of schedule({ seed: from, ...timing })) {
      if (all.push(due) === 2_000) break;
    }
    return all;
  };
  const faults = take(1);
  assert.deepEqual(faults, take(1));
  assert.notDeepEqual(faults, take(2));
  const kinds = new Set(
    faults.map(({ fault }) =>
      fault.kind === 'cut'
        ? fault.cut.how
        : 'who' in fault
          ? `${fault.kind} ${fault.who}`
          : fault.kind,
    ),
  );
  assert.equal(kinds.size, 15, [...kinds].join(', '));
  const spanMs = faults.reduce((sum, { afterMs }) => sum + afterMs, 0);
  assert.ok(Math.abs(spanMs / faults.length - 1_000) < 100, 'on average as often as was asked');
});
