/**
 * One slave process: takes tasks from the master, fetches them in its slots, reports.
 *
 *     queued --slot free--> fetching --> reported --acknowledged--> forgotten
 *        |                      |            ^
 *        +-- cancelled ---------+            +-- sent again after a lost connection
 *
 * What was fetched is kept until the master has it on disk. What was not is dropped with the
 * connection, also in the middle of a fetch: the master gives it to somebody again, and a host must
 * not be asked by both.
 */
import { randomInt } from 'node:crypto';
import type { Joining } from '../shared/cli.ts';
import type { MasterClient } from '../shared/client.ts';
import { type FetchSpec, fetchSpecSchema } from '../shared/crawl.ts';
import { CommandError, messageOf } from '../shared/errors.ts';
import type { Logger } from '../shared/log.ts';
import {
  limits,
  type Push,
  type Replies,
  type Requests,
  type TaskPush,
} from '../shared/protocol.ts';
import { type FetchContext, PageFetcher } from './fetch/fetcher.ts';
import type { FailedOutcome, FetchOutcome, SitemapOutcome, Turn } from './fetch/outcome.ts';
import { Proxies } from './fetch/proxies.ts';
import type { RobotsOutcome } from './fetch/robots-file.ts';
import { partsOf } from './fetch/sitemap-body.ts';
import { Visitors } from './fetch/visitors.ts';
import { MasterLink } from './master-link.ts';

export type WorkerOptions = {
  readonly master: Joining;
  readonly name: string;
  readonly slots: number;
  readonly takes: 'all' | 'files';
  readonly joinTimeoutMs: number;
  readonly log: Logger;
};

/** What the master is told of one task; kept until it is acknowledged. */
type Statement =
  | { readonly verb: 'task.report'; readonly body: Omit<Requests['task.report'], 'verb' | 'id'> }
  | { readonly verb: 'task.robots'; readonly body: Omit<Requests['task.robots'], 'verb' | 'id'> }
  | { readonly verb: 'task.sitemap'; readonly body: Omit<Requests['task.sitemap'], 'verb' | 'id'> }
  | { readonly verb: 'task.release'; readonly body: Omit<Requests['task.release'], 'verb' | 'id'> };

/** Runs one of the fetcher's ways as the next visitor of the crawl. */
type ByVisitor = <O extends { readonly ok: true } | FailedOutcome>(
  fetch: (
    this: PageFetcher,
    url: string,
    spec: FetchSpec,
    signal: AbortSignal,
    context: FetchContext,
  ) => Promise<O>,
) => Promise<O | FailedOutcome>;

/** Bytes of unacknowledged reports above which no fetch is begun. */
const unackedBytesMax = 64 << 20;
/** URLs, or images, of one part of a sitemap: a part of what a commit of the master's gathers. */
const sitemapPartBytes = 128 << 10;
/** A report may wait this long for others, so that they leave in one write. */
const reportWithinMs = 5;
/** How long a drain waits for what is being fetched. */
const drainMs = 35_000;

