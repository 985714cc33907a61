/** The rows that a repair has saved and lost of each table, for its report. */
import { number } from '../machine/progress.ts';
import type { Table } from '../store/store.ts';

type Saved = {
  readonly saved: number;
  /** Infinite if all are lost, however many there were. */
  readonly lost: number;
  readonly isMixed: boolean;
};

export class SavedRows {
  readonly #rows = new Map<Table, Saved>();

  /** `of`: their original number; undefined: it is unknown. `isMixed`: they are those of the commit
   *  before. Again for the same table: more rows. */
  add(
    table: Table,
    saved: number,
    { of, isMixed = false }: { readonly of: number | undefined; readonly isMixed?: boolean },
  ): void {
    const before = this.#rows.get(table) ?? { saved: 0, lost: 0, isMixed: false };
    const lost = of === undefined ? Number.POSITIVE_INFINITY : Math.max(0, of - saved);
    this.#rows.set(table, {
      saved: before.saved + saved,
      lost: before.lost + lost,
      isMixed: before.isMixed || isMixed,
    });
  }

  /** As columns. */
  get lines(): string[] {
    const rows = [...this.#rows].map(([table, { saved, lost, isMixed }]) => {
      const count = Number.isFinite(lost) ? number(lost) : 'all of it';
      const more = isMixed ? ', and what the last commit changed' : '';
      return [table, number(saved), `${count}${more}`];
    });
    return [['table', 'saved', 'lost or dropped'], ...rows].map(
      ([table = '', saved = '', lost = '']) =>
        `  ${table.padEnd(8)}${saved.padStart(12)}  ${lost}`.trimEnd(),
    );
  }
}
