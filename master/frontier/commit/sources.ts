/**
 * The pages and sitemaps that first led to URLs. They are numbered within their crawl, and a task
 * keeps the number of the one that led to it. A row has some of one commit, so that a new URL costs
 * six bytes and its share of one URL. Rows stay as long as their crawl, because its buried
 * URLs may be tried again.
 */
import { afterPrefix, crawlKey, lastOfSource, sourceKey } from '../../store/records.ts';
import type { Change, Rows } from '../../store/store.ts';
import type { Task } from '../tasks/tasks.ts';
import type { Origin } from './entry.ts';

/** URLs in memory, by the last bits of their numbers: tasks of one commit follow each other. */
const cachedMax = 16_384;
/** URLs of a row: one of them is often wanted alone. */
const rowMax = 32;
const separator = '\n';

type Found = Pick<Task, 'from'> & { readonly queue: { readonly crawl: number } };

export class Sources {
  readonly #store: Pick<Rows, 'range'>;
  /** The sources in memory, by place: crawl, number, URL. */
  readonly #crawls = new Uint32Array(cachedMax);
  readonly #numbers = new Float64Array(cachedMax);
  readonly #urls = new Array<string | undefined>(cachedMax).fill(undefined);

  constructor(store: Pick<Rows, 'range'>) {
    this.#store = store;
  }

  /** Returns the URL of what led to a task; undefined: it is a seed. */
  urlOf({ queue: { crawl }, from }: Found): string | undefined {
    if (from === undefined) return undefined;
    const place = from % cachedMax;
    const isKept = this.#numbers[place] === from && this.#crawls[place] === crawl;
    return isKept ? this.#urls[place] : this.#read(crawl, from);
  }

  /** Reads and keeps the row that has a number. Undefined: there is none. */
  #read(crawl: number, number: number): string | undefined {
    const from = sourceKey(crawl, number);
    const to = afterPrefix(crawlKey(crawl));
    const [row] = this.#store.range('sources', { from, to, limit: 1 });
    if (row === undefined) return undefined;
    const urls = row.value.toString('latin1').split(separator);
    const first = lastOfSource(row.key) - urls.length + 1;
    for (let i = 0; i < urls.length; i++) {
      const place = (first + i) % cachedMax;
      this.#crawls[place] = crawl;
      this.#numbers[place] = first + i;
      this.#urls[place] = urls[i];
    }
    return urls[number - first];
  }
}

/** Gives out numbers. */
type Numbering = { readonly id: number; takeSource(): number };

/** Those of one commit. */
export class NewSources {
  readonly #crawl: Numbering;
  readonly #urls: string[] = [];
  #last: Origin | undefined;
  #number = 0;

  constructor(crawl: Numbering) {
    this.#crawl = crawl;
  }

  /** Returns the number under which a URL refers to what led to it; undefined: nobody knows. */
  numberOf(origin: Origin): number | undefined {
    if (origin === this.#last) return this.#number;
    if (origin.url === '') return undefined;
    this.#last = origin;
    this.#urls.push(origin.url);
    this.#number = this.#crawl.takeSource();
    return this.#number;
  }

  /** The origin that was asked about last, if it is of this URL. */
  lastOf(url: string): Origin | undefined {
    return this.#last?.url === url ? this.#last : undefined;
  }

  changes(): Change[] {
    const changes: Change[] = [];
    for (let begin = 0; begin < this.#urls.length; begin += rowMax) {
      const urls = this.#urls.slice(begin, begin + rowMax);
      const last = this.#number - this.#urls.length + begin + urls.length;
      const value = Buffer.from(urls.join(separator), 'latin1');
      changes.push({ table: 'sources', key: sourceKey(this.#crawl.id, last), value });
    }
    return changes;
  }
}
