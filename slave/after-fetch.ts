/**
 * The way of an answer to its report, outside the slots: its page waits for the browser, and for
 * the child that evaluates rules. Pages that are rendered may ask for more, so they end with the
 * connection to the master; rules ask for nothing, and go on.
 */
import { setMaxListeners } from 'node:events';
import type { MasterClient } from '../shared/client.ts';
import type { FetchSpec } from '../shared/crawl.ts';
import type { TaskPush } from '../shared/protocol.ts';
import type { Browsers } from './browser/browsers.ts';
import type { WebDocument } from './browser/page-traffic.ts';
import type { KeptCookie } from './browser/protocol.ts';
import type { RenderEnd } from './browser/rendering.ts';
import { asUtf8 } from './fetch/content.ts';
import type { CookieJar } from './fetch/cookies.ts';
import { documentPlan } from './fetch/document-plan.ts';
import type { Fetcher } from './fetch/fetcher.ts';
import type { Identity } from './fetch/identities.ts';
import type { FailedOutcome } from './fetch/outcome.ts';
import type { Recording } from './fetch/recording.ts';
import type { Kind } from './kinds/kind.ts';
import type { Outbox } from './outbox.ts';
import type { CrawlRules } from './rules/crawl-rules.ts';
import type { Evaluated } from './rules/fit.ts';
import { ofFailure, ofOutcome } from './statements.ts';
import { Turns } from './turns.ts';

type Found = { readonly ok: true };
type Answered = {
  readonly task: TaskPush;
  readonly kind: Kind;
  readonly found: Found;
  readonly spec: FetchSpec;
  readonly identity: Identity;
  readonly recording: Recording | undefined;
};

type AfterFetchOptions = {
  readonly rules: CrawlRules;
  readonly fetcher: Fetcher;
  readonly outbox: Outbox;
  readonly master: () => MasterClient | undefined;
  /** Undefined: there is none. */
  readonly browsers: () => Browsers | undefined;
  /** There may be room for the next task. */
  readonly onDone: () => void;
};

const givenBack: FailedOutcome = {
  ok: false,
  error: { kind: 'protocol', message: 'given back' },
  isPutOff: true,
};

export class AfterFetch {
  readonly #options: AfterFetchOptions;
  /** Each with the controller that ends its rendering. */
  readonly #underWay = new Map<TaskPush, AbortController>();

  /** Those that the browser has. */
  readonly #rendering = new Set<TaskPush>();

  constructor(options: AfterFetchOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#underWay.size;
  }

  get tasks(): Iterable<TaskPush> {
    return this.#underWay.keys();
  }

  /** True: too much waits, so that no fetch should begin. */
  get isFull(): boolean {
    const { rules, browsers } = this.#options;
    return rules.isFull || browsers()?.isFull === true;
  }

  /** Takes an answer whose page is to be rendered, or has rules, and reports it in the end. False:
   *  it is neither, and the caller reports it. */
  take(answered: Answered): boolean {
    const { kind, found } = answered;
    const isWanted = kind.rulePage?.(found) ?? kind.webDocument?.(found);
    if (isWanted === undefined) return false;
    void this.#finish(answered);
    return true;
  }

