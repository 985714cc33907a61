/** Sizes of the tables of a store, by the records of their trees. */
import { current, StoreFile, tableName, treeBytes } from '../../master/repair/pages.ts';

const pageBytes = 4096;

export type TableSize = { readonly rows: number; readonly bytes: number };

/** Returns the size of each table of a stopped store. Source: liblmdb/mdb.c (MDB_db). */
export function tablesOf(path: string): Map<string, TableSize> {
  const file = new StoreFile(path);
  try {
    const [a, b] = file.metas();
    if (a === undefined || b === undefined) throw new Error(`no store: ${path}`);
    const meta = current(a, b);
    const sizes = new Map<string, TableSize>();
    file.read({
      tree: meta.main,
      meta,
      used: new Uint8Array(meta.end),
      onDamage: (what) => {
        throw new Error(what);
      },
      take: (keys, keyAt, keyBytes, values, valueAt, valueBytes) => {
        if (valueBytes !== treeBytes) return;
        // Branches, leaves, overflow pages.
        const pages = [8, 16, 24].map((at) => Number(values.readBigUInt64LE(valueAt + at)));
        const bytes = pages.reduce((sum, count) => sum + count, 0) * pageBytes;
        const rows = Number(values.readBigUInt64LE(valueAt + 32));
        sizes.set(tableName(keys.subarray(keyAt, keyAt + keyBytes)), { rows, bytes });
      },
    });
    return sizes;
  } finally {
    file.close();
  }
}
