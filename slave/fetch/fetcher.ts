/**
 * Fetches one URL to its end: redirects, further ways to ask where the first one fails, reading
 * while the body arrives, one deadline over all. Every hop passes the address guard. The plan has
 * the differences between kinds of tasks. The worker calls it.
 */
import { awakeMs } from '../../shared/awake.ts';
import type { FetchSpec, TaskRequest } from '../../shared/crawl.ts';
import type { Result } from '../../shared/requests.ts';
import { AddressCache } from '../../shared/resolver.ts';
import { isRelatedHost } from '../../shared/url.ts';
import type { BodySeat } from '../body-room.ts';
import type { Lacks } from '../lack.ts';
import { type Client, Clients } from './clients.ts';
import type { Validators } from './content.ts';
import { CookieJar } from './cookies.ts';
import type { Answer, Hop } from './exchange.ts';
import type { FetchPlan } from './fetch-plan.ts';
import type { Fetched } from './fetched.ts';
import { hopTo } from './hop.ts';
import { OddOrigins } from './odd-origins.ts';
import type { Follow, Turn } from './outcome.ts';
import type { ProxyServer } from './proxies.ts';
import type { Recording } from './recording.ts';
import { keepsMethod, RedirectChain, type RedirectStep } from './redirects.ts';
import { plainHeaders, requestHeaders } from './request-headers.ts';
import { askByWays, type Way } from './ways.ts';

type AskOptions<Body> = {
  readonly plan: FetchPlan<Body>;
  readonly spec: FetchSpec;
  readonly signal: AbortSignal;
  readonly context: FetchContext;
  /** Undefined: cookies are neither sent nor accepted. */
  readonly cookies: CookieJar | undefined;
  /** It is the origin of the task's URL. */
  readonly isAtHome: boolean;
  /** Of an earlier answer of this very URL. */
  readonly validators: Validators | undefined;
  /** Undefined: a GET. */
  readonly request: TaskRequest | undefined;
  /** The first answer has to begin by then. */
  readonly answerMs: number;
  /** Until the deadline of the whole fetch. */
  readonly leftMs: () => number;
  /** An answer was not read for so long, for want of room. */
  readonly onHeldFor: (ms: number) => void;
  readonly turnOf: Follow;
};

/** The context of a fetch, besides its spec. */
export type FetchContext = {
  /** The operator named its host as a seed, so it may get the headers and cookies of the
   *  crawl. */
  readonly open?: boolean | undefined;
  /** Private blocks where the master found that host; connections to these are allowed, too. */
  readonly blocks?: readonly string[] | undefined;
  /** The cookies of its identity; default: of this fetch only. */
  readonly cookies?: CookieJar | undefined;
  /** Default: the spec's first. */
  readonly userAgent?: string | undefined;
  /** Of an earlier answer of the URL: 304 is then an answer, not an error. */
  readonly validators?: Validators | undefined;
  /** The URL that the validators belong to, if it is another one. */
  readonly validatedUrl?: string | undefined;
  /** The proxy to use; default: none. */
  readonly proxy?: ProxyServer | undefined;
  /** Called when a request leaves, that of a redirect included. */
  readonly onStart?: (() => void) | undefined;
  /** Called when an answer begins, that of a redirect included. */
  readonly onAnswer?: (() => void) | undefined;
  /** The host may not answer: its answer must begin within the connection time-out. */
  readonly isFirst?: boolean | undefined;
  /** Called before a redirect is followed, and before a URL is requested once more; default: all
   *  are allowed. */
  readonly follow?: Follow | undefined;
  /** The request; default: a GET. */
  readonly request?: TaskRequest | undefined;
  /** There is no further attempt: the part of a body that came is kept. */
  readonly last?: boolean | undefined;
  /** Which attempt it is, from 1. */
  readonly attempt?: number | undefined;
  /** Takes all exchanges, for the archive; default: they are not kept. */
  readonly recording?: Recording | undefined;
  /** Its room for bodies that are kept; default: as much as it needs. */
  readonly seat?: Pick<BodySeat, 'took'> | undefined;
};

type FetcherOptions = {
  /** Sockets per origin at once, ≥ 1. A request that has to wait for one loses time that its host
   *  would have. */
  readonly connections: number;
  /** The same per proxy; default: as many. */
  readonly byProxy?: number;
  /** A cache over another resolver. */
  readonly addresses?: AddressCache;
  /** Requests for which this machine lacks something are put off; default: they fail. */
  readonly lacks?: Lacks;
};

export class Fetcher {
  readonly #clients: Clients;
  readonly #oddOrigins = new OddOrigins();
  readonly #lacks: Lacks | undefined;

