/**
 * The archive of one crawl: WARC files `<out>/<crawl>/archive/000001.warc.gz` and so on.
 *
 *     append --> queue --> one write and one sync --> `then`, in order --> commit with the mark
 *
 * A write begins at most every 50 ms, half as often as commits, and takes all that waits: each
 * costs a sync, three more calls of the system and a commit, whatever its size. The first one after
 * a pause begins at once.
 *
 * Bytes on the disk without a commit do not count: a start cuts the file back to the mark of
 * the last commit. The number of a file is on record before the file is made, so that a file
 * without a record is somebody else's, and is never touched. If the file that is written has been
 * taken away or changed, the records go to a new file, not to both, so that a program
 * that merges them has each answer once. The operator is told. Its
 * index is made again. A file counts as open until its index is in order, so that a start, the next
 * file and the end of the crawl make up for one that could not be written.
 */
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConfigError, codeOf } from '../../shared/errors.ts';
import { isDiskFull } from '../machine/disk-room.ts';
import { makeFolder } from '../machine/make-folder.ts';
import { Rounds } from '../machine/rounds.ts';
import { type ArchiveMark, archiveChange } from '../store/archive-rows.ts';
import type { FolderRoom, GroupCommit } from '../store/group-commit.ts';
import type { Indexed } from './cdxj.ts';
import { type About, type Digests, type Member, RecordMaker } from './records.ts';
import type { Upload } from './uploads.ts';
import { WarcFile, warcName } from './warc-file.ts';
import { indexName, linesOf, WarcIndex } from './warc-index.ts';
import type { WarcRecord } from './warc-reader.ts';

export type ArchivedCrawl = {
  readonly id: number;
  readonly name: string;
  readonly uid: Uint8Array;
};

/** The listener of archives: `Notices`. */
interface ArchiveEvents {
  /** A file that was being written is gone, or was changed; the archive goes on in another one. */
  archiveTaken(crawl: string, file: string, next: string): void;
  /** An index was gone, or was changed; it has been made again. */
  indexMade(crawl: string, index: string): void;
  /** It cannot be written, and is made again when it can. */
  indexFailed(crawl: string, index: string, error: unknown): void;
}

export type CrawlArchiveOptions = {
  readonly commits: Pick<GroupCommit, 'written'>;
  /** `<out>`. */
  readonly folder: string;
  readonly room: FolderRoom;
  readonly digests: Digests;
  readonly events: ArchiveEvents;
};

type Job = {
  readonly upload: Upload;
  readonly about: About;
  readonly then: (mark: ArchiveMark) => void;
};
type Draft = { readonly job: Job; readonly members: readonly Member[] };

/** Of one write. */
const jobsMax = 128;
const writeBytesMax = 8 << 20;
const writeEveryMs = 50;
export const fileBytesDefault = 1_000_000_000;

export class CrawlArchive {
  readonly #crawl: ArchivedCrawl;
  readonly #options: CrawlArchiveOptions;
  readonly #maker: RecordMaker;
  readonly #fileBytesMax: number;
  readonly #marks: Map<number, ArchiveMark>;
  #file: WarcFile | undefined;
  readonly #rounds = new Rounds<Job>(() => this.#writeSome());
  /** When the last write began. */
  #writtenAt = Number.NEGATIVE_INFINITY;
  /** The last file is not what was left: the next write begins a new one. */
  #isSpoiled = false;
  /** The last file that was closed. */
  #complete = 0;
  /** The operator knows that an index cannot be written. */
  #isFailureTold = false;

  constructor(
    crawl: ArchivedCrawl,
    marks: readonly ArchiveMark[],
    fileBytesMax: number,
    options: CrawlArchiveOptions,
  ) {
    this.#crawl = crawl;
    this.#options = options;
    this.#marks = new Map(marks.map((mark) => [mark.file, mark]));
    this.#fileBytesMax = fileBytesMax;
    this.#maker = new RecordMaker(crawl, options.digests, marks.at(-1)?.records ?? 0);
  }

