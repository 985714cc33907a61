/** The recipes of `examples/`, run by the lines of their README against their sites. */
import assert from 'node:assert/strict';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { before, describe, type TestContext, test } from 'node:test';
import Database from 'libsql';
import { noBrowser } from '../support/browser.ts';
import { Cluster, fileMatches, Program, root } from '../support/cluster.ts';
import { asOther } from '../support/exec.ts';
import { findPythons } from '../support/python.ts';

const timeout = 60_000;
const sitePort = /\b8124\b/g;
const files = [
  ...['gallery/crawl.yaml', 'threads/crawl.yaml', 'cookie/crawl.yaml'],
  ...['sharded/part-1.yaml', 'sharded/part-2.yaml', 'sharded/part-3.yaml'],
  ...['images/crawl.yaml', 'browser/crawl.yaml'],
  ...['queue/producer.mjs', 'queue/consumer.mjs', 'market/crawl.yaml', 'api/crawl.yaml'],
  ...['squares/squares.mjs', 'squares/squares.py', 'jobs/submit.mjs', 'jobs/scripts/words'],
  ...['articles/crawl.yaml', 'articles/files.mjs', 'login/crawl.yaml'],
  ...['wiki/crawl.yaml', 'wiki/random.yaml', 'schedule/crawl.yaml', 'schedule/letters.mjs'],
];

type Image = {
  readonly url: string;
  readonly alt?: string;
  readonly excluded?: string;
  readonly width: number;
  readonly height: number;
  readonly sha256?: string;
  readonly file?: string;
  readonly group?: string;
};

