/**
 * A body that a slave sends in parts, until its statement comes: in memory as far as all bodies
 * together have room there, beyond that in a file.
 */
import { readFile, rm } from 'node:fs/promises';

/** Shared by all bodies: `UploadRoom`. */
export interface BodyRoom {
  /** True: so many more bytes may stay in memory, and are counted until `leave`. */
  enter(bytes: number): boolean;
  leave(bytes: number): void;
  newFile(): string;
  /** Appends to a file of the folder, when there is room on the disk. */
  append(path: string, bytes: Uint8Array, length: number): Promise<void>;
}

/** A body as it came, in parts. */
export class Body {
  readonly #room: BodyRoom;
  readonly #pieces: (Uint8Array | number)[] = [];
  #path: string | undefined;
  #memoryBytes = 0;
  #fileBytes = 0;
  #writing: Promise<void> = Promise.resolve();
  bytes = 0;

  constructor(room: BodyRoom) {
    this.#room = room;
  }

  /** Resolves when it is in memory or in the file; undefined: it is. */
  add(part: Uint8Array): Promise<void> | undefined {
    this.bytes += part.length;
    if (this.#room.enter(part.length)) {
      // A copy: the part is a view of its message.
      this.#pieces.push(new Uint8Array(part));
      this.#memoryBytes += part.length;
      return undefined;
    }
    this.#pieces.push(part.length);
    const copy = new Uint8Array(part);
    this.#path ??= this.#room.newFile();
    const path = this.#path;
    this.#writing = this.#writing.then(async () => {
      await this.#room.append(path, copy, this.#fileBytes);
      this.#fileBytes += copy.length;
    });
    return this.#writing;
  }

  /** All of it, in pieces. */
  async read(): Promise<Uint8Array[]> {
    if (this.#path === undefined) return this.#pieces.filter((one) => typeof one !== 'number');
    await this.#writing;
    const file = await readFile(this.#path);
    let at = 0;
    return this.#pieces.map((one) => {
      if (typeof one !== 'number') return one;
      at += one;
      return file.subarray(at - one, at);
    });
  }

  drop(): void {
    this.#room.leave(this.#memoryBytes);
    this.#memoryBytes = 0;
    const path = this.#path;
    if (path === undefined) return;
    this.#path = undefined;
    void this.#writing.catch(() => {}).then(() => rm(path, { force: true }).catch(() => {}));
  }
}
