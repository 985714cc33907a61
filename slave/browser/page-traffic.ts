/**
 * The requests of one page in the browser, each judged before it leaves: its URL, its type, how
 * many there are. Documents of the page and of its frames come from the slave's own fetcher, as all
 * pages do; scripts, styles, images and what scripts ask for leave the browser, and go through the
 * guarding proxy. Source: docs/browser.md, [T-142] [T-143].
 */
import { awakeMs, awakeSleep } from '../../shared/awake.ts';
import { renderLimits } from '../../shared/render.ts';
import { canonicalUrl } from '../../shared/url.ts';
import { asUtf8, type Headers } from '../fetch/content.ts';
import { authorityOf } from './guard-proxy.ts';
import type { HostSeats } from './host-seats.ts';
import type { PausedRequest } from './paused-request.ts';
import type { KeptCookie } from './protocol.ts';
import type { Tab } from './tab.ts';

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
  /** Fetches another document when its turn comes. `cookies`: those that the page has for it. A
   *  URL: a redirect that leads elsewhere. Undefined: it may not be had. */
  readonly fetchDocument: (
    url: string,
    isFrame: boolean,
    cookies: readonly KeptCookie[],
  ) => Promise<WebDocument | string | undefined>;
};

/** A page that goes on to other documents of its site, or back and forth. */
const navigationsMax = 5;
const framesMax = 20;
/** No request for so long: the page has come to rest. */
const quietMs = 300;
const lookEveryMs = 30;
/** Requests that stay open, or that nothing of the page waits for. */
const unawaited = new Set(['Ping', 'Media']);
/** Headers that are for the bytes on the wire, or that make a page a file. */
const notForBrowser =
  /^(?:content-encoding|content-length|transfer-encoding|content-disposition|connection|keep-alive|alt-svc|strict-transport-security)$/i;

export class PageTraffic {
  readonly #options: PageTrafficOptions;
  readonly #home: string;
  /** By id. */
  readonly #underWay = new Map<string, UnderWay>();
  #tab: Tab | undefined;
  #lastAt = awakeMs();
  /** The document that the page shows. */
  #document: WebDocument;
  /** The last one that it was given: a download, or an answer without content, is never shown. */
  #given: WebDocument;
  /** Documents that were redirected to: they are asked for next. */
  readonly #ready = new Map<string, WebDocument>();
  #isGiven = false;
  /** When the last document was given to the page itself. */
  #givenAt = 0;
  #navigations = 0;
  #frames = 0;
  #count = 0;
  #ownCount = 0;
  #isOver = false;
  #isDistrusted = false;
  readonly #left = new Set<string>();
  #stay: () => void = () => {};
  /** Resolves when the page wants to go on to where it may not. */
  readonly stayed = new Promise<void>((resolve) => {
    this.#stay = resolve;
  });

  constructor(options: PageTrafficOptions) {
    this.#options = options;
    this.#document = options.document;
    this.#given = options.document;
    this.#home = authorityOf(new URL(options.document.url));
  }

  /** Sends a page to its document, and watches it from now on. @throws Error it is gone */
  async open(tab: Tab): Promise<void> {
    this.#tab = tab;
    await tab.open(this.#document.url, {
      onPaused: (request) => {
        this.#judge(request).catch(() => request.refuse('Aborted'));
      },
      onEnded: (id, error) => {
        this.#isDistrusted ||= error?.startsWith('net::ERR_CERT_') === true;
        this.#ended(id, error !== undefined);
      },
      onFrameGone: (frame) => this.#endAll((one) => one.frame === frame),
      onCommitted: (url) => this.#committed(url),
      onStirred: () => {
        this.#lastAt = awakeMs();
      },
      onSocket: (url) => this.#counted(url),
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

  /** The browser did not accept the certificate of a host that it asked. */
  get isDistrusted(): boolean {
    return this.#isDistrusted;
  }

  /** Where it wanted to go on, on other hosts: links like any other. */
  get left(): ReadonlySet<string> {
    return this.#left;
  }

  /** Resolves when no request was under way for `forMs`, or at `until` (ms). Returns whether it
   *  came to rest. */
  async quiet(until: number, forMs = quietMs): Promise<boolean> {
    this.#lastAt = Math.max(this.#lastAt, awakeMs() - quietMs / 2);
    for (;;) {
      const now = awakeMs();
      const isAtRest = this.#isGiven && this.#underWay.size === 0;
      const restsAt = this.#lastAt + forMs;
      if (isAtRest && now >= restsAt) return true;
      if (now >= until || this.#options.signal.aborted) return false;
      const waitMs = Math.min(isAtRest ? restsAt - now : lookEveryMs, until - now);
      // Messages that waited while this process stood still are read before the page is at rest.
      await awakeSleep(waitMs);
    }
  }

  #begun(request: PausedRequest): void {
    const begunAt = awakeMs();
    this.#lastAt = begunAt;
    const { id, frame } = request;
    if (id !== undefined && this.#isAwaited(request, id)) {
      // The one before it sent it here.
      this.#underWay.get(id)?.release();
      this.#underWay.set(id, {
        frame,
        begunAt,
        isDocument: isDocument(request),
        release: () => {},
      });
    }
    if (!isDocument(request)) this.#counted(request.url);
  }

