/**
 * The ledger of one crawl: what became of every URL that was ever admitted, by the kind of its
 * task. Each entry is made in the commit that moves the URL, so that in every record of the store
 *
 *     admitted = waiting + pages + redirects + others + failed + excluded + buried + dropped
 *
 * Nothing else counts tasks by kind; `status --ledger --verify` compares it with rows and lines.
 */
import { type LedgerRow, ledgerOutcomes } from '../../../shared/ledger.ts';
import type { CrawlStatus } from '../../../shared/protocol.ts';
import { kindNumbers } from '../../store/records.ts';

export type Outcome = (typeof ledgerOutcomes)[number];

/** In the order of their numbers on record; `replayed`: buried URLs that were tried again. */
const columns = ['admitted', ...ledgerOutcomes, 'replayed'] as const;
type Row = Record<(typeof columns)[number], number>;

export class Ledger {
  /** By the numbers of the kinds. */
  readonly #rows: Row[];

  /** `kept`: from the crawl's record, a list of numbers for each kind. */
  constructor(kept: readonly (readonly number[])[] = []) {
    this.#rows = kept.map((numbers) => rowOf(numbers));
  }

  admit(kind: number): void {
    this.#row(kind).admitted++;
  }

  end(kind: number, outcome: Outcome): void {
    this.#row(kind)[outcome]++;
  }

  /** A buried URL is about to be admitted again. */
  replay(kind: number): void {
    const row = this.#row(kind);
    row.admitted--;
    row.buried--;
    row.replayed++;
  }

  /** A task that ended as if it had never been. */
  forget(kind: number): void {
    this.#row(kind).admitted--;
  }

  /** All that waits is dropped. */
  drop(): void {
    for (const row of this.#rows) row.dropped += waitingOf(row);
  }

  /** Of each kind that the crawl had: `undefined` at the numbers of others. */
  get rows(): readonly LedgerRow[] {
    return Array.from(this.#rows, (row = rowOf([])) => ({ ...row, waiting: waitingOf(row) }));
  }

  /** Tasks of a kind that wait. */
  waitingOf(kind: number): number {
    const row = this.#rows[kind];
    return row === undefined ? 0 : waitingOf(row);
  }

  /** Tasks of a kind that wait, or were answered as they should be. */
  wantedOf(kind: number): number {
    return this.waitingOf(kind) + (this.#rows[kind]?.others ?? 0);
  }

  /** Tasks that wait, of all kinds. */
  get waiting(): number {
    return this.#rows.reduce((sum, row) => sum + waitingOf(row), 0);
  }

  /** For the crawl's record. */
  get kept(): number[][] {
    return Array.from(this.#rows, (row = rowOf([])) => columns.map((column) => row[column]));
  }

  #row(kind: number): Row {
    // Without a hole, so that all of them can be gone through.
    while (this.#rows.length <= kind) this.#rows.push(rowOf([]));
    return this.#rows[kind] ?? rowOf([]);
  }
}

function rowOf(numbers: readonly number[]): Row {
  return Object.fromEntries(columns.map((column, i) => [column, numbers[i] ?? 0])) as Row;
}

function waitingOf(row: Row): number {
  return row.admitted - ledgerOutcomes.reduce((sum, outcome) => sum + row[outcome], 0);
}

/** Its rows by the names of the kinds; those without a URL are left out. */
export function namedRows({ rows }: Ledger): NonNullable<CrawlStatus['ledger']> {
  const named = Object.entries(kindNumbers).flatMap(([kind, number]) => {
    const row = rows[number];
    return row === undefined || row.admitted === 0 ? [] : [[kind, row] as const];
  });
  return Object.fromEntries(named) as NonNullable<CrawlStatus['ledger']>;
}
