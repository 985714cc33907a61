/**
 * Real database servers, each in a folder of its own, on a free port of loopback, as a user without
 * rights where the tests run as root. They can be killed and started again.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import postgres from 'postgres';
import type { Identity } from '../../selftest/site.ts';
import { lastingPort } from './ports.ts';

const startMs = 30_000;
const nobody = 65_534;

/** Runs a program as `nobody`, because a database refuses to run as root. */
function asNobody(command: readonly string[]): readonly string[] {
  if (process.getuid?.() !== 0) return command;
  return ['setpriv', `--reuid=${nobody}`, `--regid=${nobody}`, '--clear-groups', ...command];
}

function found(names: readonly string[]): string | undefined {
  return names.find((name) => existsSync(name));
}

/** Resolves when something accepts connections there. */
async function accepts(port: number, isAlive: () => boolean): Promise<void> {
  const giveUpAt = performance.now() + startMs;
  while (performance.now() < giveUpAt && isAlive()) {
    const socket = createConnection(port, '127.0.0.1');
    const isOpen = await Promise.race([
      once(socket, 'connect').then(() => true),
      once(socket, 'error').then(() => false),
    ]).catch(() => false);
    socket.destroy();
    if (isOpen) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error('the server does not start');
}

type Ways = {
  /** The program and its arguments. */
  readonly command: (folder: string, port: number) => readonly string[];
  /** Makes its folder. */
  readonly prepare?: (folder: string) => void;
  /** Does it answer? A port that accepts is not enough where it recovers first. */
  readonly isReady?: (port: number) => Promise<boolean>;
};

export class Server {
  readonly port: number;
  readonly folder: string;
  readonly #ways: Ways;
  #child: ChildProcess | undefined;
  #output = '';

  private constructor(folder: string, port: number, ways: Ways) {
    this.folder = folder;
    this.port = port;
    this.#ways = ways;
  }

  static async start(ways: Ways): Promise<Server> {
    const folder = mkdtempSync(join(tmpdir(), 'orb-server-'));
    chmodSync(folder, 0o777);
    ways.prepare?.(folder);
    const server = new Server(folder, await lastingPort(), ways);
    process.once('exit', () => server.#child?.kill('SIGKILL'));
    await server.start();
    return server;
  }

  /** Again after a kill: until what the dead one left lets it. */
  async start(): Promise<void> {
    const giveUpAt = performance.now() + startMs;
    while (true) {
      const [program = '', ...args] = asNobody(this.#ways.command(this.folder, this.port));
      const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], cwd: this.folder });
      this.#child = child;
      const hear = (text: Buffer) => {
        this.#output = `${this.#output}${text}`.slice(-4_000);
      };
      child.stdout.on('data', hear);
      child.stderr.on('data', hear);
      const isAlive = () => child.exitCode === null && child.signalCode === null;
      try {
        await accepts(this.port, isAlive);
        while (isAlive() && (await this.#ways.isReady?.(this.port)) === false) {
          await new Promise((resolve) => setTimeout(resolve, 50));
        }
        if (isAlive()) return;
      } catch (error) {
        if (performance.now() > giveUpAt) throw new Error(`${error}: ${this.#output}`);
      }
      if (performance.now() > giveUpAt) throw new Error(`it does not start: ${this.#output}`);
      await this.kill();
    }
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill(signal);
    await gone;
  }

  /** It stops where it is, with its connections open; `SIGCONT`: it goes on. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child?.kill(signal);
  }

  async close(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** A PostgreSQL server whose user `postgres` needs no password; undefined: it is not installed.
 *  `identity`: it offers TLS with it. */
export async function startPostgres(identity?: Identity): Promise<Server | undefined> {
  const bin = found([
    ...['/usr/local/bin', '/usr/lib/postgresql/17/bin', '/usr/lib/postgresql/15/bin'].map(
      (folder) => `${folder}/postgres`,
    ),
  ]);
  if (bin === undefined) return undefined;
  return await Server.start({
    prepare(folder) {
      const [program = '', ...args] = asNobody([
        bin.replace(/postgres$/, 'initdb'),
        ...['-D', join(folder, 'data'), '-U', 'postgres', '-A', 'trust', '--no-sync', '-E', 'UTF8'],
      ]);
      execFileSync(program, args, { stdio: 'ignore', cwd: folder });
      if (identity === undefined) return;
      for (const [name, text] of Object.entries(identity)) {
        const path = join(folder, 'data', `server.${name === 'cert' ? 'crt' : name}`);
        writeFileSync(path, text, { mode: 0o600 });
        if (process.getuid?.() === 0) chownSync(path, nobody, nobody);
      }
    },
    command: (folder, port) => [
      ...[bin, '-D', join(folder, 'data'), '-p', String(port)],
      ...(identity === undefined ? [] : ['-c', 'ssl=on']),
      ...['-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='],
    ],
    // It accepts connections while it still starts.
    async isReady(port) {
      const to = `postgres://postgres@127.0.0.1:${port}/postgres`;
      const sql = postgres(to, { max: 1, onnotice: () => {} });
      const isUp = await sql`SELECT 1`.then(
        () => true,
        () => false,
      );
      await sql.end({ timeout: 1 });
      return isUp;
    },
  });
}

/** A Redis server that syncs each write before it answers; undefined: it is not installed. */
export async function startRedis(): Promise<Server | undefined> {
  const bin = found(['/usr/bin/redis-server', '/usr/local/bin/redis-server']);
  if (bin === undefined) return undefined;
  return await Server.start({
    command: (folder, port) => [
      ...[bin, '--bind', '127.0.0.1', '--port', String(port), '--dir', folder, '--save', ''],
      ...['--appendonly', 'yes', '--appendfsync', 'always'],
    ],
    // It reads its log first.
    isReady: (port) => answers(port, 'PING\r\n', '+PONG'),
  });
}

/** Does it answer so? */
async function answers(port: number, ask: string, wanted: string): Promise<boolean> {
  const socket = createConnection(port, '127.0.0.1');
  try {
    socket.end(ask);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    return answer.toString().startsWith(wanted);
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** A MariaDB server with a database `orb` of a user `orb` without a password; undefined: it is not
 *  installed. */
/** `flags`: further ones. */
export async function startMariadb(flags: readonly string[] = []): Promise<Server | undefined> {
  const bin = found(['/usr/sbin/mariadbd', '/usr/local/sbin/mariadbd']);
  const install = found(['/usr/bin/mariadb-install-db', '/usr/local/bin/mariadb-install-db']);
  if (bin === undefined || install === undefined) return undefined;
  return await Server.start({
    prepare(folder) {
      // Each start removes the temporary tables of others that share its folder for them.
      const [program = '', ...args] = asNobody([
        ...['env', `TMPDIR=${folder}`],
        ...[install, '--no-defaults', `--datadir=${join(folder, 'data')}`, '--skip-test-db'],
        ...['--auth-root-authentication-method=normal', '--skip-name-resolve'],
      ]);
      execFileSync(program, args, { stdio: 'ignore', cwd: folder });
      writeFileSync(
        join(folder, 'init.sql'),
        'CREATE DATABASE IF NOT EXISTS orb;\n' +
          "CREATE USER IF NOT EXISTS 'orb'@'127.0.0.1';\n" +
          "GRANT ALL ON orb.* TO 'orb'@'127.0.0.1';\n",
      );
    },
    command: (folder, port) => [
      ...[bin, '--no-defaults', `--datadir=${join(folder, 'data')}`, `--port=${port}`],
      ...['--bind-address=127.0.0.1', `--socket=${join(folder, 'socket')}`],
      ...[`--init-file=${join(folder, 'init.sql')}`, '--skip-name-resolve'],
      ...[`--pid-file=${join(folder, 'pid')}`, `--tmpdir=${folder}`],
      ...['--innodb-buffer-pool-size=32M', ...flags],
    ],
  });
}
