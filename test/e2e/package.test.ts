/** The packed package in an empty folder: its command, run by npx, and its types. Its dependencies
 *  are those of the clone, since no test needs a registry. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { flatSite } from '../../selftest/site.ts';
import { Program, root } from '../support/cluster.ts';
import { LoopFolder } from '../support/loop-program.ts';
import { siteFor } from '../support/parts.ts';

const timeout = 120_000;
const folder = mkdtempSync(join(tmpdir(), 'orbweaver-package-'));

function npx(...args: readonly string[]): Program {
  const all = ['--offline', 'orbweaver', ...args];
  return new Program(all, { program: 'npx', cwd: folder, detached: true });
}

/** The file that npx runs, without its start-up. */
function command(...args: readonly string[]): Program {
  const all = [join(folder, 'node_modules/.bin/orbweaver'), ...args];
  return new Program(all, { cwd: folder, env: { npm_command: 'exec' } });
}

describe('package: in an empty folder', { timeout }, () => {
  before(() => {
    const packed = ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder];
    const file = execFileSync('npm', packed, { cwd: root, encoding: 'utf8' }).trim();
    const modules = join(folder, 'node_modules');
    mkdirSync(join(modules, '.bin'), { recursive: true });
    execFileSync('tar', ['xzf', join(folder, file), '-C', modules]);
    cpSync(join(modules, 'package'), join(modules, 'orbweaver'), { recursive: true });
    rmSync(join(modules, 'package'), { recursive: true });
    for (const name of readdirSync(join(root, 'node_modules'))) {
      if (name.startsWith('.')) continue;
      symlinkSync(join(root, 'node_modules', name), join(modules, name));
    }
    const { bin } = JSON.parse(readFileSync(join(modules, 'orbweaver/package.json'), 'utf8')) as {
      bin: Record<string, string>;
    };
    for (const [name, path] of Object.entries(bin)) {
      symlinkSync(`../orbweaver/${path}`, join(modules, '.bin', name));
    }
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  test('package: npx orbweaver https://site/ crawls it', async (t) => {
    const site = await siteFor(t, flatSite(5));
    const program = npx(site.url);
    t.after(() => program.kill('SIGTERM'));
    assert.deepEqual(await program.exited, { code: 0, signal: null }, program.output);
    assert.match(program.stdout, /\n6 pages and 0 images, 0 URLs failed\./);
    assert.match(program.stdout, /npx orbweaver slave --master/);
    const name = new URL(site.url).host.replace(':', '-');
    const pages = readFileSync(join(folder, 'crawl-data', name, 'pages.jsonl'), 'utf8');
    assert.equal(pages.trimEnd().split('\n').length, 6);
    assert.ok(existsSync(join(folder, 'orb-data/authkey')));
  });

  test('package: each link of its documents leads to a file that it has', () => {
    const at = join(folder, 'node_modules/orbweaver');
    const files = readdirSync(at, { recursive: true, encoding: 'utf8' });
    const documents = files.filter((file) => file.endsWith('.md'));
    assert.ok(documents.includes('README.md') && documents.includes('docs/operating.md'));
    const dead = documents.flatMap((file) => {
      const links = readFileSync(join(at, file), 'utf8').matchAll(/\]\((?![a-z]+:|#)([^)#\s]+)/g);
      const missing = [...links].filter(([, to = '']) => !existsSync(join(at, dirname(file), to)));
      return missing.map(([, to]) => `${file}: ${to}`);
    });
    assert.deepEqual(dead, []);
  });

  test('package: its commands, its help, and mistakes', async (t) => {
    const master = command('master', '--listen', '127.0.0.1:0');
    t.after(() => master.kill());
    await master.said(/start a slave with: npx orbweaver slave --master 127\.0\.0\.1:/);
    const run = async (...args: string[]) => {
      const program = command(...args);
      const { code } = await program.exited;
      return `${code} ${program.output}`;
    };
    assert.match(await run('add', 'http://127.0.0.1:1/'), /^0 1 new, 0 already known/);
    assert.match(await run('status'), /^0 crawl +state[\s\S]*default/);
    const slave = command('slave');
    t.after(() => slave.kill());
    await master.said(/slave joined/);
    slave.signal('SIGTERM');
    assert.match(await run('--help'), /^0 usage: npx orbweaver https:\/\/site\//);
    assert.match(await run(), /^2 usage: npx orbweaver/);
    assert.match(await run('--version'), /^0 \d+\.\d+\.\d+/);
    const help = await run('slave', '--help');
    assert.match(help, /^0 Usage: npx orbweaver slave [\s\S]*--slots/);
    assert.ok(!help.includes('node slave.js'), help);
    assert.match(
      await run('example.org'),
      /^2 start: .*write it in full, as https:\/\/example\.org/,
    );
    assert.match(await run('statsu'), /^2 master: "statsu" is neither a URL nor a command/);
    assert.match(await run('--delay', '5'), /^2 orbweaver: put the URLs before the options/);
  });

  for (const type of ['mjs', 'cjs'] as const) {
    test(`package: a crawl as a loop, ${type}`, async (t) => {
      const site = await siteFor(t, flatSite(5));
      const program = new LoopFolder(t, folder).run(site.url, {
        options: { data: `loop-${type}`, out: `out-${type}`, kinds: ['page'] },
        type,
      });
      assert.deepEqual(await program.exited, { code: 0, signal: null }, program.output);
      assert.equal(program.word, 'over', program.output);
      assert.equal(program.stderr, '');
      assert.deepEqual(program.records.map(({ url }) => url).sort(), site.truth().pages);
    });
  }

  test('package: the types of a loop know the fields of each kind, ESM and CommonJS', () => {
    const loop = `
      async function read(signal: AbortSignal): Promise<number> {
        const fields = { title: 'h3', price: { css: 'b', type: 'number' } } as const;
        const items = { book: { each: 'li', fields } };
        let bytes = 0;
        const options = { slaves: 2, maxDepth: 3, delay: 100, items, signal };
        for await (const record of crawl('https://site/', options)) {
          const id: string = record.id;
          if (record.kind === 'page') {
            bytes += (record.bytes ?? 0) + record.depth + (record.images?.length ?? 0) + id.length;
            // @ts-expect-error a page has no reason
            record.skipped;
          } else if (record.kind === 'failed') {
            const why: string | undefined = record.error?.message;
            bytes += why?.length ?? 0;
          } else if (record.kind === 'image-url') {
            bytes += record.url.length;
            // @ts-expect-error its address is all
            record.depth;
          }
        }
        const kept: CrawlRecord[] = [];
        // @ts-expect-error there is no such option
        for await (const record of crawl(['https://site/'], { maxDepht: 1 })) kept.push(record);
        // @ts-expect-error it is a number
        for await (const record of crawl('https://site/', { maxDepth: '1' })) kept.push(record);
        // @ts-expect-error it is one of three
        for await (const record of crawl('https://site/', { scope: 'hosts' })) kept.push(record);
        return bytes;
      }
      void read(new AbortController().signal);`;
    const files = ['loop.mts', 'loop.cts'];
    const line = "import { crawl, type CrawlRecord, ConfigError } from 'orbweaver';";
    const used = 'export const isOurs = (error: unknown) => error instanceof ConfigError;';
    for (const file of files) writeFileSync(join(folder, file), [line, loop, used].join('\n'));
    const tsc = join(root, 'node_modules/typescript/bin/tsc');
    const flags = ['--noEmit', '--strict', '--target', 'es2022', '--module', 'nodenext'];
    const all = [tsc, ...flags, '--skipLibCheck', 'false', '--types', 'node', ...files];
    const { status, stdout } = spawnSync(process.execPath, all, { cwd: folder, encoding: 'utf8' });
    assert.equal(status, 0, stdout);
  });

  test('package: a resolver that does not read its exports finds code and types', () => {
    const at = join(folder, 'node_modules/orbweaver');
    const { main, types, exports } = JSON.parse(readFileSync(join(at, 'package.json'), 'utf8'));
    assert.deepEqual({ default: main, types }, exports['.'].require);
    assert.ok(existsSync(join(at, main)) && existsSync(join(at, types)));
  });

  test('package: its types are correct without skipLibCheck', () => {
    const text = `import { connect, type MasterClient } from 'orbweaver';
      const authkey = Buffer.from('a key that is long enough');
      const master: MasterClient = await connect({ host: '127.0.0.1', port: 6666, authkey });
      const added = await master.request('crawl.add', { crawl: 'a', seeds: [], priority: 0 });
      const count: number = added.admitted;
      // @ts-expect-error there is no such verb
      await master.request('crawl.none', { count });
      await master.queue('jobs').put(1);
      await master.close();`;
    writeFileSync(join(folder, 'use.ts'), text);
    const tsc = join(root, 'node_modules/typescript/bin/tsc');
    const flags = ['--noEmit', '--strict', '--target', 'es2022', '--module', 'nodenext'];
    const all = [tsc, ...flags, '--skipLibCheck', 'false', '--types', 'node', 'use.ts'];
    const { status, stdout } = spawnSync(process.execPath, all, { cwd: folder, encoding: 'utf8' });
    assert.equal(status, 0, stdout);
    // Older versions, which are not installed here, know no parameter of these types.
    for (const part of ['shared', 'library', 'cjs/shared', 'cjs/library']) {
      for (const file of readdirSync(join(root, 'dist', part))) {
        if (!file.endsWith('.d.ts')) continue;
        const types = readFileSync(join(root, 'dist', part, file), 'utf8');
        assert.doesNotMatch(types, /\b(Uint8Array|Buffer)</, file);
      }
    }
  });
});
