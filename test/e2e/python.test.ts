/** The Python examples against real masters, and crawls in which Python workers take part. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { flatSite } from '../../selftest/site.ts';
import { Cluster, Program } from '../support/cluster.ts';
import { type Demo, demoTruth, startDemo } from '../support/demo.ts';
import { assertSame, pagesOf, readImages, readPages } from '../support/exact.ts';
import { siteFor } from '../support/parts.ts';
import { findPythons, type Python } from '../support/python.ts';

const timeout = 90_000;
const pythons = findPythons().filter(({ version }) => (version[0] ?? 0) >= 3);
/** One before and one after the handshake changed. */
const oldest = pythons.at(0);
const newest = pythons.at(-1);
const skip = newest === undefined && 'no python3 in PATH, none in ~/.pyenv';

function example(
  cluster: Cluster,
  python: Python | undefined,
  name: string,
  ...args: string[]
): Program {
  const where = [...cluster.address.split(':'), join(cluster.data, 'authkey')];
  const program = python?.path ?? '';
  return cluster.run([`examples/python/${name}.py`, ...where, ...args], { program });
}

type Crawling = { readonly cluster: Cluster; readonly demo: Demo; readonly master: Program };

/** Crawls the demo to its end while `work` does it. Fails unless what is found is the truth. */
async function crawlDemo(
  t: TestContext,
  work: (crawling: Crawling) => void | Promise<void>,
  options: { delayMs?: number; flags?: readonly string[] } = {},
): Promise<Crawling> {
  const demo = await startDemo({ delayMs: options.delayMs ?? 5 });
  t.after(() => demo.close());
  const cluster = new Cluster(t);
  const flags = ['--images', 'img', '--per-host', '4', ...(options.flags ?? [])];
  const master = await cluster.master([demo.url, ...flags, '--exit-when-done']);
  const crawling = { cluster, demo, master };
  await work(crawling);
  assert.equal((await master.exited).code, 0, master.output);
  const truth = await demoTruth(demo.url);
  assertSame('pages', pagesOf(readPages(cluster)), truth.pages);
  assertSame('images', readImages(cluster), truth.images);
  return crawling;
}

async function assertEnded(...workers: readonly Program[]): Promise<void> {
  for (const worker of workers) {
    const exit = await worker.exited;
    assert.deepEqual(exit, { code: 0, signal: null }, worker.output);
    assert.match(worker.stdout, /^\d+ pages$/m);
  }
}

test('python: an example without arguments says which it takes', { timeout, skip }, async (t) => {
  const cluster = new Cluster(t);
  for (const name of ['crawl_worker', 'job_runner', 'squares']) {
    const program = newest?.path ?? '';
    const alone = cluster.run([`examples/python/${name}.py`], { program });
    assert.equal((await alone.exited).code, 1, alone.output);
    assert.match(alone.stderr, new RegExp(`python ${name}\\.py HOST PORT AUTHKEY_FILE`));
    assert.doesNotMatch(alone.stderr, /Traceback/);
  }
});

test('python: squares by processes, threads and coroutines', { timeout, skip }, async (t) => {
  const cluster = new Cluster(t);
  await cluster.master(['--queues', 'numbers:50,squares']);
  for (const python of new Set([oldest, newest])) {
    const program = example(cluster, python, 'squares', '200');
    await program.exited;
    assert.match(program.output, /^200 squares, their sum is 2646700/);
  }
});

test('python: an example starts while the key file has two keys', { timeout, skip }, async (t) => {
  const cluster = new Cluster(t);
  await cluster.master(['--queues', 'numbers:50,squares']);
  const file = join(cluster.data, 'authkey');
  writeFileSync(file, `the-new-key-of-this-master\n${cluster.authkey}\n`);
  const program = example(cluster, newest, 'squares', '10');
  await program.exited;
  assert.match(program.output, /^10 squares, their sum is 285/);
});

