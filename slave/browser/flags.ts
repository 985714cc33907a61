/**
 * The arguments of Chromium: without a window, with as little as can be that it does by itself.
 * Source: https://github.com/GoogleChrome/chrome-launcher/blob/main/docs/chrome-flags-for-tools.md
 */

/** Off: what the browser would do by itself, ways around the proxy, floods. */
const guarding = [
  '--disable-quic',
  '--disable-http2',
  '--webrtc-ip-handling-policy=disable_non_proxied_udp',
  '--force-webrtc-ip-handling-policy=disable_non_proxied_udp',
  '--dns-prefetch-disable',
  '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1',
  '--disable-domain-reliability',
  '--disable-background-mode',
  '--no-pings',
  '--disable-gpu',
];

/** Off: what is for people, for the maker of the browser, or for sites seen before. */
const quiet = [
  '--disable-background-networking',
  '--disable-breakpad',
  '--disable-component-extensions-with-background-pages',
  '--disable-component-update',
  '--disable-default-apps',
  '--disable-extensions',
  '--disable-field-trial-config',
  '--disable-infobars',
  '--disable-prompt-on-repost',
  '--disable-search-engine-choice-screen',
  '--disable-stack-profiler',
  '--disable-sync',
  '--metrics-recording-only',
  '--mute-audio',
  '--no-default-browser-check',
  '--no-first-run',
  '--no-service-autorun',
  '--password-store=basic',
  '--use-mock-keychain',
];

/** Features that are on. */
const featuresOn = [
  // Its network ends with the browser, never alone: a page would just lack what it asked for.
  'NetworkServiceInProcess2',
  'CDPScreenshotNewSurface',
  'SkipListAccountsWithoutGaiaCookies',
  // The browser's own name would not be that of the user agent.
  'UACHOverrideBlank',
];

/** Pages work as if each was in front, and look the same everywhere. */
const even = [
  '--allow-pre-commit-input',
  '--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4',
  // A page that comes back from it would make no request.
  '--disable-back-forward-cache',
  '--disable-background-timer-throttling',
  '--disable-backgrounding-occluded-windows',
  // Containers have 64 MB there.
  '--disable-dev-shm-usage',
  '--disable-hang-monitor',
  '--disable-renderer-backgrounding',
  `--enable-features=${featuresOn.join(',')}`,
  // WebGL without a graphics card.
  '--enable-unsafe-swiftshader',
  '--force-color-profile=srgb',
  '--hide-scrollbars',
];

/** Features that are off. */
const featuresOff = [
  // Requests of the browser itself.
  'AimEnabled',
  'MediaRouter',
  'NetworkTimeServiceQuerying',
  'OptimizationHints',
  'LensOverlay',
  'PreconnectToSearch',
  // http: stays http:.
  'HttpsFirstBalancedModeAutoEnable',
  'HttpsUpgrades',
  // Chromium 155 ends requests that were sent elsewhere after a preflight, where all are looked at.
  'AvoidCorsURLLoaderRestartOnRedirect',
  'AvoidUnnecessaryBeforeUnloadCheckSync',
  'DestroyProfileOnBrowserClose',
  'ThirdPartyStoragePartitioning',
  // Pages that nobody has asked for yet.
  'Prerender2',
  'PrefetchProxy',
  // To save time: a page gets a second frame in its renderer, and its first picture waits.
  'PaintHolding',
  'RenderDocument',
];

/** `--disable-threaded-compositing` would save much, but then there are no frames: nothing
 *  animates, nothing becomes visible. */
const always = [
  ...guarding,
  ...quiet,
  ...even,
  `--disable-features=${featuresOff.join(',')}`,
  '--headless',
  '--no-startup-window',
  '--remote-debugging-pipe',
];

type Started = {
  /** Its own, empty. */
  readonly folder: string;
  readonly isSandboxed: boolean;
  /** URL of the proxy for what belongs to no page. */
  readonly proxy: string;
  /** Of pages that say nothing else. */
  readonly userAgent: string;
};

/** CSS pixels of a page. */
export const view = { width: 1_280, height: 720 };

/** The arguments of a browser. */
export function browserFlags({ folder, isSandboxed, proxy, userAgent }: Started): string[] {
  return [
    ...always,
    `--user-data-dir=${folder}`,
    `--user-agent=${userAgent}`,
    `--window-size=${view.width},${view.height}`,
    `--proxy-server=${proxy}`,
    // Its own machine, too.
    '--proxy-bypass-list=<-loopback>',
    ...(isSandboxed ? [] : ['--no-sandbox']),
  ];
}
