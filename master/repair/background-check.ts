/**
 * Reads all of a store as a crash has left it, while its master serves, in a process of its own: it
 * takes a processor for 0.3 s a million URLs, and gives way to others. The master holds a snapshot
 * from its start on, so that all pages of that moment stay as they are. Until the end of the check
 * the store cannot use pages again that commits free, and the file grows. Where that would be much,
 * the check gives up, and is made again later, then of what the store is by that time.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync, writeFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { endWithParent } from '../../shared/end-with-parent.ts';
import { ConfigError, codeOf, messageOf } from '../../shared/errors.ts';
import { freeBytesOf } from '../machine/disk-room.ts';
import type { NativeStore } from '../store/lmdb.ts';
import type { Snapshot } from '../store/store.ts';
import { checkWhileWritten, newestMeta } from './check.ts';
import type { Meta } from './pages.ts';

/** The first argument of master.js that makes it the process of a check; then come the path of the
 *  store, its meta page, and the process id of its master. */
export const checkArgument = 'check-store';

const masterProgram = fileURLToPath(new URL('master.js', import.meta.url));
/** By so much of itself, and of the free space above the reserve, may the store grow. */
const growthMax = 1 / 2;
const roomMax = 1 / 4;
/** The file is looked at so often; until then it grows by less than this. */
const growthEveryMs = 250;
const roomMinBytes = 256 << 20;
const againMs = 600_000;

type Verdict =
  | { readonly is: 'whole' }
  | { readonly is: 'damaged'; readonly damage: string }
  /** Says what the operator has to do. */
  | { readonly is: 'unreadable'; readonly message: string };
type GivenUp = { readonly is: 'given up'; readonly why: string };

/** A moment of the store. */
type Pinned = { readonly snapshot: Snapshot; readonly meta: Meta; readonly bytesMax: number };

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
  #pinned: Pinned | undefined;
  #child: ChildProcess | undefined;

  /** Of the store as it is now. @throws ConfigError, StoreError it cannot be read */
  constructor(options: BackgroundCheckOptions) {
    this.#options = options;
    this.#pinned = this.#pin();
  }

  /** Resolves with what is found; undefined: it was closed before. `givesUp` is told why it is made
   *  again later. */
  async run(givesUp: (why: string) => void): Promise<Verdict | undefined> {
    const { signal } = this.#closing;
    const ms = this.#options.againMs ?? againMs;
    while (!signal.aborted) {
      const found = await this.#once();
      if (found.is !== 'given up') return found;
      if (signal.aborted) break;
      givesUp(found.why);
      await pause(ms, undefined, { signal }).catch(() => {});
    }
    return undefined;
  }

  close(): void {
    this.#closing.abort();
    this.#child?.kill('SIGKILL');
    this.#pinned?.snapshot.close();
    this.#pinned = undefined;
  }

  async #once(): Promise<Verdict | GivenUp> {
    let pinned: Pinned | undefined;
    try {
      pinned = this.#pinned ?? this.#pin();
      this.#pinned = undefined;
      if (pinned === undefined) return { is: 'given up', why: 'the disk is almost full' };
      return await this.#read(pinned);
    } catch (error) {
      return { is: 'given up', why: messageOf(error) };
    } finally {
      pinned?.snapshot.close();
      this.#child = undefined;
    }
  }

  /** Undefined: the disk has no room for what it may cost. */
  #pin(): Pinned | undefined {
    const { path, store, reserveBytes } = this.#options;
    const room = (freeBytesOf(dirname(path)) - reserveBytes) * roomMax;
    if (room < roomMinBytes) return undefined;
    const bytes = bytesOf(path);
    const bytesMax = bytes + Math.min(bytes * growthMax, room);
    const snapshot = store.snapshot();
    try {
      return { snapshot, meta: newestMeta(path), bytesMax };
    } catch (error) {
      snapshot.close();
      throw error;
    }
  }

  /** Rejects if the process does not start. */
  async #read({ meta, bytesMax }: Pinned): Promise<Verdict | GivenUp> {
    const { path, program = masterProgram } = this.#options;
    const given = [path, JSON.stringify(meta), `${process.pid}`];
    const child = spawn(process.execPath, [program, checkArgument, ...given], {
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    this.#child = child;
    let verdict: Verdict | undefined;
    child.on('message', (said: Verdict) => {
      verdict = said;
    });
    let hasGrown = false;
    const timer = setInterval(() => {
      hasGrown ||= bytesOf(path) > bytesMax;
      if (hasGrown) child.kill('SIGKILL');
    }, growthEveryMs);
    try {
      // It comes after the last message.
      const [code, signal] = await once(child, 'close');
      const ending = hasGrown ? 'the file grew too much' : `its process ended: ${signal ?? code}`;
      return verdict ?? { is: 'given up', why: ending };
    } finally {
      clearInterval(timer);
    }
  }
}

/** Returns 0 for a file that is not there. */
function bytesOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** The program of that process. `given`: its arguments. */
export async function checkForParent([path, meta, parent]: readonly string[]): Promise<void> {
  if (process.send === undefined || path === undefined || meta === undefined) {
    throw new ConfigError('a master starts this by itself');
  }
  endWithParent(Number(parent));
  giveWay();
  const verdict = verdictOn(path, JSON.parse(meta) as Meta);
  await new Promise((resolve) => process.send?.(verdict, resolve));
}

/** @throws Error it cannot be told now */
function verdictOn(path: string, meta: Meta): Verdict {
  try {
    const damage = checkWhileWritten(path, meta);
    return damage === undefined ? { is: 'whole' } : { is: 'damaged', damage };
  } catch (error) {
    if (codeOf((error as Error).cause) === 'EIO')
      return { is: 'unreadable', message: messageOf(error) };
    throw error;
  }
}

/** To most other processes. Where memory becomes short, this one goes first.
 *  Source: proc_pid_oom_score_adj(5). */
function giveWay(): void {
  try {
    setPriority(constants.priority.PRIORITY_BELOW_NORMAL);
    writeFileSync('/proc/self/oom_score_adj', '1000');
  } catch {
    // There is no such thing here.
  }
}
