/** Jobs that wait for a slave: first in, first out among those that the same slaves may run. */
import type { JobRecord } from './job-record.ts';

export class WaitingJobs {
  /** By what they ask for. A Map keeps its order, so its first key is the oldest job. */
  readonly #groups = new Map<string, Map<number, JobRecord>>();
  #size = 0;
  #bytes = 0;

  /** Number of them that different slaves may run: each is looked at when a slave has room. */
  get groups(): number {
    return this.#groups.size;
  }

  get size(): number {
    return this.#size;
  }

  /** Approximate memory of them. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The oldest; undefined: none waits. */
  get first(): JobRecord | undefined {
    return this.firsts()[0];
  }

  /** A job that waits again comes behind those that came since. */
  add(record: JobRecord): void {
    const key = keyOf(record);
    const group = this.#groups.get(key) ?? new Map<number, JobRecord>();
    this.#groups.set(key, group);
    group.set(record.job, record);
    this.#size++;
    this.#bytes += bytesOf(record);
  }

  delete(record: JobRecord): boolean {
    const key = keyOf(record);
    const group = this.#groups.get(key);
    if (group === undefined || !group.delete(record.job)) return false;
    if (group.size === 0) this.#groups.delete(key);
    this.#size--;
    this.#bytes -= bytesOf(record);
    return true;
  }

  /** Those that only that process of a slave may run. */
  bound(instance: string): JobRecord[] {
    const all = [...this.#groups.values()].flatMap((group) => [...group.values()]);
    return all.filter((record) => record.bound === instance);
  }

  /** The oldest of each group, the oldest first. */
  firsts(): JobRecord[] {
    const heads = [...this.#groups.values()].flatMap((group) => {
      const { value } = group.values().next();
      return value === undefined ? [] : [value];
    });
    return heads.sort((a, b) => a.job - b.job);
  }
}

function keyOf({ program, script, on, bound }: JobRecord): string {
  return JSON.stringify([program, script, on, bound]);
}

function bytesOf({ args }: JobRecord): number {
  return args.reduce((sum, arg) => sum + 2 * arg.length + 16, 400);
}
