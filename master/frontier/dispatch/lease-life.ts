/** How long a lease lasts, however often it is extended, and how many redirects it waits for.
 *  Source: PROTOCOL.md [T-50]. */
import type { FetchSpec } from '../../../shared/crawl.ts';
import { renderLimits } from '../../../shared/render.ts';
import { kindOf } from '../kinds/kinds.ts';
import type { Task } from '../tasks/tasks.ts';

/** Pages wait in their slave for the browser, several rounds of them. */
const rendersOfLease = 4;

/** `fetch`: of its crawl. In ms. */
export function lifeMsOf(task: Task, fetch: FetchSpec | undefined): number {
  const renderMs = fetch?.render === undefined ? 0 : rendersOfLease * renderLimits.timeMs;
  return kindOf(task).fetchesOfLease * (fetch?.timeoutMs ?? 0) + renderMs;
}

export function hopsMaxOf(task: Task, fetch: FetchSpec | undefined): number {
  const { hopsMax } = kindOf(task);
  return hopsMax === 'crawl' ? (fetch?.redirectsMax ?? 0) : hopsMax;
}
