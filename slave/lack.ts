/**
 * Resources that this machine lacks for a request or for a child process, by no fault of the host
 * or of the page: descriptors, memory, processes, name servers. Such a request was not made. Its
 * task is put off, after a rest in which it keeps its slot, so that a slave fetches no more at once
 * than it can. Pages wait for the child.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../shared/log.ts';

/** Of a look-up of a name, while no name server answers. */
export const noNamesCode = 'ENONAMES';

const lacks = new Map([
  ['EMFILE', 'no file descriptor is left (EMFILE): raise `ulimit -n`, or give fewer --slots'],
  ['ENFILE', 'the machine has no file descriptor left (ENFILE)'],
  ['ENOBUFS', 'the system has no memory left for sockets (ENOBUFS)'],
  ['EAGAIN', 'this user may have no more processes (EAGAIN): raise `ulimit -u`'],
  ['ENOMEM', 'the system has no memory left (ENOMEM)'],
  [noNamesCode, 'no name server of this machine answers'],
]);
/** Before it is tried again. */
export const lackRestMs = 1_000;
const logEveryMs = 60_000;

/** In words, for an error of this code; undefined: nothing, the host or the network is at fault. */
export function lackOf(code: string): string | undefined {
  return lacks.get(code);
}

/** One for all that waits in a slave. */
export class Lacks {
  readonly #log: Logger;
  #loggedAt = Number.NEGATIVE_INFINITY;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Logs it, if the last time is long ago. */
  told(lack: string): void {
    const now = performance.now();
    if (now - this.#loggedAt >= logEveryMs) {
      this.#loggedAt = now;
      this.#log.warn(`some pages wait: ${lack}`);
    }
  }

  /** Logs it. Resolves after a rest. @throws AbortError when the signal fires */
  async rest(lack: string, signal: AbortSignal): Promise<void> {
    this.told(lack);
    await sleep(lackRestMs, undefined, { signal });
  }
}
