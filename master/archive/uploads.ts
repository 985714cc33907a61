/**
 * Exchanges that slaves have sent and not yet reported: in memory up to a bound that all sessions
 * share, beyond it in files, one for each body. A session that ends takes its own with it; a start
 * empties the folder. Source: PROTOCOL.md [T-100] to [T-104].
 */
import { rmSync } from 'node:fs';
import { appendFile, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { archiveBytesMax, archiveExchangesMax, type BodyEnd } from '../../shared/archive.ts';
import { CommandError } from '../../shared/errors.ts';
import type { ViewName } from '../../shared/render.ts';
import type { Requests } from '../../shared/requests.ts';
import { isDiskFull } from '../machine/disk-room.ts';
import { makeFolder } from '../machine/make-folder.ts';
import { Body } from './body.ts';
import { SessionContents } from './contents.ts';

/** Bytes of bodies in memory, of all sessions. */
const memoryBytesMax = 32 << 20;
/** Tasks of one session whose exchanges wait for a report. */
const tasksMax = 4_096;

export type Exchange = {
  readonly url: string;
  readonly at: number;
  readonly request: Uint8Array;
  readonly response: Uint8Array;
  readonly end: BodyEnd;
  readonly body: Body;
  /** It is what a browser made of the page. */
  readonly view?: ViewName;
};

/** The exchanges of one task, in their order. */
export type Upload = {
  readonly exchanges: readonly Exchange[];
  /** Nobody needs them any more. Idempotent. */
  drop(): void;
};

const noUpload: Upload = { exchanges: [], drop: () => {} };

type DiskRoom = { room(): Promise<void>; refused(): void };

/** The memory and the folder that all sessions share. */
export class UploadRoom {
  readonly #folder: string;
  readonly #disk: DiskRoom;
  #bytes = 0;
  #files = 0;

  constructor(folder: string, disk: DiskRoom) {
    this.#folder = folder;
    this.#disk = disk;
    rmSync(folder, { recursive: true, force: true });
  }

  session(): SessionUploads {
    return new SessionUploads(this);
  }

  /** True: so many more bytes may stay in memory, and are counted until `leave`. */
  enter(bytes: number): boolean {
    if (this.#bytes + bytes > memoryBytesMax) return false;
    this.#bytes += bytes;
    return true;
  }

  leave(bytes: number): void {
    this.#bytes -= bytes;
  }

  newFile(): string {
    makeFolder(this.#folder, 0o700);
    return join(this.#folder, `body-${++this.#files}`);
  }

  /** Appends to a file of the folder, when there is room on the disk. */
  async append(path: string, bytes: Uint8Array, length: number): Promise<void> {
    for (;;) {
      await this.#disk.room();
      try {
        await appendFile(path, bytes);
        return;
      } catch (error) {
        if (!isDiskFull(error)) throw error;
        // A part of it may have been written.
        await truncate(path, length).catch(() => {});
        this.#disk.refused();
      }
    }
  }
}

type Draft = {
  readonly exchanges: Exchange[];
  /** The exchange whose body is coming. */
  current: (Omit<Exchange, 'end'> & { readonly body: Body }) | undefined;
  nextPart: number;
};

/** Bodies that one session has sent and not reported. */
export class SessionUploads {
  /** Images that it has sent. */
  readonly contents: SessionContents;
  readonly #room: UploadRoom;
  readonly #drafts = new Map<string, Draft>();

  constructor(room: UploadRoom) {
    this.#room = room;
    this.contents = new SessionContents(room);
  }

  /** Bytes of heads, which stay in memory. */
  get heldBytes(): number {
    let bytes = 0;
    for (const { exchanges, current } of this.#drafts.values()) {
      for (const one of exchanges) bytes += headBytes(one);
      if (current !== undefined) bytes += headBytes(current);
    }
    return bytes;
  }

  /** Takes a part. Resolves when there is room for more; undefined: there is.
   *  @throws CommandError E_BAD_REQUEST it does not follow the one before [T-101] */
  add(request: Requests['task.archive']): Promise<void> | undefined {
    const { task, lease, part, head, body, end } = request;
    if (part > 0 && head !== undefined) this.#refuseMore(task, lease);
    const key = keyOf(task, lease);
    const draft = part === 0 ? this.#begin(key) : this.#drafts.get(key);
    const isNext = draft !== undefined && draft.nextPart === part;
    if (!isNext || (draft.current === undefined) !== (head !== undefined)) {
      this.#drop(key);
      throw refusal('a part is missing before this one');
    }
    draft.nextPart++;
    draft.current ??= head && {
      url: head.url,
      at: head.at,
      body: new Body(this.#room),
      request: new Uint8Array(head.request),
      response: new Uint8Array(head.response),
      ...(head.view && { view: head.view }),
    };
    const { current } = draft;
    if (current === undefined) throw refusal('the first part must have a head');
    if (current.body.bytes + body.length > archiveBytesMax) {
      this.#drop(key);
      throw refusal(`a body is longer than ${archiveBytesMax} bytes`);
    }
    const added = current.body.add(body);
    if (end !== undefined) {
      draft.exchanges.push({ ...current, end });
      draft.current = undefined;
    }
    return added;
  }

  #refuseMore(task: Uint8Array, lease: number): void {
    const key = keyOf(task, lease);
    if ((this.#drafts.get(key)?.exchanges.length ?? 0) < archiveExchangesMax) return;
    this.#drop(key);
    throw refusal(`a task has more than ${archiveExchangesMax} exchanges`);
  }

  /** Takes the exchanges of a task out; its statement says how many there are.
   *  @throws CommandError E_BAD_REQUEST there are others [T-103] */
  take(task: Uint8Array, lease: number, count: number): Upload {
    const key = keyOf(task, lease);
    const draft = this.#drafts.get(key);
    if ((draft?.exchanges.length ?? 0) !== count || draft?.current !== undefined) {
      this.#drop(key);
      throw refusal(`${count} exchanges were announced, and others came`);
    }
    this.#drafts.delete(key);
    if (draft === undefined) return noUpload;
    const { exchanges } = draft;
    const drop = () => {
      for (const { body } of exchanges) body.drop();
    };
    return { exchanges, drop };
  }

  /** The session has ended. */
  close(): void {
    this.contents.close();
    for (const key of [...this.#drafts.keys()]) this.#drop(key);
  }

  #begin(key: string): Draft {
    this.#drop(key);
    if (this.#drafts.size >= tasksMax) throw refusal('too many tasks wait for their reports');
    const draft: Draft = { exchanges: [], current: undefined, nextPart: 0 };
    this.#drafts.set(key, draft);
    return draft;
  }

  #drop(key: string): void {
    const draft = this.#drafts.get(key);
    if (draft === undefined) return;
    this.#drafts.delete(key);
    draft.current?.body.drop();
    for (const { body } of draft.exchanges) body.drop();
  }
}

function headBytes({ url, request, response }: Omit<Exchange, 'end'>): number {
  return url.length + request.length + response.length;
}

function keyOf(task: Uint8Array, lease: number): string {
  return `${lease} ${Buffer.from(task).toString('hex')}`;
}

function refusal(message: string): CommandError {
  return new CommandError('E_BAD_REQUEST', `task.archive: ${message}`);
}
