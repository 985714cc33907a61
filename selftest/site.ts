/**
 * A small web site on 127.0.0.1 for the selftest and the tests: pages, images, redirects, missing
 * pages, answers that heal after a while, slow ones, and files that are not HTML. It keeps a log of
 * all requests. It derives the truth about itself from the description of its pages, without
 * reading HTML.
 */
import { EventEmitter, once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createSecureServer, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Server, Socket } from 'node:net';

/** Private key and certificate, PEM. */
export type Identity = { readonly key: string; readonly cert: string };

type Page = {
  readonly kind: 'page';
  /** Paths of this site, or absolute URLs. */
  readonly links: readonly string[];
  /** img[src] */
  readonly images: readonly string[];
  /** Candidates of img[srcset] */
  readonly srcset?: readonly string[];
};
export type Resource = (
  | Page
  | { readonly kind: 'redirect'; readonly to: string }
  | { readonly kind: 'file'; readonly type: string; readonly body?: string | Buffer }
) & {
  /** Number of first answers that are 503. */
  readonly heals?: number;
  /** Delay of every answer. */
  readonly delayMs?: number;
  /** Validators of the answer; a request with one of them gets 304. */
  readonly etag?: string;
  readonly lastModified?: string;
  /** Set-Cookie of every answer. */
  readonly setCookie?: string;
};
export type Resources = Map<string, Resource>;

type Request = {
  readonly path: string;
  readonly at: number;
  /** Port of the client's socket. */
  readonly client: number;
  readonly userAgent: string;
  readonly cookie: string;
  readonly httpVersion: string;
  /** If-None-Match and If-Modified-Since, if they were sent. */
  readonly conditions: readonly string[];
  /** Requests under way when this one came, itself included. */
  readonly atOnce: number;
  status: number;
  /** Undefined while it is being answered, or when its client went away before. */
  endedAt?: number;
};

type SiteOptions = {
  readonly delayMs?: number;
  readonly host?: string;
  /** https with this identity; http without. */
  readonly identity?: Identity;
  /** Speaks HTTP/2, too. */
  readonly http2?: boolean;
};

/** The results of a correct crawl: absolute URLs, sorted, each once. */
export type Truth = {
  readonly pages: readonly string[];
  readonly images: readonly string[];
  readonly broken: readonly string[];
  readonly files: readonly string[];
  /** Redirects, with any target. */
  readonly moved: readonly string[];
};

export class TestSite {
  readonly resources: Resources;
  /** Requests for anything but robots.txt, and those for it. */
  readonly log: Request[] = [];
  readonly robotsLog: Request[] = [];
  /** Body of robots.txt, or the status of its answer. */
  robots: string | number = 404;
  robotsMovedTo: string | undefined;
  /** Added to the wait of every answer, in ms; may be changed while it runs. */
  delayMs: number;
  /** Answers are 503 while this is true, and for `heals` of each resource otherwise. */
  isDown = false;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #scheme: 'http' | 'https';
  readonly #events = new EventEmitter().setMaxListeners(0);
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #refusals = new Map<string, number>();
  #atOnce = 0;
  /** Answers that wait for `release`; undefined while answers need not wait. */
  #held: (() => void)[] | undefined;
  #host = '';

