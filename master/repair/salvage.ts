/**
 * Reads a damaged store as far as possible: of each table the rows with a valid checksum. There are
 * two sets of roots, of the last transaction and the one before. The newest whole set is the store
 * of its moment; if none is whole, the one that has lost fewer rows is read as far as possible.
 */

import { crawlOfRow } from '../store/records.ts';
import { type Table, tables } from '../store/store.ts';
import { hasSum, isSound, sumBytes } from '../store/sums.ts';
import { type Meta, pageBytes, StoreFile, type Tree } from './pages.ts';

export type Salvaged = {
  /** Rows that were read. */
  readonly rows: number;
  /** Original number of rows; undefined if unknown. */
  readonly of: number | undefined;
  readonly damage: readonly string[];
  /** They are of another moment than those of the other tables. */
  readonly isMixed: boolean;
};

/** Tables whose rows may be from another moment than the rest. */
const mixable: ReadonlySet<Table> = new Set([
  'crawls',
  'spares',
  'seeds',
  'seen',
  'runs',
  'recent',
  'sources',
  'buried',
  'robots',
  'breakers',
  'paces',
  'items',
  'contents',
]);

/** Tables that a store of an earlier build may lack. */
const added: ReadonlySet<Table> = new Set([
  ...(['spares', 'sources', 'runs', 'unsorted', 'contents', 'namings'] as const),
]);

/** Receives a row, which is valid until the next one. */
export type TakeRow = (key: Buffer, value: Buffer) => void;

export class Salvage {
  readonly #file: StoreFile;
  readonly #metas: readonly Meta[];
  readonly #roots: readonly ReadonlyMap<string, Tree>[];
  /** The set of roots that has lost the fewest rows; of two that have lost as many, the newer. */
  readonly #best: number;

  /** @throws Error of the file system */
  constructor(path: string) {
    this.#file = new StoreFile(path);
    const metas = this.#file.metas().filter((meta) => meta !== undefined);
    this.#metas = metas
      .sort((a, b) => b.transaction - a.transaction)
      .map((meta) => ({ ...meta, end: Math.min(meta.end, this.#pages) || 0 }));
    this.#roots = this.#metas.map((meta) => this.#rootsOf(meta));
    this.#best = this.#leastLost();
  }

  /** False: no part of it is a store. */
  get hasAny(): boolean {
    return this.#roots.some((roots) => roots.size > 0);
  }

  /** The changes of the last commit are lost, except those that another set of roots has. */
  get isOfCommitBefore(): boolean {
    return this.#best > 0;
  }

  /** Bytes in use, at most. */
  get bytes(): number {
    return Math.max(0, ...this.#metas.map(({ end }) => end * pageBytes));
  }

  /** Passes the readable rows of a table to `take`. */
  table(table: Table, take: TakeRow): Salvaged {
    const found = this.#read(this.#best, table, () => {});
    const other = this.#metas.length - 1 - this.#best;
    // From the earlier set: a finished task, or a written line, would come back.
    const isOther = found.rows === 0 && found.damage.length > 0 && mixable.has(table);
    if (!isOther) return { ...this.#read(this.#best, table, take), isMixed: false };
    const { rows, of } = this.#read(other, table, take);
    return { rows, of: found.of ?? of, damage: found.damage, isMixed: rows > 0 };
  }

  close(): void {
    this.#file.close();
  }

  /** One root that is lost, of a table or of all, takes all rows below it: the set before may have
   *  these, with another page that is damaged. */
  #leastLost(): number {
    let best = 0;
    let least = Number.POSITIVE_INFINITY;
    for (let index = 0; index < this.#metas.length && least > 0; index++) {
      const lost = tables.reduce((sum, table) => sum + this.#lostOf(index, table), 0);
      if (lost >= least) continue;
      best = index;
      least = lost;
    }
    return best;
  }

  /** Rows of a table that cannot be read; at least one if anything is damaged. */
  #lostOf(index: number, table: Table): number {
    const { rows, of = Number.POSITIVE_INFINITY, damage } = this.#read(index, table, () => {});
    return damage.length === 0 ? 0 : Math.max(1, of - rows);
  }

  get #pages(): number {
    return Math.floor(this.#file.bytes / pageBytes);
  }

  #read(index: number, table: Table, take: TakeRow): Omit<Salvaged, 'isMixed'> {
    const meta = this.#metas[index];
    const tree = this.#roots[index]?.get(table);
    if (meta !== undefined && tree === undefined && added.has(table)) {
      return { rows: 0, of: 0, damage: [] };
    }
    if (meta === undefined || tree === undefined) {
      return { rows: 0, of: undefined, damage: ['its root is lost'] };
    }
    const damage: string[] = [];
    const onDamage = (what: string) => void damage.push(what);
    let rows = 0;
    const used = new Uint8Array(meta.end);
    this.#file.read({
      tree,
      meta,
      used,
      onDamage,
      take: (keys, keyAt, keyBytes, values, valueAt, valueBytes) => {
        const key = keys.subarray(keyAt, keyAt + keyBytes);
        const value = values.subarray(valueAt, valueAt + valueBytes);
        if (!hasSum(table)) {
          rows++;
          take(key, value);
          return;
        }
        const own = value.subarray(0, value.length - sumBytes);
        if (!isSound(keys, keyAt, keyBytes, values, valueAt, valueBytes)) {
          onDamage('a row has changed');
        } else if (
          (table === 'crawls' || table === 'spares') &&
          crawlOfRow(key, own) === undefined
        ) {
          // An old page in the place of a new one, which the disk has lost.
          onDamage('a row is of another table');
        } else {
          rows++;
          take(key, own);
        }
      },
    });
    return { rows, of: tree.entries, damage };
  }

  #rootsOf(meta: Meta): Map<string, Tree> {
    const used = new Uint8Array(meta.end);
    return this.#file.tables({ meta, used, onDamage: () => {} });
  }
}
