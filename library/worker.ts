/**
 * A worker of a crawl in a Node program: it gets the pages of a running master, one after the other
 * or several at once, and reports what a function found on each. The master keeps order,
 * politeness, robots.txt, retries and dedupe, as for slaves.
 * Source: PROTOCOL.md, chapter 7, and [T-128].
 */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { MasterClient, parseAddress } from '../shared/client.ts';
import { CommandError, ConfigError, ConnectionError, messageOf } from '../shared/errors.ts';
import { encodeValue } from '../shared/frame.ts';
import { limits, type Push, type TaskPush } from '../shared/protocol.ts';
import type { Image } from '../shared/requests.ts';
import { parseUrl } from '../shared/url.ts';
import { checkSignal } from './options.ts';

/** A page to be fetched. */
export type WorkerPage = {
  readonly url: string;
  readonly depth: number;
  /** Name of the crawl. */
  readonly crawl: string;
  /** How the crawl wants to be known: send it with the request. */
  readonly userAgent: string;
  /** It is lost: the connection ended, or the master took it back. */
  readonly signal: AbortSignal;
};

/** The findings on a page. Links and images may be relative to it. */
export type Found = {
  readonly links?: Iterable<string>;
  readonly images?: Iterable<string>;
  /** Default: 200. 429 and 5xx are tried again. */
  readonly status?: number;
  readonly title?: string;
  readonly type?: string;
  /** Where redirects led to. On another host it is a link, and not this page. */
  readonly finalUrl?: string;
  readonly bytes?: number;
  /** Rows of `items.jsonl`, with the rule `item`. */
  readonly items?: readonly Readonly<Record<string, unknown>>[];
};

export type WorkerOptions = {
  /** `host:port`. Default: 127.0.0.1:6666. */
  readonly master?: string;
  /** The key, or all that the key file holds. Default: read from ./orb-data/authkey. */
  readonly authkey?: string | Uint8Array;
  /** Shown by `status`. Default: host name and process id. */
  readonly name?: string;
  /** Pages at once. Default: 4. */
  readonly concurrency?: number;
  /** Ends the worker when its pages are done. */
  readonly signal?: AbortSignal;
};

const optionKeys = ['master', 'authkey', 'name', 'concurrency', 'signal'];
const foundKeys = [
  'links',
  'images',
  'status',
  'title',
  'type',
  'finalUrl',
  'bytes',
  'items',
] as const satisfies readonly (keyof Found)[];
const retryFirstMs = 200;
const retryMaxMs = 5_000;

/**
 * Works for a master until it says that all is done, or until `signal`. A page for which the
 * function throws is a failed attempt, and tried again. @throws ConfigError an option is wrong ·
 * AuthError · ProtocolError · ConnectionError the master was never there
 */
export async function worker(
  options: WorkerOptions,
  visit: (page: WorkerPage) => Promise<Found | undefined> | Found | undefined,
): Promise<void> {
  refuseOdd(options, visit);
  const { master = '127.0.0.1:6666', signal } = options;
  const { host, port, isEncrypted } = parseAddress(master);
  const authkey = options.authkey ?? localAuthkey();
  const where = { host: host || '127.0.0.1', port, authkey, ...(isEncrypted && { tls: true }) };
  let hasJoined = false;
  for (let attempt = 0; signal?.aborted !== true; attempt++) {
    const session = new WorkerSession({ ...options, ...where }, visit);
    try {
      await session.opened;
      hasJoined = true;
      attempt = 0;
      if (await session.ended()) return;
    } catch (error) {
      if (!hasJoined || !(error instanceof ConnectionError)) throw error;
    }
    const waitMs = Math.min(retryMaxMs, retryFirstMs * 2 ** attempt) * (0.5 + Math.random());
    await sleep(waitMs, undefined, signal && { signal }).catch(() => {});
  }
}

/** With them no page would ever be asked for, or each would fail. @throws ConfigError */
function refuseOdd(options: WorkerOptions, visit: unknown): void {
  if (typeof visit !== 'function') {
    throw new ConfigError('worker takes a function that gets each page, as its second argument');
  }
  const unknown = Object.keys(options).find((key) => !optionKeys.includes(key));
  if (unknown !== undefined) {
    throw new ConfigError(
      `${unknown}: there is no such key; the keys are ${optionKeys.join(', ')}`,
    );
  }
  const { concurrency = 1, signal } = options;
  checkSignal(signal);
  if (!Number.isInteger(concurrency) || concurrency < 1) {
    throw new ConfigError('concurrency: It must be a whole number from 1.');
  }
}