  private constructor(resources: Resources, { delayMs = 0, identity, http2 }: SiteOptions) {
    this.resources = resources;
    this.delayMs = delayMs;
    const take = (
      request: IncomingMessage | Http2ServerRequest,
      response: ServerResponse | Http2ServerResponse,
    ) => this.#take(request, response as ServerResponse);
    this.#scheme = identity === undefined ? 'http' : 'https';
    if (identity === undefined) this.#server = createServer(take);
    else if (http2) this.#server = createSecureServer({ ...identity, allowHTTP1: true }, take);
    else this.#server = createHttpsServer({ ...identity }, take);
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  static async start(resources: Resources, options: SiteOptions = {}): Promise<TestSite> {
    const site = new TestSite(resources, options);
    site.#host = options.host ?? '127.0.0.1';
    site.#server.listen(0, site.#host);
    await once(site.#server, 'listening');
    return site;
  }

  get origin(): string {
    return `${this.#scheme}://${this.#host}:${this.port}`;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** The start page. */
  get url(): string {
    return `${this.origin}/`;
  }

  /** Number of requests per path. */
  get counts(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { path } of this.log) counts.set(path, (counts.get(path) ?? 0) + 1);
    return counts;
  }

  /** Maximum number of concurrent requests. */
  get atOnceMax(): number {
    return Math.max(0, ...this.log.map(({ atOnce }) => atOnce));
  }

  /** Resolves when the log is as wanted; checked at every request and answer. */
  async until(wanted: (log: readonly Request[]) => boolean): Promise<void> {
    while (!wanted(this.log)) await once(this.#events, 'change');
  }

  /** Resolves after `count` requests. */
  async requested(count: number): Promise<void> {
    await this.until((log) => log.length >= count);
  }

  /** Holds all answers until `release`. */
  hold(): void {
    this.#held ??= [];
  }

  release(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const answer of held) answer();
  }

  async close(): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await once(this.#server, 'close');
  }

  /** Returns the truth from `start` on, within `maxDepth` links, on this site only. */
  truth(options: { start?: string; maxDepth?: number; images?: 'img' | 'all' } = {}): Truth {
    const { start = '/', maxDepth = Number.POSITIVE_INFINITY } = options;
    const found = { pages: new Set<string>(), images: new Set<string>() };
    const broken = new Set<string>();
    const files = new Set<string>();
    const moved = new Set<string>();
    const depths = new Map([[start, 0]]);
    const absolute = (target: string) => new URL(target, this.origin).href;
    for (const [path, depth] of depths) {
      const resource = this.resources.get(path);
      const reach = (target: string, at: number) => {
        if (target.startsWith('/') && at <= maxDepth && !depths.has(target)) depths.set(target, at);
      };
      if (resource === undefined) {
        broken.add(absolute(path));
      } else if (resource.kind === 'file') {
        files.add(absolute(path));
      } else if (resource.kind === 'redirect') {
        moved.add(absolute(path));
        reach(resource.to, depth);
      } else {
        found.pages.add(absolute(path));
        for (const src of resource.images) found.images.add(absolute(src));
        if (options.images !== 'img') {
          for (const src of resource.srcset ?? []) found.images.add(absolute(src));
        }
        for (const link of resource.links) reach(link, depth + 1);
      }
    }
    return {
      pages: [...found.pages].sort(),
      images: [...found.images].sort(),
      broken: [...broken].sort(),
      files: [...files].sort(),
      moved: [...moved].sort(),
    };
  }

  #take(request: IncomingMessage | Http2ServerRequest, response: ServerResponse): void {
    const path = request.url ?? '/';
    const resource = this.resources.get(path);
    const entry: Request = {
      path,
      at: performance.now(),
      client: request.socket.remotePort ?? 0,
      userAgent: request.headers['user-agent'] ?? '',
      cookie: request.headers.cookie ?? '',
      httpVersion: request.httpVersion,
      conditions: ['if-none-match', 'if-modified-since'].flatMap(
        (name) => request.headers[name] ?? [],
      ),
      atOnce: ++this.#atOnce,
      status: 0,
    };
    (path === '/robots.txt' ? this.robotsLog : this.log).push(entry);
    response.on('close', () => {
      this.#atOnce--;
      if (response.writableFinished) entry.endedAt = performance.now();
      this.#events.emit('change');
    });
    this.#events.emit('change');
    const answer = () => {
      if (this.#held === undefined) this.#answer(entry, resource, response);
      else this.#held.push(answer);
    };
    const waitMs = this.delayMs + (resource?.delayMs ?? 0);
    if (waitMs === 0) {
      answer();
      return;
    }
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      answer();
    }, waitMs);
    this.#timers.add(timer);
  }

