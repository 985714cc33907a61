/**
 * The three queues of the crawls, as Python sees them: `task_queue.get()` leases a page,
 * `filter_queue.put(url)` offers a link, `result_queue.put(src)` reports an image. `crawl-worker`
 * says when a page counts as done. A value that is put belongs to the page that it names, else to
 * the page that its connection got last, else to the page of the only other connection of its
 * process that has pages (one thread gets, others put). Without a page it is offered to the crawl
 * alone.
 *
 * `empty()` of the task queue predicts the next `get`: False when a page is kept for this
 * connection, which its next `get` returns; True when the crawls are done, or when the program has
 * pages in hand that it has not worked on and no other page is available. As long as others may
 * still find pages it waits, `lookMs` at most, so that a loop on it neither ends early nor spins
 * nor meets `queue.Empty`.
 */
import { addressOfPeer } from '../../shared/address.ts';
import type { CrawlSpec } from '../../shared/crawl.ts';
import { limits } from '../../shared/protocol.ts';
import type { Image } from '../../shared/requests.ts';
import { canonicalUrl } from '../../shared/url.ts';
import type { CrawlView } from '../frontier/crawl/crawl-view.ts';
import type { Frontier } from '../frontier/frontier.ts';
import { bind, type Parameter, type PyRequest, waitMsOf } from './arguments.ts';
import { CrawlWorker, type Outcome, type PageInHand } from './crawl-worker.ts';
import { decodeItem } from './pickle/item.ts';
import { PyPickled, type PyValue } from './pickle/values.ts';
import type { ManagedPorts, PutPolicy } from './ports.ts';
import type { Answer, Caller, Method, Proxied } from './proxied.ts';
import { PutBatcher } from './put-batcher.ts';
import { type PutItems, roomForItems } from './put-items.ts';
import { type PutValue, readPuts } from './put-values.ts';
import { emptyError, runtimeError, typeError, valueError } from './replies.ts';

const names = ['task_queue', 'filter_queue', 'result_queue'] as const;
type CrawlQueueName = (typeof names)[number];

export function isCrawlQueue(name: string): name is CrawlQueueName {
  return (names as readonly string[]).includes(name);
}

export type CrawlQueuesOptions = {
  readonly puts: PutPolicy;
  /** The crawl for seeds and for links without a page, and its spec. */
  readonly crawl: string;
  readonly spec: CrawlSpec;
  /** Memory limit of a value that is put, in bytes. */
  readonly builtBytesMax: number;
};

type Origin = {
  readonly worker?: CrawlWorker | undefined;
  readonly page?: PageInHand | undefined;
  readonly helps?: CrawlWorker;
};

/** Python's name for the process that was started by hand. */
const mainProcess = 'MainProcess';
/** Longest wait of `empty()`. */
const lookMs = 10_000;
const tickMs = 100;
const stuckMsMin = 500;

const waitParameters = [
  ['block', true],
  ['timeout', null],
] as const;
const putParameters: readonly Parameter[] = [['obj'], ...waitParameters];

export class CrawlQueues {
  readonly #ports: ManagedPorts;
  readonly #options: CrawlQueuesOptions;
  readonly #areKin: (a: Caller, b: Caller) => boolean;
  readonly #workers = new Map<Caller, CrawlWorker>();
  readonly #batcher = new PutBatcher((links) => void this.#offer(undefined, links, []));
  /** Runs while there are workers: an idle master has few timers. */
  #ticker: NodeJS.Timeout | undefined;

  /** `areKin`: were these processes forked from the same one? */
  constructor(
    ports: ManagedPorts,
    options: CrawlQueuesOptions,
    areKin: (a: Caller, b: Caller) => boolean,
  ) {
    this.#ports = ports;
    this.#areKin = areKin;
    this.#options = options;
  }