  #isAwaited(request: PausedRequest, id: string): boolean {
    if (unawaited.has(request.type) || isStream(request)) return false;
    return this.#tab?.hearsEndOf(id) === true;
  }

  #counted(url: string): void {
    this.#count++;
    if (URL.canParse(url) && authorityOf(new URL(url)) === this.#home) this.#ownCount++;
    if (this.#count > renderLimits.requests) this.#isOver = true;
  }

  #isMain({ frame }: PausedRequest): boolean {
    return frame === this.#tab?.mainFrame;
  }

  #ended(id: string, isFailed: boolean): void {
    const one = this.#underWay.get(id);
    if (one === undefined) return;
    this.#lastAt = awakeMs();
    one.release();
    this.#underWay.delete(id);
    // Nothing loads: it was no page, or a script has stopped it.
    if (isFailed && one.isDocument && one.frame === this.#tab?.mainFrame) this.#stay();
  }

  /** These have ended without a word. */
  #endAll(isGone: (one: UnderWay) => boolean): void {
    for (const [id, one] of this.#underWay) if (isGone(one)) this.#ended(id, false);
  }

  async #judge(request: PausedRequest): Promise<void> {
    const { url, id } = request;
    const { signal } = this.#options;
    if (signal.aborted || !isWeb(url)) {
      if (isDocument(request) && this.#isMain(request)) this.#stay();
      request.refuse('Aborted');
      return;
    }
    if (isIcon(request)) {
      request.refuse('BlockedByClient');
      return;
    }
    this.#begun(request);
    if (isDocument(request)) return await this.#navigate(request);
    if (this.#isOver || !this.#isWanted(request)) {
      request.refuse('BlockedByClient');
      return;
    }
    const target = new URL(url);
    const release = await this.#options.seats.take(target.host, signal);
    if (release === undefined) {
      request.refuse('Aborted');
      return;
    }
    const underWay = id === undefined ? undefined : this.#underWay.get(id);
    // It may have been given up while it waited.
    if (underWay === undefined) release();
    else underWay.release = release;
    signal.addEventListener('abort', release, { once: true });
    const more = this.#options.headersFor(target);
    request.resume(more.length === 0 ? undefined : headersWith(request.headers, more));
  }

  #isWanted({ type }: PausedRequest): boolean {
    const { loads } = this.#options;
    if (type === 'Font') return loads.includes('fonts');
    return type !== 'Media' || loads.includes('media');
  }

  /** A document: of the page itself, or of one of its frames. */
  async #navigate(request: PausedRequest): Promise<void> {
    const isFrame = !this.#isMain(request);
    const url = canonicalUrl(request.url)?.href;
    if (url === undefined || request.method !== 'GET') {
      this.#refuse(request, isFrame);
      return;
    }
    if (isFrame) return await this.#frame(request, url);
    if (!this.#isGiven && url === this.#document.url) {
      this.#isGiven = true;
      this.#show(request, this.#document);
      return;
    }
    if (new URL(url).origin !== new URL(this.#document.url).origin) {
      this.#left.add(url);
      this.#refuse(request);
      return;
    }
    if (++this.#navigations > navigationsMax) {
      this.#isOver = true;
      this.#refuse(request);
      return;
    }
    const found = this.#ready.get(url) ?? (await this.#fetched(url, false));
    if (typeof found === 'string') this.#left.add(found);
    if (found === undefined || typeof found === 'string') {
      this.#refuse(request);
      return;
    }
    this.#ready.delete(url);
    if (found.url !== url) {
      this.#goOn(request, found);
      return;
    }
    this.#isGiven = true;
    this.#show(request, found);
  }

  async #fetched(url: string, isFrame: boolean): Promise<WebDocument | string | undefined> {
    const cookies = (await this.#tab?.cookiesFor(url)) ?? [];
    return await this.#options.fetchDocument(url, isFrame, cookies);
  }

  /** The page shows another document. */
  #committed(url: string): void {
    if (canonicalUrl(url)?.href === this.#given.url) this.#document = this.#given;
    this.#endAll((one) => one.begunAt < this.#givenAt);
  }

  /** It is the document of the page itself, once the page shows it. */
  #show(request: PausedRequest, document: WebDocument): void {
    this.#given = document;
    this.#givenAt = awakeMs();
    const own = request.id === undefined ? undefined : this.#underWay.get(request.id);
    if (own !== undefined) own.begunAt = this.#givenAt;
    give(request, document);
  }

  #refuse(request: PausedRequest, isFrame = false): void {
    if (!isFrame) {
      this.#isGiven = true;
      this.#stay();
    }
    request.refuse('Aborted');
  }

  async #frame(request: PausedRequest, url: string): Promise<void> {
    const known = this.#ready.get(url);
    if (known === undefined && ++this.#frames > framesMax) {
      this.#isOver = true;
      request.refuse('BlockedByClient');
      return;
    }
    const found = known ?? (await this.#fetched(url, true));
    this.#ready.delete(url);
    if (found === undefined) request.refuse('BlockedByClient');
    else if (typeof found === 'string') redirect(request, found);
    else if (found.url !== url) this.#goOn(request, found);
    else give(request, found);
  }

  /** A redirect within the host: the browser asks for its end, which is here already. */
  #goOn(request: PausedRequest, found: WebDocument): void {
    this.#ready.set(found.url, found);
    redirect(request, found.url);
  }
}