  #answer(entry: Request, resource: Resource | undefined, response: ServerResponse): void {
    if (entry.path === '/robots.txt' && this.robotsMovedTo !== undefined) {
      response.writeHead(301, { location: this.robotsMovedTo }).end();
      return;
    }
    if (entry.path === '/robots.txt') {
      entry.status = typeof this.robots === 'number' ? this.robots : 200;
      response.writeHead(entry.status, { 'content-type': 'text/plain' }).end(`${this.robots}`);
      return;
    }
    const { etag, lastModified } = resource ?? {};
    const validators = {
      ...(etag === undefined ? {} : { etag }),
      ...(lastModified === undefined ? {} : { 'last-modified': lastModified }),
      ...(resource?.setCookie === undefined ? {} : { 'set-cookie': resource.setCookie }),
    };
    if (entry.conditions.some((text) => text === etag || text === lastModified)) {
      entry.status = 304;
      response.writeHead(304, validators).end();
      return;
    }
    const send = (status: number, type: string, body: string | Buffer) => {
      entry.status = status;
      response.writeHead(status, { 'content-type': type, ...validators }).end(body);
    };
    const refused = this.#refusals.get(entry.path) ?? 0;
    if (this.isDown || (resource !== undefined && refused < (resource.heals ?? 0))) {
      this.#refusals.set(entry.path, refused + 1);
      send(503, 'text/html', 'later');
      return;
    }
    switch (resource?.kind) {
      case undefined:
        send(404, 'text/html', '<a href="/only-on-a-404">x</a><img src="/only-on-a-404.png">');
        return;
      case 'page':
        send(200, 'text/html; charset=utf-8', htmlOf(entry.path, resource));
        return;
      case 'file':
        send(200, resource.type, resource.body ?? '<a href="/only-in-a-file">x</a>');
        return;
      case 'redirect':
        entry.status = 302;
        response.writeHead(302, { location: resource.to }).end();
        return;
      default:
        resource satisfies never;
    }
  }
}

/** Returns `count` pages, all reachable from `/`, with all other things of a site. */
export function generateSite(seed: number, count: number): Resources {
  const random = randomOf(seed);
  const pick = (max: number) => Math.floor(random() * max);
  const resources: Resources = new Map();
  const pathOf = (page: number) => (page === 0 ? '/' : `/page/${page}`);
  for (let page = 0; page < count; page++) {
    // A tree makes every page reachable; the other links lead anywhere, most to known pages.
    const links = [2 * page + 1, 2 * page + 2].filter((child) => child < count).map(pathOf);
    for (let i = pick(6); i > 0; i--) links.push(pathOf(pick(count)));
    const images = Array.from({ length: pick(4) }, () => `/img/${pick(count)}.png`);
    const srcset = random() < 0.2 ? [`/img/${page}-1x.png`, `/img/${page}-2x.png`] : [];
    if (random() < 0.1) links.push(`/missing/${page}`);
    if (random() < 0.1) links.push(addTo(resources, `/file/${page}.txt`, textFile));
    if (random() < 0.1) {
      const to = pathOf(pick(count));
      links.push(addTo(resources, `/moved/${page}`, { kind: 'redirect', to }));
    }
    if (random() < 0.03) {
      const to = `http://elsewhere.invalid/${page}`;
      links.push(addTo(resources, `/away/${page}`, { kind: 'redirect', to }), to);
    }
    const slow = random() < 0.05 ? { delayMs: pick(50) } : {};
    const ill = random() < 0.02 && page > 0 ? { heals: 1 } : {};
    resources.set(pathOf(page), { kind: 'page', links, images, srcset, ...slow, ...ill });
  }
  return resources;
}

/** Pages by their paths, each with its links: `{ '/': ['/a'], '/a': [] }`. */
export function sitePages(links: Readonly<Record<string, readonly string[]>>): Resources {
  return new Map(
    Object.entries(links).map(([path, targets]) => [
      path,
      { kind: 'page', links: targets, images: [] },
    ]),
  );
}

/** A start page with `count` pages under it, `/1` to `/count`. */
export function flatSite(count: number): Resources {
  const paths = Array.from({ length: count }, (_, i) => `/${i + 1}`);
  return sitePages({ '/': paths, ...Object.fromEntries(paths.map((path) => [path, []])) });
}

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const textFile: Resource = { kind: 'file', type: 'text/plain' };

function addTo(resources: Resources, path: string, resource: Resource): string {
  resources.set(path, resource);
  return path;
}

function htmlOf(path: string, { links, images, srcset = [] }: Page): string {
  const lines = [
    `<!doctype html><title>${path}</title>`,
    ...links.map((href) => `<a href="${href}">${href}</a>`),
    ...images.map((src) => `<img src="${src}" alt="">`),
  ];
  if (srcset.length > 0) {
    lines.push(`<img srcset="${srcset.map((src, i) => `${src} ${i + 1}x`).join(', ')}" alt="">`);
  }
  return lines.join('\n');
}