  get folder(): string {
    return join(this.#options.folder, this.#crawl.name, 'archive');
  }

  get marks(): readonly ArchiveMark[] {
    return [...this.#marks.values()];
  }

  /** Appends the exchanges of a task. `then` is called in the order of the calls when they are on
   *  the disk, with what its commit has to record. Rejects with what the master cannot mend. */
  append(job: Job): Promise<void> {
    return this.#rounds.push(job);
  }

  /** Does something while nothing is written. */
  alone<T>(work: () => Promise<T>): Promise<T> {
    return this.#rounds.alone(work);
  }

  /** Resolves when all that was appended is on the disk. */
  idle(): Promise<void> {
    return this.#rounds.idle();
  }

  /** An earlier master may have left more than counts, and indexes that lack lines. */
  async restore(): Promise<void> {
    const mark = this.marks.at(-1);
    await this.#finishEarlier();
    if (mark === undefined || mark.isClosed) return;
    const path = join(this.folder, warcName(mark.file));
    const file = await WarcFile.find(path, mark.file, mark.length);
    if (file === undefined) return;
    const { id } = this.#crawl;
    try {
      const learn = (record: WarcRecord) => this.#options.digests.learn(id, record);
      const lines = await linesOf(path, mark.length, learn);
      // A kill leaves it so: that is nothing to tell.
      await this.#indexed(mark.file, () => file.index.make(path, lines).then(() => false));
      this.#file = file;
    } catch (error) {
      await file.close();
      if (!(error instanceof ConfigError)) throw error;
      this.#isSpoiled = true;
    }
  }

  /** Its crawl is over: puts the last index in order, and closes the file. It is opened again if
   *  the crawl goes on. */
  async close(): Promise<void> {
    await this.idle();
    await this.alone(async () => {
      const mark = this.marks.at(-1);
      if (mark === undefined || mark.isClosed) await this.#finishEarlier();
      else await this.#closeFile();
    });
  }

  /** The process ends: nothing is put in order that a start would not. */
  async leave(): Promise<void> {
    await this.idle();
    await this.#file?.close();
    this.#file = undefined;
  }

  async #writeSome(): Promise<void> {
    const waitMs = this.#writtenAt + writeEveryMs - performance.now();
    if (waitMs > 0 && this.#rounds.waiting.length < jobsMax) await sleep(waitMs);
    this.#writtenAt = performance.now();
    const drafts = await this.#take();
    let group: Draft[] = [];
    let bytes = 0;
    for (const draft of drafts) {
      const more = bytesOf(draft);
      const length = (this.#file?.length ?? this.#openLength) + bytes;
      if (length > 0 && length + more > this.#fileBytesMax) {
        await this.#write(group);
        await this.#closeFile();
        group = [];
        bytes = 0;
      }
      group.push(draft);
      bytes += more;
    }
    await this.#write(group);
  }

  /** Bytes of the file that the next write would open. */
  get #openLength(): number {
    return this.#openMark?.length ?? 0;
  }

  /** Of the file that goes on. One whose index could not be put in order is complete, too. */
  get #openMark(): ArchiveMark | undefined {
    const last = this.marks.at(-1);
    return last?.isClosed || last?.file === this.#complete ? undefined : last;
  }

  /** The records of the jobs that wait, as many as one write takes. */
  async #take(): Promise<Draft[]> {
    let count = 0;
    for (let bytes = 0; bytes < writeBytesMax && count < jobsMax; count++) {
      const job = this.#rounds.waiting[count];
      if (job === undefined) break;
      for (const { body } of job.upload.exchanges) bytes += body.bytes;
    }
    const jobs = this.#rounds.waiting.splice(0, count);
    const read = jobs.map(({ upload }) => Promise.all(upload.exchanges.map((e) => e.body.read())));
    const bodies = await Promise.all(read);
    // Numbered in their order, then packed together.
    const drafts = jobs.map(async (job, i): Promise<Draft> => {
      const last = job.upload.exchanges.findLastIndex(({ view }) => view === undefined);
      const members = job.upload.exchanges.flatMap((exchange, j) =>
        this.#maker.of(exchange, bodies[i]?.[j] ?? [], job.about, j === last),
      );
      return { job, members: await Promise.all(members) };
    });
    return await Promise.all(drafts);
  }