type UnderWay = {
  readonly frame: string;
  readonly isDocument: boolean;
  begunAt: number;
  /** Gives back its seat. */
  release: () => void;
};

/** The browser follows redirects without a word, so it is sent on by a page. */
function redirect(request: PausedRequest, to: string): void {
  const text = to.replace(/&/g, '&amp;').replace(/"/g, '&quot;');
  const body = `<meta http-equiv="refresh" content="0;url=${text}">`;
  request.answer(200, [{ name: 'content-type', value: 'text/html' }], Buffer.from(body));
}

/** The browser takes a header as text, and makes UTF-8 of it. */
function give(request: PausedRequest, { status, headers, body }: WebDocument): void {
  const kept: { name: string; value: string }[] = [];
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || notForBrowser.test(name)) continue;
    for (const one of [value].flat()) kept.push({ name: name.toLowerCase(), value: asUtf8(one) });
  }
  if (!kept.some(({ name }) => name === 'content-type')) {
    kept.push({ name: 'content-type', value: 'text/html' });
  }
  request.answer(status, kept, body);
}

/** The request's own headers and more, which count. */
function headersWith(
  own: Readonly<Record<string, string>>,
  more: readonly (readonly [name: string, value: string])[],
): { name: string; value: string }[] {
  const named = new Map(Object.entries(own).map(([name, value]) => [name.toLowerCase(), value]));
  for (const [name, value] of more) named.set(name.toLowerCase(), value);
  return [...named].map(([name, value]) => ({ name, value }));
}

function isDocument({ type }: PausedRequest): boolean {
  return type === 'Document';
}

/** An EventSource, which Chromium takes for an XHR. */
function isStream({ headers }: PausedRequest): boolean {
  return headers['Accept'] === 'text/event-stream';
}

/** For a window, which nobody sees: no page waits for it. A browser that can have windows asks for
 *  one with each page. */
function isIcon({ type, headers }: PausedRequest): boolean {
  return type === 'Other' && (headers['Accept'] ?? '').startsWith('image/');
}

function isWeb(url: string): boolean {
  return url.startsWith('http://') || url.startsWith('https://');
}
