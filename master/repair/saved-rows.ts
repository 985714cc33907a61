/** What a repair has saved and lost of each table, for its report. */
import { number } from '../machine/progress.ts';
import type { Table } from '../store/store.ts';

export class SavedRows {
  /** `lost`: infinite if all are lost, however many there were. */
  readonly #rows = new Map<Table, { readonly saved: number; readonly lost: number }>();

  /** `of`: their original number; undefined: it is unknown. Again for the same table: more rows. */
  add(table: Table, saved: number, of: number | undefined): void {
    const before = this.#rows.get(table) ?? { saved: 0, lost: 0 };
    const lost = of === undefined ? Number.POSITIVE_INFINITY : Math.max(0, of - saved);
    this.#rows.set(table, { saved: before.saved + saved, lost: before.lost + lost });
  }

  /** As columns. */
  get lines(): string[] {
    const rows = [...this.#rows].map(([table, { saved, lost }]) => {
      return [table, number(saved), Number.isFinite(lost) ? number(lost) : 'all of it'];
    });
    return [['table', 'saved', 'lost or dropped'], ...rows].map(
      ([table = '', saved = '', lost = '']) =>
        `  ${table.padEnd(8)}${saved.padStart(12)}  ${lost}`.trimEnd(),
    );
  }
}
