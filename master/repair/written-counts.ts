/**
 * Counts what a crawl has found by its lines: for a repair whose record of the crawl is of another
 * moment than its other rows.
 */
import type { WrittenLine } from '../frontier/kinds/kind.ts';
import type { Lengths } from '../sinks/files.ts';
import { type LineOutcome, outcomeOf } from '../sinks/line-outcome.ts';
import { type BuriedRecord, type CrawlRecord, commitOf, decodeBuried } from '../store/records.ts';
import type { Salvage } from './salvage.ts';
import { readUnwritten, readWritten, type Written } from './written.ts';

type Counters = CrawlRecord['counters'];

/** `lengths`: how much of its files counts; undefined: all of it. `commit`: they have the results up
 *  to this one. */
export function countedAnew(
  record: CrawlRecord,
  salvage: Salvage,
  written: {
    readonly folder: string;
    readonly lengths: Lengths | undefined;
    readonly commit: number;
    readonly format: number;
    /** A task of it waits. */
    readonly waits: boolean;
  },
): CrawlRecord {
  const { folder, lengths, commit, format, waits } = written;
  const counts = new WrittenCounts();
  const isOurs = (key: Buffer) => key.readUInt32BE(0) === record.id;
  salvage.table('results', (key, value) => {
    if (isOurs(key) && commitOf(key) > commit) readUnwritten(value, format, counts);
  });
  salvage.table('buried', (key, value) => {
    if (isOurs(key)) counts.bury(decodeBuried(Buffer.from(value)));
  });
  readWritten(folder, counts, lengths);
  const state = waits && record.state === 'finished' ? 'running' : record.state;
  return { ...record, state, counters: { ...record.counters, ...counts.counters } };
}

class WrittenCounts implements Written {
  readonly #ended = new Map<LineOutcome, number>();
  readonly #errors: Counters['errors'] = {};
  readonly #statuses: Counters['statuses'] = {};
  #images = 0;
  #buried = 0;

  readonly onLine = (line: WrittenLine): void => {
    if (line['skipped'] !== undefined) return;
    const outcome = outcomeOf(line);
    this.#ended.set(outcome, this.#of(outcome) + 1);
    if (outcome !== 'failed') return;
    const { kind } = line['error'] as Pick<BuriedRecord, 'kind'>;
    this.#fail(kind, Number(line['status'] ?? 0));
  };

  readonly onPicture = this.onLine;

  readonly onImage = (): void => {
    this.#images++;
  };

  /** It was given up: its line may be of an earlier time that it was. */
  bury({ kind, message }: BuriedRecord): void {
    this.#buried++;
    this.#fail(kind, Number.parseInt(message, 10) || 0);
  }

  /** In the place of those on record. */
  get counters(): Partial<Counters> {
    return {
      pages: this.#of('pages'),
      images: this.#images,
      others: this.#of('others') + this.#of('redirects'),
      excluded: this.#of('excluded'),
      failed: this.#of('failed') + this.#buried,
      errors: this.#errors,
      statuses: this.#statuses,
    };
  }

  #of(outcome: LineOutcome): number {
    return this.#ended.get(outcome) ?? 0;
  }

  #fail(kind: BuriedRecord['kind'], status: number): void {
    this.#errors[kind] = (this.#errors[kind] ?? 0) + 1;
    if (kind === 'status' && status > 0) {
      this.#statuses[status] = (this.#statuses[status] ?? 0) + 1;
    }
  }
}
