/** Options of a loop, and an operator's actions on a crawl that a program reads. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { addPictures } from '../../selftest/downloads.ts';
import { flatSite, sitePages } from '../../selftest/site.ts';
import { Program, root } from '../support/cluster.ts';
import { LoopFolder, type Printed } from '../support/loop-program.ts';
import { siteFor } from '../support/parts.ts';
import { childrenOf, gone } from '../support/process-tree.ts';

const timeout = 60_000;
/** That a loop which is left has for its processes. */
const leaveMs = 10_000;

const pages = (records: readonly Printed[]) =>
  records.flatMap(({ kind, url }) => (kind === 'page' ? [url] : []));

/** A command of an operator, in the folder of the program. */
function ask(t: TestContext, { path }: LoopFolder, ...args: readonly string[]): Program {
  const program = new Program([join(root, 'master.js'), ...args], { cwd: path });
  t.after(() => program.kill());
  return program;
}

/** A program that stands still in its loop after some records. */
async function slowLoop(t: TestContext) {
  const site = await siteFor(t, flatSite(60), { delayMs: 5 });
  const folder = new LoopFolder(t);
  const program = folder.run(site.url, {
    options: { kinds: ['page'] },
    body: 'if (count === 3) { print("slow"); await waits(); }',
  });
  await program.said(/^slow$/m);
  return { site, folder, program, goOn: () => program.child.stdin?.write('go\n') };
}

