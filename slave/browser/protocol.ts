/**
 * The messages between a slave and Chromium: the part of the DevTools protocol that it uses.
 * Source: https://chromedevtools.github.io/devtools-protocol/tot/
 */

type Nothing = Record<string, never>;
type Header = { readonly name: string; readonly value: string };
type Cookie = { readonly name: string; readonly value: string; readonly url: string };
/** A cookie that it has. `domain` begins with a dot if hosts below have it, too. */
export type KeptCookie = {
  readonly name: string;
  readonly value: string;
  readonly domain: string;
  readonly path: string;
  readonly secure: boolean;
};
type Size = { readonly width: number; readonly height: number };

/** Parameters and results of the commands. */
export type Commands = {
  'Browser.close': [Nothing, Nothing];
  'Browser.getVersion': [Nothing, { product: string }];
  'Browser.setDownloadBehavior': [{ behavior: 'deny'; browserContextId: string }, Nothing];
  'Emulation.setDeviceMetricsOverride': [
    Size & { deviceScaleFactor: number; mobile: boolean },
    Nothing,
  ];
  'Emulation.setFocusEmulationEnabled': [{ enabled: boolean }, Nothing];
  'Emulation.setUserAgentOverride': [{ userAgent: string }, Nothing];
  'Fetch.continueRequest': [{ requestId: string; headers?: readonly Header[] }, Nothing];
  'Fetch.continueWithAuth': [
    { requestId: string; authChallengeResponse: { response: 'CancelAuth' } },
    Nothing,
  ];
  'Fetch.enable': [{ handleAuthRequests: boolean }, Nothing];
  'Fetch.failRequest': [{ requestId: string; errorReason: Refusal }, Nothing];
  'Fetch.fulfillRequest': [
    {
      requestId: string;
      responseCode: number;
      responseHeaders: readonly Header[];
      /** Base64. */
      body: string;
    },
    Nothing,
  ];
  'Input.dispatchMouseEvent': [
    {
      type: 'mouseMoved' | 'mousePressed' | 'mouseReleased';
      x: number;
      y: number;
      button?: 'left';
      buttons?: number;
      clickCount?: number;
    },
    Nothing,
  ];
  'Network.enable': [
    { maxTotalBufferSize: number; maxResourceBufferSize: number; maxPostDataSize: number },
    Nothing,
  ];
  'Network.getCookies': [{ urls: readonly string[] }, { cookies: readonly KeptCookie[] }];
  'Page.captureScreenshot': [
    {
      format: 'png';
      clip: Size & { x: number; y: number; scale: number };
      captureBeyondViewport: boolean;
    },
    { data: string },
  ];
  'Page.crash': [Nothing, Nothing];
  'Page.createIsolatedWorld': [{ frameId: string }, { executionContextId: number }];
  'Page.enable': [Nothing, Nothing];
  'Page.getLayoutMetrics': [
    Nothing,
    { cssContentSize: Size; cssVisualViewport: { clientWidth: number } },
  ];
  'Page.navigate': [{ url: string }, Nothing];
  'Page.handleJavaScriptDialog': [{ accept: boolean }, Nothing];
  'Runtime.evaluate': [
    { contextId?: number; expression: string; returnByValue: boolean; timeout?: number },
    { result: { value?: unknown }; exceptionDetails?: unknown },
  ];
  'Runtime.runIfWaitingForDebugger': [Nothing, Nothing];
  'Storage.setCookies': [{ cookies: readonly Cookie[]; browserContextId: string }, Nothing];
  'Target.attachToTarget': [{ targetId: string; flatten: boolean }, { sessionId: string }];
  'Target.closeTarget': [{ targetId: string }, Nothing];
  'Target.createBrowserContext': [
    { disposeOnDetach: boolean; proxyServer: string; proxyBypassList: string },
    { browserContextId: string },
  ];
  'Target.createTarget': [{ url: string; browserContextId: string }, { targetId: string }];
  'Target.disposeBrowserContext': [{ browserContextId: string }, Nothing];
  'Target.setAutoAttach': [
    { autoAttach: boolean; waitForDebuggerOnStart: boolean; flatten: boolean },
    Nothing,
  ];
  'Target.setDiscoverTargets': [
    { discover: boolean; filter: readonly { type: string }[] },
    Nothing,
  ];
};

/** Parameters of the events that are listened to; any other one is not even read. */
export type Events = {
  'Fetch.authRequired': { requestId: string };
  'Fetch.requestPaused': PausedParams;
  'Inspector.targetCrashed': Nothing;
  'Network.eventSourceMessageReceived': { requestId: string };
  'Network.loadingFailed': { requestId: string; errorText: string };
  'Network.loadingFinished': { requestId: string };
  'Network.webSocketCreated': { url: string };
  'Page.domContentEventFired': { timestamp: number };
  'Page.frameAttached': { frameId: string };
  'Page.frameDetached': { frameId: string; reason: string };
  'Page.frameNavigated': { frame: { id: string; loaderId: string; url: string } };
  'Page.frameStoppedLoading': { frameId: string };
  'Page.javascriptDialogOpening': { type: string };
  'Target.attachedToTarget': {
    sessionId: string;
    targetInfo: { targetId: string; type: string };
  };
  'Target.detachedFromTarget': { sessionId: string };
  'Target.targetCreated': {
    targetInfo: { targetId: string; type: string; browserContextId?: string };
  };
};

/** A request that waits for what is to become of it. */
export type PausedParams = {
  readonly requestId: string;
  readonly request: {
    readonly url: string;
    readonly method: string;
    readonly headers: Readonly<Record<string, string>>;
  };
  readonly frameId: string;
  readonly resourceType: string;
  /** The same for all requests of a chain of redirects. */
  readonly networkId?: string;
};

export type Refusal = 'Aborted' | 'BlockedByClient';
export type Command = keyof Commands;
export type EventName = keyof Events;

/** Each of them, for those who look at names alone. */
const eventNames: Record<EventName, true> = {
  'Fetch.authRequired': true,
  'Fetch.requestPaused': true,
  'Inspector.targetCrashed': true,
  'Network.eventSourceMessageReceived': true,
  'Network.loadingFailed': true,
  'Network.loadingFinished': true,
  'Network.webSocketCreated': true,
  'Page.domContentEventFired': true,
  'Page.frameAttached': true,
  'Page.frameDetached': true,
  'Page.frameNavigated': true,
  'Page.frameStoppedLoading': true,
  'Page.javascriptDialogOpening': true,
  'Target.attachedToTarget': true,
  'Target.detachedFromTarget': true,
  'Target.targetCreated': true,
};
export const eventsHeard: ReadonlySet<string> = new Set(Object.keys(eventNames));
