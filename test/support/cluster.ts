/**
 * Real masters and slaves as processes, in a folder of their own, for end-to-end tests and benches.
 * `close` ends everything that was started.
 */
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, watch } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Line } from '../../selftest/exact.ts';
import { Program, type RunOptions } from '../../selftest/program.ts';
import {
  type ConnectOptions,
  connect,
  type MasterClient,
  parseAddress,
} from '../../shared/client.ts';
import type { CrawlStatus } from '../../shared/protocol.ts';
import type { Replies } from '../../shared/replies.ts';
import { lastingPort } from './ports.ts';

export type { Line } from '../../selftest/exact.ts';
export { type Exit, Program, type RunOptions } from '../../selftest/program.ts';

/** The project's folder, with a slash at its end. */
export const root = fileURLToPath(new URL('../../../', import.meta.url));

// The test runner ends a file that takes too long.
process.once('SIGTERM', () => process.exit(1));

export class Cluster {
  readonly folder: string;
  readonly data: string;
  readonly out: string;
  readonly #root: string;
  readonly #programs = new Set<Program>();
  #slaves = 0;

  /** Closed by its owner, or at the end of the test, even after a time-out. `programs`: their
   *  folder. */
  constructor(test?: TestContext, parent = tmpdir(), programs = root) {
    this.#root = programs;
    this.folder = mkdtempSync(join(parent, 'orbweaver-'));
    this.data = join(this.folder, 'data');
    this.out = join(this.folder, 'out');
    test?.after(() => this.close());
  }

  /** Starts a master and resolves when it listens. The port is free, or that of `address`. */
  async master(
    args: readonly string[],
    options: { env?: NodeJS.ProcessEnv; listen?: string } = {},
  ): Promise<Program> {
    const listen = options.listen ?? `127.0.0.1:${await lastingPort()}`;
    const folders = ['--listen', listen, '--data', this.data, '--out', this.out];
    rmSync(join(this.data, 'master.addr'), { force: true });
    const program = this.run(['master.js', ...args, ...folders], options);
    await program.said(/listens on/);
    return program;
  }

  /** Resolves when a master has written its address to the data folder. */
  async listening(): Promise<void> {
    mkdirSync(this.data, { recursive: true });
    await fileMatches(join(this.data, 'master.addr'), /:\d+/);
  }

  /** `host:port` of the running master. */
  get address(): string {
    const text = readFileSync(join(this.data, 'master.addr'), 'utf8');
    return text.trim().replace('orbs://', '');
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
    const program = new Program([join(this.#root, file), ...rest], {
      cwd: this.folder,
      ...options,
    });
    this.#programs.add(program);
    return program;
  }

  /** Starts a subcommand against the running master. */
  command(...args: readonly string[]): Program {
    const [verb = '', ...rest] = args;
    const where = ['--master', this.address, '--authkey-file', join(this.data, 'authkey')];
    return this.run(['master.js', verb, ...where, ...rest]);
  }

  /** Runs a subcommand; returns its output. Fails unless it exits with 0. */
  async ask(...args: readonly string[]): Promise<string> {
    const program = this.command(...args);
    const { code } = await program.exited;
    if (code !== 0) throw new Error(`${args.join(' ')}: exit code ${code}: ${program.output}`);
    return program.stdout;
  }

  /** Returns the status of a crawl. */
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

  /** Resolves when the file has more than `count` lines. */
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
