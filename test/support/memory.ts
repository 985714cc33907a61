/** The anonymous memory of a process: how far it grows while something goes on. Linux only. */
import { readFileSync } from 'node:fs';

export type MemoryPeak = AsyncDisposable & {
  /** The highest that was seen so far, above what it was at the beginning. */
  grownBytes(): number;
};

export function memoryPeak(pid: number): MemoryPeak {
  const before = anonymousBytes(pid);
  let peak = before;
  const look = () => {
    peak = Math.max(peak, anonymousBytes(pid));
  };
  const timer = setInterval(look, 20);
  return {
    grownBytes: () => {
      look();
      return peak - before;
    },
    [Symbol.asyncDispose]: () => {
      clearInterval(timer);
      return Promise.resolve();
    },
  };
}

function anonymousBytes(pid: number): number {
  const line = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'));
  return Number(line?.[1] ?? 0) * 1024;
}