describe('recipes', { concurrency: 2 }, () => {
  let lines: readonly string[] = [];
  before(() => {
    const text = readFileSync(join(root, 'examples/README.md'), 'utf8');
    lines = [...text.matchAll(/`((?:[A-Z_]+=\S+ )?(?:node|python3) [^`]+)`/g)].map(
      ([, line = '']) => line,
    );
  });
  const lineOf = (part: string) => {
    const line = lines.find((one) => one.includes(part));
    assert.ok(line, part);
    return line;
  };

  for (const [name, line, crawls] of [
    ['gallery', 'gallery/crawl.yaml --slaves', ['gallery']],
    ['cookie', 'cookie/crawl.yaml', ['cookie']],
    ['login', 'login/crawl.yaml', ['login']],
    ['sharded', 'part-1.yaml', ['part-1', 'part-2', 'part-3']],
  ] as const) {
    test(`recipes: ${line}`, { timeout }, async (t) => {
      const yard = await yardFor(t);
      for (const crawl of crawls) {
        const command = lineOf(line).replace('part-1', crawl);
        assert.deepEqual(await yard.run(command).exited, { code: 0, signal: null }, command);
      }
      const found = crawls.map((crawl) => yard.items(crawl));
      assert.deepEqual(sorted(found.flat()), sorted(expectedOf(name)));
      // No part of a list is in another one.
      if (crawls.length > 1)
        assert.deepEqual(
          found.map(({ length }) => length),
          [10, 10, 10],
        );
    });
  }

  test('recipes: images are downloaded, and looked at', { timeout }, async (t) => {
    const yard = await yardFor(t);
    const program = yard.run(lineOf('images/crawl.yaml'));
    assert.equal((await program.exited).code, 0, program.output);
    const folder = join(yard.folder, 'crawl-data/images');
    const found = linesOf(join(folder, 'images.jsonl')).map((line) => {
      return JSON.parse(line.replace(/127\.0\.0\.1:\d+/g, '127.0.0.1:8124')) as Image;
    });
    const said = found.map(({ url, alt, excluded, width, height, sha256 }) => {
      return { url, alt, ...(excluded && { excluded }), width, height, ...(sha256 && { sha256 }) };
    });
    assert.deepEqual(sorted(said), sorted(expectedOf('images')));
    for (const { file } of found) if (file) assert.ok(existsSync(join(folder, file)));
    // A small one looks like the large one.
    assert.equal(new Set(found.flatMap(({ group }) => group ?? [])).size, 6);
    const gallery = yard.run(lineOf('gallery images'));
    assert.equal((await gallery.exited).code, 0, gallery.output);
    assert.match(gallery.output, /18 images of 2 pages, 6 groups/);
    assert.ok(existsSync(join(folder, 'gallery.html')));
  });

  test('recipes: a site that needs a browser', { timeout, skip: noBrowser }, async (t) => {
    const yard = await yardFor(t);
    const asRoot = process.getuid?.() === 0 ? { ORB_NO_SANDBOX: 'true' } : {};
    const program = yard.run(lineOf('browser/crawl.yaml'), asRoot);
    assert.equal((await program.exited).code, 0, program.output);
    assert.deepEqual(sorted(yard.items('browser')), sorted(expectedOf('browser')));
  });

  test('recipes: threads in the order of breadth first, and of depth first', {
    timeout,
  }, async (t) => {
    const yard = await yardFor(t);
    const postsOf = async (line: string, crawl: string) => {
      const program = yard.run(lineOf(line));
      assert.equal((await program.exited).code, 0, program.output);
      return yard.items(crawl) as { topic: string; text: string }[];
    };
    const broad = await postsOf('threads/crawl.yaml --slaves', 'threads');
    const numbers = broad.map(({ text }) => Number(text.slice(-1)));
    assert.deepEqual(numbers, [...numbers].sort());
    const deep = await postsOf('--order dfs', 'threads-dfs');
    // The next page may be on its way while the links of the last one are read.
    const texts = deep.map(({ text }) => text);
    assert.ok(texts.indexOf('Post 3') < texts.lastIndexOf('Post 1'), texts.join());
    assert.deepEqual(sorted(deep), sorted(broad));
    assert.deepEqual(sorted(broad), sorted(expectedOf('threads')));
  });

  for (const [name, file] of [
    ['market', 'fruits.csv'],
    ['api', 'products.csv'],
  ] as const) {
    test(`recipes: ${name}: a CSV file, character by character`, { timeout }, async (t) => {
      const yard = await yardFor(t);
      const program = yard.run(lineOf(`${name}/crawl.yaml`));
      assert.equal((await program.exited).code, 0, program.output);
      const [head, ...rows] = linesOf(join(yard.folder, 'crawl-data', name, file));
      const [expectedHead, ...expected] = linesOf(join(root, `examples/${name}/expected.csv`));
      assert.equal(head, expectedHead);
      assert.deepEqual(rows.sort(), expected.sort());
    });
  }

  test('recipes: articles as files of Markdown', { timeout }, async (t) => {
    const yard = await yardFor(t);
    for (const part of ['articles/crawl.yaml', 'articles/files.mjs']) {
      const program = yard.run(lineOf(part));
      assert.equal((await program.exited).code, 0, program.output);
    }
    assert.deepEqual(sorted(yard.items('articles')), sorted(expectedOf('articles')));
    const folder = join(yard.folder, 'crawl-data/articles/markdown');
    assert.deepEqual(readdirSync(folder).sort(), ['bridge.md', 'library.md', 'market.md']);
    const text = readFileSync(join(folder, 'library.md'), 'utf8');
    assert.equal(
      text.replace(/127\.0\.0\.1:\d+/g, '127.0.0.1:8124'),
      readFileSync(join(root, 'examples/articles/expected.md'), 'utf8'),
    );
  });

  test('recipes: wiki: each article once in the database', { timeout }, async (t) => {
    const yard = await yardFor(t);
    const program = yard.run(lineOf('wiki/crawl.yaml'));
    assert.equal((await program.exited).code, 0, program.output);
    const db = new Database(join(yard.folder, 'crawl-data/wiki/wiki.db'));
    const rows = db.prepare('SELECT title, path FROM article').all();
    db.close();
    assert.deepEqual(sorted(rows), sorted(expectedOf('wiki')));
    // There were more pages than articles.
    assert.ok(yard.items('wiki').length > rows.length);
  });

  test('recipes: a random walk goes from each article to one that it links to', {
    timeout,
  }, async (t) => {
    const yard = await yardFor(t);
    const program = yard.run(lineOf('wiki/random.yaml'));
    assert.equal((await program.exited).code, 0, program.output);
    const walk = yard.items('random-walk') as { step: number; title: string }[];
    assert.ok(walk.length > 2, `${walk.length} steps`);
    assert.deepEqual(
      walk.map(({ step }) => step),
      walk.map((_, i) => i),
    );
    for (const [i, { title }] of walk.slice(0, -1).entries()) {
      const text = await (await fetch(`${yard.site}wiki/${title}`)).text();
      assert.ok(text.includes(`/wiki/${walk[i + 1]?.title}?`), `${i}: ${title}`);
    }
  });

  test('recipes: start URLs on a schedule come one by one, over a kill', { timeout }, async (t) => {
    const yard = await yardFor(t);
    const command = lineOf('schedule/crawl.yaml');
    const path = join(yard.folder, 'crawl-data/schedule/items.jsonl');
    mkdirSync(dirname(path), { recursive: true });
    const first = yard.run(command);
    await fileMatches(path, /Letter 4/);
    await first.kill('SIGKILL');
    const second = yard.run(command);
    await second.said(/listens on/);
    await fileMatches(path, /Letter 5".*\n/);
    second.signal('SIGINT');
    assert.equal((await second.exited).code, 0, second.output);
    const found = yard.items('schedule') as { title: string }[];
    assert.equal(new Set(found.map(({ title }) => title)).size, found.length);
    const titles = new Set(found.map(({ title }) => title));
    for (const { title } of expectedOf('schedule') as { title: string }[]) {
      assert.ok(titles.has(title), title);
    }
  });

  test('recipes: producer and consumer', { timeout }, async (t) => {
    const yard = await yardFor(t);
    assert.ok(lines.includes('node master.js'));
    await yard.master('queue/producer.mjs', 'queue/consumer.mjs');
    const consumer = yard.run(lineOf('consumer.mjs'));
    const producer = yard.run(lineOf('producer.mjs'));
    assert.deepEqual(await producer.exited, { code: 0, signal: null }, producer.output);
    assert.deepEqual(await consumer.exited, { code: 0, signal: null }, consumer.output);
    assert.equal(consumer.stdout, readFileSync(join(root, 'examples/queue/expected.txt'), 'utf8'));
  });

  test('recipes: squares by processes, threads and coroutines, in Node and in Python', {
    timeout,
  }, async (t) => {
    const yard = await yardFor(t);
    const { port } = await yard.master('squares/squares.mjs');
    const python = findPythons().at(-1);
    const both = [lineOf('squares.mjs')];
    if (python) {
      both.push(lineOf('squares.py').replace('python3', python.path).replace('6666', port));
    }
    for (const command of both) {
      const program = yard.run(command);
      assert.deepEqual(await program.exited, { code: 0, signal: null }, program.output);
      assert.equal(program.stdout, '24 squares, their sum is 4900\n');
    }
  });

  test('recipes: commands on workers, and a job system of scripts', { timeout }, async (t) => {
    const yard = await yardFor(t);
    // The user of the jobs reads the scripts.
    chmodSync(yard.folder, 0o755);
    const { address } = await yard.master('jobs/submit.mjs');
    const [, more = ''] =
      /`(--allow-exec [^`]+)`/.exec(readFileSync(join(root, 'examples/README.md'), 'utf8')) ?? [];
    for (const name of ['a', 'b']) {
      const command = `${lineOf('slave.js --exec-folder')} ${more} --master ${address}`;
      const slave = yard.run([command, '--name', name, ...asOther].join(' '));
      await slave.said(/joined/);
    }
    const submit = yard.run(lineOf('submit.mjs'));
    assert.deepEqual(await submit.exited, { code: 0, signal: null }, submit.output);
    assert.equal(submit.stdout, '12 jobs counted 78 words\n');
    const records = linesOf(join(yard.folder, 'crawl-data/jobs.jsonl'));
    assert.equal(records.length, 12);
    const exec = yard.run(lineOf('exec --on every'));
    assert.deepEqual(await exec.exited, { code: 0, signal: null }, exec.output);
    assert.deepEqual(
      exec.stdout
        .trim()
        .split('\n')
        .map((line) => line.slice(0, 8))
        .sort(),
      ['a: Linux', 'b: Linux'],
    );
  });
});

/** A folder as a clone has it, and the sites on a free port. */
async function yardFor(t: TestContext) {
  const { folder } = new Cluster(t);
  const site = new Program([join(root, 'examples/site.mjs'), '0']);
  t.after(() => site.kill());
  const [, port = ''] = await site.said(/:(\d+)\/\n/);
  for (const name of ['master.js', 'slave.js', 'package.json', 'dist', 'node_modules']) {
    symlinkSync(join(root, name), join(folder, name));
  }
  mkdirSync(join(folder, 'examples'));
  for (const name of files) {
    const path = join(folder, 'examples', name);
    cpSync(join(root, 'examples', name), path);
    // Minutes of a schedule are too long here.
    const text = readFileSync(path, 'utf8').replace(sitePort, port);
    writeFileSync(path, text.replace(/every: \d+s/, 'every: 1s'));
  }
  const path = `${dirname(process.execPath)}${delimiter}${process.env['PATH'] ?? ''}`;
  return {
    folder,
    site: `http://127.0.0.1:${port}/`,
    run(line: string, more: Readonly<Record<string, string>> = {}) {
      const words = line.split(' ');
      const [, name, value = ''] = /^(\w+)=(.*)$/.exec(words[0] ?? '') ?? [];
      if (name !== undefined) words.shift();
      const [first = '', ...args] = words;
      const asks = ['exec', 'gallery'];
      const serves = args[0] === 'master.js' && !asks.includes(args[1] ?? '');
      const program = new Program([...args, ...(serves ? ['--listen', '127.0.0.1:0'] : [])], {
        cwd: folder,
        env: { PATH: path, ...more, ...(name !== undefined && { [name]: value }) },
        ...(first !== 'node' && { program: first }),
      });
      t.after(() => program.kill());
      return program;
    },
    /** Starts a master without seeds; these programs connect to it. */
    async master(...programs: readonly string[]) {
      const master = this.run('node master.js');
      const [, address = '', port = ''] = await master.said(/listens on (\S*?:(\d+))/);
      for (const name of programs) {
        const path = join(folder, 'examples', name);
        writeFileSync(path, readFileSync(path, 'utf8').replace('6666', port));
      }
      return { address, port };
    },
    items(crawl: string): unknown[] {
      const path = join(folder, 'crawl-data', crawl, 'items.jsonl');
      return existsSync(path) ? itemsIn(path) : [];
    },
  };
}

function expectedOf(name: string): unknown[] {
  return linesOf(join(root, 'examples', name, 'expected.jsonl')).map(
    (line) => JSON.parse(line) as unknown,
  );
}

/** The port of the sites differs. */
function itemsIn(path: string): unknown[] {
  return linesOf(path).map((line) => {
    const { item } = JSON.parse(line.replace(/127\.0\.0\.1:\d+/g, '127.0.0.1:8124')) as {
      item: unknown;
    };
    return item;
  });
}

function linesOf(path: string): string[] {
  return readFileSync(path, 'utf8').trimEnd().split('\n');
}

function sorted(items: readonly unknown[]): string[] {
  return items.map((item) => JSON.stringify(item)).sort();
}
