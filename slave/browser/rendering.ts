/**
 * One page in the browser, from its document to the text that its scripts made of it. It has a
 * fresh context and a proxy of its own, and limits of time, requests and bytes. A page that does
 * not let go is ended with its process.
 *
 *     document -> at rest -> wait -> click -> scroll -> text
 */
import { setMaxListeners } from 'node:events';
import { AddressPolicy } from '../../shared/address.ts';
import { AwakeTimer, awakeMs, awakeSleep } from '../../shared/awake.ts';
import type { FetchSpec } from '../../shared/crawl.ts';
import { keepsView, type Render, type RenderMiss, renderLimits } from '../../shared/render.ts';
import type { AddressCache } from '../../shared/resolver.ts';
import type { Chromium } from './chromium.ts';
import { authorityOf, GuardProxy } from './guard-proxy.ts';
import type { HostSeats } from './host-seats.ts';
import { PageTraffic, type PageTrafficOptions, type WebDocument } from './page-traffic.ts';
import { PageWorld } from './page-world.ts';
import { pictureOf } from './picture.ts';
import type { Tab } from './tab.ts';
import { orLate } from './within.ts';

export type RenderTask = Pick<PageTrafficOptions, 'document' | 'headersFor' | 'fetchDocument'> & {
  readonly spec: FetchSpec;
  readonly render: Render;
  readonly userAgent: string;
  /** Names and values that the document's own request had. */
  readonly cookies: readonly (readonly [name: string, value: string])[];
  /** Private blocks of the document's own host. */
  readonly blocks: readonly string[];
  readonly signal: AbortSignal;
};

/** A page as its scripts left it. */
export type RenderedPage = {
  readonly document: WebDocument;
  /** Serialised, at most `bodyBytesMax` characters. */
  readonly html: string;
  readonly isCut: boolean;
  /** Its own URL now, which links are relative to. */
  readonly url: string;
  readonly isXhtml: boolean;
  readonly requests: number;
  readonly missed: readonly RenderMiss[];
  readonly links: readonly string[];
  /** PNG. */
  readonly screenshot?: Buffer;
};

export type RenderEnd =
  | { readonly kind: 'rendered'; readonly page: RenderedPage }
  | { readonly kind: 'failed'; readonly why: string }
  /** For no fault of the page: cancelled, or there is no browser. */
  | { readonly kind: 'given-back' };

type Shared = { readonly addresses: AddressCache; readonly seats: HostSeats };

/** Kept of the time for the text of the page, and for its end: at most so much of a short one. */
const reserveMsMax = 4_000;
const reserveShareMax = 0.4;
/** The longest wait for a page to come to rest, each time. */
const restMsMax = 8_000;
/** A page that has its document and asks for nothing more is taken for loaded. */
const loadQuietMs = 5_000;
const clickMsMax = 3_000;
/** For an answer of the page, and what is left when it is given up. */
const textMsMax = 2_500;
const lastMs = 200;
const pictureMsMax = 10_000;

/** The page ended before its document came: its scripts are not to blame. */
class UnstartedError extends Error {}

/** Renders a page. Undefined: the browser ended under it, or did not start it. */
export async function renderPage(
  chromium: Chromium,
  task: RenderTask,
  shared: Shared,
): Promise<RenderEnd | undefined> {
  try {
    return await new OnePage(task, shared).render(chromium);
  } catch (error) {
    if (task.signal.aborted) return { kind: 'given-back' };
    if (error instanceof UnstartedError) {
      chromium.giveUp();
      return undefined;
    }
    // It does so a little later than what it was asked for fails.
    await awakeSleep(50);
    return chromium.isEnded ? undefined : { kind: 'failed', why: 'the page broke its browser tab' };
  }
}

class OnePage {
  readonly #task: RenderTask;
  readonly #proxy: GuardProxy;
  readonly #traffic: PageTraffic;
  readonly #ending = new AbortController();
  readonly #endsAt: number;
  /** From now on it is read. */
  readonly #readsAt: number;
  readonly #missed = new Set<RenderMiss>();