test('python: a job runner', { timeout, skip }, async (t) => {
  const cluster = new Cluster(t);
  await cluster.master(['--queues', 'jobs,answers']);
  const runner = example(cluster, newest, 'job_runner', 'run', '2');
  const asker = example(cluster, oldest, 'job_runner', 'submit', 'upper', 'hello');
  await asker.exited;
  assert.match(asker.output, /'value': 'HELLO'/);
  assert.equal((await runner.exited).code, 0, runner.output);
});

test('python: two workers alone crawl the demo site', { timeout, skip }, async (t) => {
  const { master } = await crawlDemo(t, async ({ cluster }) => {
    const workers = [oldest, newest].map((python) => example(cluster, python, 'crawl_worker'));
    await assertEnded(...workers);
  });
  // robots.txt was fetched by a slave of the master's own.
  assert.match(master.output, /no slave is connected: started slave\.js --robots-only/);
  assert.match(master.output, /slave joined +slave=robots-of-/);
});

test('python: one Node slave and two workers crawl the demo site', { timeout, skip }, async (t) => {
  const { cluster, master } = await crawlDemo(t, async ({ cluster }) => {
    const slave = cluster.slave(['--slots', '1']);
    await slave.said(/joined/);
    const workers = [oldest, newest].map((python) => example(cluster, python, 'crawl_worker'));
    await assertEnded(...workers);
  });
  assert.doesNotMatch(master.output, /robots-only/);
  const by = new Set(readPages(cluster).map(({ slave }) => slave.slice(0, 9)));
  assert.deepEqual([...by].sort(), ['MainProce', 'slave-1']);
});

test('python: workers killed all the time lose nothing', { timeout, skip }, async (t) => {
  const killsMin = 3;
  let kills = 0;
  await crawlDemo(
    t,
    async ({ cluster, master }) => {
      let ended: Promise<true> = master.exited.then(() => true);
      for (let isOver = false; !isOver; ) {
        // The others would leave them nothing on a busy machine.
        if (kills === killsMin) {
          cluster.slave(['--slots', '1']);
          const steady = example(cluster, oldest, 'crawl_worker');
          ended = Promise.race([ended, steady.exited.then((): true => true)]);
        }
        const worker = example(cluster, newest, 'crawl_worker');
        // In the middle of its third page, or so.
        const third = worker.said(/(http.*\s+){2}/).then(
          () => false,
          () => true,
        );
        isOver = await Promise.race([third, ended]);
        if (!isOver) kills++;
        await worker.kill('SIGKILL');
      }
    },
    { delayMs: 30 },
  );
  assert.ok(kills >= killsMin, `${kills} kills`);
});

test('python: a master killed under its workers loses nothing', { timeout, skip }, async (t) => {
  const demo = await startDemo({ delayMs: 20 });
  t.after(() => demo.close());
  const cluster = new Cluster(t);
  const flags = [demo.url, '--images', 'img', '--exit-when-done'];
  const first = await cluster.master(flags);
  const { address } = cluster;
  const cut = example(cluster, newest, 'crawl_worker');
  await cluster.grown('pages.jsonl', 5);
  await first.kill('SIGKILL');
  // A manager's client does not find back: its program has to be started again.
  assert.notEqual((await cut.exited).code, 0);
  const second = await cluster.master(flags, { listen: address });
  await assertEnded(example(cluster, oldest, 'crawl_worker'));
  assert.equal((await second.exited).code, 0, second.output);
  const truth = await demoTruth(demo.url);
  assertSame('pages', pagesOf(readPages(cluster)), truth.pages);
  assertSame('images', readImages(cluster), truth.images);
});

test('python: a worker that collects pages, with requests and lxml', { timeout }, async (t) => {
  const python = pythonWith('requests, lxml.html');
  if (python === undefined) return t.skip('no Python here has requests and lxml');
  await crawlDemo(t, async ({ cluster }) => {
    await assertEnded(
      example(cluster, python, 'crawl_worker_lxml'),
      example(cluster, python, 'crawl_worker_lxml', '3'),
    );
  });
});

