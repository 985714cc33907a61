/**
 * slave.js as a helper of `check`, `try` and computed seeds: it knows rules, and fetches a page as
 * a crawl would. This side decides what it may ask: robots.txt first, then the page after the delay
 * of its host.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { blocksOfAddresses, blocksOfHost } from '../../shared/address.ts';
import { type CrawlSpec, productToken } from '../../shared/crawl.ts';
import { ConfigError } from '../../shared/errors.ts';
import type { FollowRule } from '../../shared/follow.ts';
import type { ItemRules } from '../../shared/items.ts';
import {
  type ArchivedAnswer,
  type ReplayedPage,
  type RuleProblem,
  type TrialPage,
  type TrialReply,
  type TrialRequest,
  type TrialSitemap,
  trialArgument,
} from '../../shared/rule-results.ts';
import { isLoopback } from '../../shared/url.ts';
import { robotsVerdict } from '../frontier/robots/access.ts';
import { parseRobots, type Robots } from '../frontier/robots/parser.ts';
import { SeedLookup } from '../machine/seed-lookup.ts';

/** The built slave, in the folder of master.js. */
const program = fileURLToPath(new URL('slave.js', import.meta.url));
const startMsMax = 20_000;
/** Between two requests to a host, if the crawl has no delay of its own. */
const betweenMs = 250;

type PageAsked = {
  readonly spec: CrawlSpec;
  readonly items: ItemRules;
  readonly follow?: readonly FollowRule[] | undefined;
  readonly jsonBytesMax: number;
  /** Texts of other types than those that rules read are read, too. */
  readonly anyText?: boolean;
  /** As in a browser, if the crawl renders. */
  readonly isRendered?: boolean;
};

type Reply<I extends TrialReply['is']> = Extract<TrialReply, { is: I }>;

