/**
 * Preloaded into a master (`NODE_OPTIONS=--import`): writes the longest delay of its event loop of
 * each half second, in ms, to the file TURNS: a line each, with the time when that half second
 * began.
 */
import { appendFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

const file = process.env['TURNS'];
if (file !== undefined && isMainThread) {
  // A turn counts up to so much longer than it is.
  const delay = monitorEventLoopDelay({ resolution: 2 });
  delay.enable();
  let began = Date.now();
  setInterval(() => {
    appendFileSync(file, `${began} ${(delay.max / 1e6).toFixed(0)}\n`);
    delay.reset();
    began = Date.now();
  }, 500).unref();
}