export class Worker {
  readonly #options: WorkerOptions;
  readonly #link: MasterLink;
  readonly #fetcher: PageFetcher;
  readonly #proxies: Proxies;
  /** What the master has told of crawls. `isStale`: not in this session yet. */
  readonly #crawls = new Map<number, { spec: FetchSpec; visitors: Visitors; isStale: boolean }>();
  #queued: TaskPush[] = [];
  readonly #fetching = new Map<TaskPush, AbortController>();
  /** A controller serves fetch after fetch until it has aborted one: they are slow to make. */
  readonly #spareAborts: AbortController[] = [];
  readonly #unacked = new Set<Statement>();
  #unackedBytes = 0;
  #state: 'working' | 'draining' | 'stopped' = 'working';
  #onIdle: () => void = () => {};
  #extender: NodeJS.Timeout | undefined;

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#fetcher = new PageFetcher({ connections: options.slots });
    this.#proxies = new Proxies(({ name }, reason, ms) => {
      options.log.warn({ proxy: name, forS: Math.round(ms / 1000) }, `proxy set aside: ${reason}`);
    });
    this.#link = new MasterLink(options, {
      onJoined: (master) => this.#joined(master),
      onPush: (push) => this.#take(push),
      onLost: () => this.#stop(),
    });
  }

  /** Works until `drain`, or until the master says that all is done.
   *  @throws AuthError · ConfigError */
  async run(): Promise<void> {
    try {
      await this.#link.run();
    } finally {
      this.#state = 'stopped';
      clearInterval(this.#extender);
      await this.#fetcher.close();
    }
  }

  /** Takes no more tasks, gives the queued ones back, finishes what is being fetched, leaves.
   *  Idempotent. */
  async drain(): Promise<void> {
    if (this.#state !== 'working') return;
    this.#state = 'draining';
    if (this.#fetching.size > 0) {
      this.#options.log.info(
        { fetching: this.#fetching.size },
        'leaving when what is being fetched is done; a second signal ends at once',
      );
    }
    const { master } = this.#link;
    master?.notify('task.credit', { count: 0, slots: 0 });
    for (const { task, lease } of this.#queued) {
      master?.request('task.release', { task, lease }).catch(() => {});
    }
    this.#queued = [];
    await this.#idle();
    await this.#link.close();
  }

  #joined(master: MasterClient): void {
    if (this.#state !== 'working') return;
    for (const statement of this.#unacked) this.#send(master, statement);
    // A crawl of which a whole session said nothing ended while we were away.
    for (const [id, crawl] of this.#crawls) {
      if (crawl.isStale) this.#crawls.delete(id);
      crawl.isStale = true;
    }
    // As many again as there are slots, so that a slot never waits for the network.
    const { slots, takes } = this.#options;
    clearInterval(this.#extender);
    this.#extender = setInterval(() => this.#extend(), master.hello.leaseMs / 4);
    const count = Math.min(slots * 2, limits.creditMax);
    master.notify('task.credit', { count, slots, takes });
  }

  #take(push: Push): void {
    switch (push.verb) {
      case 'crawl.spec':
        this.#learn(push.crawl, fetchSpecSchema.parse(push.fetch));
        return;
      case 'crawl.ended':
        this.#crawls.delete(push.crawl);
        return;
      case 'task.push':
        if (this.#state === 'working') this.#queued.push(...push.tasks);
        this.#fill();
        return;
      case 'task.cancel':
        this.#cancel(new Set(push.leases));
        return;
      case 'drain':
        void this.drain();
        return;
      case 'ping':
      case 'error': // the connection ends by it
        return;
      default:
        push satisfies never; // a newer master may say more
    }
  }

  #learn(id: number, spec: FetchSpec): void {
    const visitors =
      this.#crawls.get(id)?.visitors ?? new Visitors(spec, this.#proxies, randomInt(2 ** 16));
    this.#crawls.set(id, { spec, visitors, isStale: false });
  }

  #fill(): void {
    while (
      this.#fetching.size < this.#options.slots &&
      this.#unackedBytes < unackedBytesMax &&
      this.#state === 'working'
    ) {
      const task = this.#queued.shift();
      if (task === undefined) break;
      void this.#work(task);
    }
    if (this.#fetching.size === 0 && this.#unacked.size === 0) this.#onIdle();
  }

  async #work(task: TaskPush): Promise<void> {
    const crawl = this.#crawls.get(task.crawl);
    if (crawl === undefined) return; // the master tells it before the first task
    const abort = this.#spareAborts.pop() ?? new AbortController();
    this.#fetching.set(task, abort);
    const { signal } = abort;
    const { lease, open, etag, lastModified, validatedUrl } = task;
    const validators = etag || lastModified ? { etag, lastModified } : undefined;
    let isTimed = task.timed === true;
    const onStart = () => {
      if (isTimed) this.#link.master?.notify('task.started', { lease });
    };
    const follow = async (url: string): Promise<Turn> => {
      const { state, timed = false } = await this.#askTurn(lease, url);
      if (state === 'lost') abort.abort();
      isTimed = timed;
      return state === 'go' || state === 'later' ? state : 'leave';
    };
    try {
      const { spec, visitors } = crawl;
      await this.#do(task, (fetch) =>
        visitors.through((visitor) => {
          const context = { ...visitor, open, validators, validatedUrl, onStart, follow };
          return fetch.call(this.#fetcher, task.url, spec, signal, context);
        }, signal),
      );
    } catch (error) {
      if (!abort.signal.aborted) {
        this.#options.log.error({ url: task.url }, `fetch: ${messageOf(error)}`);
        this.#conclude(task, { ok: false, error: { kind: 'protocol', message: 'internal error' } });
      }
    } finally {
      this.#fetching.delete(task);
      if (!abort.signal.aborted) this.#spareAborts.push(abort);
      this.#fill();
    }
  }

  /** Asks whether a redirect may be followed; answered when it is its turn. */
  async #askTurn(lease: number, url: string): Promise<Replies['task.hop']> {
    try {
      return (await this.#link.master?.request('task.hop', { lease, url })) ?? { state: 'lost' };
    } catch (error) {
      if (error instanceof CommandError) throw error;
      return { state: 'lost' };
    }
  }

  async #do(task: TaskPush, by: ByVisitor): Promise<void> {
    const { fetch, fetchRobots, fetchSitemap } = this.#fetcher;
    switch (task.kind) {
      case undefined:
        return this.#conclude(task, await by(fetch));
      case 'robots':
        return this.#concludeRobots(task, await by(fetchRobots));
      case 'sitemap':
        return this.#concludeSitemap(task, await by(fetchSitemap));
      default: {
        task.kind satisfies never; // a newer master may say more
        const error = { kind: 'protocol', message: 'not known to this slave' } as const;
        this.#giveBack(task, { ok: false, error });
      }
    }
  }

  #conclude(task: TaskPush, outcome: FetchOutcome): void {
    const { task: id, lease } = task;
    if (outcome.ok) {
      const { result, images, links } = outcome;
      this.#tell({ verb: 'task.report', body: { task: id, lease, result, images, links } });
      return;
    }
    this.#giveBack(task, outcome);
  }

  #giveBack({ task, lease }: TaskPush, failed: FailedOutcome): void {
    const { error, retryAfterMs, isPutOff } = failed;
    const why = isPutOff ? {} : { error, ...(retryAfterMs ? { retryAfterMs } : {}) };
    const body = { task, lease, ...why };
    this.#tell({ verb: 'task.release', body });
  }

  /** In parts, so that no commit of the master's takes long; until the last one is there the task
   *  is open, and whoever fetches it again says the same. */
  #concludeSitemap(task: TaskPush, outcome: SitemapOutcome): void {
    if (!outcome.ok) {
      this.#giveBack(task, outcome);
      return;
    }
    const { result, sitemap } = outcome;
    const { kind, urls, images } = sitemap;
    const parts = partsOf(sitemap, sitemapPartBytes);
    for (const [i, part] of parts.entries()) {
      const end = { result, urls: urls.length, images: images.length };
      const isLast = i === parts.length - 1;
      const body = { task: task.task, lease: task.lease, kind, ...part, ...(isLast && { end }) };
      this.#tell({ verb: 'task.sitemap', body });
    }
  }

  #concludeRobots(push: TaskPush, outcome: RobotsOutcome): void {
    const { task, lease } = push;
    if (outcome.ok) {
      const { ok: _, ...file } = outcome;
      this.#tell({ verb: 'task.robots', body: { task, lease, ...file } });
    } else {
      this.#giveBack(push, outcome);
    }
  }

  #tell(statement: Statement): void {
    this.#unacked.add(statement);
    this.#unackedBytes += sizeOf(statement);
    const { master } = this.#link;
    if (master !== undefined) this.#send(master, statement);
  }

  #send(master: MasterClient, statement: Statement): void {
    // The verb and the body of a statement belong together, which TypeScript cannot see of a union.
    const { verb, body } = statement as Extract<Statement, { verb: 'task.report' }>;
    master.request(verb, body, reportWithinMs).then(
      () => this.#forget(statement),
      (error: unknown) => {
        // Without an answer it is sent again when the master is back.
        if (!(error instanceof CommandError)) return;
        this.#options.log.warn(`the master refused a ${statement.verb}: ${error.message}`);
        this.#forget(statement);
        if (statement.verb === 'task.release') return;
        const { task, lease } = statement.body;
        const why = { kind: 'protocol' as const, message: error.message.slice(0, 512) };
        this.#tell({ verb: 'task.release', body: { task, lease, error: why } });
      },
    );
  }

  #forget(statement: Statement): void {
    if (!this.#unacked.delete(statement)) return;
    this.#unackedBytes -= sizeOf(statement);
    this.#fill();
  }

  #cancel(leases: ReadonlySet<number>): void {
    this.#queued = this.#queued.filter(({ lease }) => !leases.has(lease));
    for (const [{ lease }, abort] of this.#fetching) if (leases.has(lease)) abort.abort();
  }

  /** The master is gone, and with it all leases. */
  #stop(): void {
    this.#queued = [];
    for (const abort of this.#fetching.values()) abort.abort();
  }

  /** Asks for more time for everything that is still to be done. */
  #extend(): void {
    const leases = [...this.#queued, ...this.#fetching.keys()].map(({ lease }) => lease);
    if (leases.length === 0) return;
    this.#link.master?.request('task.extend', { leases }).then(
      ({ lost }) => this.#cancel(new Set(lost)),
      () => {},
    );
  }

  /** Resolves when nothing is fetched or unacknowledged, or after the drain's limit. */
  #idle(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, drainMs);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
      this.#fill();
    });
  }
}

function sizeOf(statement: Statement): number {
  if (statement.verb === 'task.release') return 256;
  if (statement.verb === 'task.robots') return statement.body.body.length + 256;
  if (statement.verb === 'task.sitemap')
    return statement.body.urls.length + statement.body.images.length + 512;
  const { links, images } = statement.body;
  let bytes = links.length + images.length * 128 + 512;
  for (const { src, alt } of images) bytes += src.length + (alt?.length ?? 0);
  return bytes;
}
