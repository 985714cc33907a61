/** The recipes of `examples/`, run by the lines of their README against their sites. */
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, type TestContext, test } from 'node:test';
import { Cluster, Program, root } from '../support/cluster.ts';

const timeout = 60_000;
const sitePort = /\b8124\b/g;
const files = [
  ...['gallery/crawl.yaml', 'threads/crawl.yaml', 'cookie/crawl.yaml'],
  ...['sharded/part-1.yaml', 'sharded/part-2.yaml', 'sharded/part-3.yaml'],
  ...['queue/producer.mjs', 'queue/consumer.mjs'],
];

describe('recipes', { concurrency: 1 }, () => {
  let lines: readonly string[] = [];
  before(() => {
    const text = readFileSync(join(root, 'examples/README.md'), 'utf8');
    lines = [...text.matchAll(/`(node [^`]+)`/g)].map(([, line = '']) => line);
  });
  const lineOf = (part: string) => {
    const line = lines.find((one) => one.includes(part));
    assert.ok(line, part);
    return line;
  };

  for (const [name, line, crawls] of [
    ['gallery', 'gallery/crawl.yaml --slaves', ['gallery']],
    ['threads', 'threads/crawl.yaml --slaves', ['threads']],
    ['threads', '--order dfs', ['threads-dfs']],
    ['cookie', 'cookie/crawl.yaml', ['cookie']],
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

  test('recipes: producer and consumer', { timeout }, async (t) => {
    const yard = await yardFor(t);
    const master = yard.run('node master.js');
    assert.ok(lines.includes('node master.js'));
    const [, port = ''] = await master.said(/listens on \S*?:(\d+)/);
    for (const name of ['producer', 'consumer']) {
      const path = join(yard.folder, `examples/queue/${name}.mjs`);
      writeFileSync(path, readFileSync(path, 'utf8').replace('6666', port));
    }
    const consumer = yard.run(lineOf('consumer.mjs'));
    const producer = yard.run(lineOf('producer.mjs'));
    assert.deepEqual(await producer.exited, { code: 0, signal: null }, producer.output);
    assert.deepEqual(await consumer.exited, { code: 0, signal: null }, consumer.output);
    assert.equal(consumer.stdout, readFileSync(join(root, 'examples/queue/expected.txt'), 'utf8'));
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
    writeFileSync(path, readFileSync(path, 'utf8').replace(sitePort, port));
  }
  return {
    folder,
    run(line: string) {
      const [, ...words] = line.split(' ');
      const listen = words[0] === 'master.js' ? ['--listen', '127.0.0.1:0'] : [];
      const program = new Program([...words, ...listen], { cwd: folder });
      t.after(() => program.kill());
      return program;
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
