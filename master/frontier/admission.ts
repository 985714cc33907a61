/**
 * Creates crawls and adds URLs for operators and programs. It checks that the master is not
 * stopping, that the spec is valid, that there is room for one more crawl, and that its files can
 * be written. It looks up the hosts of seeds; until they are found, their crawl leases nothing.
 */
import { isDeepStrictEqual } from 'node:util';
import type { CrawlSpec } from '../../shared/crawl.ts';
import { CommandError, ConfigError } from '../../shared/errors.ts';
import { namedOutputs } from '../../shared/outputs.ts';
import type { Replies } from '../../shared/replies.ts';
import type { Requests } from '../../shared/requests.ts';
import { canonicalUrl } from '../../shared/url.ts';
import type { GroupCommit } from '../store/group-commit.ts';
import type { Change } from '../store/store.ts';
import { type EarlierUrl, type SeedVerdict, smallEntryBytes } from './commit/entry.ts';
import type { Pipeline } from './commit/pipeline.ts';
import type { ResultsPort } from './commit/results.ts';
import { seedHostChanges } from './commit/seed-changes.ts';
import type { Crawl } from './crawl/crawl.ts';
import type { Crawls } from './crawl/crawls.ts';
import { refuseVain } from './crawl/patterns.ts';
import type { FoundAddresses } from './crawl/seed-hosts.ts';
import { type PartialSpec, refuseOutsideFiles, wholeSpec } from './crawl/spec-change.ts';
import type { Dispatcher } from './dispatch/dispatcher.ts';
import type { FrontierEvents } from './frontier-events.ts';
import type { SeedNames } from './frontier-options.ts';
import type { LifeCycle } from './life-cycle.ts';
import type { SpecChanges } from './spec-changes.ts';

/** Seeds for a crawl; `spec` only for a new one, or one of which no seed was answered. */
export type Seeds = Omit<Requests['crawl.add'], 'verb' | 'id'> & {
  /** Of its sources of seeds: on record in the same commit. */
  readonly schedule?: Uint8Array | undefined;
};
/** URLs of an earlier crawl for a new one. */
export type Again = Omit<Requests['crawl.recrawl'], 'verb' | 'id'> & {
  /** Changes in the same commit, for a crawl with this number. */
  readonly also?: (crawl: number) => readonly Change[];
};

type AdmissionOptions = {
  readonly crawls: Crawls;
  readonly dispatcher: Dispatcher;
  readonly pipeline: Pipeline;
  readonly commits: GroupCommit;
  readonly results: Pick<ResultsPort, 'prepare'>;
  readonly seedNames: SeedNames;
  readonly specChanges: SpecChanges;
  readonly lifeCycle: LifeCycle;
  readonly events: FrontierEvents;
  /** For fields that a request lacks. */
  readonly spec: CrawlSpec;
};

const nothingFound: FoundAddresses = new Map();

export class Admission {
  readonly #options: AdmissionOptions;

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  /** Offers seeds to a crawl, which is created if it does not exist: they add their hosts to its
   *  scope and are fetched at depth 0.
   *  @throws CommandError E_DRAINING, E_BAD_REQUEST, E_LIMIT */
  async seed(seeds: Seeds): Promise<SeedVerdict> {
    const { crawl: name, seeds: urls, requests = [], spec, priority, schedule } = seeds;
    const whole = await this.#readiedSpec(name, this.#options.spec, spec);
    const { crawl, isNew } = this.#open(name, whole);
    if (isNew) {
      this.#options.events.crawlMade(crawl, urls);
      this.#options.lifeCycle.checkLogin(crawl);
    }
    const bodies = requests.reduce((sum, { body }) => sum + body.length, 0);
    const bytes = (urls.length + requests.length) * smallEntryBytes + bodies;
    const entry = { kind: 'seeds', crawl, bytes, urls, requests, priority, schedule } as const;
    const put = (found: FoundAddresses) =>
      new Promise<SeedVerdict>((done) => this.#options.pipeline.put({ ...entry, found, done }));
    const texts = [...urls, ...requests.map(({ url }) => url)];
    return await this.#withHosts(crawl, { texts, bytes }, put);
  }

  /** Offers URLs of an earlier crawl to one that is created, and paused, if it does not exist;
   *  those of depth 0 are its seeds.
   *  @throws CommandError E_DRAINING, E_BAD_REQUEST, E_LIMIT, E_NO_CRAWL */
  async recrawl({ crawl: name, like, spec, urls, also }: Again): Promise<Replies['crawl.recrawl']> {
    const { crawls, spec: defaults } = this.#options;
    const base = like === undefined ? defaults : single(crawls.named(like).spec);
    const { crawl, isNew } = this.#open(name, await this.#readiedSpec(name, base, spec, base));
    if (isNew) this.#begin(crawl, urls);
    const images = urls.reduce((sum, { page }) => sum + (page?.images.length ?? 0), 0);
    const bytes = urls.length * smallEntryBytes + images * 128;
    const texts = urls.filter(({ depth }) => depth === 0).map(({ url }) => url);
    const put = (found: FoundAddresses) =>
      new Promise<Replies['crawl.recrawl']>((done) =>
        this.#options.pipeline.put({ kind: 'again', crawl, bytes, urls, also, found, done }),
      );
    return await this.#withHosts(crawl, { texts, bytes }, put);
  }

  /** Looks up the hosts of seeds that are not settled: those of an older store, and names that
   *  could not be resolved when they were added. Until then nothing of their crawls is leased. */
  async resolveAll(): Promise<void> {
    const open = [...this.#options.crawls].filter(({ isOpen }) => isOpen);
    await Promise.all(open.map((crawl) => this.resolve(crawl)));
  }

  /** The same for one crawl. */
  async resolve(crawl: Crawl): Promise<void> {
    if (crawl.seedHosts.wanted(crawl.scope.seedUrls).size === 0) return;
    crawl.resolving(true);
    await this.#resolveSeedsOf(crawl);
  }

  async #resolveSeedsOf(crawl: Crawl): Promise<void> {
    const { id, scope, seedHosts } = crawl;
    const { crawls, commits, dispatcher, seedNames } = this.#options;
    const wanted = seedHosts.wanted(scope.seedUrls);
    const found = await seedNames.find(wanted);
    crawl.resolving(false);
    // It may have been cancelled since, and erased.
    if (crawl.state === 'cancelled') return;
    const changes = scope.seedUrls.flatMap((url) =>
      seedHostChanges(id, url, seedHosts.settle(url, found)),
    );
    if (changes.length > 0) void commits.written(changes);
    if (crawl.isOpen) this.#found(crawl, wanted, found);
    crawls.queues.wake(crawl);
    dispatcher.dispatchSoon();
  }

  /** Looks up the hosts of these seeds that are not settled, then puts what needs them. Until then
   *  the seeds count as offered. */
  async #withHosts<T>(
    crawl: Crawl,
    { texts, bytes }: { readonly texts: readonly string[]; readonly bytes: number },
    put: (found: FoundAddresses) => Promise<T>,
  ): Promise<T> {
    const { pipeline, seedNames } = this.#options;
    const urls = texts.map(canonicalUrl).filter((url) => url !== undefined);
    const wanted = crawl.seedHosts.wanted(urls);
    if (wanted.size === 0) return await put(nothingFound);
    const arrived = pipeline.expect(crawl, bytes);
    const found = await seedNames.find(wanted);
    arrived();
    this.#found(crawl, wanted, found);
    return await put(found);
  }

