/** The crawls of which the master has said how to fetch: its spec of each, with the identities and
 *  logins that the slave keeps for it. */
import { randomInt } from 'node:crypto';
import type { MasterClient } from '../shared/client.ts';
import { type FetchSpec, fetchSpecSchema } from '../shared/crawl.ts';
import { rarely } from '../shared/flags.ts';
import type { Push } from '../shared/protocol.ts';
import type { Fetcher } from './fetch/fetcher.ts';
import { Identities } from './fetch/identities.ts';
import type { Proxies } from './fetch/proxies.ts';
import type { SharedFolders } from './images/shared-folder.ts';
import { Logins } from './logins.ts';
import type { CrawlRules } from './rules/crawl-rules.ts';

export type KnownCrawl = {
  readonly spec: FetchSpec;
  readonly identities: Identities;
  /** Undefined: it needs no login. */
  readonly logins: Logins | undefined;
  /** Of an earlier session. */
  isStale: boolean;
};

type KnownCrawlsOptions = {
  readonly proxies: Proxies;
  readonly fetcher: Fetcher;
  readonly rules: CrawlRules;
  readonly folders: SharedFolders;
  readonly master: () => MasterClient | undefined;
};

export class KnownCrawls {
  readonly #options: KnownCrawlsOptions;
  readonly #byId = new Map<number, KnownCrawl>();

  constructor(options: KnownCrawlsOptions) {
    this.#options = options;
    options.folders.isWanted = (folder) => this.#wants(folder);
  }

  of(id: number): KnownCrawl | undefined {
    return this.#byId.get(id);
  }

  /** The first spec of a crawl, or another one: it is that of all tasks that are not begun. */
  learn(push: Extract<Push, { verb: 'crawl.spec' }>): void {
    const { crawl: id, round = 0, name = '' } = push;
    const { proxies, rules } = this.#options;
    const spec = fetchSpecSchema.parse(push.fetch, rarely);
    const known = this.#byId.get(id);
    const identities = new Identities(spec, proxies, randomInt(2 ** 16), known?.identities);
    const logins = this.#loginsOf(id, spec, round, known?.logins);
    this.#byId.set(id, { spec, identities, logins, isStale: false });
    this.#keepProxies();
    rules.learn(id, spec, name);
  }

  forget(id: number): void {
    this.#byId.delete(id);
    this.#options.rules.forget(id);
    this.#options.folders.crawlEnded();
    this.#keepProxies();
  }

  /** Another session begins. A crawl of which the whole last one said nothing has ended while the
   *  slave was away. */
  sessionBegins(): void {
    for (const [id, crawl] of this.#byId) {
      if (crawl.isStale) this.forget(id);
      crawl.isStale = true;
    }
  }

  #wants(folder: string): boolean {
    return [...this.#byId.values()].some(({ spec }) => spec.imagesTo === folder);
  }

  #keepProxies(): void {
    const urls = [...this.#byId.values()].flatMap(({ spec }) => spec.proxies);
    this.#options.proxies.keep(new Set(urls));
  }

  #loginsOf(crawl: number, { login }: FetchSpec, round: number, before?: Logins) {
    if (login === undefined) return undefined;
    const { fetcher, rules, master } = this.#options;
    const onFailed = (why: string) => master()?.notify('login.failed', { crawl, round, why });
    return new Logins({ login, round, onFailed, fetcher, rules }, before);
  }
}
