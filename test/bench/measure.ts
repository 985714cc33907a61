/** Shared by the benches: CPU time and memory of a process, and figures as people read them. */
import { readFileSync } from 'node:fs';

/** Linux counts CPU time in hundredths of a second. */
const tickMs = 10;

/** CPU time of a process so far, its threads included, in ms. Source: proc(5), fields 14 and 15. */
export function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * tickMs;
}

/** Anonymous memory of a process, in bytes: not what the kernel caches of the store's file. */
export function anonymousBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^RssAnon:\s+(\d+) kB/m.exec(status)?.[1]) * 1024;
}

/** CPU time of children that have ended and been waited for, in ms. */
export function childrenCpuMs(): number {
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1)?.split(' ') ?? [];
  return (Number(fields[13]) + Number(fields[14])) * tickMs;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

export function say(line: string): void {
  console.log(line);
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** 1234567 as 1,234,567. */
export function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}