/** The key of the master of this folder. @throws ConfigError */
function localAuthkey(): string {
  try {
    return readFileSync('orb-data/authkey', 'utf8');
  } catch (error) {
    throw new ConfigError(
      `authkey: give it, or run in the folder of the master: ${messageOf(error)}`,
      error,
    );
  }
}

type SessionOptions = Omit<WorkerOptions, 'master'> & {
  readonly host: string;
  readonly port: number;
  readonly authkey: string | Uint8Array;
  readonly tls?: boolean;
};

/** One connection. */
class WorkerSession {
  readonly #client: MasterClient;
  readonly #visit: Parameters<typeof worker>[1];
  readonly #crawls = new Map<number, { name: string; userAgent: string }>();
  readonly #pages = new Map<TaskPush, AbortController>();
  readonly #signal: AbortSignal | undefined;
  readonly #closed: Promise<void>;
  readonly #leave = () => this.#drain();
  #isLeaving = false;
  #extender: NodeJS.Timeout | undefined;
  /** Settles when the master has accepted or refused us. */
  readonly opened: Promise<void>;

  constructor(options: SessionOptions, visit: Parameters<typeof worker>[1]) {
    const { host, port, authkey, tls, name, concurrency = 4, signal } = options;
    this.#visit = visit;
    this.#signal = signal;
    let closed = () => {};
    this.#closed = new Promise((resolve) => {
      closed = resolve;
    });
    this.#client = new MasterClient({
      host,
      port,
      authkey,
      role: 'slave',
      ...(tls && { tls }),
      ...(name !== undefined && { name }),
      onPush: (push) => this.#heard(push),
      onClose: () => closed(),
    });
    this.opened = this.#client.opened.then(({ leaseMs }) => {
      // It may have come while we connected.
      if (signal?.aborted === true) {
        this.#drain();
        return;
      }
      const count = Math.min(concurrency, limits.creditMax);
      this.#client.notify('task.credit', { count, slots: count, takes: 'pages' });
      this.#extender = setInterval(() => this.#extend(), leaseMs / 4);
      signal?.addEventListener('abort', this.#leave, { once: true });
    });
  }

  /** Resolves when the connection is over: true if the work is, too. */
  async ended(): Promise<boolean> {
    await this.#closed;
    clearInterval(this.#extender);
    this.#signal?.removeEventListener('abort', this.#leave);
    for (const abort of this.#pages.values()) abort.abort();
    return this.#isLeaving;
  }

  #heard(push: Push): void {
    switch (push.verb) {
      case 'crawl.spec':
        this.#crawls.set(push.crawl, { name: push.name, userAgent: push.fetch.userAgent });
        return;
      case 'crawl.ended':
        this.#crawls.delete(push.crawl);
        return;
      case 'task.push':
        for (const task of push.tasks) void this.#work(task);
        return;
      case 'task.cancel':
        for (const [{ lease }, abort] of this.#pages) {
          if (push.leases.includes(lease)) abort.abort();
        }
        return;
      case 'drain':
        this.#drain();
        return;
      default: // a page begins at once, so there is none to recall
        return;
    }
  }

  #drain(): void {
    this.#isLeaving = true;
    this.#client.notify('task.credit', { count: 0, slots: 0, takes: 'pages' });
    if (this.#pages.size === 0) void this.#client.close();
  }

  #extend(): void {
    const leases = [...this.#pages.keys()].map(({ lease }) => lease);
    if (leases.length > 0) this.#client.notify('task.extend', { leases });
  }

  async #work(task: TaskPush): Promise<void> {
    const abort = new AbortController();
    this.#pages.set(task, abort);
    const { url, depth, lease, timed } = task;
    const { name: crawl = '', userAgent = '' } = this.#crawls.get(task.crawl) ?? {};
    const beganAt = performance.now();
    try {
      // The delay of the host counts from here.
      if (timed) this.#client.notify('task.started', { lease });
      const found = await this.#visit({ url, depth, crawl, userAgent, signal: abort.signal });
      if (!abort.signal.aborted) {
        await this.#report(task, foundOf(found), performance.now() - beganAt);
      }
    } catch (error) {
      await this.#failed(task, error);
    }
    this.#pages.delete(task);
    if (this.#isLeaving && this.#pages.size === 0) await this.#client.close();
  }

  async #report(task: TaskPush, found: Found, ms: number): Promise<void> {
    const { status = 200 } = found;
    if (status === 429 || status >= 500) {
      await this.#failed(task, new Error(`status ${status}`), 'status');
      return;
    }
    const { result, images, links } = reportOf(task.url, found, ms);
    const items = found.items && {
      rows: found.items.map((row) => ['item', row]),
      rejected: [],
      failures: [],
      counts: {},
    };
    await this.#client.request('task.report', {
      task: task.task,
      lease: task.lease,
      links,
      result: encodeValue(result),
      images: encodeValue(images),
      ...(items && { items: encodeValue(items) }),
    });
  }

  async #failed(
    task: TaskPush,
    error: unknown,
    kind: 'status' | 'protocol' = 'protocol',
  ): Promise<void> {
    if (error instanceof ConnectionError) return;
    // A report that the master refused would be refused again, so it is not tried again.
    const isFinal = error instanceof CommandError;
    const message = messageOf(error).slice(0, 512);
    const body = {
      task: task.task,
      lease: task.lease,
      error: { kind, message },
    };
    await this.#client
      .request('task.release', { ...body, ...(isFinal && { final: true }) })
      .catch(() => {});
  }
}