  /** These leases are lost: their pages are not wanted. */
  cancel(leases: ReadonlySet<number>): void {
    for (const [{ lease }, abort] of this.#underWay) if (leases.has(lease)) abort.abort();
  }

  /** The master is gone: nothing more may be asked for. */
  stop(): void {
    for (const abort of this.#underWay.values()) abort.abort();
  }

  /** The process stood still: pages in the browser are no longer waited for, and no host was at
   *  fault. */
  giveBack(): void {
    for (const one of this.#rendering) {
      this.#options.outbox.tell(ofFailure(one, givenBack));
      this.#underWay.get(one)?.abort();
    }
  }

  async #finish(answered: Answered): Promise<void> {
    const { outbox, onDone } = this.#options;
    const { task, kind, recording } = answered;
    const abort = new AbortController();
    this.#underWay.set(task, abort);
    try {
      const end = await this.#seen(answered, abort);
      if (end === undefined) return;
      const { found, made } = end;
      const statements = ofOutcome(task, found, recording, (held, answer) =>
        kind.statements(held, answer, made),
      );
      for (const statement of statements) outbox.tell(statement);
    } finally {
      this.#underWay.delete(task);
      onDone();
    }
  }

  /** The answer as it is to be reported. Undefined: nobody wants it. */
  async #seen(
    answered: Answered,
    abort: AbortController,
  ): Promise<{ found: Found | FailedOutcome; made?: Evaluated | undefined } | undefined> {
    const { task, kind, found, spec } = answered;
    const document = kind.webDocument?.(found);
    const { render } = spec;
    if (document === undefined || render === undefined) {
      return { found, made: await this.#evaluated(answered, found) };
    }
    if (render.when === 'auto') {
      const made = await this.#evaluated(answered, found);
      if (kind.isBare?.(found, made) !== true) return { found, made };
    }
    this.#rendering.add(task);
    const end = await this.#render(answered, document, abort);
    this.#rendering.delete(task);
    if (abort.signal.aborted) return undefined;
    switch (end.kind) {
      case 'given-back':
        return { found: givenBack };
      case 'failed':
        return { found: { ok: false, error: { kind: 'protocol', message: end.why } } };
      case 'rendered': {
        const seen = await kind.reread?.(found, end.page, spec);
        const shown = seen ?? found;
        answered.recording?.addViews(end.page.document.url, kind.views?.(shown) ?? []);
        return { found: shown, made: await this.#evaluated(answered, shown) };
      }
      default:
        return end satisfies never;
    }
  }

  async #evaluated({ task, kind }: Answered, found: Found): Promise<Evaluated | undefined> {
    const page = kind.rulePage?.(found);
    if (page === undefined) return undefined;
    const { crawl, url, depth } = task;
    return await this.#options.rules.evaluate(crawl, { ...page.input, url, depth }, page.fault);
  }

  async #render(
    { task, spec, identity }: Answered,
    document: WebDocument,
    abort: AbortController,
  ): Promise<RenderEnd> {
    const { browsers, master } = this.#options;
    const browser = browsers();
    const { render } = spec;
    if (browser === undefined || render === undefined) return { kind: 'given-back' };
    const url = new URL(document.url);
    const isOpen = task.open === true;
    const { lease } = task;
    const turns = new Turns({ lease, isTimed: false, master, onLost: () => abort.abort() });
    const { signal } = abort;
    const given = pairsFor(identity.cookies, url, isOpen);
    // One for each frame that is being fetched.
    setMaxListeners(0, signal);
    return await browser.render({
      document,
      spec,
      render,
      signal,
      userAgent: identity.userAgent,
      cookies: given.flatMap(pairOf),
      blocks: task.private ?? [],
      headersFor: (target) => headersFor(spec, isOpen && target.origin === url.origin),
      fetchDocument: (to, isFrame, cookies) => {
        const at = { task, spec, identity, home: url.origin };
        // Those that the browser was given have lost their paths there.
        const own = cookies.filter(({ name, value }) => !given.includes(`${name}=${value}`));
        if (new URL(to).origin === url.origin) keepCookies(identity.cookies, own, to, isOpen);
        return this.#document(to, isFrame, turns, at, signal);
      },
    });
  }

  /** Fetches a document that a page in the browser wants, when its turn comes. A URL: where it
   *  leads. Undefined: it may not be had. */
  async #document(
    to: string,
    isFrame: boolean,
    turns: Turns,
    at: Pick<Answered, 'task' | 'spec' | 'identity'> & { readonly home: string },
    signal: AbortSignal,
  ): Promise<WebDocument | string | undefined> {
    const follow = isFrame ? turns.frame : turns.follow;
    const { task, spec, identity, home } = at;
    try {
      if ((await follow(to)) !== 'go' || signal.aborted) return undefined;
      const isHome = new URL(to).origin === home;
      const { userAgent, cookies } = identity;
      const fetched = await this.#options.fetcher.fetch(documentPlan, to, spec, signal, {
        userAgent,
        ...(isHome && { open: task.open, blocks: task.private, cookies }),
        follow,
        ...(!isFrame && { onStart: turns.started }),
      });
      if (fetched.kind === 'left') return fetched.target;
      if (fetched.kind !== 'body') return undefined;
      const { result, headers, body } = fetched;
      return { url: result.finalUrl, status: result.status, headers, body };
    } catch {
      return undefined;
    }
  }
}

/** A page that goes on to another document has the cookies that its scripts have set, and so has
 *  what comes after it, as in a browser. */
function keepCookies(
  jar: CookieJar,
  cookies: readonly KeptCookie[],
  to: string,
  isOpen: boolean,
): void {
  const url = new URL(to);
  const known = new Set(pairsFor(jar, url, isOpen));
  for (const { name, value, domain, path, secure } of cookies) {
    if (known.has(`${name}=${value}`)) continue;
    const bytes = Buffer.from(`${name}=${value}`).toString('latin1');
    const scope = domain.startsWith('.') ? `; Domain=${domain}` : '';
    jar.take(`${bytes}; Path=${path}${scope}${secure ? '; Secure' : ''}`, url, Date.now());
  }
}

/** As the browser has them: text, where the jar has bytes. One that is not UTF-8 changes none of
 *  the others. */
function pairsFor(jar: CookieJar, url: URL, isOpen: boolean): readonly string[] {
  return jar.header(url, Date.now(), isOpen).split('; ').map(asUtf8);
}

function pairOf(pair: string): [string, string][] {
  const equals = pair.indexOf('=');
  return equals > 0 ? [[pair.slice(0, equals), pair.slice(equals + 1)]] : [];
}

/** Other origins get no header that the operator meant for its own sites. */
function headersFor(spec: FetchSpec, isOwn: boolean): FetchSpec['headers'] {
  if (isOwn) return spec.headers;
  if (spec.headersEverywhere !== true) return [];
  return spec.headers.filter(([name]) => !/^authorization$/i.test(name));
}
