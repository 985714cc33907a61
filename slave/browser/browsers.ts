/**
 * The browser of a slave: one Chromium at a time, another one when it is retired or has crashed.
 * Pages wait here for their turn. While none can be started the slave says that it has no browser,
 * and its pages go back; it tries again from time to time.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ownAgent } from '../../shared/crawl.ts';
import type { Logger } from '../../shared/log.ts';
import { renderLimits } from '../../shared/render.ts';
import type { AddressCache } from '../../shared/resolver.ts';
import { Chromium } from './chromium.ts';
import { type BrowserProgram, type BrowserSettings, findBrowser } from './find.ts';
import { GuardProxy } from './guard-proxy.ts';
import { HostSeats } from './host-seats.ts';
import { type RenderEnd, type RenderTask, renderPage } from './rendering.ts';

type BrowsersOptions = {
  readonly program: BrowserProgram;
  readonly addresses: AddressCache;
  /** Fetches at once, ≥ 1: no more pages are open. */
  readonly slots: number;
  /** It can be used, or no longer. */
  readonly onAble: (isAble: boolean) => void;
  readonly log: Logger;
};

/** Pages at once in one browser. */
const pagesMax = 6;
/** Pages that wait, for each that is open. */
const waitingPerPage = 2;
const startAgainMs = 15_000;
/** The longest wait for the first one. */
const startWaitMs = 5_000;
/** A page under which the browser ended may be innocent. */
const triesMax = 2;

export class Browsers {
  readonly #options: BrowsersOptions;
  readonly #pagesMax: number;
  readonly #seats = new HostSeats(renderLimits.perHost);
  readonly #nowhere: GuardProxy;
  /** All that have not ended. */
  readonly #running = new Set<Chromium>();
  #current: Promise<Chromium> | undefined;
  #again: NodeJS.Timeout | undefined;
  /** `starting`: for the first time. */
  #state: 'starting' | 'able' | 'unable' | 'closed' = 'starting';
  #open = 0;
  /** The one that pages had last: most have the same. */
  #userAgent = ownAgent;
  readonly #waiting: (() => void)[] = [];
  readonly #closing = new AbortController();

  /** Finds the browser and starts it; one that takes long can be used later. Undefined: there is
   *  none, which is logged. */
  static async open(
    settings: BrowserSettings,
    parts: Omit<BrowsersOptions, 'program'>,
  ): Promise<Browsers | undefined> {
    const program = findBrowser(settings);
    if ('missing' in program) {
      parts.log.warn(`no browser: ${program.missing}`);
      return undefined;
    }
    const browsers = new Browsers({ ...parts, program });
    browsers.started = browsers.#start();
    // The slave has other work, too.
    await Promise.race([browsers.started, sleep(startWaitMs, undefined, { ref: false })]);
    return browsers;
  }

  private constructor(options: BrowsersOptions) {
    this.#options = options;
    this.#pagesMax = Math.min(options.slots, pagesMax);
    const { addresses } = options;
    const limits = { bytesMax: 0, connectMs: 1 };
    this.#nowhere = new GuardProxy({ addresses, policyOf: () => undefined, ...limits });
  }

  /** Resolves when it has been started for the first time, or cannot be. */
  started: Promise<void> = Promise.resolve();

  get isAble(): boolean {
    return this.#state === 'able';
  }

  /** True: more pages wait than it will soon have time for. */
  get isFull(): boolean {
    return this.#waiting.length >= waitingPerPage * this.#pagesMax;
  }

  /** Starts one; if that cannot be, it is logged, and tried again. */
  async #start(): Promise<void> {
    await this.#chromium().catch(() => {});
  }

  /** Renders a page. Never rejects. */
  async render(task: RenderTask): Promise<RenderEnd> {
    if (this.#open >= this.#pagesMax) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    } else this.#open++;
    try {
      return await this.#render(task);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#open--;
      else next();
    }
  }

  /** Ends the browser; pages under way are given back. Idempotent. */
  async close(): Promise<void> {
    this.#state = 'closed';
    clearTimeout(this.#again);
    const current = this.#current;
    this.#current = undefined;
    this.#closing.abort();
    // One that begins to run.
    await current?.catch(() => {});
    await Promise.all([...this.#running].map((one) => one.end()));
    this.#nowhere.close();
  }

  async #render(task: RenderTask): Promise<RenderEnd> {
    let why = '';
    this.#userAgent = task.userAgent;
    for (let tries = 0; tries < triesMax; tries++) {
      if (task.signal.aborted || this.#state === 'closed') return { kind: 'given-back' };
      let chromium: Chromium;
      try {
        chromium = await this.#chromium();
      } catch {
        return { kind: 'given-back' };
      }
      const { addresses } = this.#options;
      const end = await renderPage(chromium, task, { addresses, seats: this.#seats });
      if (end !== undefined) return end;
      ({ why } = chromium);
    }
    return { kind: 'failed', why: `${why} (twice under the page)` };
  }

  /** The one that serves. @throws Error none can be started */
  #chromium(): Promise<Chromium> {
    const current = this.#current;
    const next = current === undefined ? this.#launch() : this.#after(current);
    this.#current = next;
    return next;
  }

  async #after(current: Promise<Chromium>): Promise<Chromium> {
    const chromium = await current;
    return chromium.isServing ? chromium : await this.#launch();
  }

  async #launch(): Promise<Chromium> {
    if (this.#state === 'closed') throw new Error('the slave leaves');
    const { program, log } = this.#options;
    try {
      this.#nowhereUrl ??= this.#nowhere.open();
      const onEnd = (why: string) => {
        log.warn(`browser: ${why}; the next page starts another one`);
      };
      const from = { proxy: await this.#nowhereUrl, userAgent: this.#userAgent };
      const started = await Chromium.start(program, from, onEnd, this.#closing.signal);
      for (const one of this.#running) if (one.isEnded) this.#running.delete(one);
      this.#running.add(started);
      this.#turn('able');
      return started;
    } catch (error) {
      this.#current = undefined;
      const why = error instanceof Error ? error.message : String(error);
      this.#startLater(why);
      throw error;
    }
  }

  #nowhereUrl: Promise<string> | undefined;

  #startLater(why: string): void {
    if (this.#state === 'closed') return;
    if (this.#state !== 'unable') this.#options.log.warn(`the browser does not start: ${why}`);
    this.#turn('unable');
    clearTimeout(this.#again);
    this.#again = setTimeout(() => void this.#start(), startAgainMs);
  }

  #turn(to: 'able' | 'unable'): void {
    if (this.#state === to || this.#state === 'closed') return;
    this.#state = to;
    this.#options.onAble(to === 'able');
  }
}
