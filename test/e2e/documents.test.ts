/**
 * Every command of the documents, run as a reader runs it: by a shell, in a folder like a fresh
 * clone, with the documents' hosts replaced by local ones. A command that does not work any more
 * fails, and so does a block that this test does not know how to run. `console` blocks are compared
 * with what the commands print, numbers aside.
 *
 * - A master with seeds crawls a few pages of the demo site and ends. The next command of its block
 *   joins it if it is a slave or a Python worker; else a slave is started, if it has no `--slaves`.
 * - A command to a running master talks to one that works for the whole document, slowly.
 * - A command that reads result files, `repair` and `compact` run in the folder of a crawl that has ended.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { messageOf } from '../../shared/errors.ts';
import { Authority } from '../support/certificates.ts';
import { Cluster, fileMatches, Program, root } from '../support/cluster.ts';
import { type Demo, startDemo } from '../support/demo.ts';
import {
  type Block,
  blocksOf,
  type Command,
  commandsOf,
  documentFiles,
} from '../support/documents.ts';
import { TestProxy } from '../support/proxy.ts';
import { findPythons } from '../support/python.ts';

/** Commands that cannot be run here, and why. */
const notRun: readonly [pattern: RegExp, why: string][] = [
  [/^npm (test|run check)\b/, 'runs this very test'],
  [/^npx orbweaver\b/, 'needs the package; e2e/package packs it'],
  [/^npm (ci|install)\b/, 'needs a package registry'],
  [/^npm run bench\b/, 'takes minutes, and has a machine for itself'],
  [/^node master\.js selftest --chaos --for 30m$/, 'takes 30 minutes; fault/chaos runs it shorter'],
  [/\bdocker compose\b/, 'needs an engine; e2e/compose runs what the services run'],
  [/^scp /, 'needs a second machine'],
  [/^node master\.js extract\b/, 'needs an archive; e2e/extract makes one'],
  [/^node master\.js gallery\b/, 'needs downloaded images; e2e/recipes has some'],
  [/^node master\.js diff\b/, 'needs two crawls; e2e/diff makes them'],
  [/\bshop\.yaml$|^node slave\.js --browser/, 'needs a browser; e2e/browser has one'],
  [/^mkdir -p ~|^certutil /, 'is for the home of a user; e2e/browser-https does it'],
  [/--allow-exec|^node master\.js (exec|run)\b/, 'needs a user for jobs; e2e/exec has one'],
  [/^SITE_PASSWORD=/, 'needs a site with a form; e2e/login makes one'],
  ...(hasJq() ? [] : [[/^jq /, 'jq is not installed'] as [RegExp, string]]),
];

const verbs = [
  ...['add', 'status', 'hosts', 'host', 'slaves', 'failed', 'why', 'pause', 'resume', 'cancel'],
  ...['remove', 'rename', 'rotate', 'set', 'sinks', 'buried', 'recrawl', 'backup'],
];
const asking = new RegExp(`^(?:cat urls\\.txt \\| )?node master\\.js (${verbs.join('|')})\\b`);
const serving = /^(ORB_\w+=\S+ )*node master\.js(?! [a-z]+\b(?!:))/;
const joins = /^(node slave\.js|python3 examples\/python\/crawl_worker\.py)\b/;
const onResults = /^(jq|wc|grep|node master\.js (repair|compact))\b/;
const timeout = 150_000;
const python = findPythons()
  .filter(({ version }) => (version[0] ?? 0) >= 3)
  .at(-1);

function hasJq(): boolean {
  return spawnSync('jq', ['--version']).status === 0;
}

let demo: Demo;
let proxy: TestProxy;

/** A folder with all that a packed tree has, so that nothing is built or installed in it. */
function makeClone(folder: string): string {
  mkdirSync(folder);
  const links = 'master.js slave.js selftest.js package.json dist node_modules examples';
  for (const name of links.split(' ')) symlinkSync(join(root, name), join(folder, name));
  // These look for the folder that they are in.
  for (const name of ['scripts', 'demo']) {
    cpSync(join(root, name), join(folder, name), { recursive: true });
  }
  writeFileSync(join(folder, 'urls.txt'), `${demo.url}\n`);
  return folder;
}

