/**
 * The three queues of a crawl, as Python sees them: `task_queue.get()` leases a page,
 * `filter_queue.put(url)` offers a link, `result_queue.put(src)` reports an image. What a client
 * puts belongs to the page that its connection got last, or to the one that a dict names.
 *
 * `empty()` of the task queue is true when every crawl has ended. Where no page can be had now
 * though a crawl goes on it is false: a `get` waits. The exception is a client that asks while it
 * collects a batch: it is told to work on what it has.
 */

import type { CrawlSpec } from '../../shared/crawl.ts';
import type { Image } from '../../shared/protocol.ts';
import { canonicalUrl } from '../../shared/url.ts';
import { add } from '../commands/crawls.ts';
import type { Crawl } from '../frontier/crawl.ts';
import type { Services } from '../services.ts';
import { bind, type Parameter, type PyRequest, waitMsOf } from './arguments.ts';
import { CrawlWorker } from './crawl-worker.ts';
import { readFindings } from './findings.ts';
import type { Answer, Caller, Method, Proxied } from './proxied.ts';
import { emptyError, runtimeError, typeError } from './replies.ts';
import type { PyValue } from './values.ts';

export type CrawlQueueName = 'task_queue' | 'filter_queue' | 'result_queue';
export const crawlQueueNames: readonly string[] = ['task_queue', 'filter_queue', 'result_queue'];

const tickMs = 250;
/** All who hold pages wait for others, and nobody puts anything, for this long: nothing comes. */
const quietMs = 3_000;
/** A client that asks for more so soon after a page has not fetched it. */
const collectingMs = 20;

const waitParameters = [
  ['block', true],
  ['timeout', null],
] as const;
const putParameters: readonly Parameter[] = [['obj'], ...waitParameters];

export class CrawlQueues {
  readonly #services: () => Services;
  readonly #options: { crawl: string; spec: CrawlSpec; isDurable: boolean };
  readonly #workers = new Map<Caller, CrawlWorker>();
  readonly #ticker: NodeJS.Timeout;
  #activeAt = 0;

  constructor(
    services: () => Services,
    options: { crawl: string; spec: CrawlSpec; isDurable: boolean },
  ) {
    this.#services = services;
    this.#options = options;
    this.#ticker = setInterval(() => this.tick(), tickMs);
    this.#ticker.unref();
  }

