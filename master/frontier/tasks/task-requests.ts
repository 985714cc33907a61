/**
 * Tasks that are no GET: seeds with a body. Such a task is named by its URL, its method and a hash
 * of its body, as a URL with a mark for its fragment, so that one address may be many tasks:
 *
 *     https://site/api#POST-0f6e…       (32 hexadecimal digits of SHA-256)
 *
 * Its level says that there is a request, which is kept beside the task as long as the crawl.
 * Source: PROTOCOL.md [C-100], [T-90].
 */
import { createHash } from 'node:crypto';
import type { TaskRequest } from '../../../shared/crawl.ts';
import { decodeRequest, requestKey, requestMark, type TaskRecord } from '../../store/records.ts';
import type { Store } from '../../store/store.ts';
import type { Task } from './tasks.ts';

/** The level of such a task. */
const requestLevel = 128;

/** Returns the name of a task. `url`: without a fragment. */
export function requestName(
  url: URL,
  { method, body }: Pick<TaskRequest, 'method' | 'body'>,
): string {
  const digest = createHash('sha256').update(body).digest('hex').slice(0, 32);
  return `${url.href}#${method}-${digest}`;
}

/** Returns the level of a page by its name. */
export function levelOf(name: string): number {
  return name.includes(requestMark) ? requestLevel : 0;
}

/** Does it have a request? */
export function hasRequest({ level }: Pick<TaskRecord, 'level'>): boolean {
  return level === requestLevel;
}

export class TaskRequests {
  readonly #store: Pick<Store, 'get'>;

  constructor(store: Pick<Store, 'get'>) {
    this.#store = store;
  }

  /** Returns what is sent for a task that has a request. */
  of({ url, queue }: Task): TaskRequest {
    const value = this.#store.get('meta', requestKey(queue.crawl, url));
    if (value !== undefined) return decodeRequest(value);
    // Not in a store that is whole; and it must not become a GET.
    return { method: 'POST', headers: [], body: new Uint8Array(0) };
  }
}
