/**
 * A small site with every trap that a crawl must escape by itself: each makes endless pages, on a
 * real server, in addition to a few real pages. It counts requests, and knows the pages that a
 * correct crawl finds.
 */
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

const realCount = 30;
const sessionPages = 10;
const facets = ['color', 'size', 'brand', 'sort', 'price'];
const facetValues = 4;

/** Returns the links of a page of a trap. `rest`: the URL after the trap's own name. */
type Trap = (url: URL) => readonly string[];

const traps: Readonly<Record<string, Trap>> = {
  /** Months and days in both directions. */
  calendar: ({ pathname }) => {
    const [year = 2026, month = 1, day] = pathname.split('/').slice(2).filter(Boolean).map(Number);
    const to = (y: number, m: number, d?: number) => {
      const at = new Date(Date.UTC(y, m - 1, d ?? 1));
      const parts = [at.getUTCFullYear(), at.getUTCMonth() + 1, ...(d ? [at.getUTCDate()] : [])];
      return `/calendar/${parts.map((part) => String(part).padStart(2, '0')).join('/')}`;
    };
    if (day !== undefined) return [to(year, month), to(year, month, day + 1)];
    const days = Array.from({ length: 28 }, (_, i) => to(year, month, i + 1));
    return [to(year, month - 1), to(year, month + 1), to(year - 1, month), ...days];
  },
  /** An endless next page, which only its depth reveals. */
  week: ({ pathname }) => [`/week/${Number(pathname.split('/')[2] ?? 0) + 1}`],
  /** Relative links below themselves. */
  loop: () => ['loop/', 'again/'],
  /** Endless new folders. */
  deep: ({ pathname }) => [`f${pathname.split('/').length}/`],
  /** Any number of filters, in any order. */
  shop: ({ pathname, searchParams }) =>
    facets.flatMap((facet) =>
      Array.from({ length: facetValues }, (_, value) => {
        const next = new URLSearchParams(searchParams);
        next.set(facet, String(value));
        return `${pathname}?${next}`;
      }),
    ),
  /** Every link has one more parameter. */
  grow: ({ pathname, search }) => [`${pathname}${search}${search === '' ? '?' : '&'}x=1`],
  /** A text in the query that becomes ever longer. */
  long: ({ pathname, search }) => [`${pathname}${search || '?'}${'long'.repeat(100)}`],
};

export class TrapSite {
  /** Paths with their queries, in the order of requests. */
  readonly asked: string[] = [];
  readonly #server: Server;
  #sessions = 0;

  private constructor() {
    this.#server = createServer((request, response) => this.#answer(request.url ?? '/', response));
  }

  static async start(): Promise<TrapSite> {
    const site = new TrapSite();
    site.#server.listen(0, '127.0.0.1');
    await once(site.#server, 'listening');
    return site;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get url(): string {
    return `${this.origin}/`;
  }

  /** The real pages, without those with sessions. */
  get truth(): string[] {
    const pages = Array.from({ length: realCount }, (_, i) => `${this.origin}/real/${i + 1}`);
    return [this.url, ...pages, `${this.origin}/endless`];
  }

  /** Number of requests for pages of a trap. */
  askedOf(trap: string): number {
    return this.asked.filter((path) => new RegExp(`^/${trap}\\b`).test(path)).length;
  }

  async close(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  #answer(path: string, response: ServerResponse): void {
    if (path === '/robots.txt') {
      response.writeHead(404).end();
      return;
    }
    this.asked.push(path);
    const url = new URL(path, this.origin);
    const [, name = ''] = url.pathname.split(/[/;]/);
    const trap = traps[name];
    response.setHeader('content-type', 'text/html; charset=utf-8');
    if (name === '') response.end(htmlOf(path, this.#homeLinks()));
    else if (name === 'real') response.end(htmlOf(path, realLinks(url)));
    else if (name === 'session') response.end(htmlOf(path, this.#sessionLinks()));
    else if (name === 'endless') pour(response);
    else if (trap !== undefined) response.end(htmlOf(path, trap(url)));
    else response.writeHead(404).end();
  }

  #homeLinks(): string[] {
    const entries = Object.keys(traps).map((name) => `/${name}/`);
    const tooLong = `/too-long?${'x'.repeat(5_000)}`;
    return ['/real/1', ...entries, ...this.#sessionLinks(), '/endless', tooLong];
  }

  /** The same pages for every visitor, with new names in every answer. */
  #sessionLinks(): string[] {
    return Array.from({ length: sessionPages }, (_, page) => {
      const id = (++this.#sessions).toString(16).padStart(32, '0');
      return page % 2 === 0
        ? `/session/${page};jsessionid=${id}`
        : `/session/${page}?PHPSESSID=${id}`;
    });
  }
}

function realLinks({ pathname }: URL): string[] {
  const page = Number(pathname.split('/')[2]);
  // Only the endless page links to the last one.
  const children = [2 * page, 2 * page + 1].filter((child) => child < realCount);
  return ['/', ...children.map((child) => `/real/${child}`)];
}

/** A page that never ends, as fast as it is read. */
function pour(response: ServerResponse): void {
  response.write(htmlOf('/endless', [`/real/${realCount}`]));
  const filler = Buffer.from('<p>and so on</p>\n'.repeat(1_000));
  const more = () => {
    while (!response.destroyed && response.write(filler));
    if (!response.destroyed) response.once('drain', more);
  };
  more();
}

function htmlOf(title: string, links: readonly string[]): string {
  const quoted = (text: string) => text.replaceAll('&', '&amp;').replaceAll('"', '&quot;');
  const anchors = links.map((link) => `<a href="${quoted(link)}">x</a>`);
  return `<!doctype html><title>${quoted(title.slice(0, 80))}</title>\n${anchors.join('\n')}\n`;
}
