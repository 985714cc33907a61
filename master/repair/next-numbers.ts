/** The first numbers of a crawl that no row has: for repair, whose record of it may be older. */
import { type CrawlRecord, commitOf, decodeCursor, parseCursorKey } from '../store/records.ts';
import { sectionsOf } from '../store/result-rows.ts';

type Next = { seq: number; commit: number; source: number; record: number };

export class NextNumbers {
  readonly #next = new Map<number, Next>();

  of(crawl: number): Next {
    let next = this.#next.get(crawl);
    if (next === undefined) {
      next = { seq: 1, commit: 1, source: 1, record: 1 };
      this.#next.set(crawl, next);
    }
    return next;
  }

  /** A row of `results`. */
  result(key: Buffer, value: Buffer, format: number): void {
    const next = this.of(key.readUInt32BE(0));
    next.commit = commitOf(key) + 1;
    if (format < 3) return; // records have numbers since
    const last = sectionsOf(value).at(-1);
    if (last !== undefined) next.record = Math.max(next.record, last.seq + last.count);
  }

  /** A row of `meta`: a database has the numbers up to its mark. */
  cursor(key: Buffer, value: Buffer): void {
    const cursor = parseCursorKey(key);
    if (cursor === undefined) return;
    const { commit, mark } = decodeCursor(value);
    const next = this.of(cursor.crawl);
    next.commit = Math.max(next.commit, commit + 1);
    const { seq } = (mark ?? {}) as { readonly seq?: unknown };
    if (typeof seq === 'number') next.record = Math.max(next.record, seq + 1);
  }

  /** Those of the record, where they are higher. */
  after(record: CrawlRecord): Pick<CrawlRecord, 'nextSeq' | 'nextCommit' | 'nextRecord'> & {
    readonly nextSource: number;
  } {
    const { seq, commit, source, record: last } = this.of(record.id);
    return {
      nextSeq: Math.max(record.nextSeq, seq),
      nextCommit: Math.max(record.nextCommit, commit),
      nextRecord: Math.max(record.nextRecord ?? 1, last),
      nextSource: Math.max(record.nextSource ?? 1, source),
    };
  }
}
