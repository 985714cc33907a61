/**
 * What Chromium is started with, besides Playwright's own flags, which turn off background
 * networking, updates, sync, extensions and translation.
 */

/** Off: what the browser would do by itself, ways around the proxy, pop-ups, floods. */
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

/** Features that Playwright turns off, whose own flag ours replaces: Chromium takes the last one.
 *  Source: `chromiumSwitches.ts` of playwright-core 1.65.1; a test compares them. */
const offInPlaywright = [
  'AvoidUnnecessaryBeforeUnloadCheckSync',
  'DestroyProfileOnBrowserClose',
  'HttpsUpgrades',
  'HttpsFirstBalancedModeAutoEnable',
  'LensOverlay',
  'MediaRouter',
  'PaintHolding',
  'ThirdPartyStoragePartitioning',
  'AvoidCorsURLLoaderRestartOnRedirect',
  'TcpPortRandomizationWin',
  'OptimizationHints',
  'NetworkTimeServiceQuerying',
  'AimEnabled',
  'PreconnectToSearch',
  'msForceBrowserSignIn',
  'msEdgeUpdateLaunchServicesPreferredVersion',
];

/** Off to save time: with `RenderDocument` a page gets a second frame in its renderer, to leave the
 *  empty page that each task begins with. (`--disable-threaded-compositing` would save as much
 *  again and more, but then there are no frames: nothing animates, nothing becomes visible.) */
const sparing = [`--disable-features=${[...offInPlaywright, 'RenderDocument'].join(',')}`];

export const browserFlags: readonly string[] = [...guarding, ...sparing];

/** Of Playwright, for tests of one's own pages. */
export const flagsUnwanted: readonly string[] = [
  '--disable-popup-blocking',
  '--disable-ipc-flooding-protection',
];
