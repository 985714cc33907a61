/**
 * How soon V8 optimizes. A crawl of some hundred pages ends before it gets back what it takes to
 * optimize a function, so Node 20 waits for more ticks at first (scripts/build.mjs), and for its
 * usual number once so many pages are done. By pages, since a slow site runs little code, and no
 * timer may wake an idle process. Other versions of Node have no such setting.
 */
import v8 from 'node:v8';

const pages = 1_000;
const usualTicks = 3;

let done = 0;

/** A page is done. */
export function pageDone(): void {
  if (++done !== pages || !process.version.startsWith('v20.')) return;
  v8.setFlagsFromString(`--ticks-before-optimization=${usualTicks}`);
}
