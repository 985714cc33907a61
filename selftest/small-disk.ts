/** A file system of its own in memory whose size can be changed while it is used: a full disk. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, statfsSync } from 'node:fs';

/** Only what is used takes memory. */
const roomMb = 4096;

export class SmallDisk {
  readonly folder: string;

  #isMounted = true;

  private constructor(folder: string) {
    this.folder = folder;
    process.once('exit', () => this.unmount());
  }

  /** Undefined if this user or system cannot mount one. */
  static mount(folder: string): SmallDisk | undefined {
    if (process.platform !== 'linux') return undefined;
    mkdirSync(folder, { recursive: true });
    const isDone = run('mount', ['-t', 'tmpfs', '-o', `size=${roomMb}m,mode=700`, 'tmpfs', folder]);
    return isDone ? new SmallDisk(folder) : undefined;
  }

  /** Leaves about `spareBytes` of room. Returns false if that failed. */
  fill(spareBytes: number): boolean {
    const { blocks, bfree, bsize } = statfsSync(this.folder);
    // It may grow until the size is set.
    return this.#resize(String((blocks - bfree) * bsize + spareBytes));
  }

  clear(): void {
    this.#resize(`${roomMb}m`);
  }

  /** Copies everything to `folder`, holes included, and goes. */
  keep(folder: string): void {
    run('cp', ['-a', '--sparse=always', this.folder, folder]);
    this.unmount();
  }

  /** Idempotent. A program that still uses it may go on until it ends. */
  unmount(): void {
    if (this.#isMounted) run('umount', ['-l', this.folder]);
    this.#isMounted = false;
  }

  #resize(size: string): boolean {
    return run('mount', ['-o', `remount,size=${size}`, this.folder]);
  }
}

function run(program: string, args: readonly string[]): boolean {
  return spawnSync(program, args, { stdio: 'ignore' }).status === 0;
}
