/** A store in memory: for tests, and as the model with which other engines are compared. */
import type { Change, Peeked, Range, Row, Snapshot, Store, Table } from './store.ts';

export class MemoryStore implements Store {
  readonly #tables = new Map<Table, Map<string, Buffer>>();

  has(table: Table, key: Uint8Array): boolean {
    return this.#table(table).has(text(key));
  }

  get(table: Table, key: Uint8Array): Buffer | undefined {
    return this.#table(table).get(text(key));
  }

  peek(table: Table, key: Uint8Array): Peeked | undefined {
    const bytes = this.get(table, key);
    return bytes && { bytes, length: bytes.length };
  }

  range(table: Table, range: Range): Row[] {
    const from = text(range.from);
    const to = text(range.to);
    return [...this.#table(table)]
      .filter(([key]) => (range.after ? key > from : key >= from) && key < to)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .slice(0, range.limit)
      .map(([key, value]) => ({ key: Buffer.from(key, 'latin1'), value }));
  }

  keys(table: Table, range: Range): Buffer[] {
    return this.range(table, range).map(({ key }) => key);
  }

  async commit(changes: readonly Change[]): Promise<void> {
    // As in a real engine, reads of this turn do not see a commit under way.
    await Promise.resolve();
    this.apply(changes);
  }

  /** At once. */
  apply(changes: readonly Change[]): void {
    for (const { table, key, value } of changes) {
      if (value === undefined) this.#table(table).delete(text(key));
      else this.#table(table).set(text(key), Buffer.from(value));
    }
  }

  snapshot(): Snapshot {
    const copy = new MemoryStore();
    for (const [name, rows] of this.#tables) copy.#tables.set(name, new Map(rows));
    return {
      has: (table, key) => copy.has(table, key),
      get: (table, key) => copy.get(table, key),
      peek: (table, key) => copy.peek(table, key),
      range: (table, range) => copy.range(table, range),
      keys: (table, range) => copy.keys(table, range),
      close: () => {},
    };
  }

  async close(): Promise<void> {}

  #table(name: Table): Map<string, Buffer> {
    let table = this.#tables.get(name);
    if (table === undefined) {
      table = new Map();
      this.#tables.set(name, table);
    }
    return table;
  }
}

// One character per byte: JavaScript then orders strings as the bytes.
function text(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}
