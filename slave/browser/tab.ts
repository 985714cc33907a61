/**
 * One page of the browser, in a context of its own: its sessions, which are those of the page, of
 * frames in other processes and of workers, and what is heard from them.
 */
import type { DevTools, Heard } from './devtools.ts';
import { view } from './flags.ts';
import type { PausedRequest } from './paused-request.ts';
import type { Command, Commands, Events, KeptCookie } from './protocol.ts';

/** The reports of a tab. */
type TabListener = {
  /** A request waits to be judged. */
  readonly onPaused: (request: PausedRequest) => void;
  /** One has ended. */
  /** `error`: it has failed with that. */
  readonly onEnded: (id: string, error?: string) => void;
  /** Nobody waits for the request of a frame. */
  readonly onFrameGone: (frame: string) => void;
  /** Another document is in the page: what the one before it asked for has ended. */
  readonly onCommitted: (url: string) => void;
  /** The page hears of something without a request of its own, and may ask for more now. */
  readonly onStirred: () => void;
  /** A WebSocket was made. The browser asks nobody about it. */
  readonly onSocket: (url: string) => void;
};

export type TabOptions = {
  readonly userAgent: string;
  /** URL of the proxy for all that it asks for. */
  readonly proxy: string;
  readonly cookies: readonly { name: string; value: string; url: string }[];
};

/** Which tab a frame belongs to. */
export type FrameBook = {
  know(frame: string, tab: Tab): void;
  forget(frame: string): void;
};

type TabParts = {
  readonly devtools: DevTools;
  readonly frames: FrameBook;
  /** Id of its context. */
  readonly context: string;
  readonly options: TabOptions;
  /** The browser was started with what such a page is to be like. */
  readonly isAsStarted: boolean;
};

const blank = 'about:blank';
/** Copies of answers for somebody who looks at them: none. */
const noCopies = { maxTotalBufferSize: 1, maxResourceBufferSize: 1, maxPostDataSize: 1 };

export class Tab {
  readonly context: string;
  readonly #devtools: DevTools;
  readonly #frameBook: FrameBook;
  readonly #options: TabOptions;
  readonly #isAsStarted: boolean;
  readonly #frames = new Set<string>();
  /** The loader of the document in each frame, which is also the id of its request. */
  readonly #loaders = new Map<string, string>();
  /** Workers of more than this page: they get nothing they ask for. */
  readonly #shutOut = new Set<string>();
  readonly #sessions = new Set<string>();
  #session = '';
  #frame = '';
  #listener: TabListener | undefined;
  #isClosed = false;
  #hasDocument = false;
  readonly #loaded = signal<void>();
  readonly #broken = signal<string>();
  /** The scripts of its first document that the page waits for have run. */
  readonly loaded = this.#loaded.promise;
  /** Resolves when it can be used no longer, with why. */
  readonly broken = this.#broken.promise;

  constructor({ devtools, frames, context, options, isAsStarted }: TabParts) {
    this.context = context;
    this.#devtools = devtools;
    this.#frameBook = frames;
    this.#options = options;
    this.#isAsStarted = isAsStarted;
  }

  /** The frame of the page itself. */
  get mainFrame(): string {
    return this.#frame;
  }

  /** Its document has come to it: from now on its scripts may be what breaks it. */
  get hasDocument(): boolean {
    return this.#hasDocument;
  }

