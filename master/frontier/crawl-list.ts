/** The crawls of a frontier, to be read: for commands, status lines and slaves. */
import type { CrawlSpec } from '../../shared/crawl.ts';
import { type Environment, filledLogin } from '../../shared/login.ts';
import type { CrawlStatus, Push, TaskPush } from '../../shared/protocol.ts';
import type { Replies } from '../../shared/replies.ts';
import type { ArchivesPort } from './commit/archives.ts';
import type { Buried } from './commit/buried.ts';
import type { EarlierPages } from './commit/earlier-pages.ts';
import type { ResultsPort } from './commit/results.ts';
import type { CrawlView } from './crawl/crawl-view.ts';
import type { Crawls } from './crawl/crawls.ts';
import { isMet, nearest, needs, needsOf } from './crawl/needs.ts';
import type { Dispatcher } from './dispatch/dispatcher.ts';
import type { Lease } from './dispatch/leases.ts';
import { kindOf } from './kinds/kinds.ts';
import { hasRequest, type TaskRequests } from './tasks/task-requests.ts';

type CrawlListOptions = {
  readonly crawls: Crawls;
  readonly dispatcher: Dispatcher;
  readonly buried: Buried;
  readonly earlier: EarlierPages;
  readonly requests: TaskRequests;
  readonly archives: ArchivesPort | undefined;
  readonly results: Pick<ResultsPort, 'failingOf'>;
  /** Variables that the secrets of logins are read from. */
  readonly env: Environment;
};

export class CrawlList {
  readonly #options: CrawlListOptions;

  constructor(options: CrawlListOptions) {
    this.#options = options;
  }

  [Symbol.iterator](): IterableIterator<CrawlView> {
    return this.#options.crawls[Symbol.iterator]();
  }

  get size(): number {
    return this.#options.crawls.size;
  }

  /** True: some page may be handed out now or at a known time, without the end of a fetch. */
  get hasDue(): boolean {
    return this.#options.dispatcher.hasDue;
  }

  /** Removed crawls whose rows are being erased, with up to `namesMax` of their names. */
  removing(namesMax: number): { readonly count: number; readonly names: string[] } {
    const all = [...this.#options.crawls.removedNames];
    return { count: all.length, names: all.slice(0, namesMax) };
  }

  has(name: string): boolean {
    return this.#options.crawls.has(name);
  }

  /** @throws CommandError E_NO_CRAWL */
  named(name: string): CrawlView {
    return this.#options.crawls.named(name);
  }

  /** The crawl with that number; undefined: there is none, or it was removed. */
  byId(id: number): CrawlView | undefined {
    return this.#options.crawls.byId(id);
  }

  /** The crawl of a leased task; undefined for a crawl that was removed. */
  of({ task }: Pick<Lease, 'task'>): CrawlView | undefined {
    return this.#options.crawls.of(task);
  }

  /** @throws CommandError E_LIMIT, E_BAD_REQUEST: there can be no new crawl of this spec */
  refuseOneMore(spec: CrawlSpec): void {
    this.#options.crawls.refuseOneMore(spec);
  }

  /** Returns `limit` of a crawl's URLs that were given up, after `after`: see `Buried`.
   *  @throws CommandError E_NO_CRAWL, E_BAD_REQUEST */
  buried(name: string, after: Uint8Array | undefined, limit: number): Replies['crawl.buried'] {
    return this.#options.buried.list(this.#options.crawls.named(name), after, limit);
  }

  /** The state of a crawl's archive; undefined: it has none. */
  archiveOf(name: string): CrawlStatus['archive'] {
    const { archives, crawls } = this.#options;
    const crawl = crawls.named(name);
    if (archives === undefined || !crawl.isArchived) return undefined;
    const status = archives.statusOf(crawl);
    const isAble =
      !crawl.isRunning || isMet(needs.archive, nearest(needsOf(crawl.spec.fetch), crawls.server));
    if (isAble && crawl.spec.fetch.archive === undefined) return undefined;
    if (isAble) return status;
    return { ...status, waits: 'no slave that is connected can send bodies; update the slaves' };
  }

  /** The sinks of an open crawl that cannot write for now, and why. */
  failingOf(name: string): NonNullable<CrawlStatus['failing']> {
    const { results, crawls } = this.#options;
    const crawl = crawls.named(name);
    return crawl.isOpen ? (results.failingOf?.(crawl) ?? []) : [];
  }

  /** Counts of the images that a crawl keeps; undefined: it downloads none. */
  downloadsOf(name: string): CrawlStatus['downloads'] {
    const { crawls } = this.#options;
    const crawl = crawls.named(name);
    if (!crawl.images.areWanted) return undefined;
    const status = crawl.books.downloads ?? { stored: 0, bytes: 0 };
    const all = needsOf(crawl.spec.fetch);
    const able = nearest(all, crawls.server);
    if (!crawl.isRunning || isMet(all & (needs.images | needs.pixels), able)) return status;
    const waits = isMet(needs.images, able)
      ? 'no slave that is connected can decode them; run npm install sharp@0.35.5 in the folder of slave.js'
      : 'no slave that is connected can fetch images; update the slaves';
    return { ...status, waits };
  }

  /** Returns the message that precedes a slave's first task of a crawl. */
  specOf(id: number): Extract<Push, { verb: 'crawl.spec' }> | undefined {
    const crawl = this.#options.crawls.byId(id);
    if (crawl === undefined) return undefined;
    const { name, spec, login: state } = crawl;
    const { fetch } = spec;
    const push = { verb: 'crawl.spec', crawl: id, name } as const;
    if (fetch.login === undefined) return { ...push, fetch };
    // Its secrets are nowhere but on the way to a slave.
    const login = filledLogin(fetch.login, this.#options.env);
    return { ...push, fetch: { ...fetch, login }, round: state.round };
  }

  /** Returns a task as the message to a slave has it. */
  pushOf({ id, task, name, host, timing, room, train }: Lease): TaskPush {
    const { crawls, earlier, requests } = this.#options;
    const crawl = crawls.of(task);
    const push: TaskPush = {
      task: name,
      lease: id,
      crawl: task.queue.crawl,
      url: task.url,
      depth: task.depth,
      attempt: task.attempts + 1,
    };
    // No spread of objects here: each takes a microsecond.
    const { kind } = kindOf(task).pushed;
    if (kind !== undefined) push.kind = kind;
    if (timing === 'awaited') {
      push.timed = true;
      push.tellMs = host.group.tellMs;
    }
    if (train !== undefined) {
      const { leases, gapMs, atOnce } = train;
      push.train = { first: leases[0]?.id ?? id, gapMs, atOnce };
    }
    if (hasRequest(task)) push.request = requests.of(task);
    if (room.kind === 'trial') {
      push.trial = trialOf(room);
      if (host.breaker.isProved) push.late = true;
    }
    if (crawl === undefined) return push;
    if (crawl.counters.earlier > 0) Object.assign(push, earlier.validators(crawl, task));
    if (crawl.scope.isSeedHost(host.key)) push.open = true;
    const blocks = crawl.seedHosts.blocksOf(host.key);
    if (blocks.length > 0) push.private = blocks;
    if (push.attempt >= crawl.spec.attemptsMax) push.last = true;
    return push;
  }
}

function trialOf({ line }: Lease['room']): 'first' | 'again' {
  return line === 'fresh' ? 'first' : 'again';
}