export class Trial {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (reply: TrialReply | undefined) => void>();
  #id = 0;
  /** The origin that is asked now, its robots.txt, and the delay between two requests. */
  #origin = '';
  #robots: Robots | undefined;
  #delayMs = 0;
  /** Origins whose robots.txt was asked for, and what it says; undefined: it is ignored. */
  readonly #known = new Map<string, Robots | undefined>();

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.on('message', (reply: TrialReply) => this.#heard(reply));
    child.on('exit', () => {
      for (const settle of this.#waiting.values()) settle(undefined);
      this.#waiting.clear();
    });
  }

  /** slave.js stands beside master.js. */
  static get isThere(): boolean {
    return existsSync(program);
  }

  /** @throws ConfigError slave.js is missing, or does not start */
  static async start(): Promise<Trial> {
    if (!Trial.isThere) {
      throw new ConfigError(
        `rules are evaluated by ${program}, which is missing: copy slave.js to the folder of master.js`,
      );
    }
    const child = fork(program, [trialArgument], {
      execArgv: process.execArgv,
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    await new Promise<void>((resolve, reject) => {
      const fail = () => reject(new ConfigError(`${program} does not start; run it to see why`));
      const timer = setTimeout(fail, startMsMax);
      child.once('message', () => {
        clearTimeout(timer);
        resolve();
      });
      child.once('error', fail);
      child.once('exit', fail);
    });
    return new Trial(child);
  }

  /** Returns what is wrong with the expressions of rules. */
  async check(items: ItemRules, follow?: readonly FollowRule[]): Promise<readonly RuleProblem[]> {
    const { problems } = await this.#ask('checked', (id) => ({ do: 'check', id, items, follow }));
    return problems;
  }

  /** Fetches a page, politely, and evaluates the rules on it.
   *  @throws ConfigError robots.txt disallows it */
  async page(
    url: string,
    { spec, items, follow, jsonBytesMax, anyText = false, isRendered = false }: PageAsked,
  ): Promise<TrialPage> {
    const { fetch } = spec;
    const blocks = await this.#turn(url, spec);
    const { page } = await this.#ask('page', (id) => {
      const rules = { items, follow, jsonBytesMax };
      return { do: 'page', id, url, fetch, blocks, ...rules, anyText, isRendered };
    });
    return page;
  }

  /** Fetches a sitemap, as politely. @throws ConfigError robots.txt disallows it */
  async sitemap(url: string, spec: CrawlSpec): Promise<TrialSitemap> {
    const { fetch } = spec;
    const blocks = await this.#turn(url, spec);
    const { sitemap } = await this.#ask('sitemap', (id) => {
      return { do: 'sitemap', id, url, fetch, blocks };
    });
    return sitemap;
  }

  /** Has it know what `replay` evaluates. @throws ConfigError a rule is not valid */
  async learn(fetch: CrawlSpec['fetch']): Promise<void> {
    const { fault } = await this.#ask('learned', (id) => ({ do: 'learn', id, fetch }));
    if (fault !== undefined) throw new ConfigError(fault);
  }

  /** Shows what a crawl would make of an archived answer. Nothing is fetched. */
  async replay(answer: ArchivedAnswer): Promise<ReplayedPage> {
    const { page } = await this.#ask('replayed', (id) => ({ do: 'replay', id, ...answer }));
    return page;
  }

  /** Waits until a URL may be asked for. Returns the private blocks that it opens.
   *  @throws ConfigError robots.txt disallows it */
  async #turn(url: string, spec: CrawlSpec): Promise<readonly string[]> {
    const { origin, hostname } = new URL(url);
    const blocks = await privateBlocks(new URL(url), spec);
    const wasAsked = this.#known.has(origin);
    const robots = wasAsked ? this.#known.get(origin) : await this.#robotsOf(url, spec, blocks);
    this.#known.set(origin, robots);
    this.#origin = origin;
    this.#robots = robots;
    if (!this.#mayFetch(url)) {
      throw new ConfigError(
        `robots.txt of ${origin} disallows ${url}; give ignore-robots: true for a site that you own`,
      );
    }
    const usualMs = wasAsked && !isLoopback(hostname) ? betweenMs : 0;
    const delayMs = Math.max(
      Math.min(robots?.crawlDelayMs ?? 0, spec.crawlDelayMaxMs),
      spec.delayMs ?? usualMs,
    );
    this.#delayMs = Math.max(delayMs, isLoopback(hostname) ? 0 : betweenMs);
    if ((wasAsked || robots !== undefined) && delayMs > 0) await sleep(delayMs);
    return blocks;
  }

  /** Idempotent. */
  async close(): Promise<void> {
    const child = this.#child;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    if (child.connected) child.disconnect();
    const timer = setTimeout(() => child.kill('SIGKILL'), 2_000);
    await ended;
    clearTimeout(timer);
  }

  /** Fetches the robots.txt of the origin of a URL; undefined: the crawl ignores it.
   *  @throws ConfigError it cannot be read, and so forbids everything */
  async #robotsOf(
    url: string,
    { ignoreRobots, fetch }: CrawlSpec,
    blocks: readonly string[],
  ): Promise<Robots | undefined> {
    if (ignoreRobots) return undefined;
    const { origin, href } = new URL('/robots.txt', url);
    const { answer } = await this.#ask('robots', (id) => {
      return { do: 'robots', id, url: href, fetch, blocks };
    });
    const isAnswer = 'status' in answer;
    const { access } = robotsVerdict(isAnswer ? answer.status : (answer.kind as never));
    if (access === 'disallow') {
      const why = isAnswer ? `status ${answer.status}` : `${answer.kind}: ${answer.message}`;
      throw new ConfigError(
        `robots.txt of ${origin} cannot be read (${why}), so nothing may be fetched; ` +
          'try later, or give ignore-robots: true for a site that you own',
      );
    }
    const body = isAnswer && access === 'parse' ? answer.body : new Uint8Array(0);
    return parseRobots(body, productToken(fetch.userAgent));
  }

  #mayFetch(url: string): boolean {
    const { pathname, search } = new URL(url);
    return this.#robots?.allows(`${pathname}${search}`) ?? true;
  }

  #heard(said: TrialReply): void {
    if (said.is === 'turn') {
      // Another host has another robots.txt, and is tried by its own URL.
      const isHere = new URL(said.url).origin === this.#origin && this.#mayFetch(said.url);
      const reply: TrialRequest = { do: isHere ? 'go' : 'leave' };
      setTimeout(
        () => this.#child.connected && this.#child.send(reply),
        said.waits ? this.#delayMs : 0,
      );
    } else if (said.is !== 'ready') {
      this.#waiting.get(said.id)?.(said);
      this.#waiting.delete(said.id);
    }
  }

  #ask<I extends TrialReply['is']>(is: I, make: (id: number) => TrialRequest): Promise<Reply<I>> {
    const id = ++this.#id;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, (reply) => {
        if (reply?.is === is) resolve(reply as Reply<I>);
        else if (reply?.is === 'failed') reject(new ConfigError(reply.message));
        else reject(new ConfigError('slave.js ended before it answered'));
      });
      this.#child.send(make(id));
    });
  }
}

/** The private blocks where the host of the operator's URL is. */
async function privateBlocks(url: URL, { fetch }: CrawlSpec): Promise<readonly string[]> {
  if (fetch.proxies.length > 0) return [];
  const fixed = blocksOfHost(url.hostname);
  if (fixed !== undefined) return fixed;
  const lookup = new SeedLookup();
  const found = await lookup.find([url.hostname]);
  lookup.close();
  return blocksOfAddresses(found.get(url.hostname) ?? []) ?? [];
}