  constructor(task: RenderTask, { addresses, seats }: Shared) {
    const { document, spec, blocks, render, headersFor, fetchDocument } = task;
    this.#task = task;
    // One for each request that waits.
    setMaxListeners(0, this.#ending.signal);
    const timeMs = Math.min(renderLimits.timeMs, spec.timeoutMs);
    this.#endsAt = awakeMs() + timeMs;
    this.#readsAt = this.#endsAt - Math.min(reserveMsMax, timeMs * reserveShareMax);
    const home = authorityOf(new URL(document.url));
    const policies = {
      home: new AddressPolicy(spec.allowPrivate, blocks),
      other: new AddressPolicy(spec.allowPrivate),
    };
    this.#proxy = new GuardProxy({
      addresses,
      // The blocks of a seed are for its own host and port.
      policyOf: (authority) => (authority === home ? policies.home : policies.other),
      bytesMax: renderLimits.bytes,
      connectMs: spec.connectTimeoutMs,
      onFull: () => this.#missed.add('limit'),
    });
    this.#traffic = new PageTraffic({
      document,
      seats,
      headersFor,
      fetchDocument,
      loads: render.load ?? [],
      signal: this.#ending.signal,
    });
  }

  async render(chromium: Chromium): Promise<RenderEnd> {
    const { signal, userAgent, cookies, document } = this.#task;
    const end = () => this.#ending.abort();
    signal.addEventListener('abort', end, { once: true });
    try {
      const options = {
        userAgent,
        proxy: await this.#proxy.open(),
        cookies: cookies.map(([name, value]) => ({ name, value, url: document.url })),
      };
      return await chromium.with(options, (tab) => this.#inTab(tab));
    } finally {
      signal.removeEventListener('abort', end);
      this.#ending.abort();
      this.#proxy.close();
    }
  }

  async #inTab(tab: Tab): Promise<RenderEnd> {
    let timer: AwakeTimer | undefined;
    const late = new Promise<RenderEnd>((resolve) => {
      const seconds = Math.round((this.#endsAt - awakeMs()) / 1000);
      const why = `the page did not answer in the browser within ${seconds} s`;
      timer = new AwakeTimer(() => resolve({ kind: 'failed', why }), this.#endsAt - awakeMs());
    });
    const broken = tab.broken.then((why): RenderEnd => {
      if (!tab.hasDocument) throw new UnstartedError();
      return { kind: 'failed', why };
    });
    const aborted = new Promise<RenderEnd>((resolve) => {
      const { signal } = this.#ending;
      signal.addEventListener('abort', () => resolve({ kind: 'given-back' }), { once: true });
    });
    const done = this.#work(tab);
    done.catch(() => {});
    try {
      const end = await Promise.race([done, late, broken, aborted]);
      // A script that never ends holds the page; its process does not outlive this.
      if (end.kind !== 'rendered') tab.tell('Page.crash', {});
      return end;
    } finally {
      timer?.clear();
    }
  }

  async #work(tab: Tab): Promise<RenderEnd> {
    const { wait, click, clicks = 1, scroll = 0 } = this.#task.render;
    const until = this.#readsAt;
    const leftMs = () => Math.max(1, until - awakeMs());
    const world = new PageWorld(tab);
    await this.#traffic.open(tab);
    // A page that wants to go where it may not stays as it is, and its load never ends.
    const { stayed } = this.#traffic;
    await Promise.race([tab.loaded, stayed, this.#traffic.quiet(until, loadQuietMs)]);
    await this.#rest(until);
    if (typeof wait === 'number') {
      await awakeSleep(Math.min(wait, leftMs()));
      await this.#rest(until);
    } else if (wait !== undefined) {
      // The rest is for what comes after.
      if (!(await world.appears(wait, leftMs() / 2))) this.#missed.add('wait');
      await this.#rest(until);
    }
    if (click !== undefined) await this.#click(world, click, clicks, until);
    for (let i = 0; i < scroll && awakeMs() < until; i++) {
      const before = await world.scroll(textMsMax);
      await this.#rest(until);
      if (before === (await world.scroll(textMsMax))) break;
    }
    const text = await textOf(world, this.#task.spec.bodyBytesMax, this.#endsAt);
    if (text === undefined) {
      return { kind: 'failed', why: 'the page did not answer in the browser: a script never ends' };
    }
    const picture = await this.#picture(tab);
    const { document, ownCount, isOver, isDistrusted, left } = this.#traffic;
    if (isOver) this.#missed.add('limit');
    if (isDistrusted) this.#missed.add('certificate');
    const requests = Math.min(ownCount, renderLimits.requests);
    const own = { document, requests, missed: [...this.#missed], links: [...left] };
    return { kind: 'rendered', page: { ...own, ...text, ...picture } };
  }

  /** Takes a screenshot, if one is wanted and the page lets it. */
  async #picture(tab: Tab): Promise<Pick<RenderedPage, 'screenshot'>> {
    if (!keepsView(this.#task.spec, 'screenshot')) return {};
    const leftMs = this.#endsAt - awakeMs() - lastMs;
    const picture = pictureOf(tab).catch(() => undefined);
    const screenshot = await orLate(picture, Math.min(pictureMsMax, leftMs));
    if (screenshot !== undefined) return { screenshot };
    this.#missed.add('screenshot');
    return {};
  }

  async #rest(until: number): Promise<void> {
    const isQuiet = await this.#traffic.quiet(Math.min(until, awakeMs() + restMsMax));
    if (!isQuiet && awakeMs() >= until) this.#missed.add('limit');
  }

  /** Clicks as long as there is such an element. */
  async #click(world: PageWorld, selector: string, times: number, until: number): Promise<void> {
    for (let i = 0; i < times; i++) {
      const leftMs = until - awakeMs();
      if (leftMs <= 0) return;
      if (!(await world.click(selector, Math.min(clickMsMax, leftMs)))) {
        if (i === 0) this.#missed.add('click');
        return;
      }
      await this.#rest(until);
    }
  }
}

/** The page as text. Undefined: it does not answer. */
async function textOf(
  world: PageWorld,
  charsMax: number,
  endsAt: number,
): Promise<Pick<RenderedPage, 'html' | 'isCut' | 'url' | 'isXhtml'> | undefined> {
  const expression = `(() => {
    const { documentElement: root, doctype, contentType, baseURI } = document;
    const text = (doctype === null ? '' : '<!DOCTYPE ' + doctype.name + '>') +
      (root === null ? '' : root.outerHTML);
    return [text.slice(0, ${charsMax}), text.length > ${charsMax}, contentType, location.href];
  })()`;
  // A machine without time for it is no fault of the page.
  const timeoutMs = Math.max(textMsMax, endsAt - awakeMs() - lastMs);
  const value = await world.evaluate(expression, timeoutMs);
  if (!Array.isArray(value)) return undefined;
  const [html, isCut, type, url] = value as unknown[];
  if (typeof html !== 'string' || typeof url !== 'string') return undefined;
  return { html, isCut: isCut === true, url, isXhtml: type === 'application/xhtml+xml' };
}
