/** A slave's fetcher, asked for URLs as each kind of task asks it. */
import type { FetchSpec } from '../../shared/crawl.ts';
import type { AddressCache } from '../../shared/resolver.ts';
import { type FetchContext, Fetcher } from '../../slave/fetch/fetcher.ts';
import type { FailedOutcome } from '../../slave/fetch/outcome.ts';
import type { Kind } from '../../slave/kinds/kind.ts';
import { page } from '../../slave/kinds/page.ts';
import { robots } from '../../slave/kinds/robots.ts';
import { sitemap } from '../../slave/kinds/sitemap.ts';

type Request = [url: string, spec: FetchSpec, signal: AbortSignal, context?: FetchContext];

export class PageFetcher {
  readonly #fetcher: Fetcher;

  constructor(options: { connections: number; addresses?: AddressCache }) {
    this.#fetcher = new Fetcher(options);
  }

  fetch(...request: Request) {
    return this.#by(page, request);
  }

  fetchRobots(...request: Request) {
    return this.#by(robots, request);
  }

  fetchSitemap(...request: Request) {
    return this.#by(sitemap, request);
  }

  close(): Promise<void> {
    return this.#fetcher.close();
  }

  async #by<Body, Found extends { ok: true }>(
    { plan, outcome }: Kind<Body, Found>,
    request: Request,
  ): Promise<Found | FailedOutcome> {
    return outcome(await this.#fetcher.fetch(plan, ...request));
  }
}
