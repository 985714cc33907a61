/**
 * The requests of one page in the browser, each judged before it leaves: its URL, its type, how
 * many there are. Documents of the page and of its frames come from the slave's own fetcher, as all
 * pages do; scripts, styles, images and what scripts ask for leave the browser, and go through the
 * guarding proxy. Source: docs/browser.md, [T-142] [T-143].
 */
import type { BrowserContext, Page, Request, Route } from 'playwright-core';
import { renderLimits } from '../../shared/render.ts';
import { canonicalUrl } from '../../shared/url.ts';
import type { Headers } from '../fetch/content.ts';
import { authorityOf } from './guard-proxy.ts';
import type { HostSeats } from './host-seats.ts';

/** A document, fetched by the slave. */
export type WebDocument = {
  /** Canonical. */
  readonly url: string;
  readonly status: number;
  readonly headers: Headers;
  readonly body: Buffer;
};

export type PageTrafficOptions = {
  readonly document: WebDocument;
  /** Of sub-resources, too. */
  readonly loads: readonly ('fonts' | 'media')[];
  readonly seats: HostSeats;
  readonly signal: AbortSignal;
  /** Further headers for a URL. */
  readonly headersFor: (url: URL) => readonly (readonly [name: string, value: string])[];
  /** Fetches another document when its turn comes. A URL: a redirect that leads elsewhere.
   *  Undefined: it may not be had. */
  readonly fetchDocument: (
    url: string,
    isFrame: boolean,
  ) => Promise<WebDocument | string | undefined>;
};

/** A page that goes on to other documents of its site, or back and forth. */
const navigationsMax = 5;
const framesMax = 20;
/** No request for so long: the page has come to rest. */
const quietMs = 300;
const lookEveryMs = 30;
/** What stays open, or what nothing of the page waits for. */
const unawaited = new Set(['eventsource', 'websocket', 'ping', 'media']);
/** Headers that are for the bytes on the wire, or that make a page a file. */
const notForBrowser =
  /^(?:content-encoding|content-length|transfer-encoding|content-disposition|connection|keep-alive|alt-svc|strict-transport-security)$/i;

export class PageTraffic {
  readonly #options: PageTrafficOptions;
  readonly #home: string;
  readonly #underWay = new Map<Request, () => void>();
  #page: Page | undefined;
  #lastAt = performance.now();
  /** The document that the page shows. */
  #document: WebDocument;
  /** Documents that were redirected to: they are asked for next. */
  readonly #ready = new Map<string, WebDocument>();
  #isGiven = false;
  #navigations = 0;
  #frames = 0;
  #count = 0;
  #ownCount = 0;
  #isOver = false;
  readonly #left = new Set<string>();
  #stay: () => void = () => {};
  /** Resolves when the page wants to go on to where it may not. */
  readonly stayed = new Promise<void>((resolve) => {
    this.#stay = resolve;
  });

  constructor(options: PageTrafficOptions) {
    this.#options = options;
    this.#document = options.document;
    this.#home = authorityOf(new URL(options.document.url));
  }

