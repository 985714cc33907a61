/**
 * Preloaded into a master (`NODE_OPTIONS=--import`): writes to the file TURNS a line for each half
 * second, with the time when it began, the ms of the longest turn of the event loop, and the most
 * ms that a turn had a processor. The rest of a turn it waits: for the disk, or for a processor
 * that the clients of the bench have.
 */
import { appendFileSync, openSync, readSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

/** A turn counts up to so much longer than it is. */
const lookMs = 3;
const everyMs = 500;

const file = process.env['TURNS'];
if (file !== undefined && isMainThread) watch(file);

function watch(path: string): void {
  const stat = openSync('/proc/self/schedstat', 'r');
  const text = Buffer.alloc(64);
  /** Time of the main thread on a processor, in ms. Source: Linux, sched-stats.rst. */
  const cpuMs = (): number => {
    const length = readSync(stat, text, 0, text.length, 0);
    return Number(text.toString('latin1', 0, length).split(' ')[0]) / 1e6;
  };
  let [at, cpu] = [performance.now(), cpuMs()];
  let began = Date.now();
  let [longest, longestCpu] = [0, 0];
  setInterval(() => {
    const [now, used] = [performance.now(), cpuMs()];
    longest = Math.max(longest, now - at);
    longestCpu = Math.max(longestCpu, used - cpu);
    [at, cpu] = [now, used];
    if (Date.now() - began < everyMs) return;
    appendFileSync(path, `${began} ${longest.toFixed(0)} ${longestCpu.toFixed(0)}\n`);
    [began, longest, longestCpu] = [Date.now(), 0, 0];
  }, lookMs).unref();
}
