/** The container image without an engine: it can be built, and its programs run from its tree. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { Cluster, root } from '../support/cluster.ts';
import { demoTruth, startDemo } from '../support/demo.ts';
import {
  assemble,
  build,
  copiedByBuildah,
  copiedByHand,
  filesOf,
  hasBuildah,
  stagesOf,
} from '../support/image.ts';
import { assertLeaves } from '../support/parts.ts';

const stages = stagesOf(readFileSync(join(root, 'Dockerfile'), 'utf8'));
const [first, last] = stages;
assert.ok(first !== undefined && last !== undefined && stages.length === 2);

describe('the image', { timeout: 300_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-image-'));
  after(() => rmSync(folder, { recursive: true, force: true }));
  let tree = '';

  test('each COPY finds what it names behind .dockerignore', () => {
    tree = copiedByHand(first, join(folder, 'hand'));
  });

  test('and takes the same as buildah', { skip: !hasBuildah }, () => {
    assert.deepEqual(filesOf(copiedByBuildah(first, join(folder, 'buildah'))), filesOf(tree));
  });

  test('it builds, and a crawl runs from what it is made of', async (t) => {
    assert.notEqual(tree, '');
    const runtime = join(folder, 'runtime');
    build(first, tree, runtime);
    const from = (path: string) =>
      path.startsWith('/runtime') ? join(runtime, path.slice(8)) : join(folder, 'hand', path);
    const app = assemble(last, from, join(folder, 'image'));
    assert.deepEqual(
      filesOf(app)
        .filter((file) => !file.startsWith('node_modules/'))
        .map((file) => file.replace(/-[0-9a-f]{16}-.*\.bin$/, '-*.bin')),
      [
        ...['dist', 'dist/start', 'dist/start/master-*.bin', 'dist/start/slave-*.bin'],
        ...['master.js', 'node_modules', 'package.json', 'selftest.js', 'slave.js'],
      ],
    );

    const demo = await startDemo();
    t.after(() => demo.close());
    const truth = await demoTruth(demo.url);
    const cluster = new Cluster(t, folder, app);
    const master = await cluster.master([demo.url, '--exit-when-done']);
    await assertLeaves(master, cluster.slave());
    assert.deepEqual(cluster.pages().sort(), truth.pages);
    const run = (...args: readonly string[]) =>
      execFileSync(process.execPath, args, { cwd: app, encoding: 'utf8' });
    assert.match(run('master.js', 'selftest', '--help'), /selftest/);
    assert.match(run('master.js', '--version'), /\d/);
  });
});
