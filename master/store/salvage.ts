/**
 * What can still be read of a damaged store: of each table the rows that have kept their checksum,
 * by the newer of the two sets of roots, or by the older one where that gives more.
 */
import { type Meta, StoreFile, type Tree, tableName, treeAt, treeBytes } from './pages.ts';
import type { Table } from './store.ts';
import { hasSum, isSound, sumBytes } from './sums.ts';

export type Salvaged = {
  /** Rows given. */
  readonly rows: number;
  /** Rows that there were; undefined when not even that is known. */
  readonly of: number | undefined;
  readonly damage: readonly string[];
};

/** A row, good until the next one. */
export type TakeRow = (key: Buffer, value: Buffer) => void;

export class Salvage {
  readonly #file: StoreFile;
  readonly #metas: readonly Meta[];
  readonly #roots: readonly ReadonlyMap<string, Tree>[];

  /** @throws Error of the file system */
  constructor(path: string) {
    this.#file = new StoreFile(path);
    const metas = this.#file.metas().filter((meta) => meta !== undefined);
    this.#metas = metas
      .sort((a, b) => b.transaction - a.transaction)
      .map((meta) => ({ ...meta, end: Math.min(meta.end, this.#pages) || 0 }));
    this.#roots = this.#metas.map((meta) => this.#rootsOf(meta));
  }

  /** False: no part of it is a store. */
  get hasAny(): boolean {
    return this.#roots.some((roots) => roots.size > 0);
  }

  /** Bytes that are in use, at most. */
  get bytes(): number {
    return Math.max(0, ...this.#metas.map(({ end }) => end * 4096));
  }

  /** Gives what can be read of a table. */
  table(table: Table, take: TakeRow): Salvaged {
    const readings = this.#metas.map((_, i) => this.#read(i, table, () => {}));
    const [newer, older] = readings;
    const best = (older?.rows ?? 0) > (newer?.rows ?? 0) && newer?.damage.length !== 0 ? 1 : 0;
    if (newer === undefined) return { rows: 0, of: undefined, damage: ['no roots'] };
    const { rows, of, damage } = this.#read(best, table, take);
    return { rows, of: newer.of ?? of, damage: best === 0 ? damage : newer.damage };
  }

  close(): void {
    this.#file.close();
  }

  get #pages(): number {
    return Math.floor(this.#file.bytes / 4096);
  }

  #read(index: number, table: Table, take: TakeRow): Salvaged {
    const meta = this.#metas[index];
    const tree = this.#roots[index]?.get(table);
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
        } else if (isSound(key, value)) {
          rows++;
          take(key, value.subarray(0, value.length - sumBytes));
        } else onDamage('a row has changed');
      },
    });
    return { rows, of: tree.entries, damage };
  }

  #rootsOf(meta: Meta): Map<string, Tree> {
    const roots = new Map<string, Tree>();
    this.#file.read({
      tree: meta.main,
      meta,
      used: new Uint8Array(meta.end),
      onDamage: () => {},
      take: (keys, keyAt, keyBytes, values, valueAt, valueBytes) => {
        if (valueBytes !== treeBytes) return;
        roots.set(tableName(keys.subarray(keyAt, keyAt + keyBytes)), treeAt(values, valueAt));
      },
    });
    return roots;
  }
}
