/** A real file system of a few megabytes, for tests of a full disk. */
import { spawnSync } from 'node:child_process';
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';

export class SmallDisk {
  readonly path = mkdtempSync(join(tmpdir(), 'orbweaver-disk-'));
  readonly #filler = join(this.path, 'somebody-else');

  /** Undefined if this user may not mount: the test is skipped then. */
  static mount(test: TestContext, megabytes: number): SmallDisk | undefined {
    const disk = new SmallDisk();
    const mounted = run('mount', '-t', 'tmpfs', '-o', `size=${megabytes}m`, 'none', disk.path);
    if (mounted !== '') {
      rmSync(disk.path, { recursive: true });
      test.skip(`no tmpfs can be mounted here: ${mounted}`);
      return undefined;
    }
    // Last, after the programs that use it.
    test.after(() => {
      run('umount', '-l', disk.path);
      rmSync(disk.path, { recursive: true });
    });
    return disk;
  }

  /** Fills the disk like another program, and not faster than a disk: with half a gigabyte a
   *  second. A master looks every 20 ms whether its reserve is left. */
  fill(): void {
    const file = openSync(this.#filler, 'w');
    const bytes = Buffer.alloc(1 << 19, 'x');
    const still = new Int32Array(new SharedArrayBuffer(4));
    try {
      for (;;) {
        writeSync(file, bytes);
        Atomics.wait(still, 0, 0, 1);
      }
    } catch {
      // full
    } finally {
      closeSync(file);
    }
  }

  /** Takes all files that the disk may have but so many, like another program: most of its bytes
   *  are free. */
  fillFiles(left = 0): void {
    run('mount', '-o', 'remount,nr_inodes=1000', this.path);
    mkdirSync(this.#filler);
    let count = 0;
    try {
      for (; ; count++) writeFileSync(join(this.#filler, String(count)), '');
    } catch {
      // full
    }
    for (let n = 0; n < left; n++) rmSync(join(this.#filler, String(n)));
  }

  free(): void {
    rmSync(this.#filler, { force: true, recursive: true });
  }

  remount(option: 'ro' | 'rw'): void {
    run('mount', '-o', `remount,${option}`, this.path);
  }
}

/** Returns its error message. */
function run(program: string, ...args: readonly string[]): string {
  const { error, status, stderr } = spawnSync(program, args, { encoding: 'utf8' });
  return error?.message ?? (status === 0 ? '' : stderr.trim() || `exit code ${status}`);
}
