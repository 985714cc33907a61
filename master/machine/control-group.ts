/**
 * Resources that Linux lets this process have: the limits of its control group and of those above
 * it, as `docker run --cpus 1.5 --memory 512m` or a systemd unit sets them. Source: Linux, "Control
 * Group v2", cpu.max and memory.max; v1, cpu.cfs_quota_us and memory.limit_in_bytes.
 */
import { existsSync, readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { join } from 'node:path';
import { grouped } from '../../shared/amount.ts';

type GroupLimits = {
  /** 1.5 is possible. Infinity: no limit. */
  readonly cores: number;
  readonly memoryBytes: number;
};

/** `root`: the folder where `proc` and `sys` are. */
export function groupLimits(root = '/'): GroupLimits {
  let cores = Number.POSITIVE_INFINITY;
  let memoryBytes = Number.POSITIVE_INFINITY;
  for (const folder of groupFolders(root)) {
    const [allowed, period] = numbersOf(join(folder, 'cpu.max')) ?? [
      ...(numbersOf(join(folder, 'cpu.cfs_quota_us')) ?? []),
      ...(numbersOf(join(folder, 'cpu.cfs_period_us')) ?? []),
    ];
    if (allowed !== undefined && period !== undefined && allowed > 0 && period > 0) {
      cores = Math.min(cores, allowed / period);
    }
    for (const file of ['memory.max', 'memory.limit_in_bytes']) {
      const [bytes] = numbersOf(join(folder, file)) ?? [];
      if (bytes !== undefined && bytes > 0) memoryBytes = Math.min(memoryBytes, bytes);
    }
  }
  return { cores, memoryBytes };
}

/** A limit of the master that its group or this machine does not give is none: the kernel kills
 *  the master before it takes care. */
export function memoryWarnings(
  limitBytes: number,
  givenBytes = Math.min(totalmem(), groupLimits().memoryBytes),
): string[] {
  if (givenBytes >= limitBytes) return [];
  const [limit, given] = [limitBytes, givenBytes].map((bytes) =>
    grouped(Math.round(bytes / 2 ** 20)),
  );
  return [
    `--memory-limit is ${limit} MiB, but the master can have ${given} MiB here before the kernel ` +
      'kills it: lower --memory-limit, and leave some for slaves',
  ];
}

/** The folders of the groups of this process, of each hierarchy, up to its root. A container may
 *  see its own group as the root, under the name that it has outside. */
function groupFolders(root: string): string[] {
  const folders: string[] = [];
  for (const line of textOf(join(root, 'proc/self/cgroup')).split('\n')) {
    const [, controllers, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
    if (controllers === undefined || path === undefined) continue;
    // Each start asks, and most hierarchies of v1 have neither limit.
    if (controllers !== '' && !/\b(?:cpu|memory)\b/.test(controllers)) continue;
    const names =
      controllers === '' ? ['', 'unified'] : new Set([controllers, ...controllers.split(',')]);
    for (const name of names) {
      const parts = path.split('/').filter((part) => part !== '');
      for (let depth = parts.length; depth >= 0; depth--) {
        folders.push(join(root, 'sys/fs/cgroup', name, ...parts.slice(0, depth)));
      }
    }
  }
  return folders;
}

/** `max` is not a number: there is no limit. */
function numbersOf(path: string): number[] | undefined {
  const text = textOf(path).trim();
  return text === '' ? undefined : text.split(/\s+/).map(Number);
}

function textOf(path: string): string {
  try {
    // Most are not there, and an error takes ten times as long.
    return existsSync(path) ? readFileSync(path, 'latin1') : '';
  } catch {
    return '';
  }
}
