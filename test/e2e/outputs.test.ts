/** `--output`: files and databases that a crawl fills, on real processes, killed in the middle. */
import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import Database from 'libsql';
import type { Replies } from '../../shared/replies.ts';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { parquetFiles, rowsOfParquet } from '../support/parquet.ts';
import { SmallDisk } from '../support/small-disk.ts';

const timeout = 120_000;

/** A start page with links to numbered pages, each with an image and a title that is odd. */
async function site(t: TestContext, pages: number, ms = 0): Promise<string> {
  const port = await httpServer(t, (request, response) => {
    const { url = '/' } = request;
    const number = Number(url.slice(1));
    const isPage = url === '/' || (number >= 0 && number < pages);
    response.statusCode = isPage ? 200 : 404;
    response.setHeader('content-type', 'text/html; charset=utf-8');
    const links =
      url === '/' ? Array.from({ length: pages }, (_, i) => `<a href="/${i}">x</a>`) : [];
    const title = `=1+${number || 0}; "quoted", ü\u0000`;
    const text = `<title>${title}</title><img src="/img/${number || 0}.png">${links.join('')}`;
    void setTimeout(ms).then(() => response.end(url === '/robots.txt' ? '' : text));
  });
  return `http://127.0.0.1:${port}/`;
}

async function run(cluster: Cluster, args: readonly string[]): Promise<string> {
  const master = await cluster.master([...args, '--slaves', '1', '--exit-when-done']);
  assert.equal((await master.exited).code, 0, master.output);
  return master.output;
}

function rowsIn(path: string, query: string): Record<string, unknown>[] {
  const db = new Database(path);
  try {
    return db.prepare(query).all() as Record<string, unknown>[];
  } finally {
    db.close();
  }
}

test('outputs: CSV, JSONL and SQLite at once have each page once', { timeout }, async (t) => {
  const url = await site(t, 30);
  const cluster = new Cluster(t);
  const outputs = ['csv:a.csv#delimiter=;&formulas=escape', 'jsonl:b.jsonl', 'sqlite:c.db'];
  outputs.push('csv:images.csv#records=images', 'sqlite:c.db#records=images');
  await run(cluster, [url, ...outputs.flatMap((output) => ['--output', output])]);
  const folder = join(cluster.out, 'default');
  const [head, ...lines] = readFileSync(join(folder, 'a.csv'), 'utf8').trimEnd().split('\n');
  assert.match(head ?? '', /^url;finalUrl;status;/);
  assert.equal(lines.length, 31);
  assert.ok(
    lines.some((line) => line.includes(`"'=1+7; ""quoted"", ü`)),
    lines[3],
  );
  const json = readFileSync(join(folder, 'b.jsonl'), 'utf8').trimEnd().split('\n');
  const pages = readFileSync(join(folder, 'pages.jsonl'), 'utf8').trimEnd().split('\n');
  assert.deepEqual(json, pages);
  const rows = rowsIn(join(folder, 'c.db'), 'SELECT url, status, title, images FROM pages');
  assert.equal(new Set(rows.map((row) => row['url'])).size, 31);
  assert.ok(rows.every(({ status }) => status === 200));
  const images = readFileSync(join(folder, 'images.csv'), 'utf8').trimEnd().split('\n');
  assert.deepEqual(images.slice(1), cluster.lines('img_src.txt'));
  assert.equal(rowsIn(join(folder, 'c.db'), 'SELECT url FROM images').length, 30);
  const cursors = rowsIn(join(folder, 'c.db'), 'SELECT * FROM orbweaver_cursors');
  assert.deepEqual(cursors.map(({ sink }) => sink).sort(), ['sqlite', 'sqlite-2']);
});

