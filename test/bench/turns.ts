/**
 * Preloaded into a master (`NODE_OPTIONS=--import`): writes the longest delay of its event loop of
 * each half second, in ms, to the file TURNS, a line each.
 */
import { appendFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

const file = process.env['TURNS'];
if (file !== undefined && isMainThread) {
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  setInterval(() => {
    appendFileSync(file, `${Date.now()} ${(delay.max / 1e6).toFixed(0)}\n`);
    delay.reset();
  }, 500).unref();
}