  #found(crawl: Crawl, wanted: ReadonlySet<string>, found: FoundAddresses): void {
    const { dispatcher, events } = this.#options;
    // Names that the end cuts off are looked up at the next start.
    if (dispatcher.isDraining) return;
    events.seedsFound(crawl, crawl.seedHosts.news(wanted, found));
  }

  #begin(crawl: Crawl, urls: readonly EarlierUrl[]): void {
    // Otherwise it could be done before the rest of its URLs arrives.
    crawl.moveTo('paused');
    this.#options.events.crawlMade(
      crawl,
      urls.map(({ url }) => url),
    );
    this.#options.lifeCycle.checkLogin(crawl);
  }

  #open(name: string, spec: CrawlSpec): { crawl: Crawl; isNew: boolean } {
    const { crawls } = this.#options;
    const isNew = !crawls.has(name);
    const crawl = crawls.open(name, spec);
    if (crawl.state !== 'cancelled') {
      crawls.refuseAgain(crawl);
      return { crawl, isNew };
    }
    const what =
      crawl.removal === undefined ? 'was cancelled; remove it, or use' : 'is being removed; use';
    throw new CommandError('E_BAD_REQUEST', `the crawl "${name}" ${what} another name`);
  }

  /** `kept`: the spec of an earlier crawl, whose patterns it may have. */
  async #readiedSpec(
    name: string,
    base: CrawlSpec,
    spec: PartialSpec,
    kept?: CrawlSpec,
  ): Promise<CrawlSpec> {
    const { crawls, dispatcher } = this.#options;
    if (dispatcher.isDraining) {
      throw new CommandError('E_DRAINING', 'the master is stopping; try again');
    }
    refuseOutsideFiles(spec);
    await this.#changeKnown(name, spec);
    const whole = wholeSpec(base, crawls.has(name) ? {} : spec, !crawls.has(name));
    if (!crawls.has(name)) {
      crawls.refuseOneMore(whole);
      refuseVain(whole, kept);
      await this.#prepare(name, whole);
      // Another request may have created it in the meantime.
      await this.#changeKnown(name, spec);
    }
    return whole;
  }

  /** A crawl of which no seed was answered is started anew, with these options; any other one keeps
   *  its own, which may be said again: a crawl file that has more seeds is added as it is.
   *  @throws CommandError E_BAD_REQUEST */
  async #changeKnown(name: string, spec: PartialSpec): Promise<void> {
    const { crawls, specChanges } = this.#options;
    if (spec === undefined || !crawls.has(name)) return;
    const crawl = crawls.named(name);
    if (isDeepStrictEqual(wholeSpec(crawl.spec, spec), crawl.spec)) return;
    if (!crawl.isUnanswered) {
      throw new CommandError(
        'E_BAD_REQUEST',
        `the crawl "${name}" exists already, and adding seeds changes no options; change them with ` +
          `\`set ${name}\``,
      );
    }
    await specChanges.change(crawl, spec);
  }

  async #prepare(name: string, { outputs = [], fetch }: CrawlSpec): Promise<void> {
    try {
      await this.#options.results.prepare?.(name, namedOutputs(outputs), fetch);
    } catch (error) {
      if (error instanceof ConfigError) throw new CommandError('E_BAD_REQUEST', error.message);
      throw error;
    }
  }
}

/** To crawl one of a series again begins no other series. */
function single({ everyMs: _, keep: __, ...spec }: CrawlSpec): CrawlSpec {
  return spec;
}