test('outputs: parts of a size, compressed, have each line once over kills', {
  timeout,
}, async (t) => {
  const url = await site(t, 200, 150);
  const cluster = new Cluster(t);
  const args = [
    url,
    '--output',
    'jsonl:p.jsonl#rotate=1100&compress=gzip',
    '--output',
    'sqlite:p.db',
  ];
  for (let kills = 0; kills < 4; kills++) {
    const master = await cluster.master([...args, '--slaves', '1', '--exit-when-done']);
    await cluster.grown('pages.jsonl', kills * 30 + 5);
    await master.kill('SIGKILL');
  }
  await run(cluster, args);
  const folder = join(cluster.out, 'default');
  const parts = readdirSync(folder)
    .filter((name) => /^p-\d{5}\.jsonl\.gz$/.test(name))
    .sort();
  assert.ok(parts.length > 2, parts.join());
  const lines = parts.flatMap((name) =>
    gunzipSync(readFileSync(join(folder, name)))
      .toString()
      .trimEnd()
      .split('\n'),
  );
  assert.deepEqual(lines, cluster.lines('pages.jsonl'));
  const urls = rowsIn(join(folder, 'p.db'), 'SELECT url FROM pages ORDER BY _seq');
  assert.deepEqual(
    urls.map((row) => row['url']),
    lines.map((line) => (JSON.parse(line) as { url: string }).url),
  );
});

test('outputs: a file that is there already gets no part', { timeout }, async (t) => {
  const url = await site(t, 60, 10);
  const cluster = new Cluster(t);
  const folder = join(cluster.out, 'default');
  // A file is written to every two seconds, and a part ends with a write.
  const args = [url, '--slaves', '1', '--delay', '150', '--output', 'csv:p.csv#rotate=1100'];
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'p-00002.csv'), 'precious');
  const own = ['--listen', '127.0.0.1:0', '--data', cluster.data, '--out', cluster.out];
  const refused = cluster.run(['master.js', ...args, ...own]);
  assert.equal((await refused.exited).code, 2);
  assert.match(refused.output, /p-00002\.csv is there already, and is not of this crawl/);
  // It left the empty result files of a crawl that there is not.
  assert.deepEqual(readdirSync(folder), ['p-00002.csv']);
  renameSync(join(folder, 'p-00002.csv'), join(folder, 'p-00003.csv'));
  await cluster.master(args);
  while ((await cluster.status()).state !== 'held') await setTimeout(100);
  assert.match((await cluster.status()).held ?? '', /p-00003\.csv is there already/);
  assert.equal(readFileSync(join(folder, 'p-00003.csv'), 'utf8'), 'precious');
  await cluster.ask('resume', 'default', '--new-files');
  while ((await cluster.status()).state !== 'finished') await setTimeout(100);
  assert.equal(readFileSync(join(folder, 'p-00003.csv.old-1'), 'utf8'), 'precious');
  const parts = readdirSync(folder).filter((name) => /^p-\d{5}\.csv$/.test(name));
  const lines = parts.flatMap((name) =>
    readFileSync(join(folder, name), 'utf8').trimEnd().split('\n').slice(1),
  );
  assert.equal(lines.length, 61);
});

test('outputs: set: one that leaves gets what waits for it', { timeout }, async (t) => {
  const url = await site(t, 150, 20);
  const cluster = new Cluster(t);
  const to = (name: string) => `parquet:${name}.parquet#records=all`;
  await cluster.master([url, '--slaves', '1', '--per-host', '2', '--output', to('a')]);
  await cluster.grown('pages.jsonl', 20);
  await cluster.ask('set', 'default', '--output', to('b'));
  while ((await cluster.status()).state !== 'finished') await setTimeout(100);
  const rows = await rowsOfParquet(parquetFiles(join(cluster.out, 'default')));
  assert.deepEqual(
    rows.map((row) => String(row['url'])),
    cluster.fetched().map((page) => page.url),
  );
});