  constructor(options: FetcherOptions) {
    const { connections, addresses = new AddressCache(), lacks } = options;
    const { byProxy = connections } = options;
    this.#lacks = lacks;
    const onLenient = (origin: string, isOdd: boolean) => this.#oddOrigins.answered(origin, isOdd);
    this.#clients = new Clients({ connections, byProxy, addresses, onLenient });
  }

  /** Fetches `url` (absolute, http or https) as the plan says. Network failures and statuses are
   *  values; rejects only with an AbortError when `signal` fires, at once. */
  async fetch<Body>(
    plan: FetchPlan<Body>,
    url: string,
    spec: FetchSpec,
    signal: AbortSignal,
    context: FetchContext = {},
  ): Promise<Fetched<Body>> {
    const { proxy, validatedUrl = url, follow = freely } = context;
    const cookies = plan.isPlain ? undefined : (context.cookies ?? new CookieJar(spec.cookies));
    const cookieFor = (to: URL) => {
      const isSeedHost = context.open === true && to.origin === new URL(url).origin;
      return cookies?.header(to, Date.now(), isSeedHost) ?? '';
    };
    const timeoutMs = Math.min(spec.timeoutMs, plan.timeoutMsMax ?? spec.timeoutMs);
    // Excludes the time for which requests wait for their turns, or this process stands still.
    let started = awakeMs();
    const turnOf: Follow = async (to) => {
      const askedAt = awakeMs();
      const turn = await follow(to);
      signal.throwIfAborted();
      started += awakeMs() - askedAt;
      return turn;
    };
    // Answers after the first of an origin have the time of the whole fetch.
    let isFirst = context.isFirst === true;
    const { redirectsMax: hopsMax = spec.redirectsMax, followsAnywhere: leadsAnywhere } = plan;
    const chain = new RedirectChain(url, { hopsMax, leadsAnywhere });
    let { request } = context;
    let isMoved = false;
    const told = (answer: Answer) => ({
      // Until it is redirected, a request goes by the name of its task.
      result: resultOf(context.request && !isMoved ? url : chain.url, answer, awakeMs() - started),
      headers: answer.headers,
    });
    for (;;) {
      const { target, isAtHome } = chain;
      const validators = chain.url === validatedUrl ? context.validators : undefined;
      const answerMs = isFirst ? spec.connectTimeoutMs : Number.POSITIVE_INFINITY;
      const asked = await this.#ask(target, {
        plan,
        spec,
        signal,
        context,
        cookies,
        isAtHome,
        validators,
        request,
        answerMs,
        turnOf,
        leftMs: () => started + timeoutMs - awakeMs(),
        onHeldFor: (ms) => {
          started += ms;
        },
      });
      isFirst = false;
      if (asked === 'later') return { kind: 'put-off' };
      const { hop, cookie } = asked;
      judgeProxy(proxy, hop);
      switch (hop.kind) {
        case 'failed':
          if (hop.isLack && this.#lacks !== undefined) {
            await this.#lacks.rest(hop.error.message, signal);
            return { kind: 'put-off' };
          }
          return { kind: 'failed', ...told(noAnswer), failure: hop };
        case 'body':
          return { kind: 'body', ...told(hop), body: hop.body };
        case 'answer':
          return { kind: isUnchanged(hop, validators) ? 'unchanged' : 'answer', ...told(hop) };
        case 'redirect': {
          const redirected = told(hop);
          const before = methodOf(request);
          request = keepsMethod(hop.status) ? request : undefined;
          const after = methodOf(request);
          const from = chain.target;
          const step = chain.next(hop.location, before + cookie, (to) => after + cookieFor(to));
          if (step.kind === 'end') return { kind: 'stuck', ...redirected, message: step.message };
          if (request !== undefined) {
            const message = bodyFault(step, from, chain.target);
            if (message !== undefined) return { kind: 'stuck', ...redirected, message };
          }
          isMoved = true;
          if (step.kind === 'leave') return { kind: 'left', ...redirected, target: step.target };
          const turn = await turnOf(chain.url);
          if (turn === 'later') return { kind: 'put-off' };
          if (turn === 'leave') return { kind: 'left', ...redirected, target: chain.url };
          isFirst = context.isFirst === true && step.isElsewhere;
          break;
        }
        default:
          return hop satisfies never;
      }
    }
  }

  /** Requests one URL by the ways that its host accepts. `later`: the host must not be asked for a
   *  while. */
  #ask<Body>(target: URL, options: AskOptions<Body>): ReturnType<typeof askByWays<Body>> {
    const { plan, spec, signal, context, cookies, isAtHome, validators, turnOf, request } = options;
    // A host that is asked in another way has answered before.
    let { answerMs } = options;
    const { userAgent = spec.userAgent, proxy, onStart, onAnswer, recording } = context;
    // Only the host that the operator named gets what is meant for it, and has the private blocks.
    const open = context.open === true && isAtHome;
    const blocks = isAtHome ? context.blocks : undefined;
    const { allowPrivate: allow, http2, connectTimeoutMs: connectMs } = spec;
    const { accept } = plan;
    // Through a tunnel the host alone answers.
    const isForwarded = target.protocol === 'http:' && proxy?.url.protocol !== 'socks5:';
    const takeCookie = (header: string) => cookies?.take(header, target, Date.now());
    const keepsIncomplete = context.last === true && !plan.needsWhole;
    const headersWith = (cookie: string) => {
      if (plan.isPlain) return plainHeaders(spec, accept);
      const own = request?.headers;
      return requestHeaders(target, { spec, open, userAgent, accept, cookie, validators, own });
    };
    const ask = ({ isLenient, isApart, isHttp2Only, cookie }: Way): Promise<Hop<Body>> => {
      const hop = {
        plan,
        spec,
        signal,
        leftMs: options.leftMs(),
        answerMs,
        headers: headersWith(cookie),
        request,
        takeCookie,
        keepsIncomplete,
        onStart,
        onAnswer,
        recording,
        seat: context.seat,
        onHeldFor: options.onHeldFor,
      };
      answerMs = Number.POSITIVE_INFINITY;
      // undici drops an answer whose host ends the HTTP/2 session gracefully after it.
      const byHttp2 = http2 && (!isApart || isHttp2Only === true);
      const kind = { allow, blocks, proxy, http2: byHttp2, connectMs, isLenient };
      const by = async (client: Client): Promise<Hop<Body>> => {
        const answer = await hopTo(client, target, hop);
        if (!isForwarded || !('status' in answer) || answer.status !== 407) return answer;
        const error = await client.agent.judge407?.();
        signal.throwIfAborted();
        return error === undefined ? answer : { kind: 'failed', error };
      };
      return isApart ? this.#clients.apart(kind, by) : by(this.#clients.of(kind));
    };
    const { origin } = target;
    const isLenient = this.#oddOrigins.has(origin);
    const cookie = cookies?.header(target, Date.now(), open) ?? '';
    // A fault of a shared connection must not cost the URL.
    const isApart = context.last === true && (context.attempt ?? 1) > 1;
    const way = { isLenient, isApart, cookie };
    return askByWays(way, {
      ask,
      turn: () => turnOf(target.href),
      sharesConnections: http2,
      onUnreadable: () => this.#oddOrigins.add(origin),
      onCookiesRefused: () => cookies?.refuseSiblings(target),
    });
  }

  /** Closes all sockets; running fetches fail. */
  close(): Promise<void> {
    return this.#clients.close();
  }
}

