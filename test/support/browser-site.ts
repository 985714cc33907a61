/** A site for pages in a browser: it answers as a test says, and notes what was asked for. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { browserFlags } from './browser.ts';
import type { Cluster, Program } from './cluster.ts';
import { httpServer } from './http-server.ts';

export type Answer = string | ((request: IncomingMessage, response: ServerResponse) => void);

/** A site of these pages; anything else is a 404. */
export class BrowserSite {
  url = '';
  /** Paths in the order of their requests, and when these came (ms). */
  readonly asked: { readonly path: string; readonly at: number }[] = [];
  readonly pages: Record<string, Answer>;

  constructor(pages: Record<string, Answer>) {
    this.pages = pages;
  }

  async open(t: TestContext): Promise<this> {
    const port = await httpServer(t, (request, response) => this.#answer(request, response));
    this.url = `http://127.0.0.1:${port}`;
    return this;
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { url = '' } = request;
    this.asked.push({ path: url, at: performance.now() });
    const page = this.pages[url] ?? this.pages[url.replace(/\?.*/, '')];
    if (typeof page === 'function') {
      page(request, response);
      return;
    }
    const type = url.endsWith('.js') ? 'text/javascript' : 'text/html';
    response.writeHead(page === undefined ? 404 : 200, { 'content-type': type }).end(page);
  }

  /** How often a path was asked for. */
  count(path: string): number {
    return this.asked.filter((one) => one.path === path).length;
  }
}

/** Writes the crawl file `c` of a site. Returns its path. */
export function crawlFile(cluster: Cluster, site: BrowserSite, more: object): string {
  const path = join(cluster.folder, 'c.json');
  writeFileSync(path, JSON.stringify({ crawl: 'c', seeds: [`${site.url}/`], ...more }));
  return path;
}

/** Runs a crawl to its end with one slave. */
export async function crawled(
  cluster: Cluster,
  site: BrowserSite,
  more: object,
  onSlave: (slave: Program) => void = () => {},
): Promise<void> {
  const master = await cluster.master([crawlFile(cluster, site, more), '--exit-when-done']);
  onSlave(cluster.slave(browserFlags));
  assert.equal((await master.exited).code, 0, master.output);
}

/** The line of a page, by its path. */
export function lineOf(cluster: Cluster, path: string): Record<string, unknown> {
  const lines = cluster.fetched('c') as unknown as Record<string, unknown>[];
  const found = lines.find((one) => new URL(String(one['url'])).pathname === path);
  assert.ok(found !== undefined, path);
  return found;
}
