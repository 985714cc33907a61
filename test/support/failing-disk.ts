/**
 * A real file system (ext4 on a loop device, its image on a small tmpfs) that fails the way that
 * disks do: the kernel makes it read-only, or the device refuses writes. Only for root on Linux.
 */
import { spawnSync } from 'node:child_process';
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';

const imageMb = 96;
/** What the image may take: more than a test writes. */
const roomMb = 64;

export class FailingDisk {
  readonly #folder = mkdtempSync(join(tmpdir(), 'orbweaver-failing-'));
  readonly #under = join(this.#folder, 'under');
  readonly #image = join(this.#under, 'image');
  readonly #filler = join(this.#under, 'filler');
  readonly path = join(this.#folder, 'disk');

  /** Undefined where nothing may be mounted: the test is skipped then. */
  static mount(test: TestContext): FailingDisk | undefined {
    const disk = new FailingDisk();
    // Last, when what uses it has ended.
    test.after(() => disk.#close());
    try {
      disk.#make();
      return disk;
    } catch (error) {
      test.skip(`no file system can be made here: ${String(error)}`);
      return undefined;
    }
  }

  /** What the kernel does when it finds the file system wrong: it is read-only for everybody, files
   *  that are open included. */
  turnReadOnly(): void {
    run('mount', '-o', 'remount,abort', this.path);
  }

  /** The device takes no more writes to blocks that it has not written before: EIO. */
  refuseWrites(): void {
    const file = openSync(this.#filler, 'w');
    const bytes = Buffer.alloc(1 << 16, 'x');
    try {
      while (true) writeSync(file, bytes);
    } catch {
      // full
    } finally {
      closeSync(file);
    }
  }

  /** Repaired and mounted again, when nobody uses it. */
  mend(): void {
    rmSync(this.#filler, { force: true });
    run('umount', this.path);
    run('e2fsck', '-fy', this.#image);
    this.#mountImage();
  }

  #make(): void {
    for (const folder of [this.#under, this.path]) mkdirSync(folder);
    run('mount', '-t', 'tmpfs', '-o', `size=${roomMb}m`, 'none', this.#under);
    closeSync(openSync(this.#image, 'w'));
    truncateSync(this.#image, imageMb << 20);
    run('mkfs.ext4', '-q', this.#image);
    this.#mountImage();
  }

  #mountImage(): void {
    run('mount', '-o', 'loop,errors=remount-ro', this.#image, this.path);
  }

  #close(): void {
    for (const folder of [this.path, this.#under]) spawnSync('umount', ['-l', folder]);
    rmSync(this.#folder, { recursive: true });
  }
}

/** @throws Error with what it complained of. e2fsck says 1 or 2 when it has mended something. */
function run(program: string, ...args: readonly string[]): void {
  const { error, status, stderr } = spawnSync(program, args, { encoding: 'utf8' });
  if (error) throw error;
  const isWell = status === 0 || (program === 'e2fsck' && (status ?? 9) < 4);
  if (!isWell) throw new Error(`${program}: ${stderr.trim() || `exit code ${status}`}`);
}

/** How a disk can fail. */
export const diskFailures = {
  'becomes read-only': (disk: FailingDisk) => disk.turnReadOnly(),
  'refuses writes': (disk: FailingDisk) => disk.refuseWrites(),
} as const;
