/** Processes and their children. Source: proc(5), `stat`. */
import { readdirSync, readFileSync } from 'node:fs';

/** The process and all below it, those of their own groups included. */
export function treeOf(pid: number): number[] {
  const found = [pid];
  for (const parent of found) found.push(...childrenOf(parent));
  return found;
}

export function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((child) => statOf(child)?.parent === pid);
}

/** State (`R`, `S`, `T`, `Z` …) and parent of a process; undefined: it is gone. */
function statOf(pid: number): { state: string; parent: number } | undefined {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    return { state: fields[0] ?? '', parent: Number(fields[1]) };
  } catch {
    return undefined;
  }
}

/** Resolves when none of these processes runs any more. A killed one may wait for its parent. */
export async function gone(pids: readonly number[]): Promise<void> {
  await until(pids, (state) => state === undefined || /[ZX]/.test(state));
}

/** Resolves when all of these processes are in such a state. No event tells that. */
export async function until(
  pids: readonly number[],
  isIn: (state: string | undefined) => boolean,
): Promise<void> {
  while (!pids.every((pid) => isIn(statOf(pid)?.state))) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