  /** True: nobody needs it any more. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Goes to a page, and resolves when it is on its way there. @throws Error there is none */
  async open(url: string, listener: TabListener): Promise<void> {
    this.#listener = listener;
    const { proxy: _, cookies } = this.#options;
    const browserContextId = this.context;
    const call = this.#devtools.call.bind(this.#devtools);
    this.#devtools.tell('Browser.setDownloadBehavior', { behavior: 'deny', browserContextId });
    // A cookie that the browser does not take is not sent.
    if (cookies.length > 0) {
      await call('Storage.setCookies', { cookies, browserContextId }).catch(() => {});
    }
    // Not its document at once: the renderer would be told of `#watch` when that has begun already.
    // And after an empty page it may not close itself. Source: HTML, window.close().
    const { targetId } = await call('Target.createTarget', { url: blank, browserContextId });
    this.#isWindow(targetId);
    const { sessionId } = await call('Target.attachToTarget', { targetId, flatten: true });
    this.#session = sessionId;
    this.#listen(sessionId);
    this.tell('Emulation.setFocusEmulationEnabled', { enabled: true });
    await this.#watch(sessionId);
    if (!this.#isAsStarted) await this.#dress();
    this.tell('Page.navigate', { url });
  }

  /** @throws Error it was refused, or the page is gone */
  call<C extends Command>(name: C, params: Commands[C][0]): Promise<Commands[C][1]> {
    return this.#devtools.call(name, params, this.#session);
  }

  tell<C extends Command>(name: C, params: Commands[C][0]): void {
    this.#devtools.tell(name, params, this.#session);
  }

  /** The cookies that it has for a URL. */
  async cookiesFor(url: string): Promise<readonly KeptCookie[]> {
    const { cookies } = await this.call('Network.getCookies', { urls: [url] });
    return cookies;
  }

  /** Ends it with its context. Resolves when the browser has done so. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const session of this.#sessions) this.#devtools.drop(session);
    for (const frame of this.#frames) this.#frameBook.forget(frame);
    const browserContextId = this.context;
    await this.#devtools.call('Target.disposeBrowserContext', { browserContextId }).catch(() => {});
  }

  /** A window was opened in its context: the first one is the page. */
  onWindow(target: string): void {
    if (this.#frame === '') this.#isWindow(target);
    if (target === this.#frame && !this.#isClosed) return;
    // Nobody looks at a window that a page opens.
    this.#devtools.tell('Target.closeTarget', { targetId: target });
  }

  /** A worker that is not the page's alone was made. */
  onShared(target: string): void {
    this.#shutOut.add(target);
    this.#know(target);
  }

  /** Does the browser say when this request ends? The script of a worker has the worker's id. */
  hearsEndOf(id: string): boolean {
    return !this.#shutOut.has(id);
  }

  /** Makes the empty page what it is to be. */
  async #dress(): Promise<void> {
    const { userAgent } = this.#options;
    const metrics = { ...view, deviceScaleFactor: 1, mobile: false };
    this.tell('Emulation.setDeviceMetricsOverride', metrics);
    // It is answered when those before it are.
    await this.call('Emulation.setUserAgentOverride', { userAgent });
  }

  /** A request of one of its frames waits. */
  onPaused(request: PausedRequest): void {
    const listener = this.#listener;
    if (listener === undefined || this.#isClosed) request.refuse('Aborted');
    else if (this.#shutOut.has(request.frame)) {
      request.refuse('BlockedByClient');
      listener.onStirred();
    } else listener.onPaused(request);
  }

  /** A session of the browser has ended. */
  onDetached(session: string): void {
    if (session === this.#session) this.#broken.resolve('the page closed its browser tab');
  }

  #listen(session: string): void {
    this.#sessions.add(session);
    this.#devtools.listen(session, (heard) => this.#hear(session, heard));
  }

  #isWindow(target: string): void {
    this.#frame = target;
    this.#know(target);
  }

  #know(frame: string): void {
    this.#frames.add(frame);
    this.#frameBook.know(frame, this);
  }

  /** Hears of its requests, its frames, and what it starts. Resolves when the browser knows: it
   *  answers the last of these itself, and the renderer has the others before its next page. */
  async #watch(session: string): Promise<void> {
    const waits = { autoAttach: true, waitForDebuggerOnStart: true, flatten: true };
    this.#devtools.tell('Page.enable', {}, session);
    this.#devtools.tell('Network.enable', noCopies, session);
    await this.#devtools.call('Target.setAutoAttach', waits, session);
  }

  #hear(session: string, { name, params }: Heard): void {
    const isMain = session === this.#session;
    switch (name) {
      case 'Network.loadingFinished':
        this.#listener?.onEnded(params.requestId);
        return;
      case 'Network.loadingFailed':
        this.#listener?.onEnded(params.requestId, params.errorText);
        return;
      case 'Network.eventSourceMessageReceived':
        this.#listener?.onStirred();
        return;
      case 'Network.webSocketCreated':
        this.#listener?.onSocket(params.url);
        return;
      case 'Page.domContentEventFired':
        if (isMain && this.#hasDocument) this.#loaded.resolve();
        return;
      case 'Page.frameAttached':
        this.#know(params.frameId);
        return;
      case 'Page.frameDetached':
        if (params.reason !== 'swap') this.#forget(params.frameId);
        return;
      case 'Page.frameNavigated':
        this.#navigated(params.frame);
        return;
      case 'Page.frameStoppedLoading':
        this.#stopped(params.frameId);
        return;
      case 'Page.javascriptDialogOpening': {
        const accept = params.type === 'beforeunload';
        this.#devtools.tell('Page.handleJavaScriptDialog', { accept }, session);
        return;
      }
      case 'Inspector.targetCrashed':
        if (isMain) this.#broken.resolve('the page crashed its browser tab');
        return;
      case 'Target.attachedToTarget':
        this.#attachedTo(params);
        return;
      case 'Target.detachedFromTarget':
        this.#sessions.delete(params.sessionId);
        this.#devtools.drop(params.sessionId);
        return;
      default:
        return;
    }
  }

  #navigated({ id, loaderId, url }: Events['Page.frameNavigated']['frame']): void {
    this.#endDocument(id);
    this.#loaders.set(id, loaderId);
    if (id !== this.#frame) return;
    // A page may go back to an empty one.
    this.#hasDocument ||= url !== blank;
    this.#listener?.onCommitted(url);
  }

  /** Nobody hears of the end of a document that its own script stops, or leaves. */
  #endDocument(frame: string): void {
    const loader = this.#loaders.get(frame);
    if (loader !== undefined) this.#listener?.onEnded(loader);
  }

  #stopped(frame: string): void {
    this.#endDocument(frame);
    if (frame === this.#frame && this.#hasDocument) this.#loaded.resolve();
  }

  #forget(frame: string): void {
    this.#frames.delete(frame);
    this.#loaders.delete(frame);
    this.#frameBook.forget(frame);
    this.#listener?.onFrameGone(frame);
  }

  /** A frame in another process, or a worker: it waits until it is listened to. */
  #attachedTo({ sessionId, targetInfo }: Events['Target.attachedToTarget']): void {
    const { targetId, type } = targetInfo;
    if (type === 'iframe' || type === 'worker') {
      this.#listen(sessionId);
      this.#watch(sessionId).catch(() => {});
      const { userAgent } = this.#options;
      this.#devtools.tell('Emulation.setUserAgentOverride', { userAgent }, sessionId);
    }
    if (type === 'iframe') this.#know(targetId);
    // A page that waits for one goes on at once when it gets no script.
    if (type === 'service_worker') this.onShared(targetId);
    this.#devtools.tell('Runtime.runIfWaitingForDebugger', {}, sessionId);
  }
}

function signal<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
