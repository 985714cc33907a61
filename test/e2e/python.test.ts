/** The Python examples against real masters, and crawls in which Python workers take part. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Cluster, type Program } from '../support/cluster.ts';
import { demoTruth, startDemo } from '../support/demo.ts';
import { assertSame, pagesOf, readImages, readPages } from '../support/exact.ts';
import { findPythons, type Python } from '../support/python.ts';

const timeout = 90_000;
const pythons = findPythons().filter(({ version }) => (version[0] ?? 0) >= 3);
const oldest = pythons.find(({ version }) => (version[1] ?? 0) <= 11) ?? pythons.at(0);
const newest = pythons.at(-1);

function example(cluster: Cluster, python: Python, name: string, ...args: string[]): Program {
  const where = [...cluster.address.split(':'), join(cluster.data, 'authkey')];
  return cluster.run([`examples/python/${name}.py`, ...where, ...args], { program: python.path });
}

/** Crawls the demo to its end; `disturb` may do harm meanwhile. Fails unless it is the truth. */
async function crawlDemo(
  t: TestContext,
  start: (cluster: Cluster) => readonly Program[],
  disturb: (cluster: Cluster, workers: readonly Program[]) => Promise<void> = async () => {},
): Promise<void> {
  const demo = await startDemo({ delayMs: 5 });
  t.after(() => demo.close());
  const cluster = new Cluster(t);
  const master = await cluster.master([
    '--images',
    'img',
    '--exit-when-done',
    '--per-host',
    '4',
    '--ignore-robots',
  ]);
  const workers = start(cluster);
  await cluster.ask('add', demo.url, '--images', 'img', '--per-host', '4', '--ignore-robots');
  await disturb(cluster, workers);
  const exit = await master.exited;
  assert.equal(exit.code, 0, master.output);
  const truth = await demoTruth(demo.url);
  const lines = readPages(cluster);
  assertSame('pages', pagesOf(lines), truth.pages);
  assertSame('images', readImages(cluster), truth.images);
}

if (oldest === undefined || newest === undefined) {
  test('python: examples', { skip: 'no python3 in PATH, none in ~/.pyenv' }, () => {});
} else {
  test('python: squares by processes and threads', { timeout }, async (t) => {
    const cluster = new Cluster(t);
    await cluster.master(['--queues', 'numbers:50,squares']);
    for (const python of new Set([oldest, newest])) {
      const program = example(cluster, python, 'squares', '200');
      await program.exited;
      assert.match(program.output, /^200 squares, their sum is 2646700/);
    }
  });

  test('python: a job runner', { timeout }, async (t) => {
    const cluster = new Cluster(t);
    await cluster.master(['--queues', 'jobs,answers']);
    const runner = example(cluster, newest, 'job_runner', 'run');
    const asker = example(cluster, oldest, 'job_runner', 'submit', 'upper', 'hello');
    await asker.exited;
    assert.match(asker.output, /'value': 'HELLO'/);
    assert.equal((await runner.exited).code, 0, runner.output);
  });

  test('python: two workers alone crawl the demo site', { timeout }, async (t) => {
    let workers: readonly Program[] = [];
    await crawlDemo(t, (cluster) => {
      workers = [oldest, newest].map((python) => example(cluster, python, 'crawl_worker'));
      return workers;
    });
    await Promise.all(workers.map(({ exited }) => exited));
  });

  test('python: one Node slave and two workers crawl the demo site', { timeout }, async (t) => {
    await crawlDemo(t, (cluster) => {
      cluster.slave(['--slots', '1']);
      return [oldest, newest].map((python) => example(cluster, python, 'crawl_worker'));
    });
  });

  test('python: killed workers lose nothing', { timeout }, async (t) => {
    await crawlDemo(
      t,
      (cluster) => [oldest, newest].map((python) => example(cluster, python, 'crawl_worker')),
      async (cluster, [first]) => {
        await first?.said(/http/);
        await first?.kill('SIGKILL');
        const second = example(cluster, newest, 'crawl_worker');
        await second.said(/http/);
        await second.kill('SIGKILL');
        cluster.slave(['--slots', '1']);
      },
    );
  });
}
