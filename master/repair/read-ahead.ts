/**
 * Reads a table into the kernel's page cache while the master serves. After a restart of the
 * machine nothing of the store is in memory, and each look-up of a known link would wait for the
 * disk: a hundred million keys are in half a million pages, scattered over a file of 17 GB.
 *
 * The tree is read level by level, each in the order of the file, and neighbours at once. It
 * changes meanwhile: a page that is another one by now is left out, and what is new is in memory
 * already. So nothing depends on what is read here, nor on whether it is.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { messageOf } from '../../shared/errors.ts';
import type { Logger } from '../../shared/log.ts';
import { parseRunKey } from '../store/runs.ts';
import type { Table } from '../store/store.ts';
import {
  childPagesOf,
  current,
  type Meta,
  pageBytes,
  StoreFile,
  type Tree,
  valuePagesOf,
} from './pages.ts';

/** Reads on the way at once: a busy master comes back to each after some ms only. */
const lanes = 48;
/** Pages of a read, and of a gap within it: to read a gap costs less than to wait twice. */
const rangePagesMax = 64;
const gapPagesMax = 16;

type Reading = {
  /** Rows are read by their keys. */
  readonly isWanted: (key: Buffer) => boolean;
  readonly bytesMax: number;
  /** Asked before each read. */
  readonly goesOn: () => boolean;
};

type PageRange = { readonly first: number; readonly end: number };

export type Serving = {
  readonly crawls: Iterable<{ readonly id: number; readonly isOpen: boolean }>;
  readonly master: { readonly isServing: boolean };
  readonly log: Pick<Logger, 'debug'>;
};

/** Reads what look-ups of known links read, of the crawls for which links may come, while the
 *  master serves. Never rejects. */
export async function readSeenAhead(path: string, serving: Serving): Promise<void> {
  const { crawls, master, log } = serving;
  const open = new Set([...crawls].flatMap(({ id, isOpen }) => (isOpen ? [id] : [])));
  if (open.size === 0) return;
  const began = performance.now();
  try {
    const bytes = await readAhead(path, 'runs', {
      isWanted: (key) => open.has(parseRunKey(key)?.crawl ?? 0),
      // The rest of the machine needs its memory, too.
      bytesMax: process.availableMemory() / 2,
      goesOn: () => master.isServing,
    });
    const ms = Math.round(performance.now() - began);
    log.debug({ bytes, ms }, 'seen URLs read into the page cache');
  } catch (error) {
    // A later read of the same bytes reports the error.
    log.debug({ reason: messageOf(error) }, 'seen URLs not read into the page cache');
  }
}

/** Resolves with the bytes that were read. Rejects with an error of the file system. */
export async function readAhead(path: string, table: Table, reading: Reading): Promise<number> {
  const { meta, tree } = treeOf(path, table) ?? {};
  if (meta === undefined || tree?.root === undefined) return 0;
  const reader = new Reader(await open(path), reading);
  try {
    let level = new PageSet(meta.end);
    level.add(tree.root);
    for (let { depth } = tree; depth >= 1; depth--) {
      const below = new PageSet(meta.end);
      await reader.read(level, (page, number) => {
        const pages =
          depth > 1
            ? childPagesOf(page, number, meta)
            : valuePagesOf(page, number, meta, reading.isWanted);
        for (const one of pages) below.add(one);
      });
      level = below;
    }
    // Nothing is below the values.
    await reader.read(level);
    return reader.bytes;
  } finally {
    await reader.close();
  }
}

/** Undefined: there is no such table, or a commit is being written at this moment. */
function treeOf(
  path: string,
  table: Table,
): { readonly meta: Meta; readonly tree: Tree } | undefined {
  const file = new StoreFile(path);
  try {
    const [a, b] = file.metas();
    if (a === undefined || b === undefined) return undefined;
    const meta = current(a, b);
    const used = new Uint8Array(meta.end);
    const tree = file.tables({ meta, used, onDamage: () => {} }).get(table);
    return tree && { meta, tree };
  } finally {
    file.close();
  }
}

class Reader {
  readonly #file: FileHandle;
  readonly #reading: Reading;
  /** For what nobody looks at: reads may write over each other. */
  readonly #unseen = Buffer.alloc(rangePagesMax * pageBytes);
  bytes = 0;

  constructor(file: FileHandle, reading: Reading) {
    this.#file = file;
    this.#reading = reading;
  }

  /** `visit` gets each page of the set: it is valid until the call returns. */
  async read(pages: PageSet, visit?: (page: Buffer, number: number) => void): Promise<void> {
    const ranges = pages.ranges();
    const lane = async () => {
      for (const { first, end } of ranges) {
        if (!this.#reading.goesOn() || this.bytes >= this.#reading.bytesMax) return;
        const length = (end - first) * pageBytes;
        const buffer = visit === undefined ? this.#unseen : Buffer.allocUnsafe(length);
        const { bytesRead } = await this.#file.read(buffer, 0, length, first * pageBytes);
        this.bytes += bytesRead;
        if (visit === undefined) continue;
        for (let number = first; (number - first + 1) * pageBytes <= bytesRead; number++) {
          const at = (number - first) * pageBytes;
          if (pages.has(number)) visit(buffer.subarray(at, at + pageBytes), number);
        }
      }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
  }

  async close(): Promise<void> {
    await this.#file.close();
  }
}

/** Numbers of pages, a bit each. */
class PageSet {
  readonly #bits: Uint8Array;
  readonly #end: number;

  /** `end`: all are below it. */
  constructor(end: number) {
    this.#end = end;
    this.#bits = new Uint8Array(Math.ceil(end / 8));
  }

  add(page: number): void {
    this.#bits[page >>> 3] = (this.#bits[page >>> 3] ?? 0) | (1 << (page & 7));
  }

  has(page: number): boolean {
    return ((this.#bits[page >>> 3] ?? 0) & (1 << (page & 7))) !== 0;
  }

  /** In the order of the file. */
  *ranges(): Generator<PageRange> {
    for (let first = this.#next(0); first < this.#end; ) {
      let end = first + 1;
      let next = this.#next(end);
      while (next - end <= gapPagesMax && next - first < rangePagesMax && next < this.#end) {
        end = next + 1;
        next = this.#next(end);
      }
      yield { first, end };
      first = next;
    }
  }

  /** Returns the first page from this one on; the end: there is none. */
  #next(page: number): number {
    let at = page;
    while (at < this.#end && !this.has(at))
      at += (at & 7) === 0 && this.#bits[at >>> 3] === 0 ? 8 : 1;
    return Math.min(at, this.#end);
  }
}