test('outputs: set: of a crawl that has ended, one begins anew under the name of another', {
  timeout,
}, async (t) => {
  const url = await site(t, 20, 0);
  const cluster = new Cluster(t);
  const args = ['--slaves', '1', '--max-pages', '4', '--output', 'csv:a.csv'];
  await cluster.master([url, ...args]);
  const ended = async () => {
    while ((await cluster.status()).state !== 'finished') await setTimeout(100);
  };
  await ended();
  await cluster.ask('set', 'default', '--output', 'csv:b.csv');
  await cluster.ask('set', 'default', '--output', 'csv:c.csv', '--max-pages', '8');
  await ended();
  const lines = (name: string) => {
    const text = readFileSync(join(cluster.out, 'default', name), 'utf8');
    return text.split('\n').length - 2;
  };
  assert.deepEqual([lines('a.csv'), lines('c.csv')], [4, 4]);
});

test('outputs: one on another disk, which is full, waits alone', { timeout }, async (t) => {
  const disk = SmallDisk.mount(t, 2);
  if (disk === undefined) return;
  const url = await site(t, 60);
  const cluster = new Cluster(t);
  const path = join(disk.path, 'a.jsonl');
  disk.fill();
  writeFileSync(path, '');
  const args = [url, '--slaves', '1', '--output', `jsonl:${path}`];
  const master = await cluster.master(args);
  await master.said(/its results wait for jsonl \(.*ENOSPC/);
  // It ends all the same.
  await master.kill('SIGTERM');
  disk.free();
  await run(cluster, args);
  assert.deepEqual(readFileSync(path, 'utf8').trimEnd().split('\n'), cluster.lines('pages.jsonl'));
});

test('outputs: keys: insert, skip and update', { timeout }, async (t) => {
  const url = await site(t, 9);
  const cluster = new Cluster(t);
  // All pages have the same status.
  const to = (how: string) => `sqlite:k.db#table=t_${how}&key=status&on-conflict=${how}`;
  await run(cluster, [
    url,
    ...['insert', 'skip', 'update'].flatMap((how) => ['--output', to(how)]),
  ]);
  const folder = join(cluster.out, 'default');
  const pages = cluster.fetched();
  const [first, last] = [pages[0]?.url, pages.at(-1)?.url];
  const only = (how: string) => rowsIn(join(folder, 'k.db'), `SELECT url FROM t_${how}`);
  assert.deepEqual(
    [only('insert'), only('skip'), only('update')],
    [[{ url: first }], [{ url: first }], [{ url: last }]],
  );
  const rejected = readFileSync(join(folder, 'rejected-sqlite.jsonl'), 'utf8')
    .trimEnd()
    .split('\n');
  assert.equal(rejected.length, 9);
  assert.match(rejected[0] ?? '', /^\{"reason":"its key is there already","seq":\d+,"url":/);
  assert.ok(!existsSync(join(folder, 'rejected-sqlite-2.jsonl')));
});

test('outputs: one that is taken away holds its crawl alone; set and sinks --drop', {
  timeout,
}, async (t) => {
  const url = await site(t, 300, 60);
  const cluster = new Cluster(t);
  const args = [url, '--slaves', '1', '--per-host', '2', '--output', 'csv:a.csv'];
  const master = await cluster.master(args);
  await cluster.grown('pages.jsonl', 3);
  const added = await cluster.ask(
    'set',
    'default',
    '--output',
    'csv:a.csv',
    '--output',
    'csv:later.csv',
  );
  assert.match(added, /begins with the next record/);
  const path = join(cluster.out, 'default/a.csv');
  renameSync(path, `${path}.away`);
  const status = async () => {
    while (true) {
      const now = await cluster.status();
      if (now.state === 'held') return now;
      await cluster.grown('pages.jsonl', cluster.lines('pages.jsonl').length - 1);
    }
  };
  const held = await status();
  assert.match(held.held ?? '', /^csv: .*a\.csv is gone, and \d+ bytes were written to it/);
  const listed = JSON.parse(
    await cluster.ask('sinks', 'default', '--json'),
  ) as Replies['crawl.sinks'];
  assert.deepEqual(
    listed.sinks.map(({ name, state }) => `${name} ${state}`),
    ['files writing', 'csv held', 'csv-2 writing'],
  );
  assert.match(await cluster.ask('sinks', 'default', '--drop', 'csv'), /output csv .* is given up/);
  // `set` left it out without a word.
  const said = await master.said(/csv does not get the last (\d+) records, which waited for it/);
  assert.ok(Number(said[1]) >= (listed.sinks[1]?.records ?? 0));
  const after = await cluster.status();
  assert.equal(after.state, 'running');
  await cluster.grown('pages.jsonl', 250);
  const later = readFileSync(join(cluster.out, 'default/later.csv'), 'utf8').split('\n');
  assert.ok(later.length > 100 && later.length < cluster.lines('pages.jsonl').length);
  await assert.rejects(cluster.ask('sinks', 'default', '--drop', 'files'), /has no output files/);
});

test('outputs: what is wrong is one line that says what to do', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  const wrong = async (output: string, says: RegExp, env: NodeJS.ProcessEnv = {}) => {
    const folders = ['--data', cluster.data, '--out', cluster.out, '--listen', '127.0.0.1:0'];
    const args = ['master.js', 'http://127.0.0.1:1/', '--output', output, ...folders];
    const program = cluster.run(args, { env: { ...process.env, ...env } });
    const { code } = await program.exited;
    assert.deepEqual([code, program.stdout], [2, ''], program.output);
    assert.match(program.output, says);
    assert.equal(program.output.trimEnd().split('\n').length, 1, program.output);
  };
  await wrong('xls:a.xls', /It must begin with one of jsonl, csv, sqlite, postgres/);
  await wrong('csv:../a.csv', /must name a file in the folder of the crawl/);
  await wrong('csv:pages.jsonl', /one of the result files/);
  await wrong('csv:archive/a.csv', /must not lie in a folder that a crawl has itself/);
  await wrong('csv:~/a.csv', /must not begin with ~/);
  await wrong('csv:a.csv#delimiter=ab', /delimiter that must be one character/);
  await wrong('csv:a.csv#colour=red', /must not have colour/);
  await wrong('jsonl:a.jsonl#key=url', /must not have key: a jsonl output has none/);
  await wrong('sqlite:a.db#on-conflict=skip', /must have key/);
  await wrong('postgres://u:secret@h/db', /must not hold a password/);
  await wrong('postgres:$ORB_AUTHKEY', /must not name a variable of the master/);
  await wrong('postgres:$NO_SUCH', /postgres: the variable NO_SUCH is not set/);
  await wrong('postgres://127.0.0.1:1/db', /postgres: .*ECONNREFUSED/);
  await wrong('mysql://127.0.0.1:1/db', /mysql: .*ECONNREFUSED/);
  await wrong('mysql://127.0.0.1:1/', /mysql: its URL is not one of MySQL/);
  await wrong('redis://127.0.0.1:1/0', /redis: .*ECONNREFUSED/);
  await wrong('redis://127.0.0.1:1/0#list=a&stream=b', /must have list or stream, and not both/);
  await wrong('redis://127.0.0.1:1/0#key=url', /must not have key: a redis output has none/);
  await wrong('mongodb://u:s3cret@127.0.0.1:1/db', /must not hold a password/);
  await wrong('parquet:a.parquet#rotate=1MB', /must not have rotate: a parquet output has none/);
  await wrong('mysql:$DB', /^(?!.*s3cret).*mysql: /s, {
    DB: 'mysql://u:s3cret@127.0.0.1:1/db',
  });
  await wrong('redis:$DB', /^(?!.*s3cret).*redis: /s, { DB: 'redis://:s3cret@127.0.0.1:1/0' });
  await wrong('postgres:$DB', /^(?!.*s3cret).*postgres: /s, {
    DB: 'postgres://u:s3cret@127.0.0.1:1/db',
  });
  writeFileSync(join(cluster.folder, 'x'), '');
  rmSync(cluster.out, { recursive: true, force: true });
});

test('outputs: one that has no file of its own is refused by check, start, add and set', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const own = join(cluster.out, 'default/pages.jsonl');
  const parts = ['csv:a.csv#rotate=1MB', 'csv:a-00001.csv'];
  const folders = ['--data', cluster.data, '--out', cluster.out, '--listen', '127.0.0.1:0'];
  const refused = async (args: readonly string[], says: RegExp) => {
    const env = { ...process.env, ORB_OUT: cluster.out };
    const program = cluster.run(['master.js', ...args], { env });
    assert.equal((await program.exited).code, 2, program.output);
    assert.match(program.output, says);
    assert.equal(program.output.trimEnd().split('\n').length, 1, program.output);
  };
  const file = join(cluster.folder, 'c.yaml');
  const write = (outputs: readonly string[]) =>
    writeFileSync(file, `seeds: [http://127.0.0.1:1/]\noutputs: ${JSON.stringify(outputs)}\n`);
  const output = (outputs: readonly string[]) => outputs.flatMap((one) => ['--output', one]);
  const cases: [string[], RegExp][] = [
    [[`jsonl:${own}`], /must not name one of the result files that each crawl has: name another/],
    [['csv:a.csv', `csv:${join(cluster.out, 'default/a.csv')}`], /which a csv output has: name/],
    [parts, /the file a-00001\.csv, which a\.csv with rotate makes: name another one/],
  ];
  for (const [outputs, says] of cases) {
    write(outputs);
    await refused(['check', file], says);
    await refused(['check', file], /c\.yaml:2: outputs\.\d: must not/);
    await refused(['http://127.0.0.1:1/', ...folders, ...output(outputs)], says);
    assert.ok(!existsSync(join(cluster.out, 'default')));
  }
  await cluster.master([]);
  // Others than the master itself may name no path at all.
  await assert.rejects(cluster.ask('add', 'http://127.0.0.1:1/', ...output(parts)), /rotate makes/);
  mkdirSync(join(cluster.out, 'default'), { recursive: true });
  symlinkSync('pages.jsonl', join(cluster.out, 'default/mine.jsonl'));
  const mine = ['--output', 'jsonl:mine.jsonl'];
  await assert.rejects(
    cluster.ask('add', 'http://127.0.0.1:1/', ...mine),
    /result files that each/,
  );
  await cluster.ask('add', 'http://127.0.0.1:1/', '--output', 'csv:a.csv#rotate=1MB');
  await assert.rejects(cluster.ask('set', 'default', ...mine), /the result files that each crawl/);
  await assert.rejects(cluster.ask('set', 'default', ...output(parts)), /with rotate makes/);
});

test('outputs: a crawl with rules fills them with items', { timeout }, async (t) => {
  const url = await site(t, 9);
  const cluster = new Cluster(t);
  writeFileSync(
    join(cluster.folder, 'c.yaml'),
    `seeds: [${url}]
items:
  shot:
    match: /\\d$
    fields:
      title: title
      image: { css: "img::attr(src)", required: true }
      depth: { value: depth }
      number: { css: "img::attr(src)", regex: "\\\\d+", type: number }
outputs:
  - { csv: shots.csv, delimiter: ";" }
  - { sqlite: shots.db, key: [number], on-conflict: update }
  - jsonl:bad-shots.jsonl#records=rejected
`,
  );
  await run(cluster, ['c.yaml']);
  const folder = join(cluster.out, 'default');
  const [head, ...lines] = readFileSync(join(folder, 'shots.csv'), 'utf8').trimEnd().split('\n');
  assert.equal(head, 'title;image;depth;number');
  assert.equal(lines.length, 9);
  const rows = rowsIn(join(folder, 'shots.db'), 'SELECT * FROM shot ORDER BY number');
  assert.deepEqual(
    rows.map(({ number, depth }) => [number, depth]),
    Array.from({ length: 9 }, (_, i) => [i, 1]),
  );
});