/** For the state of a chain of redirects: an address may answer POST and GET differently. */
function methodOf(request: TaskRequest | undefined): string {
  return request === undefined ? '' : `${request.method} `;
}

/** Why a request is not redirected with its body. That may be a login: it goes on to its own site
 *  alone, and never without TLS where it had it. */
function bodyFault(step: RedirectStep, from: URL, to: URL): string | undefined {
  if (step.kind === 'leave') return `redirect to ${step.target}, another host, with the body`;
  const isDowngrade = from.protocol === 'https:' && to.protocol !== 'https:';
  if (!isDowngrade && isRelatedHost(from.hostname, to.hostname)) return undefined;
  return `redirect to ${to.host} with the body, which that must not have`;
}

const freely = (): Promise<Turn> => Promise.resolve('go');

/** The answer of a URL that did not answer. */
const noAnswer: Answer = { status: 0, headers: {}, bytes: 0 };

function resultOf(finalUrl: string, answer: Answer, ms: number): Result {
  return {
    finalUrl,
    status: answer.status,
    ...(answer.type !== undefined && { type: answer.type }),
    ...(answer.directives !== undefined && { directives: answer.directives }),
    bytes: answer.bytes,
    ms: Math.round(ms * 10) / 10,
    ...(answer.etag !== undefined && { etag: answer.etag }),
    ...(answer.lastModified !== undefined && { lastModified: answer.lastModified }),
    ...(answer.incomplete && { incomplete: true }),
  };
}

/** Does the answer say that the URL has not changed since these validators? */
function isUnchanged({ status }: Answer, validators: Validators | undefined): boolean {
  return status === 304 && validators !== undefined;
}

/** Judges the proxy by an answer. Silence of a host may be the fault of the proxy; it counts as a
 *  refusal. */
function judgeProxy<Body>(proxy: ProxyServer | undefined, hop: Hop<Body>): void {
  if (hop.kind !== 'failed') proxy?.worked();
  else if (hop.error.kind === 'timeout')
    proxy?.refused('no host answers through the proxy', performance.now());
}
