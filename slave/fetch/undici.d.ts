/**
 * The modules of undici that a slave uses, by their paths in the pinned version: the package as a
 * whole brings a `fetch`, WebSockets, caches and mocks, and a slave would start half as slow again.
 */
declare module 'undici/lib/dispatcher/pool.js' {
  export { Pool as default } from 'undici';
}
declare module 'undici/lib/core/connect.js' {
  export { buildConnector as default } from 'undici';
}
/** What the package makes a method of every dispatcher. */
declare module 'undici/lib/api/api-connect.js' {
  import type { Dispatcher } from 'undici';

  export default function httpConnect(
    this: Dispatcher,
    options: Dispatcher.ConnectOptions,
  ): Promise<Dispatcher.ConnectData>;
}