/** A key that is not known, or a text in place of a list, would be links that are lost.
 *  @throws TypeError */
function foundOf(found: unknown): Found {
  if (found === undefined || found === null) return {};
  if (typeof found !== 'object') throw new TypeError('what the function returns must be an object');
  const unknown = Object.keys(found).find((key) => !foundKeys.some((known) => known === key));
  if (unknown !== undefined) {
    throw new TypeError(`${unknown}: there is no such key; the keys are ${foundKeys.join(', ')}`);
  }
  for (const key of ['links', 'images', 'items'] as const) {
    const list: unknown = Reflect.get(found, key);
    if (list === undefined) continue;
    const isList = typeof list === 'object' && list !== null && Symbol.iterator in list;
    if (!isList) throw new TypeError(`${key} must be a list`);
  }
  return found;
}

/** The fields of a report. */
function reportOf(url: string, found: Found, ms: number) {
  const final = absolute(found.finalUrl ?? url, url) ?? url;
  const isHere = new URL(final).host === new URL(url).host;
  const base = isHere ? final : url;
  const links = isHere ? allOf(found.links, base, limits.linksBytesMax) : [final];
  const images = isHere ? allOf(found.images, base, limits.imagesBytesMax) : [];
  const { status = 200, type = 'text/html', title, bytes = 0 } = found;
  const result = {
    finalUrl: base,
    status,
    type,
    bytes,
    ms,
    ...(title !== undefined && { title: title.slice(0, limits.titleChars) }),
    ...(!isHere && { redirectedTo: final }),
    ...(status >= 400 && { error: { kind: 'status', message: String(status) } }),
  };
  return {
    result,
    images: images.map((src): Image => ({ src, via: 'img' })).slice(0, limits.imagesMax),
    links: Buffer.from(links.join('\n'), 'latin1'),
  };
}

/** Absolute URLs, each once, without what is no URL of the web. */
function allOf(texts: Iterable<string> = [], base: string, bytesMax: number): string[] {
  const found = new Set<string>();
  let bytes = 0;
  for (const text of texts) {
    const url = absolute(text, base);
    if (url === undefined || found.has(url)) continue;
    bytes += url.length + 1;
    if (bytes > bytesMax) break;
    found.add(url);
  }
  return [...found];
}

/** `text`: of a program, which may not have found one. */
function absolute(text: unknown, base: string): string | undefined {
  if (typeof text !== 'string') return undefined;
  const url = URL.canParse(text, base) ? parseUrl(text, base) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) return undefined;
  url.hash = '';
  return url.href.length <= limits.urlChars ? url.href : undefined;
}