  open(name: CrawlQueueName): Proxied {
    const methods = new Map<string, Method>();
    const look = (method: string, value: (caller: Caller) => Answer) =>
      methods.set(method, (caller, request) => {
        bind(method, [], request);
        return value(caller);
      });
    const isTasks = name === 'task_queue';
    look('empty', (caller) =>
      isTasks ? this.#isEmpty(caller) : caller.returned(this.#sizeOf(name) === 0),
    );
    look('full', (caller) => caller.returned(false));
    const get = (waitMs: number, caller: Caller) =>
      isTasks ? this.#get(caller, waitMs) : this.#notForYou(name);
    methods.set('get', (caller, request) => {
      const [block = null, timeout = null] = bind('get', waitParameters, request);
      return get(waitMsOf(block, timeout), caller);
    });
    look('get_nowait', (caller) => get(0, caller));
    methods.set('put', (caller, request) => this.#put(name, caller, request));
    methods.set('put_nowait', (caller, request) => this.#put(name, caller, request));
    look('qsize', (caller) => caller.returned(this.#sizeOf(name)));
    if (isTasks) {
      methods.set('task_done', (caller, request) => this.#end('task_done', caller, request));
      methods.set('release', (caller, request) => this.#end('release', caller, request));
    }
    return {
      ident: name,
      methods,
      nextRequest: (caller) => this.#workers.get(caller)?.touch(),
      gone: (caller, isOrderly) => {
        if (isTasks) this.#gone(caller, isOrderly);
      },
      describe: () => `${name}: ${this.#sizeOf(name)}`,
    };
  }

  close(): void {
    clearInterval(this.#ticker);
  }

  get #running(): Crawl[] {
    const { crawls } = this.#services().frontier;
    return [...crawls].filter(({ state }) => state === 'running' || state === 'paused');
  }

  /** There were crawls, and all have ended. */
  get #isOver(): boolean {
    return [...this.#services().frontier.crawls].length > 0 && this.#running.length === 0;
  }

  /** No page can be had before somebody puts something. */
  get #isDry(): boolean {
    return this.#running.every(
      ({ inbox, counters, leased }) => inbox === 0 && counters.waiting <= leased,
    );
  }

  #sizeOf(name: CrawlQueueName): number {
    const of: Record<CrawlQueueName, (crawl: Crawl) => number> = {
      task_queue: ({ counters, leased }) => Math.max(0, counters.waiting - leased),
      filter_queue: ({ inbox }) => inbox,
      result_queue: ({ unwritten }) => unwritten,
    };
    return this.#running.map(of[name]).reduce((sum, count) => sum + count, 0);
  }

  async #get(caller: Caller, waitMs: number): Promise<Buffer | undefined> {
    const { frontier, isDraining } = this.#services();
    let worker = this.#workers.get(caller);
    if (worker === undefined) {
      worker = new CrawlWorker(caller, frontier);
      this.#workers.set(caller, worker);
      frontier.dispatcher.add(worker);
    }
    worker.nextRound();
    if (this.#isOver) throw emptyError();
    if (isDraining()) return undefined;
    const taken = await worker.take(waitMs);
    if (taken === 'stopping') return undefined;
    if (taken === 'empty') throw emptyError();
    return caller.returned(taken.url);
  }

  async #isEmpty(caller: Caller): Promise<Buffer> {
    const worker = this.#workers.get(caller);
    const isCollecting =
      worker?.hasOpen === true && performance.now() - worker.gotAt < collectingMs;
    worker?.nextRound();
    if (this.#isOver) return caller.returned(true);
    if (!this.#isDry) return caller.returned(false);
    if (isCollecting && worker.hasOpen) return caller.returned(true);
    // Programs ask again and again without a pause: slow them.
    await new Promise((resolve) => setTimeout(resolve, collectingMs));
    return caller.returned(this.#isOver);
  }

  async #put(
    name: CrawlQueueName,
    caller: Caller,
    request: PyRequest,
  ): Promise<Buffer | undefined> {
    const [value = null, ...wait] = bind(request.method, putParameters, request);
    waitMsOf(wait[0] ?? null, wait[1] ?? null);
    const { frontier, isDraining } = this.#services();
    if (isDraining()) return undefined;
    this.#activeAt = performance.now();
    if (frontier.isFull) await frontier.room();
    if (name === 'task_queue') await this.#seed(value);
    else await this.#take(name, caller, value);
    return caller.returned(null);
  }

  /** A URL that a program names itself is a seed: it opens the scope for its host. */
  async #seed(value: PyValue): Promise<void> {
    const urls = Array.isArray(value) ? value : [value];
    const seeds = urls.map((url) => {
      if (typeof url !== 'string') throw typeError('task_queue.put takes a URL, or a list of them');
      return url;
    });
    const { crawl, spec } = this.#options;
    const services = this.#services();
    const isNew = !services.frontier.crawls.has(crawl);
    const added = { verb: 'crawl.add', id: 0, crawl, seeds, priority: 0 } as const;
    await add(services, undefined as never, isNew ? { ...added, spec } : added);
  }

  async #take(name: CrawlQueueName, caller: Caller, value: PyValue): Promise<void> {
    const worker = this.#workers.get(caller);
    const found = readFindings(value, name === 'filter_queue' ? 'links' : 'images');
    for (const { url, links, images, told } of found) {
      const named = url === undefined ? undefined : canonicalUrl(url)?.href;
      const open = worker?.task(named) ?? (named === undefined ? undefined : worker?.task());
      const base = open?.lease.task.url ?? named;
      const hrefs = links.flatMap((link) => absolute(link, told.finalUrl ?? base));
      const pictures = images.flatMap((src) =>
        absolute(src, told.finalUrl ?? base).map((href): Image => ({ src: href, via: 'img' })),
      );
      const isNoted = open !== undefined && worker?.note(open, hrefs, pictures, told) === true;
      await this.#offer(open, hrefs, isNoted ? [] : pictures);
    }
  }

  async #offer(
    open: ReturnType<CrawlWorker['task']>,
    links: readonly string[],
    images: readonly Image[],
  ): Promise<void> {
    if (links.length === 0 && images.length === 0) return;
    const { frontier } = this.#services();
    const name = this.#options.crawl;
    const crawl = open && frontier.crawls.of(open.lease.task);
    if (crawl === undefined && !frontier.crawls.has(name)) {
      throw runtimeError(`there is no crawl "${name}" yet: put its first URL into task_queue`);
    }
    const { depth = 0, priority = 0 } = open?.lease.task ?? {};
    const offered = frontier.offer(crawl ?? frontier.crawls.named(name), {
      links: Buffer.from(links.join('\n'), 'latin1'),
      depth: depth + 1,
      priority,
      images,
    });
    if (this.#options.isDurable) await offered;
  }

  #end(method: 'task_done' | 'release', caller: Caller, request: PyRequest): Buffer {
    const [url = null] = bind(method, [['url']], request);
    if (typeof url !== 'string') throw typeError(`${method} takes the URL that get gave`);
    const worker = this.#workers.get(caller);
    const isHeld = method === 'release' ? worker?.release(url) : worker?.finish(url);
    return caller.returned(isHeld === true);
  }

  #notForYou(name: string): never {
    throw runtimeError(`only the master takes from ${name}; see pages.jsonl and img_src.txt`);
  }

  #gone(caller: Caller, isOrderly: boolean): void {
    const worker = this.#workers.get(caller);
    if (worker === undefined) return;
    this.#workers.delete(caller);
    if (isOrderly) worker.finishAll();
    this.#services().frontier.dispatcher.remove(worker);
  }

  /** Those who wait for what cannot come are told. */
  tick(): void {
    const waiting = [...this.#workers.values()].filter(({ isWaiting }) => isWaiting);
    if (waiting.length === 0) return;
    const isStopping = this.#services().isDraining() && !this.#isOver;
    if (!isStopping && !this.#isOver && !this.#isQuiet(waiting)) return;
    for (const worker of waiting) worker.answer(isStopping ? 'stopping' : 'empty');
  }

  #isQuiet(waiting: readonly CrawlWorker[]): boolean {
    if (performance.now() - this.#activeAt < quietMs || !this.#isDry) return false;
    const running = this.#running;
    const leased = running.reduce((sum, crawl) => sum + crawl.leased, 0);
    const held = waiting.reduce((sum, { leases }) => sum + leases.size, 0);
    return running.length > 0 && leased > 0 && leased === held;
  }
}

function absolute(text: string, base: string | undefined): string[] {
  const whole = base !== undefined && URL.canParse(text, base) ? new URL(text, base).href : text;
  const url = canonicalUrl(whole.trim());
  return url === undefined ? [] : [url.href];
}
