/**
 * The pages of a browser, and whose each request is. A request of what no page is known to have,
 * such as a window that a page opens or a worker that several share, is refused.
 */
import { AwakeTimer } from '../../shared/awake.ts';
import type { DevTools, Heard } from './devtools.ts';
import type { Launched } from './launch.ts';
import { PausedRequest } from './paused-request.ts';
import { type FrameBook, Tab, type TabOptions } from './tab.ts';

/** The browser says that there is a frame, and what it asks for, in either order. */
const strayMs = 1_000;
const straysMax = 200;

type Stray = { readonly request: PausedRequest; readonly timer: AwakeTimer };

export class Tabs implements FrameBook {
  readonly #devtools: DevTools;
  readonly #launched: Launched;
  readonly #byContext = new Map<string, Tab>();
  readonly #byFrame = new Map<string, Tab>();
  readonly #strays = new Set<Stray>();

  constructor(launched: Launched) {
    const { devtools } = launched;
    this.#launched = launched;
    this.#devtools = devtools;
    devtools.listenToBrowser((heard) => this.#hear(heard));
  }

  /** Makes a context for a page. @throws Error there is none */
  async make(options: TabOptions): Promise<Tab> {
    const { browserContextId: context } = await this.#devtools.call('Target.createBrowserContext', {
      disposeOnDetach: true,
      proxyServer: options.proxy,
      // Its own machine, too.
      proxyBypassList: '<-loopback>',
    });
    const { devtools, isShell, userAgent } = this.#launched;
    const isAsStarted = isShell && options.userAgent === userAgent;
    const tab = new Tab({ devtools, frames: this, context, options, isAsStarted });
    this.#byContext.set(context, tab);
    return tab;
  }

  /** Ends a page with all that it has. */
  async close(tab: Tab): Promise<void> {
    await tab.close();
    this.#byContext.delete(tab.context);
  }

  know(frame: string, tab: Tab): void {
    this.#byFrame.set(frame, tab);
    for (const stray of this.#strays) {
      if (stray.request.frame !== frame) continue;
      stray.timer.clear();
      this.#strays.delete(stray);
      tab.onPaused(stray.request);
    }
  }

  forget(frame: string): void {
    this.#byFrame.delete(frame);
  }

  #hear({ name, params }: Heard): void {
    switch (name) {
      case 'Fetch.requestPaused':
        this.#paused(new PausedRequest(this.#devtools, params));
        return;
      case 'Fetch.authRequired': {
        const authChallengeResponse = { response: 'CancelAuth' } as const;
        const { requestId } = params;
        this.#devtools.tell('Fetch.continueWithAuth', { requestId, authChallengeResponse });
        return;
      }
      case 'Target.targetCreated': {
        const { targetId, type, browserContextId = '' } = params.targetInfo;
        const tab = this.#byContext.get(browserContextId);
        if (type === 'shared_worker') tab?.onShared(targetId);
        else tab?.onWindow(targetId);
        return;
      }
      case 'Target.detachedFromTarget':
        for (const tab of this.#byContext.values()) tab.onDetached(params.sessionId);
        this.#devtools.drop(params.sessionId);
        return;
      default:
        return;
    }
  }

  #paused(request: PausedRequest): void {
    const tab = this.#byFrame.get(request.frame);
    if (tab !== undefined) {
      tab.onPaused(request);
      return;
    }
    if (this.#strays.size >= straysMax) {
      request.refuse('BlockedByClient');
      return;
    }
    const timer = new AwakeTimer(() => {
      this.#strays.delete(stray);
      request.refuse('BlockedByClient');
    }, strayMs);
    timer.unref();
    const stray = { request, timer };
    this.#strays.add(stray);
  }
}