  /** Watches the page from now on. */
  async watch(context: BrowserContext, page: Page): Promise<void> {
    this.#page = page;
    context.on('request', (request) => this.#begun(request));
    context.on('requestfinished', (request) => this.#ended(request));
    context.on('requestfailed', (request) => this.#ended(request));
    // Nobody looks at a window that a page opens.
    context.on('page', (other) => {
      if (other !== page) other.close().catch(() => {});
    });
    await context.route('**/*', (route, request) => {
      this.#judge(route, request).catch(() => {});
    });
  }

  /** The document that the page shows. */
  get document(): WebDocument {
    return this.#document;
  }

  /** Requests to its own host, without those of documents. */
  get ownCount(): number {
    return this.#ownCount;
  }

  /** It wanted more requests than it may have. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Where it wanted to go on, on other hosts: links like any other. */
  get left(): ReadonlySet<string> {
    return this.#left;
  }

  /** Resolves when no request was under way for `forMs`, or at `until` (ms). Returns whether it came
   *  to rest. */
  async quiet(until: number, forMs = quietMs): Promise<boolean> {
    this.#lastAt = Math.max(this.#lastAt, performance.now() - quietMs / 2);
    for (;;) {
      const now = performance.now();
      const isAtRest = this.#isGiven && this.#underWay.size === 0;
      if (isAtRest && now - this.#lastAt >= forMs) return true;
      if (now >= until || this.#options.signal.aborted) return false;
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
    }
  }

  #begun(request: Request): void {
    if (!isWeb(request.url())) return;
    this.#lastAt = performance.now();
    if (!unawaited.has(request.resourceType())) this.#underWay.set(request, () => {});
    if (request.isNavigationRequest()) return;
    this.#count++;
    if (this.#isHome(request)) this.#ownCount++;
    if (this.#count > renderLimits.requests) this.#isOver = true;
  }

  #isHome(request: Request): boolean {
    return authorityOf(new URL(request.url())) === this.#home;
  }

  #ended(request: Request): void {
    this.#lastAt = performance.now();
    this.#underWay.get(request)?.();
    this.#underWay.delete(request);
  }

  async #judge(route: Route, request: Request): Promise<void> {
    const url = request.url();
    const { signal } = this.#options;
    const isOwn = request.isNavigationRequest() && request.frame() === this.#page?.mainFrame();
    if (signal.aborted || !isWeb(url)) {
      if (isOwn) this.#stay();
      return await route.abort('aborted');
    }
    if (request.isNavigationRequest()) return await this.#navigate(route, request);
    if (this.#isOver || !this.#isWanted(request)) return await route.abort('blockedbyclient');
    const target = new URL(url);
    const release = await this.#options.seats.take(target.host, signal);
    if (release === undefined) return await route.abort('aborted');
    // It may have been given up while it waited.
    if (unawaited.has(request.resourceType()) || !this.#underWay.has(request)) release();
    else this.#underWay.set(request, release);
    signal.addEventListener('abort', release, { once: true });
    const more = this.#options.headersFor(target);
    if (more.length === 0) return await route.continue();
    const named = more.map(([name, value]) => [name.toLowerCase(), value] as const);
    await route.continue({ headers: { ...request.headers(), ...Object.fromEntries(named) } });
  }

  #isWanted(request: Request): boolean {
    const { loads } = this.#options;
    const type = request.resourceType();
    if (type === 'font') return loads.includes('fonts');
    return type !== 'media' || loads.includes('media');
  }

  /** A document: of the page itself, or of one of its frames. Another window gets none. */
  async #navigate(route: Route, request: Request): Promise<void> {
    const frame = request.frame();
    const isFrame = frame.parentFrame() !== null;
    const url = canonicalUrl(request.url())?.href;
    if (frame.page() !== this.#page) return await route.abort('aborted');
    if (url === undefined || request.method() !== 'GET') {
      return await this.#refuse(route, isFrame);
    }
    if (isFrame) return await this.#frame(route, url);
    if (!this.#isGiven && url === this.#document.url) {
      this.#isGiven = true;
      return await fulfil(route, this.#document);
    }
    if (new URL(url).origin !== new URL(this.#document.url).origin) {
      this.#left.add(url);
      return await this.#refuse(route);
    }
    if (++this.#navigations > navigationsMax) {
      this.#isOver = true;
      return await this.#refuse(route);
    }
    const found = this.#ready.get(url) ?? (await this.#options.fetchDocument(url, false));
    if (typeof found === 'string') this.#left.add(found);
    if (found === undefined || typeof found === 'string') return await this.#refuse(route);
    this.#ready.delete(url);
    if (found.url !== url) return await this.#goOn(route, found);
    this.#document = found;
    this.#isGiven = true;
    await fulfil(route, found);
  }

  async #refuse(route: Route, isFrame = false): Promise<void> {
    if (!isFrame) {
      this.#isGiven = true;
      this.#stay();
    }
    await route.abort('aborted');
  }

  async #frame(route: Route, url: string): Promise<void> {
    const known = this.#ready.get(url);
    if (known === undefined && ++this.#frames > framesMax) {
      this.#isOver = true;
      return await route.abort('blockedbyclient');
    }
    const found = known ?? (await this.#options.fetchDocument(url, true));
    this.#ready.delete(url);
    if (found === undefined) return await route.abort('blockedbyclient');
    if (typeof found === 'string') return await redirect(route, found);
    if (found.url !== url) return await this.#goOn(route, found);
    await fulfil(route, found);
  }

  /** A redirect within the host: the browser asks for its end, which is here already. */
  async #goOn(route: Route, found: WebDocument): Promise<void> {
    this.#ready.set(found.url, found);
    await redirect(route, found.url);
  }
}

/** The browser follows redirects without a word, so it is sent on by a page. */
async function redirect(route: Route, to: string): Promise<void> {
  const text = to.replace(/&/g, '&amp;').replace(/"/g, '&quot;');
  const body = `<meta http-equiv="refresh" content="0;url=${text}">`;
  await route.fulfill({ status: 200, contentType: 'text/html', body });
}

async function fulfil(route: Route, { status, headers, body }: WebDocument): Promise<void> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || notForBrowser.test(name)) continue;
    const values = Array.isArray(value) ? value : [value];
    kept[name.toLowerCase()] = values.join(/^set-cookie$/i.test(name) ? '\n' : ', ');
  }
  kept['content-type'] ??= 'text/html';
  await route.fulfill({ status, headers: kept, body });
}

function isWeb(url: string): boolean {
  return url.startsWith('http://') || url.startsWith('https://');
}
