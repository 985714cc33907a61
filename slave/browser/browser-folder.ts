/**
 * The folder of a browser, in the system's folder for temporary files. Its slave listens on a
 * socket in it for as long as it lives, so that others can tell whether it is in use, also from a
 * container that shares /tmp: a process id would say nothing there, and may be another's.
 * The folder of a killed slave is removed when another browser of the same user starts.
 *
 *     orbweaver-browser-<boot of the machine>-XXXXXX/   alive (the socket)   profile/
 */
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  rmSync,
} from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { isInCommand } from './process-group.ts';

/** The tests and the operator find its processes by this. */
const prefix = 'orbweaver-browser-';
const socketName = 'alive';
const profileName = 'profile';
/** Folder that a browser with windows makes beside its profile for its own socket. */
const ownSocketFolder = /^(?:org\.chromium\.Chromium|com\.google\.Chrome)\.\w+$/;
const ownSocketName = 'SingletonSocket';
/** Length of a socket's path that works everywhere: a longer one is cut. */
const socketPathBytesMax = 100;
/** Folders that are removed at one start. */
const removedMax = 32;
const answerMs = 1_000;

export class BrowserFolder {
  readonly #path: string;
  readonly #server: Server;
  #ownSocket: string | undefined;

  /** Makes one in that folder. @throws Error it cannot be made */
  constructor(base: string) {
    const path = mkdtempSync(join(base, prefixHere()));
    this.#path = path;
    this.#server = createServer((socket) => socket.destroy()).unref();
    // Without a socket nobody else removes it.
    this.#server.on('error', () => {});
    const socket = join(path, socketName);
    if (Buffer.byteLength(socket) <= socketPathBytesMax) this.#server.listen(socket);
    mkdirSync(this.profile);
  }

  /** The folder for the browser itself. */
  get profile(): string {
    return join(this.#path, profileName);
  }

  /** The browser runs. As it ends, the link to its own socket goes first. */
  started(): void {
    this.#ownSocket = ownSocketOf(this.profile);
  }

  /** Removes it. Never rejects. */
  async remove(): Promise<void> {
    removeOwnSocket(this.#ownSocket ?? ownSocketOf(this.profile));
    // The browser's processes write until they are gone.
    if (!(await isRemoved(this.profile, 5))) return;
    // Its end takes the socket away: what cannot be removed has it until this process ends.
    this.#server.close();
    await isRemoved(this.#path, 1);
  }

  /** Removes it at once: the process has no time for more. */
  removeNow(): void {
    removeOwnSocket(this.#ownSocket ?? ownSocketOf(this.profile));
    try {
      rmSync(this.profile, { recursive: true, force: true, maxRetries: 2 });
      rmSync(this.#path, { recursive: true, force: true });
    } catch {
      // A later start removes it.
    }
  }
}

/** Removes what slaves of this user and this machine, that are gone, have left in that folder.
 *  Never rejects. */
export async function removeLeftFolders(base: string): Promise<void> {
  const names = await readdir(base).catch(() => []);
  let removed = 0;
  for (const name of names) {
    const path = join(base, name);
    if (!name.startsWith(prefixHere()) || !isOwn(path)) continue;
    // Its browser ends a moment after its slave.
    if (!(await isLeft(join(path, socketName))) || isInCommand(path)) continue;
    removeOwnSocket(ownSocketOf(join(path, profileName)));
    // In this order: what is not removed now has its socket, by which it is found again.
    if (await isRemoved(join(path, profileName), 1)) await isRemoved(path, 1);
    if (++removed === removedMax) return;
  }
}

/** The folder of the browser's own socket. Its profile has a link to that. */
function ownSocketOf(profile: string): string | undefined {
  try {
    return dirname(readlinkSync(join(profile, ownSocketName)));
  } catch {
    return undefined;
  }
}

/** A browser that is killed leaves it. */
function removeOwnSocket(folder: string | undefined): void {
  if (folder === undefined || !ownSocketFolder.test(basename(folder)) || !isOwn(folder)) return;
  try {
    for (const one of [ownSocketName, 'SingletonCookie'])
      rmSync(join(folder, one), { force: true });
    rmdirSync(folder);
  } catch {
    // It is gone, or something else.
  }
}

/** Other machines may share the folder: what they have cannot be judged here. */
function prefixHere(): string {
  let machine: string;
  try {
    machine = readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').slice(0, 8);
  } catch {
    machine = hostname().replace(/\W/g, '').slice(0, 8);
  }
  return `${prefix}${machine}-`;
}

/** A folder, no link to one, that nobody else can write into. */
function isOwn(path: string): boolean {
  try {
    const stats = lstatSync(path);
    const isClosed = stats.isDirectory() && (stats.mode & 0o077) === 0;
    return isClosed && stats.uid === process.getuid?.();
  } catch {
    return false;
  }
}

/** The process that listened has ended. One that is stopped takes connections, too. */
function isLeft(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const connection = connect(socket);
    const end = (left: boolean) => {
      connection.destroy();
      resolve(left);
    };
    connection.setTimeout(answerMs, () => end(false));
    connection.on('connect', () => end(false));
    // Any other error says nothing, a missing socket neither: its slave may be about to make it.
    connection.on('error', ({ code }: NodeJS.ErrnoException) => end(code === 'ECONNREFUSED'));
  });
}

async function isRemoved(path: string, maxRetries: number): Promise<boolean> {
  try {
    await rm(path, { recursive: true, force: true, maxRetries });
    return true;
  } catch {
    return false;
  }
}