describe('loop options', { concurrency: 1 }, () => {
  test('loop: a signal ends the loop with its reason, and the same call goes on', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, flatSite(100), { delayMs: 20 });
    const folder = new LoopFolder(t);
    const stopped = folder.run(site.url, {
      before: 'const stop = new AbortController();',
      more: 'signal: stop.signal',
      body: `if (count === 4) await waits();
        if (count === 4) stop.abort(Object.assign(new Error('enough'), { code: 'MINE' }));`,
    });
    await stopped.printed(4);
    const processes = stopped.look();
    const stoppedAt = performance.now();
    stopped.child.stdin?.write('go\n');
    await stopped.exited;
    await gone(processes);
    assert.ok(performance.now() - stoppedAt < leaveMs);
    assert.equal(stopped.word, 'failed: MINE enough', stopped.output);
    const rest = folder.run(site.url);
    await rest.exited;
    assert.equal(rest.word, 'over', rest.output);
    const all = new Map([...stopped.records, ...rest.records].map((one) => [one.id, one]));
    assert.equal(pages([...all.values()]).length, 101);
  });

  test('loop: a signal that was given before starts nothing, and one may come while it waits', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, flatSite(3), { delayMs: 30_000 });
    const folder = new LoopFolder(t);
    const never = folder.run(site.url, { more: "signal: AbortSignal.abort('no')" });
    await never.exited;
    assert.match(never.stdout, /^failed: /);
    assert.ok(!readdirSync(folder.path).includes('orb-data'));
    const waiting = folder.run(site.url, { more: 'signal: AbortSignal.timeout(2_000)' });
    const began = performance.now();
    await waiting.exited;
    assert.match(waiting.word, /^failed: 23 .*timeout/, waiting.output);
    assert.ok(performance.now() - began < 2_000 + leaveMs);
  });

  test('loop: what is downloaded comes as records, and into a folder of its own', {
    timeout,
  }, async (t) => {
    const resources = sitePages({ '/': ['/1'], '/1': [] });
    for (const [n, page] of ['/', '/1'].entries()) {
      const images = [`/img/${n * 2}.png`, `/img/${n * 2 + 1}.png`];
      resources.set(page, { kind: 'page', links: n === 0 ? ['/1'] : [], images });
    }
    addPictures(resources);
    const site = await siteFor(t, resources);
    const folder = new LoopFolder(t);
    const imagesTo = join(folder.path, 'shared');
    const options = { download: { images: { similar: 'off' } }, maxImages: 3, imagesTo };
    const program = folder.run(site.url, { options });
    await program.exited;
    assert.equal(program.word, 'over', program.output);
    const lines = readFileSync(join(folder.path, 'crawl-data/default/images.jsonl'), 'utf8');
    const found = program.records.flatMap(({ kind, id: _, ...line }) =>
      kind === 'image' ? [JSON.stringify(line)] : [],
    );
    assert.equal(`${found.join('\n')}\n`, lines, 'they are the lines of images.jsonl');
    const files = found.map((line) => (JSON.parse(line) as { file: string }).file);
    assert.deepEqual([files.length, new Set(files).size], [3, 2], 'two have the same bytes');
    for (const file of files) assert.ok(file.startsWith(imagesTo) && existsSync(file), file);
  });

  test('loop: logLevel says how much log there is, and log gets it', { timeout }, async (t) => {
    const site = await siteFor(t, flatSite(3));
    const folder = new LoopFolder(t);
    const quiet = folder.run(site.url);
    await quiet.exited;
    assert.deepEqual([quiet.word, quiet.stderr], ['over', '']);
    const loud = folder.run(site.url, { options: { logLevel: 'debug', crawl: 'two' } });
    await loud.exited;
    assert.match(loud.stderr, /listens on/);
    assert.match(loud.stderr, /DEBUG|debug/);
    const own = folder.run(site.url, {
      options: { logLevel: 'info', crawl: 'three' },
      more: "log: (line) => print('log: ' + line)",
    });
    await own.exited;
    assert.equal(own.stderr, '');
    assert.match(own.stdout, /^log: .*listens on/m);
  });

  test('loop: a log that throws ends the loop, not the program', { timeout }, async (t) => {
    const site = await siteFor(t, flatSite(3));
    const folder = new LoopFolder(t);
    const program = folder.run(site.url, {
      options: { logLevel: 'debug' },
      more: "log: () => { throw Object.assign(new Error('full'), { code: 'MINE' }); }",
    });
    assert.equal((await program.exited).code, 0, program.output);
    assert.equal(program.word, 'failed: MINE full', program.output);
    const again = folder.run(site.url);
    await again.exited;
    assert.equal(again.word, 'over', again.output);
  });

  test('loop: several crawls share a data folder, each with its own place', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, flatSite(20), { delayMs: 5 });
    const folder = new LoopFolder(t);
    const run = async (crawl: string, body = '') => {
      const program = folder.run(site.url, { options: { crawl, kinds: ['page'] }, body });
      await program.exited;
      assert.equal(program.word, 'over', program.output);
      // That the other crawl waits for its loop is no news.
      assert.equal(program.stderr, '');
      return program.records;
    };
    const one = await run('one', 'if (count === 5) break;');
    const two = await run('two');
    const rest = await run('one');
    assert.equal(two.length, 21);
    // The record at which the loop was left was not done.
    assert.deepEqual(rest[0], one[4]);
    assert.equal(new Set(pages([...one, ...rest])).size, 21);
    assert.equal(new Set([...one, ...two, ...rest].map(({ id }) => id.split('-')[0])).size, 2);
  });

  test('loop: a page function gives items, and one that is not there is an error', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, flatSite(5));
    const folder = new LoopFolder(t);
    writeFileSync(
      join(folder.path, 'mine.mjs'),
      'const page = ({ url, emit }) => emit({ path: new URL(url).pathname });\nexport { page as "default" };\n',
    );
    const program = folder.run(site.url, { options: { page: './mine.mjs', kinds: ['item'] } });
    await program.exited;
    assert.equal(program.word, 'over', program.output);
    assert.deepEqual(
      program.records.map(({ rule, item }) => `${rule} ${JSON.stringify(item)}`).sort(),
      ['', 1, 2, 3, 4, 5].map((n) => `page {"path":"/${n}"}`).sort(),
    );
    const none = folder.run(site.url, { options: { page: 'none.mjs', data: './other' } });
    await none.exited;
    assert.match(none.stdout, /^failed: E_CONFIG page: there is no file .*none\.mjs\n$/);
  });

  test('loop: a source on a schedule is asked again, until the loop is left', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, flatSite(9));
    const folder = new LoopFolder(t);
    const list = join(folder.path, 'urls.txt');
    writeFileSync(list, `${site.url}1\n`);
    const program = folder.run([{ file: 'urls.txt', every: '1s' }], {
      options: { maxDepth: 0, kinds: ['page'] },
      body: 'if (count === 2) break;',
    });
    await program.printed(1);
    writeFileSync(list, `${site.url}1\n${site.url}2\n`);
    await program.exited;
    assert.equal(program.word, 'over', program.output);
    assert.deepEqual(pages(program.records), [`${site.url}1`, `${site.url}2`]);
  });

  test('loop: a program that is killed in its first moments leaves no file and no process', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, flatSite(5));
    const folder = new LoopFolder(t);
    const left = () =>
      [...readdirSync(tmpdir()), ...readdirSync(folder.path)].filter((name) =>
        name.startsWith('.orbweaver'),
      );
    const before = left();
    for (const waitMs of [0, 1, 20, 120, 300]) {
      const program = folder.run([{ file: 'none.txt' }, site.url], { before: 'print("here");' });
      await program.said(/here/);
      // Until there is a master, or that much later.
      while (program.isAlive && childrenOf(program.pid).length === 0) {
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      await new Promise((resolve) => setTimeout(resolve, waitMs));
      const processes = program.look();
      await program.kill('SIGKILL');
      await gone(processes);
      assert.deepEqual(left(), before, `after ${waitMs} ms`);
    }
  });

  test('loop: a crawl can be rotated while its loop is slow', { timeout }, async (t) => {
    const { folder, program, goOn, site } = await slowLoop(t);
    const rotate = ask(t, folder, 'rotate', 'default');
    assert.deepEqual(await rotate.exited, { code: 0, signal: null }, rotate.output);
    assert.match(rotate.output, /pages-.*\.jsonl/);
    goOn();
    await program.exited;
    assert.equal(program.word, 'over', program.output);
    assert.equal(new Set(pages(program.records)).size, 61);
    assert.equal(program.records.length, 61);
    assert.ok(site.log.length > 0);
  });

  test('loop: a crawl that is renamed while its loop is slow goes on there', {
    timeout,
  }, async (t) => {
    const { folder, program, goOn } = await slowLoop(t);
    const rename = ask(t, folder, 'rename', 'default', 'other');
    assert.deepEqual(await rename.exited, { code: 0, signal: null }, rename.output);
    goOn();
    await program.exited;
    assert.equal(program.word, 'over', program.output);
    assert.equal(program.records.length, 61);
    assert.ok(readdirSync(join(folder.path, 'crawl-data')).includes('other'));
  });

  for (const [verb, ...flags] of [['remove'], ['remove', '--files'], ['cancel']] as const) {
    test(`loop: ${[verb, ...flags].join(' ')} while the loop is slow ends it`, {
      timeout,
    }, async (t) => {
      const { folder, program, goOn } = await slowLoop(t);
      const asked = ask(t, folder, verb, 'default', ...flags);
      assert.deepEqual(await asked.exited, { code: 0, signal: null }, asked.output);
      goOn();
      await program.exited;
      await gone([...program.seen]);
      assert.equal(program.word, 'over', program.output);
      assert.equal(new Set(program.records.map(({ id }) => id)).size, program.records.length);
    });
  }
});
