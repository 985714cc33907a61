/** The growth of the anonymous memory of a process during a test. Linux only. */
import { readFileSync } from 'node:fs';

type MemoryPeak = AsyncDisposable & {
  /** The highest value so far, above the value at the beginning. */
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
