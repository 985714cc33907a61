/**
 * The Pythons of this machine, and a child process that speaks the real `pickle` for the tests.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface Python {
  readonly path: string;
  /** For example [3, 12, 1]. */
  readonly version: readonly number[];
  readonly name: string;
}

const script = fileURLToPath(new URL('../../../test/support/pickle_peer.py', import.meta.url));

/** One Python of each version: those of pyenv, and `python3` of PATH. Oldest first. */
export function findPythons(): Python[] {
  const found = new Map<string, Python>();
  for (const path of ['python3', ...pyenvPaths()]) {
    const name = versionOf(path);
    if (name !== null && !found.has(name)) {
      found.set(name, { path, name, version: name.split('.').map(Number) });
    }
  }
  return [...found.values()].sort(compareVersions);
}

function pyenvPaths(): string[] {
  const folder = join(homedir(), '.pyenv', 'versions');
  try {
    return readdirSync(folder).map((name) => join(folder, name, 'bin', 'python'));
  } catch {
    return [];
  }
}

function versionOf(path: string): string | null {
  const ask = 'import sys; print("%d.%d.%d" % sys.version_info[:3])';
  try {
    return execFileSync(path, ['-c', ask], {
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: 10_000,
      encoding: 'utf8',
    }).trim();
  } catch {
    return null;
  }
}

function compareVersions(a: Python, b: Python): number {
  const difference = a.version.map((part, index) => part - (b.version[index] ?? 0));
  return difference.find((part) => part !== 0) ?? 0;
}

/** A Python that loads our pickles and writes its own. One request at a time. */
export class PicklePeer {
  readonly #child: ChildProcess;
  #received = Buffer.alloc(0);
  #waiter: { resolve: (parts: Buffer[]) => void; reject: (error: Error) => void } | null = null;
  #errors = '';

  constructor(python: Python) {
    this.#child = spawn(python.path, [script], { stdio: ['pipe', 'pipe', 'pipe'] });
    this.#child.stdout?.on('data', (chunk: Buffer) => this.#onData(chunk));
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errors += text;
    });
    this.#child.on('close', () => {
      this.#waiter?.reject(new Error(`${python.name} ended: ${this.#errors}`));
    });
    this.#child.stdin?.on('error', () => {});
  }

  /** The description of the value, and its pickles by every pickler and protocol. */
  async load(pickle: Uint8Array): Promise<{ description: string; pickles: Buffer[] }> {
    const [description, ...pickles] = await this.#ask(Buffer.concat([Buffer.from('L'), pickle]));
    return { description: String(description), pickles };
  }

  /** Pickles that must be refused, by name. */
  async hostile(): Promise<{ name: string; pickle: Buffer }[]> {
    const parts = await this.#ask(Buffer.from('H'));
    return parts.flatMap((pickle, index) =>
      index % 2 === 1 ? [{ name: String(parts[index - 1]), pickle }] : [],
    );
  }

  async close(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const ended = new Promise((resolve) => this.#child.once('close', resolve));
    this.#child.stdin?.end();
    await ended;
  }

  #ask(body: Buffer): Promise<Buffer[]> {
    const header = Buffer.alloc(4);
    header.writeUInt32BE(body.length);
    return new Promise((resolve, reject) => {
      this.#waiter = { resolve, reject };
      this.#child.stdin?.write(Buffer.concat([header, body]));
    });
  }

  #onData(chunk: Buffer): void {
    this.#received = Buffer.concat([this.#received, chunk]);
    const bytes = this.#received;
    if (bytes.length < 4 || bytes.length < 4 + bytes.readUInt32BE(0)) return;
    const parts: Buffer[] = [];
    for (let at = 4; at < bytes.length; ) {
      const end = at + 4 + bytes.readUInt32BE(at);
      parts.push(bytes.subarray(at + 4, end));
      at = end;
    }
    this.#received = Buffer.alloc(0);
    this.#waiter?.resolve(parts);
  }
}