  async #write(drafts: readonly Draft[]): Promise<void> {
    if (drafts.length === 0) return;
    const file = await this.#append(drafts);
    const indexed: Indexed[] = [];
    const filename = warcName(file.number);
    let offset = file.length - drafts.reduce((sum, draft) => sum + bytesOf(draft), 0);
    const ends = drafts.map(({ members }) => {
      for (const { bytes, index } of members) {
        if (index !== undefined) indexed.push({ ...index, length: bytes.length, offset, filename });
        offset += bytes.length;
      }
      return offset;
    });
    const path = join(this.folder, filename);
    await this.#indexed(file.number, () => file.index.add(path, indexed, file.length));
    // All that is numbered so far, so that no number is given twice.
    const records = this.#maker.count;
    for (const [i, { job }] of drafts.entries()) {
      const mark = { file: file.number, length: ends[i] ?? 0, records };
      this.#marks.set(file.number, mark);
      job.upload.drop();
      job.then(mark);
    }
  }

  /** Tries again while the disk is full, and in a new file if the one that is open was changed. */
  async #append(drafts: readonly Draft[]): Promise<WarcFile> {
    const { room } = this.#options;
    const chunks = drafts.flatMap(({ members }) => members.map(({ bytes }) => bytes));
    for (;;) {
      await room.room();
      try {
        const file = await this.#open();
        const path = join(this.folder, warcName(file.number));
        if (await file.isAt(path)) {
          const { length } = file;
          await file.append(chunks);
          if (await file.isAt(path)) return file;
          await file.takeBack(length);
        }
        await file.close();
        this.#file = undefined;
        this.#isSpoiled = true;
      } catch (error) {
        if (!isDiskFull(error)) throw error;
        room.refused(this.folder);
      }
    }
  }

  /** The file that is written; its first record says what it is. A start may have cut it to
   *  nothing. */
  async #open(): Promise<WarcFile> {
    this.#file ??= await this.#findOrMake();
    const file = this.#file;
    if (file.length === 0) {
      const info = this.#maker.info(warcName(file.number), this.#crawl.name, Date.now());
      await file.append([info]);
    }
    return file;
  }

  async #findOrMake(): Promise<WarcFile> {
    const last = this.#openMark;
    if (last === undefined) return await this.#make((this.marks.at(-1)?.file ?? 0) + 1);
    const path = join(this.folder, warcName(last.file));
    const found = this.#isSpoiled ? undefined : await WarcFile.find(path, last.file, last.length);
    if (found !== undefined) return found;
    const file = await this.#make(last.file + 1);
    this.#isSpoiled = false;
    const next = warcName(file.number);
    this.#options.events.archiveTaken(this.#crawl.name, warcName(last.file), next);
    return file;
  }

  /** Makes a file of that number, or of the next that is free. */
  async #make(wanted: number): Promise<WarcFile> {
    const { commits } = this.#options;
    const { folder } = this;
    makeFolder(folder);
    const taken = await readdir(folder).catch(() => []);
    const numbers = taken.map((name) => Number(/^(\d{6,})\.(?:warc|cdxj)/.exec(name)?.[1] ?? 0));
    for (let number = Math.max(wanted, ...numbers.map((one) => one + 1)); ; number++) {
      const mark = { file: number, length: 0, records: this.#maker.count };
      await commits.written([archiveChange(this.#crawl.id, mark)]);
      try {
        const file = await WarcFile.make(join(folder, warcName(number)), number);
        this.#marks.set(number, mark);
        return file;
      } catch (error) {
        if (codeOf(error) !== 'EEXIST') throw error;
      }
    }
  }

  /** The file is complete. */
  async #closeFile(): Promise<void> {
    await this.#finishEarlier();
    const mark = this.marks.at(-1);
    if (mark === undefined) return;
    this.#complete = mark.file;
    const file = this.#file;
    this.#file = undefined;
    await this.#finish(mark, file?.index ?? new WarcIndex(false));
    await file?.close();
  }

  /** Files before the last one whose index could not be put in order. */
  async #finishEarlier(): Promise<void> {
    for (const mark of this.marks.slice(0, -1)) {
      if (!mark.isClosed) await this.#finish(mark, new WarcIndex(false));
    }
  }

  /** Puts the index in order; of a file that was taken away it stays as it is. */
  async #finish(mark: ArchiveMark, index: WarcIndex): Promise<void> {
    const path = join(this.folder, warcName(mark.file));
    await this.#options.room.room();
    const found = await lstat(path).catch(() => undefined);
    const isThere = found?.isFile() && found.size === mark.length;
    const finish = () => index.finish(path, mark.length);
    if (isThere && !(await this.#indexed(mark.file, finish))) return;
    const closed = { ...mark, isClosed: true as const };
    this.#marks.set(mark.file, closed);
    await this.#options.commits.written([archiveChange(this.#crawl.id, closed)]);
  }

  /** Does something to an index, which returns whether it had to be made again for that; undefined:
   *  it was not done. If it fails the operator is told, once. Returns whether there is nothing left
   *  to do: the index of a damaged file cannot be made. */
  async #indexed(file: number, work: () => Promise<boolean | undefined>): Promise<boolean> {
    const { events, room } = this.#options;
    const index = indexName(warcName(file));
    try {
      const isMadeAgain = await work();
      if (isMadeAgain === undefined) return false;
      if (isMadeAgain) events.indexMade(this.#crawl.name, index);
      this.#isFailureTold = false;
      return true;
    } catch (error) {
      if (isDiskFull(error)) room.refused(this.folder);
      if (!this.#isFailureTold) events.indexFailed(this.#crawl.name, index, error);
      this.#isFailureTold = true;
      return error instanceof ConfigError;
    }
  }
}

/** The names that a file of that number may have, with its index. */
export function namesOf({ file }: ArchiveMark): readonly string[] {
  return [warcName(file), indexName(warcName(file))];
}

function bytesOf({ members }: Draft): number {
  return members.reduce((sum, { bytes }) => sum + bytes.length, 0);
}
