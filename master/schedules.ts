/** Work that begins at its time while the master runs: sources of seeds that are asked again, and
 *  crawls that are repeated. */
import type { CrawlStatus } from '../shared/protocol.ts';
import type { ServeOptions } from './cli/serve-options.ts';
import type { EventStream } from './frontier/frontier-events.ts';
import { Repeats, type RepeatsOptions } from './repeats.ts';
import { SeedSchedule } from './seed-schedule.ts';

export class Schedules {
  readonly seeds: SeedSchedule;
  readonly #repeats: Repeats;

  constructor(options: RepeatsOptions) {
    this.seeds = new SeedSchedule(options);
    this.#repeats = new Repeats(options);
  }

  subscribe(events: EventStream): void {
    events.subscribe(this.seeds);
    events.subscribe(this.#repeats);
  }

  /** Some crawl will go on after its end, or be repeated. */
  get isPlanned(): boolean {
    return this.seeds.isPlanned || this.#repeats.isPlanned;
  }

  /** The crawl with this number in the list of crawls. */
  of(crawl: number): Pick<CrawlStatus, 'schedule' | 'repeats'> {
    const [schedule, repeats] = [this.seeds.of(crawl), this.#repeats.of(crawl)];
    return { ...(schedule && { schedule }), ...(repeats && { repeats }) };
  }

  /** Reads what is on record. Returns the options of a start, with the crawl that it goes on
   *  with. */
  restore<O extends ServeOptions>(options: O): O {
    return { ...options, crawl: this.#repeats.restore(options.crawl) };
  }

  /** The crawl of this start has its seeds. */
  async start(options: ServeOptions): Promise<void> {
    await this.seeds.start(options);
    await this.#repeats.start(options);
  }

  async close(): Promise<void> {
    await this.seeds.close();
    await this.#repeats.close();
  }
}
