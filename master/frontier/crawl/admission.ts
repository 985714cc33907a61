/**
 * Creates crawls and adds URLs for operators and programs. It checks that the master is not
 * stopping, that the spec is valid, that there is room for one more crawl, and that its files can
 * be written. Both dialects call it.
 */
import { type CrawlSpec, crawlSpecSchema } from '../../../shared/crawl.ts';
import { CommandError, ConfigError } from '../../../shared/errors.ts';
import type { Replies } from '../../../shared/protocol.ts';
import type { Requests } from '../../../shared/requests.ts';
import type { EarlierUrl, SeedVerdict } from '../commit/entry.ts';
import type { Crawls } from './crawls.ts';

type PartialSpec = Requests['crawl.add']['spec'];
/** Seeds for a crawl; `spec` only for a new one. */
type Seeds = Omit<Requests['crawl.add'], 'verb' | 'id'>;

/** The part of the frontier that creates crawls and adds URLs. */
type Door = {
  readonly crawls: Crawls;
  seed(
    name: string,
    spec: CrawlSpec,
    urls: readonly string[],
    priority: number,
  ): Promise<SeedVerdict>;
  again(
    name: string,
    spec: CrawlSpec,
    urls: readonly EarlierUrl[],
  ): Promise<Replies['crawl.recrawl']>;
};

type AdmissionPorts = {
  readonly frontier: Door;
  /** Makes the files of a new crawl. @throws ConfigError */
  readonly files: { prepare(crawl: string): Promise<void> };
  readonly isDraining: () => boolean;
};

export class Admission {
  readonly #ports: AdmissionPorts;
  readonly #defaults: CrawlSpec;

  /** `defaults`: the master's own options, for fields missing in a request. */
  constructor(ports: AdmissionPorts, defaults: CrawlSpec) {
    this.#ports = ports;
    this.#defaults = defaults;
  }

  /** Errors: CommandError E_DRAINING, E_BAD_REQUEST, E_LIMIT. */
  async addSeeds({ crawl: name, seeds, spec, priority }: Seeds): Promise<SeedVerdict> {
    const whole = await this.#readiedSpec(name, this.#defaults, spec);
    return await this.#ports.frontier.seed(name, whole, seeds, priority);
  }

  /** Errors: CommandError E_DRAINING, E_BAD_REQUEST, E_LIMIT, E_NO_CRAWL. */
  async recrawl({
    crawl: name,
    like,
    spec,
    urls,
  }: Requests['crawl.recrawl']): Promise<Replies['crawl.recrawl']> {
    const base = like === undefined ? this.#defaults : this.#ports.frontier.crawls.named(like).spec;
    const whole = await this.#readiedSpec(name, base, spec);
    return await this.#ports.frontier.again(name, whole, urls);
  }

  async #readiedSpec(name: string, base: CrawlSpec, spec: PartialSpec): Promise<CrawlSpec> {
    const { frontier, isDraining } = this.#ports;
    if (isDraining()) throw new CommandError('E_DRAINING', 'the master is stopping; try again');
    this.#refuseSpecOfKnown(name, spec);
    const whole = wholeSpec(base, spec);
    if (!frontier.crawls.has(name)) {
      frontier.crawls.refuseOneMore(whole);
      await this.#prepare(name);
      // Another request may have created it in the meantime.
      this.#refuseSpecOfKnown(name, spec);
    }
    return whole;
  }

  #refuseSpecOfKnown(name: string, spec: PartialSpec): void {
    if (spec === undefined || !this.#ports.frontier.crawls.has(name)) return;
    throw new CommandError(
      'E_BAD_REQUEST',
      `the crawl "${name}" exists already: its options cannot change; you can only add seeds`,
    );
  }

  async #prepare(name: string): Promise<void> {
    try {
      await this.#ports.files.prepare(name);
    } catch (error) {
      if (error instanceof ConfigError) throw new CommandError('E_BAD_REQUEST', error.message);
      throw error;
    }
  }
}

function wholeSpec(defaults: CrawlSpec, part: PartialSpec): CrawlSpec {
  const inner = (name: 'fetch' | 'traps') => {
    const given = part?.[name];
    return typeof given === 'object' ? { ...defaults[name], ...given } : (given ?? defaults[name]);
  };
  const parsed = crawlSpecSchema.safeParse({
    ...defaults,
    ...part,
    fetch: inner('fetch'),
    traps: inner('traps'),
  });
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new CommandError('E_BAD_REQUEST', `spec: ${issue?.path.join('.')} ${issue?.message}`);
}