/** The text with local hosts in place of the documents'. */
function localised(text: string, address = '127.0.0.1:6666'): string {
  const port = address.split(':').at(-1) ?? '';
  return text
    .replace(/https?:\/\/(site|intranet:8080)\//g, demo.url)
    .replaceAll('/docs/', '/spiders/')
    .replace(/\bproxy:8080\b/, proxy.url.replace(/^.*[@/]/, ''))
    .replace(/\bhost:6666\b/, address)
    .replace(/('?127\.0\.0\.1(?:'?[ ,]+(?:port: )?|:))6666\b/, `$1${port}`);
}

/** Runs the blocks of one document. */
class Reader {
  readonly #cluster = new Cluster();
  readonly #programs: Program[] = [];
  readonly #files = new Map<string, string>();
  #clones = 0;
  #yard: { folder: string; master: Program; address: string } | undefined;

  constructor(t: TestContext) {
    t.after(async () => {
      for (const program of this.#programs) await program.kill('SIGKILL');
      await this.#cluster.close();
    });
  }

  #clone(): string {
    const folder = makeClone(join(this.#cluster.folder, `clone-${++this.#clones}`));
    for (const [name, text] of this.#files) cpSync(text, join(folder, name));
    return folder;
  }

  #shell(text: string, cwd: string, env: NodeJS.ProcessEnv = {}): Program {
    const words = `PATH="${join(process.execPath, '..')}:$PATH"; exec ${text}`;
    // An assignment before a command is no command to `exec`.
    const line = /^ORB_/.test(text) ? words.replace('exec ', 'exec env ') : words;
    const shown = /[|;]/.test(text) ? words.replace('exec ', '') : line;
    const program = new Program(['-c', shown], { cwd, env, program: '/bin/sh' });
    this.#programs.push(program);
    return program;
  }

  async block(block: Block): Promise<void> {
    switch (block.language) {
      case 'sh':
      case 'console':
        await this.#commands(commandsOf(block));
        break;
      case 'yaml':
        await this.#file(block);
        break;
      case 'js':
        if (fileName(block) !== undefined) await this.#file(block);
        else await this.#program(block, 'example.mjs', 'node example.mjs');
        break;
      case 'python':
        // A fragment shows how; the examples are whole, and e2e/python runs them.
        if (/^while /.test(block.text)) break;
        if (python) await this.#program(block, 'example.py', `${python.path} example.py`);
        break;
      default:
        assert.match(block.language, /^(json|text)$/, 'name the block: sh, console, json or text');
        assert.doesNotMatch(block.text, /^(\$ |node |npm |npx |docker |python)/m, 'a block of sh');
        if (block.language === 'json') JSON.parse(block.text);
    }
  }

  async #commands(commands: readonly Command[]): Promise<void> {
    for (let i = 0; i < commands.length; i++) {
      const command = commands[i];
      const next = commands[i + 1];
      if (!command || notRun.some(([pattern]) => pattern.test(command.text))) continue;
      const { text } = command;
      const isJoined = next !== undefined && joins.test(next.text);
      try {
        if (serving.test(text)) await this.#serve(text, isJoined ? next.text : undefined);
        else if (/^npm start\b/.test(text)) await this.#npmStart(text);
        else if (joins.test(text)) await this.#join(text);
        else if (asking.test(text)) await this.#ask(command);
        else if (onResults.test(text)) await this.#ends(this.#shell(text, await finished()));
        else if (/^rm crawl-data/.test(text)) await this.#remove(text);
        else assert.fail('this test does not know how to run it: extend it, or its list `notRun`');
      } catch (error) {
        throw new Error(`line ${command.line}: ${text}: ${messageOf(error)}`, { cause: error });
      }
      if (serving.test(text) && isJoined) i++;
    }
  }

  async #ends(program: Program, code = 0): Promise<void> {
    assert.deepEqual(await program.exited, { code, signal: null }, program.output);
  }

