/**
 * A connection of a Python program as a holder of leases, and the rules by which its pages count as
 * done. The protocol has no acknowledgement, so the program's next actions decide:
 *
 *     kept --get--> in hand --put, then get or empty()--> done
 *      |               +--- asks for more after work, nothing else can be had, and it is known to
 *      |               |    work on pages one by one --> done
 *      |               +--- ends in order: see `leave` --> done or back
 *      |               +--- dies, or is silent for `leaseMs` --> back
 *      +--- not asked for within a second --> back
 *
 * Pages that were got without a put in between are done together, by the first request for more
 * after a put. A get right after a get proves nothing, because programs collect pages before they
 * fetch them. A program that names pages, or puts from other threads, may work on several at once:
 * there each page is judged separately. It errs towards "not done": a page may be fetched twice,
 * but none is lost.
 */
import { AwakeTimer } from '../../shared/awake.ts';
import { isPageStatus, limits } from '../../shared/protocol.ts';
import type { Image, Result } from '../../shared/requests.ts';
import type { Values } from '../../shared/rule-results.ts';
import type { Lease, LeaseHolder } from '../frontier/dispatch/leases.ts';
import type { Frontier } from '../frontier/frontier.ts';
import { type FoundItems, packedRows } from '../store/result-rows.ts';
import type { Caller } from './proxied.ts';
import { noItems, type PutItems } from './put-items.ts';

/** Fields of a page that a program may put besides its images and links. */
export type Told = Partial<Pick<Result, 'finalUrl' | 'status' | 'type' | 'title' | 'bytes'>>;

/** A page in the program's hands, and the values put for it. */
export type PageInHand = {
  readonly lease: Lease;
  readonly since: number;
  /** Time that the program spent before it asked for more, in ms. */
  workedMs: number;
  readonly images: Image[];
  readonly items: Values[];
  itemBytes: number;
  links: string;
  /** Undefined: nothing was put for it. */
  told: Told | undefined;
  toldAt: number;
  /** True: a value was put that named the page. */
  isNamed: boolean;
};

/** A value put for a page; `links`: canonical, each with a line feed. */
type NotedPut = {
  readonly links: string;
  readonly images: readonly Image[];
  readonly told: Told;
  readonly items: PutItems;
};

const nothing: NotedPut = { links: '', images: [], told: {}, items: noItems };
/** Name in place of a rule for the items of Python programs. */
const itemRule = 'item';

/** The end of a wait for a page. `over`: none will come. `busy`: none before the program finishes
 *  the pages in hand. `stopping`: the master ends. */
export type Outcome = 'page' | 'over' | 'busy' | 'timeout' | 'stopping';

/** A program that asks for more within this time after a page may be collecting pages. */
const workMs = 20;
/** After this time without a put for one of several pages, no more is expected. */
const quietMs = 1_000;
/** Time for which a page is kept for the get after an `empty()`. */
const keptMs = 1_000;
const extendEveryMs = 5_000;
/** Links kept for one page; further ones are offered at once. */
const linkCharsMax = 1 << 20;
const timerMsMax = 2 ** 31 - 1;

export class CrawlWorker implements LeaseHolder {
  readonly name: string;
  readonly takes = 'pages';
  readonly trials = 0;
  readonly leaseMs: number;
  readonly leases = new Set<Lease>();
  readonly caller: Caller;
  readonly #frontier: Frontier;
  readonly #inHand = new Set<PageInHand>();
  #kept: { readonly lease: Lease; readonly timer: AwakeTimer } | undefined;
  #wait: { readonly mode: 'get' | 'empty'; readonly end: (outcome: Outcome) => void } | undefined;
  /** Fixed when the wait begins: leases are counted before they are pushed. */
  #room = 0;
  /** True: something was put since the pages in hand were got. */
  #isTold = false;
  /** True: it names pages, or other threads put for them. */
  #isExact = false;
  /** True: another process works on its pages, so pages without a put were worked on, too. */
  #isHelped = false;
  /** Whether it works on a page before it gets the next, if that is known. */
  #habit: 'unknown' | 'one by one' | 'collects' = 'unknown';
  #extendedAt = 0;
  #waitsSince = 0;
  /** True: it has called get. For a program that only watches, no page is kept. */
  hasGot = false;
  /** True: the last answer that it got is that the queue is empty. */
  wasSentAway = false;

  constructor(caller: Caller, frontier: Frontier, leaseMs: number) {
    this.leaseMs = leaseMs;
    this.name = `${caller.name}@${caller.peer}`.slice(-64);
    this.caller = caller;
    this.#frontier = frontier;
    caller.signal.addEventListener('abort', () => this.answer('stopping'));
  }