test('python: greenlets whose sockets are not patched', { timeout }, async (t) => {
  const python = pythonWith('gevent');
  if (python === undefined) return t.skip('no Python here has gevent');
  const cluster = new Cluster(t);
  await cluster.master(['--queues', 'numbers,squares']);
  const where = [...cluster.address.split(':'), join(cluster.data, 'authkey')];
  const program = cluster.run(['test/support/greenlets.py', ...where, '200'], {
    program: python.path,
  });
  assert.equal((await program.exited).code, 0, program.output);
  assert.match(program.output, /^200 squares, their sum is 2646700/);
});

test('python: without slave.js one line names both ways out', { timeout, skip }, async (t) => {
  const cluster = new Cluster(t);
  // The modules as they were compiled: no slave.js lies beside them.
  const folders = ['--data', cluster.data, '--out', cluster.out];
  const seed = ['http://127.0.0.1:9/', '--listen', '127.0.0.1:0'];
  const master = cluster.run(['dist/master/main.js', ...seed, ...folders]);
  await master.said(/listens on/);
  await cluster.listening();
  example(cluster, newest, 'crawl_worker');
  await master.said(/`node slave\.js --robots-only`, or crawl with --ignore-robots/);
});

/** One that has these modules; also that of the system, where a distribution puts its packages:
 *  PATH may name another one. */
function pythonWith(modules: string): Python | undefined {
  const system = { path: '/usr/bin/python3', name: 'system', version: [3] };
  return [...pythons, system].find(({ path }) => {
    try {
      execFileSync(path, ['-c', `import ${modules}`], { stdio: 'ignore' });
      return true;
    } catch {
      return false;
    }
  });
}

test('python: own fields become lines of items.jsonl, as they were put', {
  timeout,
  skip,
}, async (t) => {
  const cluster = new Cluster(t);
  const master = await cluster.master(['--exit-when-done']);
  const code = [
    'import sys',
    'from multiprocessing.managers import BaseManager',
    'class Manager(BaseManager): pass',
    "for name in ('task_queue', 'result_queue'): Manager.register(name)",
    'key = open(sys.argv[3], "rb").read().strip()',
    'manager = Manager(address=(sys.argv[1], int(sys.argv[2])), authkey=key)',
    'manager.connect()',
    'tasks, results = manager.task_queue(), manager.result_queue()',
    'tasks.put(sys.argv[4])',
    'url = tasks.get()',
    'try:',
    "    results.put({'url': url, 'images': [], 'pirce': 7})",
    'except TypeError as error:',
    '    print(error)',
    "results.put({'url': url, 'item': {'pirce': 7.5, 'names': ('a', 'ü\\u2028'), 'none': None}})",
    "results.put({'url': url, 'status': 200, 'src': 'a.png', 'item': [{'n': n} for n in range(2)]})",
    'print(tasks.empty())',
  ].join('\n');
  const site = await siteFor(t, flatSite(1));
  const where = [...cluster.address.split(':'), join(cluster.data, 'authkey'), site.url];
  const program = new Program(['-c', code, ...where], { program: newest?.path ?? '' });
  t.after(() => program.kill());
  assert.deepEqual(await program.exited, { code: 0, signal: null }, program.output);
  assert.match(
    program.stdout,
    /^put does not know the key 'pirce'; put fields of your own .*\nTrue\n/,
  );
  assert.equal((await master.exited).code, 0, master.output);
  const text = readFileSync(join(cluster.out, 'default/items.jsonl'), 'utf8');
  const lines = text.trimEnd().split('\n');
  assert.deepEqual(
    lines.map((line) => {
      const { at, ...rest } = JSON.parse(line) as { at: string };
      assert.ok(Date.parse(at) > 0);
      return rest;
    }),
    [{ pirce: 7.5, names: ['a', 'ü\u2028'], none: null }, { n: 0 }, { n: 1 }].map((item) => ({
      url: site.url,
      rule: 'item',
      item,
    })),
  );
});