  /** A master of the document, to its end. */
  async #serve(text: string, joining: string | undefined): Promise<void> {
    const isOfYard = text.includes('orb-data/');
    const folder = isOfYard ? (await this.#makeYard()).folder : this.#clone();
    const hasSeeds = /https?:|--seeds /.test(text.replace(/--(proxy|contact) \S+/g, ''));
    if (text.includes('--tls-cert')) await certificates(folder);
    const master = this.#shell(localised(text), folder, {
      ORB_LISTEN: '127.0.0.1:0',
      ...(hasSeeds ? { ORB_EXIT_WHEN_DONE: 'true', ORB_MAX_PAGES: '1' } : {}),
    });
    const [, address = ''] = await master.said(/listens on (\S+)/);
    if (joining !== undefined && (python || joining.startsWith('node'))) {
      if (joining.includes(' authkey'))
        cpSync(join(folder, 'orb-data/authkey'), `${folder}/authkey`);
      await this.#joinAt(joining, folder, address, hasSeeds);
    } else if (hasSeeds && !text.includes('--slaves')) {
      await this.#ends(this.#shell('node slave.js', folder));
    }
    if (!hasSeeds) master.signal('SIGTERM');
    await this.#ends(master);
    if (!hasSeeds) return;
    const [crawl = ''] = readdirSync(join(folder, 'crawl-data'));
    const pages = readFileSync(join(folder, 'crawl-data', crawl, 'pages.jsonl'), 'utf8');
    assert.match(pages, /"images":\[/, 'no page was crawled');
  }

  async #npmStart(text: string): Promise<void> {
    const folder = this.#clone();
    const npm = this.#shell(localised(text), folder, { ORB_MAX_PAGES: '1' });
    await this.#ends(npm);
    assert.match(npm.stdout, /^\d+ pages? and \d+ images?, \d+ URLs? failed\.$/m);
  }

  /** A slave or worker beside the master of the document. */
  async #join(text: string): Promise<void> {
    const { folder, address } = await this.#makeYard();
    await this.#joinAt(text, folder, address, false);
  }

  async #joinAt(text: string, folder: string, address: string, endsAlone: boolean): Promise<void> {
    const here = localised(text, address).replace(/^python3/, python?.path ?? '');
    const program = this.#shell(here, folder);
    if (text.startsWith('node slave.js')) await program.said(/joined/);
    if (!endsAlone) program.signal('SIGTERM');
    await this.#ends(program);
  }

  /** The master that commands of this document talk to, with a crawl that takes its time. */
  async #makeYard() {
    if (this.#yard) return this.#yard;
    const folder = this.#clone();
    const master = this.#shell(
      `node master.js ${demo.url} --delay 1000 --per-host 1 --listen 127.0.0.1:0`,
      folder,
    );
    const [, address = ''] = await master.said(/listens on (\S+)/);
    cpSync(join(folder, 'orb-data/authkey'), join(folder, 'authkey'));
    this.#shell('node slave.js', folder);
    await fileMatches(join(folder, 'crawl-data/default/pages.jsonl'), /\n/);
    this.#yard = { folder, master, address };
    return this.#yard;
  }

  /** A command to the running master. */
  async #ask(command: Command): Promise<void> {
    const { folder, master } = await this.#makeYard();
    const [, name] = /^node master\.js buried (\S+)/.exec(command.text) ?? [];
    if (name !== undefined && name !== 'default') {
      await master.said(new RegExp(`crawl ${name} is done`));
    }
    const program = this.#shell(localised(command.text), folder);
    const { code } = await program.exited;
    const isRefused = command.prints[0]?.startsWith('master: ') === true;
    assert.equal(code, isRefused ? 2 : 0, program.output);
    for (const line of command.prints) {
      const lines = program.output.split('\n').map(shapeOf);
      assert.ok(lines.includes(shapeOf(line)), `says ${line}\nprints ${program.output}`);
    }
  }

  /** A result file goes, and its crawl is held. */
  async #remove(text: string): Promise<void> {
    const { folder, master } = await this.#makeYard();
    await this.#ends(this.#shell(text, folder));
    await master.said(/is held/);
  }

  /** A file that later commands name; its first line says how it is called. */
  async #file(block: Block): Promise<void> {
    const name = fileName(block);
    assert.ok(name !== undefined, 'the first line of a file is a comment with its name');
    const path = join(this.#cluster.folder, name);
    await writeFile(path, localised(`${block.text}\n`));
    this.#files.set(name, path);
  }

  /** A program against a master without seeds; the text block behind it says what it prints. A
   *  worker prints nothing: it crawls two pages, and ends with its master. */
  async #program(block: Block, name: string, text: string): Promise<void> {
    const folder = this.#clone();
    const isWorker = /import \{ worker \}/.test(block.text);
    const seeds = isWorker ? `${demo.url} --max-pages 2 --exit-when-done ` : '';
    const master = this.#shell(`node master.js ${seeds}--listen 127.0.0.1:0`, folder);
    const [, address = ''] = await master.said(/listens on (\S+)/);
    await writeFile(join(folder, name), localised(block.text, address));
    const program = this.#shell(text, folder);
    await this.#ends(program);
    if (isWorker) {
      await this.#ends(master);
      return;
    }
    const blocks = blocksOf(block.file);
    const output = blocks[blocks.findIndex(({ line }) => line === block.line) + 1];
    assert.equal(output?.language, 'text', 'a text block says what the program prints');
    assert.equal(program.stdout, `${output?.text}\n`);
    await master.kill('SIGTERM');
  }
}

