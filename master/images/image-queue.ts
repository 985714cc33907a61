/**
 * The images of one crawl on their way to the disk:
 *
 *     append --> queue --> a round is written durably by its keeper --> `then`, in order
 *
 * A file on the disk without a commit does not count: it is written again, or swept away when the
 * crawl is finished. `Images` has one for each crawl.
 */
import { messageOf } from '../../shared/errors.ts';
import type { ImageType } from '../../shared/images.ts';
import { isDiskFull } from '../machine/disk-room.ts';
import { Rounds } from '../machine/rounds.ts';
import type { FolderRoom } from '../store/group-commit.ts';
import type { KeptImage, Place } from '../store/image-rows.ts';

export type KeptContent = {
  readonly sha256: string;
  readonly type: ImageType;
  readonly bytes: number;
  readonly pieces: readonly Uint8Array[];
  readonly thumbnail?: Uint8Array | undefined;
  /** Metadata of the image, for a keeper that writes it, too. */
  readonly about: Readonly<Record<string, unknown>>;
};
/** `fault`: why it could not be written; undefined: it is on the disk, `place` in which shard. */
export type Kept = (fault?: string, place?: Place) => void;
type Job = { readonly content: KeptContent; readonly then: Kept };
export type Removed = { readonly deleted: number; readonly kept: number };

/** How images lie in the folder of a crawl: as files, or in shards. It is never called twice at
 *  once. */
export interface ImageKeeper {
  /** Changes while no file is open. */
  path: string;
  /** Writes images that are not there, durably. After an error it may be called again with the
   *  same. Returns their places, if they have some. @throws the error of the system */
  write(contents: readonly KeptContent[]): Promise<ReadonlyMap<string, Place> | undefined>;
  /** Is this image there, in its length? */
  has(sha256: string, image: KeptImage): boolean;
  /** Deletes one that is on record, and is not wanted. */
  drop(sha256: string, image: KeptImage): Promise<void>;
  /** Deletes what a crash left: `isKept` does not know it. `sinceMs`: older files are somebody
   *  else's. Returns how many. */
  sweep(isKept: (sha256: string) => boolean, sinceMs: number): Promise<number>;
  /** Deletes the images that `isKept` knows. Returns how many files were deleted, and how many
   *  others are there. */
  remove(isKept: (sha256: string) => boolean): Promise<Removed>;
  close(): Promise<void>;
}

/** Of one round. */
const jobsMax = 64;
/** Contents that may be under way to the store, and are not swept. */
const freshMax = 8_192;

export class ImageQueue {
  readonly #keeper: ImageKeeper;
  readonly #room: FolderRoom;
  readonly #rounds: Rounds<Job>;
  /** Written since the start of the master, the last of them. */
  readonly #fresh = new Map<string, Place | undefined>();

  constructor(keeper: ImageKeeper, room: FolderRoom) {
    this.#keeper = keeper;
    this.#room = room;
    this.#rounds = new Rounds(() => this.#writeSome());
  }

  /** Keeps an image. `then` is called in the order of the calls, when it is on the disk, or cannot
   *  get there before the operator acts. */
  append(content: KeptContent, then: Kept): Promise<void> {
    return this.#rounds.push({ content, then });
  }

  /** Does something while nothing is written, and no file is open. */
  alone<T>(work: () => Promise<T>): Promise<T> {
    return this.#rounds.alone(async () => {
      await this.#keeper.close();
      return await work();
    });
  }

  /** Resolves when all that was appended is on the disk. */
  idle(): Promise<void> {
    return this.#rounds.idle();
  }

  /** Is this image there, in its length? If not, it is written when it comes again. */
  has(sha256: string, image: KeptImage): boolean {
    if (this.#keeper.has(sha256, image)) return true;
    this.#fresh.delete(sha256);
    return false;
  }

  /** Where an image is that may be under way to the store. */
  placeOf(sha256: string): Place | undefined {
    return this.#fresh.get(sha256);
  }

  /** A file that stays is swept away at the end. */
  drop(sha256: string, image: KeptImage): Promise<void> {
    return this.alone(async () => {
      this.#fresh.delete(sha256);
      await this.#keeper.drop(sha256, image).catch(() => {});
    });
  }

  sweep(isKept: (sha256: string) => boolean, sinceMs: number): Promise<number> {
    const isWanted = (sha256: string) => this.#fresh.has(sha256) || isKept(sha256);
    return this.alone(() => this.#keeper.sweep(isWanted, sinceMs));
  }

  remove(isKept: (sha256: string) => boolean): Promise<Removed> {
    return this.alone(() => this.#keeper.remove(isKept));
  }

  /** Its folder has another name. */
  moveTo(path: string): void {
    this.#keeper.path = path;
  }

  /** Ends when what was appended is written. */
  close(): Promise<void> {
    return this.alone(async () => {});
  }

  async #writeSome(): Promise<void> {
    const jobs = this.#rounds.waiting.splice(0, jobsMax);
    const fault = await this.#written(jobs.map(({ content }) => content));
    for (const { content, then } of jobs) then(fault, this.#fresh.get(content.sha256));
  }

  async #written(contents: readonly KeptContent[]): Promise<string | undefined> {
    try {
      await this.#write(contents);
      return undefined;
    } catch (error) {
      // A fault of the disk or of a path. All else is one of ours.
      if (!(error instanceof Error && 'syscall' in error)) throw error;
      return `cannot write to ${this.#keeper.path}: ${messageOf(error)}; mend that`;
    }
  }

  /** Tries again while the disk is full. */
  async #write(contents: readonly KeptContent[]): Promise<void> {
    // Two tasks may bring the same image: the second is dropped.
    const wanted = new Map(contents.map((content) => [content.sha256, content]));
    for (const sha256 of wanted.keys()) if (this.#fresh.has(sha256)) wanted.delete(sha256);
    let places: ReadonlyMap<string, Place> | undefined;
    while (wanted.size > 0) {
      await this.#room.room();
      try {
        places = await this.#keeper.write([...wanted.values()]);
        break;
      } catch (error) {
        if (!isDiskFull(error)) throw error;
        this.#room.refused(this.#keeper.path);
      }
    }
    for (const sha256 of wanted.keys()) this.#fresh.set(sha256, places?.get(sha256));
    for (const sha256 of this.#fresh.keys()) {
      if (this.#fresh.size <= freshMax) break;
      this.#fresh.delete(sha256);
    }
  }
}
