/** The master's debug lines: leases, retries with their time, holds and breakers. */

import type { Logger } from '../../shared/log.ts';
import type { FetchErrorBody } from '../../shared/requests.ts';
import type { Lease } from '../frontier/dispatch/leases.ts';
import type { FrontierListener } from '../frontier/frontier-events.ts';
import type { FrontierTrace } from '../frontier/trace.ts';

export class DebugLog implements FrontierTrace, FrontierListener {
  readonly #log: Logger;

  constructor(log: Logger) {
    this.#log = log;
  }

  leased({ id, task, holder, room }: Lease): void {
    const { url, attempts } = task;
    const fields = { url, slave: holder.name, lease: id, attempt: attempts + 1 };
    this.#log.debug(room.kind === 'slot' ? fields : { ...fields, room: room.kind }, 'leased');
  }

  lost({ id, task, holder }: Lease, notBefore: number): void {
    const fields = { url: task.url, slave: holder.name, lease: id, ...waitOf(notBefore) };
    this.#log.debug(fields, 'lease lost');
  }

  failed(
    url: string,
    { kind, message }: FetchErrorBody,
    attempts: number,
    retryAt: number | undefined,
  ): void {
    const fields = { url, attempts, error: `${kind}: ${message}` };
    if (retryAt === undefined) this.#log.debug(fields, 'failed, given up');
    else this.#log.debug({ ...fields, ...waitOf(retryAt) }, 'failed, tried again');
  }

  held(group: string, status: number, until: number): void {
    this.#log.debug({ host: group, status, ...waitOf(until) }, 'host holds');
  }

  hostSlept(host: string, forMs: number): void {
    this.#log.debug({ host, forMs: Math.round(forMs) }, 'host does not answer: it sleeps');
  }

  hostWoke(host: string): void {
    this.#log.debug({ host }, 'host answers again');
  }
}

function waitOf(at: number): { readonly inMs?: number } {
  return at === 0 ? {} : { inMs: Math.max(0, Math.round(at - Date.now())) };
}
