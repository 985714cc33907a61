/** The package as a loop over the records of a crawl, from real programs. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { flatSite, generateSite } from '../../selftest/site.ts';
import { Program, root } from '../support/cluster.ts';
import { LoopFolder, type LoopProgram, type Printed } from '../support/loop-program.ts';
import { siteFor } from '../support/parts.ts';
import { gone } from '../support/process-tree.ts';

const timeout = 120_000;
/** That a loop which is left has for its processes. */
const leaveMs = 10_000;

describe('loop', { concurrency: 1 }, () => {
  for (const type of ['mjs', 'cjs'] as const) {
    test(`loop: ${type}: every record once, as the files have it`, { timeout }, async (t) => {
      const site = await siteFor(t, generateSite(7, 120));
      const folder = new LoopFolder(t);
      const program = folder.run(site.url, { options: { slaves: 2 }, type });
      await program.printed(1);
      const { code } = await program.exited;
      assert.equal(code, 0, program.output);
      assert.equal(program.word, 'over', program.output);
      await gone([...program.seen]);
      const truth = site.truth();
      const images = program.records.filter(({ kind }) => kind === 'image-url');
      assert.deepEqual(pagesOf(program.records).sort(), truth.pages);
      assert.deepEqual(images.map(({ url }) => url).sort(), truth.images);
      assertNumbered(program.records);
      const written = readFileSync(join(folder.path, 'crawl-data/default/pages.jsonl'), 'utf8');
      const lines = program.records
        .filter(({ kind }) => kind !== 'image-url' && kind !== 'skipped')
        .map(({ kind: _, id: __, ...line }) => line);
      assert.deepEqual(
        lines,
        written
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line) as unknown),
      );
      // It is finished: there is nothing to do.
      const again = folder.run(site.url, { type });
      await again.exited;
      assert.equal(again.stdout, 'over\n', again.output);
    });
  }

  for (const [what, body, word] of [
    ['break', 'if (count === 5) break;', 'over'],
    ['return', 'if (count === 5) return;', 'over'],
    ['throw', "if (count === 5) throw new Error('mine');", 'failed: undefined mine'],
  ] as const) {
    test(`loop: ${what} ends the processes, and the same call goes on`, { timeout }, async (t) => {
      const site = await siteFor(t, flatSite(200), { delayMs: 20 });
      const folder = new LoopFolder(t);
      const first = folder.run(site.url, { body: `if (count === 4) await waits(); ${body}` });
      await first.printed(4);
      const processes = first.look();
      assert.equal(processes.length, 3, 'the program, a master and a slave');
      const leftAt = performance.now();
      first.child.stdin?.write('go\n');
      await first.exited;
      await gone(processes);
      assert.ok(performance.now() - leftAt < leaveMs);
      assert.equal(first.word, word, first.output);
      assert.equal(first.records.length, 5);
      const second = folder.run(site.url);
      await second.exited;
      assert.equal(second.word, 'over', second.output);
      // The loop did not ask for more after the fifth.
      assert.deepEqual(second.records[0], first.records[4]);
      assertNumbered([...first.records.slice(0, 4), ...second.records]);
      assert.equal(pagesOf([...first.records.slice(0, 4), ...second.records]).length, 201);
    });
  }

  test('loop: kill -9 at many moments loses no record, and leaves no process', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, generateSite(3, 400), { delayMs: 5 });
    const folder = new LoopFolder(t);
    const all = new Map<number, Printed>();
    let doubles = 0;
    let over: LoopProgram | undefined;
    const take = (program: LoopProgram) => {
      for (const record of program.records) {
        const before = all.get(seqOf(record));
        if (before !== undefined) {
          doubles++;
          assert.deepEqual(record, before);
        }
        all.set(seqOf(record), record);
      }
    };
    for (const moment of [1, 0, 3, 20, 45, 70, 1, 150, 10, 200]) {
      const program = folder.run(site.url, { options: { slaves: 2 } });
      await Promise.race([program.printed(moment), program.exited]);
      program.look();
      await program.kill('SIGKILL');
      take(program);
      // The next one starts at once, and waits for what is left of this one.
      over = program;
      await gone([...program.seen].filter((pid) => pid === program.pid));
    }
    const last = folder.run(site.url);
    await last.exited;
    assert.equal(last.word, 'over', last.output);
    take(last);
    await gone([...(over?.seen ?? [])]);
    assertNumbered([...all.values()].sort((a, b) => seqOf(a) - seqOf(b)));
    assert.deepEqual(pagesOf([...all.values()]).sort(), site.truth().pages);
    t.diagnostic(`${all.size} records, ${doubles} came again`);
  });

  test('loop: a slow loop holds the crawl', { timeout }, async (t) => {
    const site = await siteFor(t, generateSite(1, 5_000));
    const folder = new LoopFolder(t);
    const program = folder.run(site.url, {
      options: { slaves: 2, kinds: ['page'], images: 'img' },
      body: 'if (count === 10) { print("slow"); await waits(); }',
    });
    await program.said(/^slow$/m);
    // The site stands still once the master has leased nothing for some time.
    let asked = -1;
    while (asked !== site.log.length) {
      asked = site.log.length;
      await new Promise((resolve) => setTimeout(resolve, 1_500));
    }
    t.diagnostic(`${asked} pages asked for before the loop went on`);
    assert.ok(asked < 2_000, `${asked} of 5000 pages`);
    program.child.stdin?.write('go\n');
    await program.exited;
    assert.equal(program.word, 'over', program.output);
    assert.deepEqual(pagesOf(program.records).sort(), site.truth().pages);
  });

  test('loop: items are records, and fields that are missing are loud', { timeout }, async (t) => {
    const html = { kind: 'file', type: 'text/html' } as const;
    const page = (name: string, rest = '') => ({ ...html, body: `<h3>${name}</h3>${rest}` });
    const link = '<a href="/two">2</a><a href="/three">3</a>';
    const site = await siteFor(
      t,
      new Map([
        ['/', page('one', `<b>7</b>${link}`)],
        ['/two', page('two', '<b>8</b>')],
        ['/three', page('three')],
      ]),
    );
    const fields = { name: 'h3', price: { css: 'b', type: 'number', required: true } };
    const program = new LoopFolder(t).run(site.url, {
      options: { items: { book: { fields } }, kinds: ['item', 'rejected'] },
    });
    await program.exited;
    assert.equal(program.word, 'over', program.output);
    const rows = program.records.map(({ kind, url, rule, item, why }) => ({
      kind,
      path: new URL(url).pathname,
      rule,
      item,
      why,
    }));
    const book = { kind: 'item', rule: 'book', why: undefined };
    assert.deepEqual(
      rows.sort((a, b) => a.path.localeCompare(b.path)),
      [
        { ...book, path: '/', item: { name: 'one', price: 7 } },
        {
          ...book,
          kind: 'rejected',
          path: '/three',
          item: { name: 'three', price: null },
          why: rows[1]?.why,
        },
        { ...book, path: '/two', item: { name: 'two', price: 8 } },
      ],
    );
    assert.match(rows[1]?.why ?? '', /price/);
    assert.equal(new Set(program.records.map(({ id }) => id)).size, 3);
  });

  test('loop: seeds of a file and of a command, relative to the working folder', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, flatSite(9));
    const folder = new LoopFolder(t);
    writeFileSync(join(folder.path, 'urls.txt'), `${site.url}1\n`);
    writeFileSync(join(folder.path, 'list.sh'), `#!/bin/sh\necho ${site.url}2\n`, {
      mode: 0o755,
    });
    const seeds = [{ file: 'urls.txt' }, { command: ['./list.sh'] }, `${site.url}{3..4}`];
    const program = folder.run(seeds, { options: { maxDepth: 0, kinds: ['page'] } });
    await program.exited;
    assert.equal(program.word, 'over', program.output);
    const wanted = [1, 2, 3, 4].map((n) => `${site.url}${n}`);
    assert.deepEqual(pagesOf(program.records).sort(), wanted);
    // Nothing of the call is left there.
    assert.deepEqual(
      readdirSync(folder.path).filter((name) => name.startsWith('.')),
      [],
    );
  });

  test('loop: a data folder in use is one clear error', { timeout }, async (t) => {
    const site = await siteFor(t, flatSite(50), { delayMs: 20 });
    const folder = new LoopFolder(t);
    const first = folder.run(site.url, { body: 'if (count === 2) await waits();' });
    await first.printed(2);
    const second = folder.run(site.url);
    await second.exited;
    assert.match(
      second.stdout,
      /^failed: E_CONFIG the data folder .* is in use by the master with process id \d+; .*\n$/,
    );
    assert.equal(second.stderr, '');
    first.child.stdin?.write('go\n');
    await first.exited;
    assert.equal(first.word, 'over', first.output);
    assert.equal(pagesOf(first.records).length, 51);
  });

  test('loop: an option that is wrong is named as the program has it', { timeout }, async (t) => {
    const folder = new LoopFolder(t);
    const wrong: [object, RegExp][] = [
      [{ maxDepth: -1 }, /^failed: E_CONFIG maxDepth: It must be a whole number from 0 to 65535/],
      [
        { maxDepht: 1 },
        /^failed: E_CONFIG maxDepht: there is no such key; did you mean maxDepth\?/,
      ],
      [{ include: ['('] }, /^failed: E_CONFIG include: /],
      [
        { kinds: ['pages'] },
        /^failed: E_CONFIG kinds: there is no kind "pages"; the kinds are page,/,
      ],
      [{ slaves: 'many' }, /^failed: E_CONFIG .*--slaves.*whole number/],
      [{ slaves: 0 }, /^failed: E_CONFIG slaves: It must be a whole number from 1\./],
      [{ seeds: ['x'] }, /^failed: E_CONFIG seeds are the first argument of crawl/],
      [{ crawl: '../x' }, /^failed: E_CONFIG crawl: must be 1 to 64 letters/],
    ];
    for (const [options, word] of wrong) {
      const program = folder.run('http://127.0.0.1:1/', { options });
      await program.exited;
      assert.match(program.stdout, word, program.output);
      assert.equal(program.stderr, '');
    }
    const program = folder.run('example.org');
    await program.exited;
    assert.match(program.stdout, /^failed: E_CONFIG seeds\.0: .*https:\/\/example\.org/);
  });

  test('loop: a master without the program holds the crawl, until it is given up', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, flatSite(100), { delayMs: 10 });
    const folder = new LoopFolder(t);
    const first = folder.run(site.url, { body: 'if (count === 5) break;' });
    await first.exited;
    const run = (...args: string[]) => {
      const program = new Program([join(root, 'master.js'), ...args], { cwd: folder.path });
      t.after(() => program.kill());
      return program;
    };
    const master = run('--listen', '127.0.0.1:0', '--slaves', '1');
    await master.said(/held: a program reads the records of the crawl default; run that program/);
    await master.kill('SIGTERM');
    const second = folder.run(site.url, { body: 'if (count === 5) break;' });
    await second.exited;
    assert.deepEqual(second.records[0], first.records[4]);
    const other = run('--listen', '127.0.0.1:0', '--slaves', '1', '--exit-when-done');
    await other.said(/held: a program reads/);
    assert.equal((await run('resume', 'default', '--new-files').exited).code, 0);
    assert.deepEqual(await other.exited, { code: 0, signal: null }, other.output);
    const written = readFileSync(join(folder.path, 'crawl-data/default/pages.jsonl'), 'utf8');
    assert.equal(written.trimEnd().split('\n').length, 101);
  });

  test('loop: a signal ends it, a master that dies is an error', { timeout }, async (t) => {
    const site = await siteFor(t, flatSite(100), { delayMs: 20 });
    const folder = new LoopFolder(t);
    const first = folder.run(site.url, {
      body: 'if (count === 3) { print("here"); await waits(); }',
    });
    await first.said(/^here$/m);
    const [, master = 0] = first.look();
    process.kill(master, 'SIGKILL');
    await gone([master]);
    first.child.stdin?.write('go\n');
    await first.exited;
    assert.match(first.word, /^failed: E_CLOSED the master ended by itself \(SIGKILL\); run the/);
    await gone([...first.seen]);
    const second = folder.run(site.url);
    await second.exited;
    assert.equal(second.word, 'over', second.output);
    assert.equal(pagesOf(second.records).length >= 99, true);
  });
});

function pagesOf(records: readonly Printed[]): string[] {
  return records.flatMap(({ kind, finalUrl = '' }) => (kind === 'page' ? [finalUrl] : []));
}

/** A record is named by its crawl and its number there. */
function seqOf({ id }: Printed): number {
  return Number(id.split('-')[1]);
}

/** All from the first one on, once, in order, of one crawl. */
function assertNumbered(records: readonly Printed[]): void {
  assert.deepEqual(
    records.map(seqOf),
    records.map((_, i) => i + 1),
  );
  assert.equal(new Set(records.map(({ id }) => id.split('-')[0])).size, 1);
  assert.match(records[0]?.id ?? '', /^[0-9a-f]{32}-1$/);
}