  get credit(): number {
    return this.#wait === undefined ? 0 : this.#room;
  }

  get slots(): number {
    return this.credit;
  }

  get waitsFor(): 'get' | 'empty' | undefined {
    return this.#wait?.mode;
  }

  get hasPages(): boolean {
    return this.#inHand.size > 0;
  }

  /** True: something was put for a page in hand, and more may follow. */
  get isTelling(): boolean {
    return [...this.#inHand].some(({ told }) => told !== undefined);
  }

  /** Time that it has waited in `get`, in ms, with pages in hand that no other process works on. */
  get stuckMs(): number {
    const isStuck = this.#wait?.mode === 'get' && this.hasPages && !this.#isExact;
    return isStuck ? performance.now() - this.#waitsSince : 0;
  }

  /** The page that was got last. */
  get latest(): PageInHand | undefined {
    return [...this.#inHand].at(-1);
  }

  page(url: string): PageInHand | undefined {
    return [...this.#inHand].find(({ lease }) => lease.task.url === url);
  }

  push(leases: readonly Lease[]): void {
    for (const lease of leases) {
      if (this.#wait === undefined || this.#kept !== undefined) {
        void this.#frontier.release(lease);
        continue;
      }
      this.#kept = { lease, timer: new AwakeTimer(() => this.#giveBack(), keptMs) };
      this.answer('page');
    }
  }

  cancel(leases: readonly Lease[]): void {
    for (const page of this.#inHand) if (leases.includes(page.lease)) this.#inHand.delete(page);
    if (this.#kept !== undefined && leases.includes(this.#kept.lease)) {
      this.#kept.timer.clear();
      this.#kept = undefined;
    }
    // It has waited for the whole time of a lease, so no page will come.
    this.answer('timeout');
  }

  /** Called for every request: the program is alive, so its leases are extended. */
  heard(): void {
    const { latest } = this;
    if (latest !== undefined) latest.workedMs += this.caller.thoughtMs;
    this.#frontier.heard(this);
    const now = performance.now();
    if (this.leases.size === 0 || now - this.#extendedAt < extendEveryMs) return;
    this.#extendedAt = now;
    const ids = [...this.leases].map(({ id }) => id);
    this.#frontier.extend(this, ids);
  }

  /** Ends a wait whose answer its program no longer reads. */
  giveUp(): boolean {
    const waits = this.#wait !== undefined;
    this.answer('timeout');
    return waits;
  }

  /** Waits until a page is kept for it; `answer` may end the wait before. */
  wait(mode: 'get' | 'empty', waitMs: number): Promise<Outcome> {
    if (this.#kept !== undefined) return Promise.resolve('page');
    return new Promise((resolve) => {
      const isTimed = waitMs <= timerMsMax;
      const timer = isTimed ? setTimeout(() => this.answer('timeout'), waitMs) : undefined;
      const end = (outcome: Outcome) => {
        clearTimeout(timer);
        this.#wait = undefined;
        resolve(outcome);
      };
      this.#wait = { mode, end };
      this.#waitsSince = performance.now();
      this.#room = this.leases.size + (this.hasGot ? 1 : 0);
      this.#frontier.give(this);
    });
  }

  answer(outcome: Outcome): void {
    this.#wait?.end(outcome);
  }

  /** Hands the kept page to the program: its request leaves now. */
  hand(): string | undefined {
    const kept = this.#kept;
    if (kept === undefined) return undefined;
    kept.timer.clear();
    this.#kept = undefined;
    const { lease } = kept;
    const since = performance.now();
    if (!this.hasPages) this.#isTold = false;
    const found = { images: [], items: [], itemBytes: 0, links: '' };
    const page = { lease, since, workedMs: 0, ...found, told: undefined, toldAt: 0 };
    this.#inHand.add({ ...page, isNamed: false });
    this.wasSentAway = false;
    this.#frontier.started(lease);
    return lease.task.url;
  }

  /** The program has put something that names no page. */
  tell(): void {
    this.#isTold = true;
  }

  /** Another process put something for one of the pages in hand: all count as worked on, and none
   *  is done before the puts stop. */
  help(): void {
    for (const page of this.#inHand) this.note(page, nothing, 'helped');
  }

  /** Notes a value put for a page, `exactly`: by its name, or by another thread. Returns the links
   *  to offer at once. */
  note(page: PageInHand, found: NotedPut, exactly: 'named' | 'helped' | undefined) {
    this.#isTold = true;
    if (exactly !== undefined) this.#isExact = true;
    if (exactly === 'helped') this.#isHelped = true;
    if (exactly === 'named') page.isNamed = true;
    page.told = { ...page.told, ...found.told };
    page.toldAt = performance.now();
    const areLinksNoted = page.links.length + found.links.length <= linkCharsMax;
    const areImagesNoted = page.images.length + found.images.length <= limits.imagesMax;
    if (areLinksNoted) page.links += found.links;
    if (areImagesNoted) page.images.push(...found.images);
    page.items.push(...found.items.rows);
    page.itemBytes += found.items.bytes;
    return {
      links: areLinksNoted ? '' : found.links,
      images: areImagesNoted ? [] : found.images,
    };
  }

  /** The program asks for more: its pages are done if the rules above say so. Resolves when that is
   *  on the disk. */
  async ask(): Promise<void> {
    if (!this.#isTold) return;
    if (!this.#isExact) {
      this.#learnHabit();
      this.#isTold = false;
      await Promise.all([...this.#inHand].map((page) => this.finish(page)));
      return;
    }
    const isAlone = this.#inHand.size === 1;
    const quietSince = performance.now() - quietMs;
    const isDone = ({ told, toldAt }: PageInHand) =>
      told !== undefined && (isAlone || toldAt <= quietSince);
    await Promise.all([...this.#inHand].filter(isDone).map((page) => this.finish(page)));
  }

  /** No other page is available. A program that works on pages one by one has finished those that
   *  it had time for, even if it put nothing. Resolves when that is on the disk; undefined: there
   *  are none. */
  finishWorked(): Promise<unknown> | undefined {
    if (this.#isExact || this.#habit !== 'one by one') return undefined;
    const worked = [...this.#inHand].filter(({ workedMs }) => workedMs >= workMs);
    if (worked.length === 0) return undefined;
    return Promise.all(worked.map((page) => this.finish(page)));
  }

  #learnHabit(): void {
    const pages = [...this.#inHand];
    if (pages.length > 1 && pages.some(({ workedMs }) => workedMs < workMs)) {
      this.#habit = 'collects';
    } else if (this.#habit === 'unknown') this.#habit = 'one by one';
  }

  /** Ends the page: done, or failed, by the fields put for it. */
  async finish(page: PageInHand): Promise<void> {
    this.#inHand.delete(page);
    const { lease, images, links, since } = page;
    const told = page.told ?? (this.#isHelped ? {} : undefined);
    const { url } = lease.task;
    const status = told?.status ?? (told === undefined ? 0 : 200);
    const error = status >= 400 ? ({ kind: 'status', message: `${status}` } as const) : undefined;
    if (error !== undefined && (status === 429 || status >= 500)) {
      await this.#frontier.release(lease, { error });
      return;
    }
    const result: Result = {
      finalUrl: url,
      bytes: 0,
      ms: performance.now() - since,
      ...(isPageStatus(status) && { type: 'text/html' }),
      ...told,
      status,
      ...(error !== undefined && { error }),
    };
    const verb = 'task.report';
    const items = itemsOf(page.items);
    const report = { verb, result, images, links: Buffer.from(links, 'latin1'), items } as const;
    await this.#frontier.report(lease, report);
  }

  /** Releases the page for later; it is buried when that happens too often. */
  async release(page: PageInHand): Promise<void> {
    this.#inHand.delete(page);
    const error = { kind: 'lost', message: 'released by a Python worker' } as const;
    await this.#frontier.release(page.lease, { error });
  }

  /** Its connection has ended. After an orderly end, pages with a put are done, and all pages if
   *  the program left because the queue was empty. Of several pages got together only named ones
   *  are done: the program may have stopped in the middle. Returns the number of released pages. */
  leave(isOrderly: boolean): number {
    this.#giveBack();
    const isAlone = this.#inHand.size === 1;
    for (const page of this.#inHand) {
      const isDone = this.wasSentAway || (page.told !== undefined && (isAlone || page.isNamed));
      if (isOrderly && isDone) void this.finish(page);
    }
    const returned = this.leases.size;
    this.#frontier.leave(this);
    return returned;
  }

  #giveBack(): void {
    if (this.#kept === undefined) return;
    const { lease, timer } = this.#kept;
    timer.clear();
    this.#kept = undefined;
    void this.#frontier.release(lease);
  }
}

/** As a slave would report them. */
function itemsOf(rows: readonly Values[]): FoundItems | undefined {
  if (rows.length === 0) return undefined;
  return {
    rows: packedRows(rows.map((values) => [itemRule, values])),
    rejected: [],
    failures: [],
    counts: { [itemRule]: [1, 1, 0, 0, 0, rows.length, 0] },
  };
}
