/**
 * Real masters and slaves as processes, in a folder of their own, for end-to-end tests and
 * benches. Everything that was started is gone after `close`.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, watch } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  type ConnectOptions,
  connect,
  type MasterClient,
  parseAddress,
} from '../../shared/client.ts';
import type { CrawlStatus, Replies } from '../../shared/protocol.ts';

/** The project's folder, with a slash at its end. */
export const root = fileURLToPath(new URL('../../../', import.meta.url));

export type Exit = { readonly code: number | null; readonly signal: NodeJS.Signals | null };

export type RunOptions = {
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly detached?: boolean;
  /** Default: this Node. */
  readonly program?: string;
};

/** A program that says more is known by its last words. */
const outputCharsMax = 8 << 20;

/** A program that was started: its output so far, and how it ended. */
export class Program {
  readonly child: ChildProcess;
  readonly exited: Promise<Exit>;
  /** Both streams, as they came. */
  output = '';
  stdout = '';
  stderr = '';
  readonly #events = new EventEmitter().setMaxListeners(0);

  constructor(args: readonly string[], options: RunOptions = {}) {
    this.child = spawn(options.program ?? process.execPath, args, {
      cwd: options.cwd,
      env: { ...process.env, ...options.env },
      // A process group of its own.
      detached: options.detached ?? false,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const name of ['stdout', 'stderr'] as const) {
      this.child[name]?.setEncoding('utf8').on('data', (text: string) => {
        this.output = lastOf(this.output + text);
        this[name] = lastOf(this[name] + text);
        this.#events.emit('output');
      });
    }
    running.add(this.child);
    this.exited = once(this.child, 'close').then(([code, signal]) => {
      running.delete(this.child);
      return { code, signal } as Exit;
    });
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  get isAlive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Sends the signal and waits for the end. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<Exit> {
    this.signal(signal);
    return await this.exited;
  }

  /** Sends the signal. */
  signal(signal: NodeJS.Signals): void {
    if (this.isAlive) this.child.kill(signal);
  }

  /** Resolves when the output matches. Rejects when the program ends without it. */
  async said(pattern: RegExp): Promise<RegExpExecArray> {
    while (true) {
      const match = pattern.exec(this.output);
      if (match) return match;
      const more = once(this.#events, 'output').then(() => false);
      const ended = await Promise.race([more, this.exited.then(() => true)]);
      if (ended && !pattern.test(this.output)) {
        throw new Error(`the program ended without saying ${pattern}:\n${this.output}`);
      }
    }
  }
}

/** Cut now and then, because a cut copies. */
function lastOf(text: string): string {
  return text.length > 2 * outputCharsMax ? text.slice(-outputCharsMax) : text;
}

/** Children of this process, so that none outlives it, however a test file ends. */
const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
// The test runner ends a file that takes too long.
process.once('SIGTERM', () => process.exit(1));

export class Cluster {
  readonly folder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
  readonly data = join(this.folder, 'data');
  readonly out = join(this.folder, 'out');
  readonly #programs = new Set<Program>();
  #slaves = 0;

  /** Closed by its owner, or at the end of the test, also of one that takes too long. */
  constructor(test?: TestContext) {
    test?.after(() => this.close());
  }

  /** Starts a master and resolves when it listens. The port is free, or that of `address`. */
  async master(
    args: readonly string[],
    options: { env?: NodeJS.ProcessEnv; listen?: string } = {},
  ): Promise<Program> {
    const listen = options.listen ?? '127.0.0.1:0';
    const folders = ['--listen', listen, '--data', this.data, '--out', this.out];
    rmSync(join(this.data, 'master.addr'), { force: true });
    const program = this.run(['master.js', ...args, ...folders], options);
    await program.said(/listens on/);
    return program;
  }

  /** Resolves when a master has said in the data folder where it listens. */
  async listening(): Promise<void> {
    mkdirSync(this.data, { recursive: true });
    await fileMatches(join(this.data, 'master.addr'), /:\d+/);
  }

  /** `host:port` of the master that runs. */
  get address(): string {
    return readFileSync(join(this.data, 'master.addr'), 'utf8').trim();
  }

  get authkey(): Buffer {
    return Buffer.from(readFileSync(join(this.data, 'authkey'), 'utf8').trim());
  }

  slave(args: readonly string[] = [], address = this.address, options: RunOptions = {}): Program {
    const name = `slave-${++this.#slaves}`;
    const key = join(this.data, 'authkey');
    const base = ['--master', address, '--authkey-file', key, '--name', name];
    return this.run(['slave.js', ...base, ...args], options);
  }

  /** Any program of the project, by its path from the root. */
  run(args: readonly string[], options: RunOptions = {}): Program {
    const [file = '', ...rest] = args;
    const program = new Program([join(root, file), ...rest], { cwd: this.folder, ...options });
    this.#programs.add(program);
    return program;
  }

  /** Asks the running master by a subcommand; gives what it printed. Fails unless it exits 0. */
  async ask(...args: readonly string[]): Promise<string> {
    const [verb = '', ...rest] = args;
    const where = ['--master', this.address, '--authkey-file', join(this.data, 'authkey')];
    const program = this.run(['master.js', verb, ...where, ...rest]);
    const { code } = await program.exited;
    if (code !== 0) throw new Error(`${args.join(' ')}: exit code ${code}: ${program.output}`);
    return program.stdout;
  }

  /** What `status` says of a crawl. */
  async status(crawl = 'default'): Promise<CrawlStatus> {
    const { crawls } = JSON.parse(await this.ask('status', '--json')) as Replies['crawl.list'];
    const status = crawls.find(({ name }) => name === crawl);
    if (status === undefined) throw new Error(`no crawl ${crawl}`);
    return status;
  }

  /** A connection of this process to the running master. */
  async connect(options: Partial<ConnectOptions> = {}): Promise<MasterClient> {
    const { host, port } = parseAddress(this.address);
    return await connect({ host, port, authkey: this.authkey, ...options });
  }

  /** Lines of an output file of a crawl; [] while there is none. */
  lines(file: 'pages.jsonl' | 'img_src.txt', crawl = 'default'): string[] {
    const path = join(this.out, crawl, file);
    if (!existsSync(path)) return [];
    return readFileSync(path, 'utf8').split('\n').slice(0, -1);
  }

  /** Resolves when the file has more than so many lines. */
  async grown(
    file: 'pages.jsonl' | 'img_src.txt',
    lines: number,
    crawl = 'default',
  ): Promise<void> {
    const folder = join(this.out, crawl);
    mkdirSync(folder, { recursive: true });
    const watcher = watch(folder);
    try {
      while (this.lines(file, crawl).length <= lines) await once(watcher, 'change');
    } finally {
      watcher.close();
    }
  }

  /** The objects in pages.jsonl. */
  fetched(crawl = 'default'): Line[] {
    return this.lines('pages.jsonl', crawl).map((line) => JSON.parse(line) as Line);
  }

  /** Final URLs of the pages, in the order they were written. */
  pages(crawl = 'default'): string[] {
    return this.fetched(crawl)
      .filter((line) => line.images !== undefined)
      .map((line) => line.finalUrl);
  }

  async close(): Promise<void> {
    // A stopped process dies of SIGKILL, too.
    for (const program of this.#programs) await program.kill('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** A line of pages.jsonl. */
export type Line = {
  readonly url: string;
  readonly finalUrl: string;
  readonly status?: number;
  readonly type?: string;
  readonly charset?: string;
  readonly depth: number;
  readonly title?: string;
  readonly images?: readonly { src: string; alt?: string; via: string }[];
  readonly links?: number;
  readonly redirectedTo?: string;
  readonly error?: { kind: string; message: string; attempts: number };
  readonly slave: string;
};

/** Resolves when the file matches; for files that another process writes. */
export async function fileMatches(path: string, pattern: RegExp): Promise<void> {
  const folder = join(path, '..');
  const watcher = watch(folder);
  try {
    while (!existsSync(path) || !pattern.test(readFileSync(path, 'utf8'))) {
      await once(watcher, 'change');
    }
  } finally {
    watcher.close();
  }
}
