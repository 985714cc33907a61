/**
 * A real file system (ext4 on a loop device, its image on a small tmpfs) that fails as disks do:
 * the kernel makes it read-only, or the device refuses writes. Only for root on Linux.
 */
import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { SmallDisk } from './small-disk.ts';

const imageMb = 96;
/** Size of the image: more than a test writes. */
const roomMb = 64;

export class FailingDisk {
  readonly path = mkdtempSync(join(tmpdir(), 'orbweaver-failing-'));
  readonly #under: SmallDisk;
  readonly #image: string;

  private constructor(under: SmallDisk) {
    this.#under = under;
    this.#image = join(under.path, 'image');
  }

  /** Undefined if this user may not mount: the test is skipped then. */
  static mount(test: TestContext): FailingDisk | undefined {
    const under = SmallDisk.mount(test, roomMb);
    if (under === undefined) return undefined;
    const disk = new FailingDisk(under);
    // Last, after the programs that use it.
    test.after(() => disk.#close());
    try {
      disk.#make();
      return disk;
    } catch (error) {
      test.skip(`no file system can be made here: ${String(error)}`);
      return undefined;
    }
  }

  /** Does what the kernel does with a damaged file system: it is read-only for all, including open
   *  files. */
  turnReadOnly(): void {
    run('mount', '-o', 'remount,abort', this.path);
  }

  /** The device refuses writes to blocks that it has not written before: EIO. */
  refuseWrites(): void {
    this.#under.fill();
  }

  /** Repairs and mounts it again, when no program uses it. */
  mend(): void {
    this.#under.free();
    run('umount', this.path);
    run('e2fsck', '-fy', this.#image);
    this.#mountImage();
  }

  #make(): void {
    closeSync(openSync(this.#image, 'w'));
    truncateSync(this.#image, imageMb << 20);
    run('mkfs.ext4', '-q', this.#image);
    this.#mountImage();
  }

  #mountImage(): void {
    run('mount', '-o', 'loop,errors=remount-ro', this.#image, this.path);
  }

  #close(): void {
    spawnSync('umount', ['-l', this.path]);
    rmSync(this.path, { recursive: true });
  }
}

/** @throws Error with its message. e2fsck exits with 1 or 2 when it has repaired something. */
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