/** As its first line says: `# crawl.yaml`, `// my-page.mjs`. */
function fileName({ text }: Block): string | undefined {
  return /^(?:#|\/\/) ([\w.-]+\.\w+)\n/.exec(text)?.[1];
}

/** With another number or width of columns it is the same line. */
function shapeOf(line: string): string {
  return line
    .replace(/[\d,]*\d/g, 'N')
    .replace(/(N [a-z]+?)s\b/g, '$1')
    .replace(/\s+/g, ' ')
    .trim();
}

async function certificates(folder: string): Promise<void> {
  const authority = new Authority();
  const { cert, key } = authority.issue();
  await writeFile(join(folder, 'box.pem'), cert);
  await writeFile(join(folder, 'box.key'), key);
  await writeFile(join(folder, 'ca.pem'), authority.cert);
}

const shared = new Cluster();
let ended: Promise<string> | undefined;

/** The folder of a whole crawl of the demo site that has ended. */
function finished(): Promise<string> {
  ended ??= crawlWhole(makeClone(join(shared.folder, 'finished')));
  return ended;
}

async function crawlWhole(folder: string): Promise<string> {
  const args = [demo.url, '--exit-when-done', '--listen', '127.0.0.1:0'];
  const master = new Program([join(root, 'master.js'), ...args], { cwd: folder });
  await master.said(/listens on/);
  const slave = new Program([join(root, 'slave.js')], { cwd: folder });
  await Promise.all([master.exited, slave.exited]);
  assert.ok(existsSync(join(folder, 'crawl-data/default/pages.jsonl')), master.output);
  return folder;
}

describe('documents', { concurrency: 2 }, () => {
  before(async () => {
    demo = await startDemo();
    proxy = await TestProxy.start({ user: 'user', password: 'password' });
  });
  after(async () => {
    await Promise.all([demo.close(), proxy.close(), shared.close()]);
  });

  for (const file of documentFiles) {
    test(`documents: the commands of ${file} work`, { timeout }, async (t) => {
      const reader = new Reader(t);
      for (const block of blocksOf(file)) {
        try {
          await reader.block(block);
        } catch (error) {
          throw new Error(`${file}:${block.line}: ${messageOf(error)}`, { cause: error });
        }
      }
    });
  }
});
