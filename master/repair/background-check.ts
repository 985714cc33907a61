/**
 * Reads all of a store while its master serves, in a process of its own: it takes a processor for
 * 0.2 s a million URLs, and gives way to everybody. The master holds a snapshot meanwhile, so that
 * all pages of this moment stay as they are. What commits free cannot be used again until then, so
 * the file grows: the check gives up where that would be much, and is made again later.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync, writeFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { endWithParent } from '../../shared/end-with-parent.ts';
import { ConfigError } from '../../shared/errors.ts';
import { freeBytesOf } from '../machine/disk-room.ts';
import type { NativeStore } from '../store/lmdb.ts';
import { checkWhileWritten } from './check.ts';

/** The first argument of master.js that makes it the process of a check; then come the path of the
 *  store and the process id of its master. */
export const checkArgument = 'check-store';

const masterProgram = fileURLToPath(new URL('master.js', import.meta.url));
/** By so much of itself, and of the free space above the reserve, may the store grow. */
const growthMax = 1 / 4;
const roomMax = 1 / 4;
const growthEveryMs = 1_000;
/** More than a store grows between two looks. */
const roomMinBytes = 256 << 20;
const againMs = 600_000;

type Verdict =
  | { readonly is: 'whole' }
  | { readonly is: 'damaged'; readonly damage: string }
  /** Says what the operator has to do. */
  | { readonly is: 'unreadable'; readonly message: string };

type BackgroundCheckOptions = {
  readonly path: string;
  readonly store: NativeStore;
  /** Free space that is left on the disk. */
  readonly reserveBytes: number;
  /** For tests: master.js, and ms until it is made again. */
  readonly program?: string;
  readonly againMs?: number;
};

export class BackgroundCheck {
  readonly #options: BackgroundCheckOptions;
  readonly #closing = new AbortController();
  #child: ChildProcess | undefined;

  constructor(options: BackgroundCheckOptions) {
    this.#options = options;
  }

  /** Resolves with what is found; undefined: it was closed before. */
  async run(): Promise<Verdict | undefined> {
    const { signal } = this.#closing;
    const ms = this.#options.againMs ?? againMs;
    while (!signal.aborted) {
      const verdict = await this.#once();
      if (verdict?.is === 'whole') return verdict;
      // What sends the operator to repair is found twice.
      const again = verdict && (await this.#once());
      if (again !== undefined) return again;
      await pause(ms, undefined, { signal, ref: false }).catch(() => {});
    }
    return undefined;
  }

  close(): void {
    this.#closing.abort();
    this.#child?.kill('SIGKILL');
  }

  /** Resolves with undefined if it did not come to an end. */
  async #once(): Promise<Verdict | undefined> {
    const { path, store, program = masterProgram } = this.#options;
    const growth = this.#growthMax();
    if (this.#closing.signal.aborted || growth === undefined) return undefined;
    const bytesMax = bytesOf(path) + growth;
    const snapshot = store.snapshot();
    let timer: NodeJS.Timeout | undefined;
    try {
      const child = spawn(process.execPath, [program, checkArgument, path, `${process.pid}`], {
        stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      });
      this.#child = child;
      timer = setInterval(() => {
        if (bytesOf(path) > bytesMax) child.kill('SIGKILL');
      }, growthEveryMs);
      return await verdictOf(child);
    } catch {
      return undefined;
    } finally {
      clearInterval(timer);
      snapshot.close();
      this.#child = undefined;
    }
  }

  /** In bytes; undefined: the disk is almost full. */
  #growthMax(): number | undefined {
    const { path, reserveBytes } = this.#options;
    const room = (freeBytesOf(dirname(path)) - reserveBytes) * roomMax;
    return room < roomMinBytes ? undefined : Math.min(bytesOf(path) * growthMax, room);
  }
}

/** Returns 0 for a file that is not there. */
function bytesOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** Rejects if it does not start. */
async function verdictOf(child: ChildProcess): Promise<Verdict | undefined> {
  let verdict: Verdict | undefined;
  child.on('message', (said: Verdict) => {
    verdict = said;
  });
  // It comes after the last message.
  await once(child, 'close');
  return verdict;
}

/** The program of that process. */
export function checkForParent(path: string | undefined, parent: string | undefined): void {
  if (process.send === undefined || path === undefined) {
    throw new ConfigError('a master starts this by itself');
  }
  endWithParent(Number(parent));
  giveWay();
  process.send(verdictOn(path));
  process.disconnect();
}

/** @throws Error it could not be told */
function verdictOn(path: string): Verdict {
  try {
    const damage = checkWhileWritten(path);
    return damage === undefined ? { is: 'whole' } : { is: 'damaged', damage };
  } catch (error) {
    if (error instanceof ConfigError) return { is: 'unreadable', message: error.message };
    throw error;
  }
}

/** To all other processes. Where memory becomes short, this one goes first.
 *  Source: proc_pid_oom_score_adj(5). */
function giveWay(): void {
  try {
    setPriority(constants.priority.PRIORITY_LOW);
    writeFileSync('/proc/self/oom_score_adj', '1000');
  } catch {
    // There is no such thing here.
  }
}
