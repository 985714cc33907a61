/**
 * The modules of undici that a slave uses, by their paths in the pinned version: the whole package
 * includes a `fetch`, WebSockets, caches and mocks, and would make the start of a slave 50 %
 * slower. A bundle loads them when they are first called (scripts/build.mjs).
 */
declare module 'undici/lib/dispatcher/client.js' {
  export { Client as default } from 'undici';
}
declare module 'undici/lib/dispatcher/pool.js' {
  export { Pool as default } from 'undici';
}