  open(name: CrawlQueueName): Proxied {
    const methods = new Map<string, Method>();
    const look = (method: string, value: (caller: Caller) => Answer) =>
      methods.set(method, (caller, request) => {
        bind(method, [], request);
        return value(caller);
      });
    const isTasks = name === 'task_queue';
    const get = (caller: Caller, waitMs: number) =>
      isTasks ? this.#get(caller, waitMs) : this.#refuseGet(name);
    const put = (caller: Caller, value: PyValue) => this.#put(name, caller, value);
    look('empty', (caller) =>
      isTasks ? this.#isEmpty(caller) : caller.returned(this.#sizeOf(name) === 0),
    );
    look('full', (caller) => caller.returned(false));
    methods.set('get', (caller, request) => {
      const [block = null, timeout = null] = bind('get', waitParameters, request);
      return get(caller, waitMsOf(block, timeout));
    });
    look('get_nowait', (caller) => get(caller, 0));
    methods.set('put', (caller, request) => {
      const [value = null, block = null, timeout = null] = bind('put', putParameters, request);
      waitMsOf(block, timeout);
      return put(caller, value);
    });
    methods.set('put_nowait', (caller, request) => {
      const [value = null] = bind('put_nowait', [['obj']], request);
      return put(caller, value);
    });
    look('qsize', (caller) => caller.returned(this.#sizeOf(name)));
    if (isTasks) {
      for (const method of ['task_done', 'release'] as const) {
        methods.set(method, (caller, request) => this.#end(method, caller, request));
      }
    }
    return {
      ident: name,
      methods,
      nextRequest: () => {},
      giveUp: (caller) => isTasks && (this.#workers.get(caller)?.giveUp() ?? false),
      heldBytes: () => 0,
      gone: (caller, isOrderly) => {
        if (isTasks) this.#gone(caller, isOrderly);
      },
      describe: () => `${name}: ${this.#sizeOf(name)}`,
    };
  }

  /** Called for every request of this connection. */
  heard(caller: Caller): void {
    this.#workers.get(caller)?.heard();
  }

  close(): void {
    clearInterval(this.#ticker);
    this.#batcher.flush();
  }

  /** Ends the waits for which no page can come. Called when a crawl has ended. */
  tick(): void {
    for (const worker of this.#workers.values()) this.#settle(worker);
    if (this.#workers.size > 0) return;
    clearInterval(this.#ticker);
    this.#ticker = undefined;
  }

  /** True: some programs have yet to see that all is done. */
  get hasGuests(): boolean {
    return this.#workers.size > 0 && this.#isOver;
  }

  get #running(): CrawlView[] {
    this.#batcher.flush();
    const { crawls } = this.#ports.frontier;
    return [...crawls].filter(({ state }) => state === 'running' || state === 'paused');
  }

  /** True: there were crawls, and nothing of any is offered, waiting or leased. */
  get #isOver(): boolean {
    if (this.#ports.frontier.crawls.size === 0) return false;
    return this.#running.every(({ isFetched }) => isFetched);
  }

  /** True: programs that wait for more hold all pages that are left, so no page can come. */
  get #isStuck(): boolean {
    const stuck = [...this.#workers.values()].filter(({ stuckMs }) => stuckMs > stuckMsMin);
    const held = stuck.reduce((sum, { leases }) => sum + leases.size, 0);
    const leased = this.#running.reduce((sum, crawl) => sum + crawl.open.leased, 0);
    return held > 0 && held === leased && this.#running.every(({ open }) => open.offered === 0);
  }

  #sizeOf(name: CrawlQueueName): number {
    const sizes: Record<CrawlQueueName, (crawl: CrawlView) => number> = {
      task_queue: ({ open }) => Math.max(0, open.waiting - open.leased),
      filter_queue: ({ open }) => open.offered,
      result_queue: ({ open }) => open.unwritten,
    };
    return this.#running.map(sizes[name]).reduce((sum, count) => sum + count, 0);
  }

  async #get(caller: Caller, waitMs: number): Promise<Buffer | undefined> {
    const worker = this.#worker(caller);
    if (!worker.hasGot) this.#ports.events.workerJoined(worker.name);
    worker.hasGot = true;
    const outcome = await this.#wait(worker, 'get', waitMs);
    if (outcome === 'stopping') return undefined;
    const url = worker.hand();
    if (url !== undefined) return caller.returned(url);
    worker.wasSentAway = true;
    throw emptyError();
  }

  async #isEmpty(caller: Caller): Promise<Buffer | undefined> {
    const worker = this.#worker(caller);
    const outcome = await this.#wait(worker, 'empty', lookMs);
    if (outcome === 'stopping') return undefined;
    const isEmpty = outcome === 'over' || outcome === 'busy';
    worker.wasSentAway = isEmpty;
    return caller.returned(isEmpty);
  }

  async #wait(worker: CrawlWorker, mode: 'get' | 'empty', waitMs: number): Promise<Outcome> {
    const asked = worker.ask();
    const outcome = worker.wait(mode, waitMs > 0 ? waitMs : Number.POSITIVE_INFINITY);
    // After the dispatcher has looked for a page.
    setImmediate(() => {
      this.#settle(worker);
      if (waitMs === 0) worker.answer('timeout');
    });
    void asked.then(() => this.#settle(worker));
    return await outcome;
  }

  /** Ends the wait of a program for which no page can come. */
  #settle(worker: CrawlWorker): void {
    const mode = worker.waitsFor;
    if (mode === undefined) return;
    const { frontier, master } = this.#ports;
    void worker.ask();
    if (this.#isOver) worker.answer('over');
    else if (master.isDraining) worker.answer('stopping');
    else if (frontier.crawls.hasDue) {
      // A program that never got a page may only be watching, so no page is kept for it.
      if (!worker.hasGot) worker.answer('timeout');
    } else {
      const finished = worker.finishWorked();
      if (finished !== undefined) void finished.then(() => this.#settle(worker));
      else if (mode === 'empty' && worker.hasPages && !worker.isTelling) worker.answer('busy');
      else if (this.#isStuck) worker.answer('over');
    }
  }

  #put(name: CrawlQueueName, caller: Caller, value: PyValue): Answer {
    const { frontier, master } = this.#ports;
    if (master.isDraining) return undefined;
    if (name === 'filter_queue' && typeof value === 'string' && this.#isLoose(caller)) {
      const url = canonicalUrl(value.trim());
      if (url !== undefined) this.#batcher.add(url.href);
      return caller.returned(null);
    }
    return this.#putInTurn(name, caller, value, frontier);
  }

  /** True: a link put by this connection has no page, and need not wait. */
  #isLoose(caller: Caller): boolean {
    const { frontier } = this.#ports;
    if (this.#options.puts.isDurable || frontier.room() !== undefined) return false;
    if (!frontier.crawls.has(this.#options.crawl)) return false;
    if (this.#workers.size === 0) return true;
    const { page, worker, helps } = this.#pageOf(caller, undefined);
    return page === undefined && worker === undefined && helps === undefined;
  }

  async #putInTurn(
    name: CrawlQueueName,
    caller: Caller,
    given: PyValue,
    frontier: Frontier,
  ): Promise<Buffer | undefined> {
    const value = given instanceof PyPickled ? this.#built(given) : given;
    if (name === 'task_queue') await this.#seed(value);
    else {
      for (const found of readPuts(value, name === 'filter_queue' ? 'links' : 'images')) {
        const room = frontier.room();
        if (room !== undefined) await room;
        await this.#take(caller, found);
      }
    }
    return caller.returned(null);
  }

  /** A value for a crawl's queue must be built at once. */
  #built({ bytes, heapBytes }: PyPickled): PyValue {
    if (heapBytes <= this.#options.builtBytesMax) return decodeItem(bytes);
    throw valueError(
      "the value is too large for the master's --memory-limit; put it in several parts",
    );
  }

  /** Adds URLs of a program as seeds: they add their hosts to the scope. */
  async #seed(value: PyValue): Promise<void> {
    const urls = Array.isArray(value) ? value : [value];
    if (urls.length === 0 || urls.length > limits.seedsMax) {
      throw valueError(`task_queue.put takes 1 to ${limits.seedsMax} URLs`);
    }
    const seeds = urls.map((url) => {
      if (typeof url !== 'string') throw typeError('task_queue.put takes a URL, or a list of them');
      return url;
    });
    const { crawl, spec } = this.#options;
    const isNew = !this.#ports.frontier.crawls.has(crawl);
    const added = { crawl, seeds, priority: 0, ...(isNew && { spec }) };
    const [refused] = (await this.#ports.frontier.seed(added)).refused;
    if (refused !== undefined) throw valueError(`${refused.url.slice(0, 200)}: ${refused.why}`);
  }

  async #take(caller: Caller, found: PutValue): Promise<void> {
    const named = found.url === undefined ? undefined : canonicalUrl(found.url)?.href;
    const { worker, page, helps } = this.#pageOf(caller, named);
    const base = found.told.finalUrl ?? page?.lease.task.url ?? named;
    const links = found.links.flatMap((link) => absolute(link, base));
    const images = found.images
      .flatMap((src) => absolute(src, base))
      .map((src): Image => ({ src, via: 'img' }));
    const text = links.map((link) => `${link}\n`).join('');
    refuseItems(found.items, page);
    if (helps !== undefined) {
      // The page is unknown: the value is taken at once, and all pages in hand count as worked on.
      helps.help();
      await this.#offer(helps.latest, text, images);
      return;
    }
    if (worker === undefined || page === undefined) {
      await this.#offer(undefined, text, images);
      return;
    }
    const isNamed = page.lease.task.url === named;
    const exactly = isNamed ? 'named' : worker.caller === caller ? undefined : 'helped';
    const rest = worker.note(
      page,
      { links: text, images, told: found.told, items: found.items },
      exactly,
    );
    await this.#offer(page, rest.links, rest.images);
  }

  /** Returns the page for a value that this connection puts; `helps`: one of this worker's pages,
   *  but it is not known which. */
  #pageOf(caller: Caller, url: string | undefined): Origin {
    const own = this.#workers.get(caller);
    const neighbours = [...this.#workers.values()].filter(
      (worker) => worker.hasPages && addressOf(worker.caller) === addressOf(caller),
    );
    if (url !== undefined) {
      for (const worker of own === undefined ? neighbours : [own, ...neighbours]) {
        const page = worker.page(url);
        if (page !== undefined) return { worker, page };
      }
    }
    if (own?.hasPages) return { worker: own, page: own.latest };
    const siblings = neighbours.filter((worker) => processOf(worker.caller) === processOf(caller));
    const [only, ...others] = siblings;
    if (only === undefined) return this.#pageOfParent(caller, neighbours);
    if (others.length === 0) return { worker: only, page: only.latest };
    // Any of them may be at work.
    for (const worker of siblings) worker.tell();
    return {};
  }

  /** The process that made a process pool holds the pool's pages. Its workers are recognised by the
   *  proxies that they were forked with; workers that made their own, by the only main process. */
  #pageOfParent(caller: Caller, neighbours: readonly CrawlWorker[]): Origin {
    const kin = neighbours.filter((worker) => this.#areKin(caller, worker.caller));
    const mains = neighbours.filter((worker) => processOf(worker.caller) === mainProcess);
    const isChild = processOf(caller) !== mainProcess;
    const [parent, ...others] = kin.length === 0 && isChild ? mains : kin;
    if (parent === undefined || others.length > 0) return {};
    return parent.leases.size === 1 ? { worker: parent, page: parent.latest } : { helps: parent };
  }

  async #offer(
    page: PageInHand | undefined,
    links: string,
    images: readonly Image[],
  ): Promise<void> {
    if (links === '' && images.length === 0) return;
    const { frontier } = this.#ports;
    const name = this.#options.crawl;
    const crawl = page && frontier.crawls.of(page.lease);
    if (crawl === undefined && !frontier.crawls.has(name)) {
      throw runtimeError(`there is no crawl "${name}" yet; put its first URL into task_queue`);
    }
    const offered = frontier.offer(crawl?.name ?? name, {
      links: Buffer.from(links, 'latin1'),
      images: [...images],
      from: page?.lease.task ?? { url: '', depth: 0, priority: 0 },
    });
    if (this.#options.puts.isDurable) await offered;
  }

  async #end(method: 'task_done' | 'release', caller: Caller, request: PyRequest): Promise<Buffer> {
    const [url = null] = bind(method, [['url']], request);
    if (typeof url !== 'string') throw typeError(`${method} takes the URL that get returned`);
    const own = this.#workers.get(caller);
    const address = addressOf(caller);
    const workers = [...this.#workers.values()].filter(
      (worker) => addressOf(worker.caller) === address,
    );
    for (const worker of own === undefined ? workers : [own, ...workers]) {
      const page = worker.page(url);
      if (page === undefined) continue;
      await (method === 'release' ? worker.release(page) : worker.finish(page));
      return caller.returned(true);
    }
    return caller.returned(false);
  }

  #refuseGet(name: string): never {
    throw runtimeError(
      `only the master may get from ${name}; read pages.jsonl and img_src.txt instead`,
    );
  }

  #worker(caller: Caller): CrawlWorker {
    let worker = this.#workers.get(caller);
    if (worker === undefined) {
      const { frontier, leaseMs } = this.#ports;
      worker = new CrawlWorker(caller, frontier, leaseMs);
      this.#workers.set(caller, worker);
      this.#ticker ??= setInterval(() => this.tick(), tickMs).unref();
      frontier.give(worker);
    }
    return worker;
  }

  #gone(caller: Caller, isOrderly: boolean): void {
    const worker = this.#workers.get(caller);
    if (worker === undefined) return;
    this.#workers.delete(caller);
    const returned = worker.leave(isOrderly);
    if (worker.hasGot) this.#ports.events.workerLeft(worker.name, returned);
  }
}

export function addressOf({ peer }: Caller): string {
  return addressOfPeer(peer);
}

/** Returns the process, as the client names it. */
export function processOf({ name }: Caller): string {
  return name.split('|', 1)[0] ?? '';
}

/** Returns the canonical URL of a reference, or undefined if it cannot be fetched. */
function absolute(text: string, base: string | undefined): string[] {
  if (text.trim() === '') return [];
  const whole = base !== undefined && URL.canParse(text, base) ? new URL(text, base).href : text;
  const url = canonicalUrl(whole.trim());
  return url === undefined ? [] : [url.href];
}

/** Items belong to a page in hand, and are written when it is done.
 *  Errors: RaisedError ValueError. */
function refuseItems({ rows, bytes }: PutItems, page: PageInHand | undefined): void {
  if (rows.length === 0) return;
  if (page === undefined) {
    throw valueError('the page of the item is not in hand: put it before the page is done');
  }
  if (!roomForItems(page.items.length + rows.length, page.itemBytes + bytes)) {
    throw valueError('the items of a page are too many, or too large');
  }
}
