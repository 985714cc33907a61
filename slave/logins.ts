/**
 * The login of a crawl in one slave: each identity logs in before its first page, at most three
 * times. Its pages wait for that; if it fails they go back to the master, which is told why and
 * holds the crawl. Cookies stay in the identity's jar. These requests are in no archive and no
 * log. Source: docs/login.md; PROTOCOL.md [T-93] [T-94].
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { FetchSpec, TaskRequest } from '../shared/crawl.ts';
import { type Login, loginTries } from '../shared/login.ts';
import { errorText, isPageStatus } from '../shared/protocol.ts';
import type { FetchErrorBody } from '../shared/requests.ts';
import type { PageInput, RuleResult } from '../shared/rule-results.ts';
import { canonicalUrl } from '../shared/url.ts';
import { visible } from '../shared/visible.ts';
import type { CookieJar } from './fetch/cookies.ts';
import type { FetchPlan } from './fetch/fetch-plan.ts';
import type { Fetcher } from './fetch/fetcher.ts';
import type { Identity } from './fetch/identities.ts';
import type { FailedOutcome, Turn } from './fetch/outcome.ts';
import { isLoggedIn, loginRequest, loginRules } from './login-form.ts';
import type { CrawlRules } from './rules/crawl-rules.ts';
import { pageInput } from './rules/page-input.ts';
import { isRuleType, type RuleBody, RuleBodyReader } from './rules/rule-body.ts';

/** The fetch that needs the login. */
type LoginFetch = {
  /** Of its task. */
  readonly url: string;
  readonly spec: FetchSpec;
  readonly identity: Identity;
  readonly signal: AbortSignal;
  /** Its host has a delay, and gives no turn to anybody before this fetch has started. */
  readonly isTimed: boolean;
  readonly open: boolean | undefined;
  readonly blocks: readonly string[] | undefined;
  readonly onStart: () => void;
  readonly onAnswer: () => void;
  /** Asks for one more request to the host of its task. */
  readonly turn: () => Promise<Turn>;
};

/** An identity, known by its cookies. */
type Gate = {
  isIn: boolean;
  /** In which it has tried so often. */
  round: number;
  tries: number;
  /** The reason of the last failure. */
  why: string;
  /** The attempts of now: undefined when they end, or what a proxy failed with. */
  underWay: Promise<FailedOutcome | undefined> | undefined;
};

/** `isLater`: its host must not be asked now, so the form was not tried. */
type Failure = {
  readonly why: string;
  readonly error?: FetchErrorBody;
  readonly isLater?: boolean;
};

type LoginsOptions = {
  readonly login: Login;
  /** Another one: the operator wants what has failed to be tried again. */
  readonly round: number;
  readonly fetcher: Fetcher;
  readonly rules: CrawlRules;
  readonly onFailed: (why: string) => void;
  /** Before the second attempt; before the third twice that. */
  readonly pauseMs?: number;
};

const pauseMsDefault = 1_000;
/** How long a fetch keeps the turn of its host while another one logs in. */
const timedWaitMs = 100;
const whyChars = 400;
const notIn: FailedOutcome = {
  ok: false,
  error: { kind: 'protocol', message: 'the login of the crawl failed' },
  isPutOff: true,
};

const putOff: FailedOutcome = {
  ok: false,
  error: { kind: 'protocol', message: 'the host must not be asked for a while' },
  isPutOff: true,
};

const plan: FetchPlan<RuleBody<never>> = {
  accept: 'text/html,application/xhtml+xml;q=0.9,application/json;q=0.9,*/*;q=0.5',
  type: 'text/html',
  followsAnywhere: true,
  open: ({ status, essence, spec, charset }) => {
    if (!isPageStatus(status) || !isRuleType(essence)) return undefined;
    return new RuleBodyReader({ essence, charset, bytesMax: spec.bodyBytesMax, page: undefined });
  },
};

export class Logins {
  readonly #options: LoginsOptions;
  readonly #gates: WeakMap<CookieJar, Gate>;

  /** `before`: those of the crawl until now. Identities that are logged in stay so; those that
   *  failed try again in another round. */
  constructor(options: LoginsOptions, before?: Logins) {
    const isSame = before !== undefined && isDeepStrictEqual(before.#options.login, options.login);
    this.#options = options;
    this.#gates = isSame ? before.#gates : new WeakMap();
  }

  /** Resolves when the identity is logged in; or with why its page cannot be fetched now. Rejects
   *  with an AbortError when the signal of the fetch fires. */
  async enter(fetch: LoginFetch): Promise<FailedOutcome | undefined> {
    const gate = this.#gateOf(fetch.identity);
    let isTurnUsed = false;
    while (!gate.isIn) {
      if (gate.tries >= loginTries && gate.underWay === undefined) {
        this.#options.onFailed(visible(gate.why).slice(0, whyChars));
        return notIn;
      }
      const isOwn = gate.underWay === undefined;
      if (gate.underWay === undefined) {
        isTurnUsed = new URL(this.#options.login.url).origin === new URL(fetch.url).origin;
        gate.underWay = this.#try(gate, fetch).finally(() => {
          gate.underWay = undefined;
        });
      }
      const tries = gate.underWay;
      // The login itself waits for the turn that this fetch has.
      const late = () => sleep(timedWaitMs, putOff);
      const ended = isOwn || !fetch.isTimed ? tries : Promise.race([tries, late()]);
      const failed = await raced(ended, fetch.signal);
      if (failed !== undefined) return failed;
    }
    return isTurnUsed && (await fetch.turn()) !== 'go' ? putOff : undefined;
  }

  #gateOf({ cookies }: Identity): Gate {
    const { round } = this.#options;
    const known = this.#gates.get(cookies);
    const gate = known ?? { isIn: false, round, tries: 0, why: '', underWay: undefined };
    if (known === undefined) this.#gates.set(cookies, gate);
    if (gate.round !== round) gate.tries = 0;
    gate.round = round;
    return gate;
  }

  /** Never rejects. An attempt that is cut off, put off, or refused by a proxy, does not count. */
  async #try(gate: Gate, fetch: LoginFetch): Promise<FailedOutcome | undefined> {
    const { pauseMs = pauseMsDefault } = this.#options;
    while (!gate.isIn && gate.tries < loginTries) {
      try {
        if (gate.tries > 0) {
          await sleep(pauseMs * gate.tries, undefined, { signal: fetch.signal });
        }
        const failure = await this.#attempt(fetch, gate.tries > 0);
        if (failure?.error?.kind === 'proxy') return { ok: false, error: failure.error };
        if (failure?.isLater === true) return putOff;
        if (failure === undefined) gate.isIn = true;
        else gate.why = failure.why;
      } catch {
        if (fetch.signal.aborted) return undefined;
        gate.why = 'an internal error of the slave';
      }
      gate.tries++;
    }
    return undefined;
  }

  /** `isAgain`: the turn of the task is used up. */
  async #attempt(fetch: LoginFetch, isAgain: boolean): Promise<Failure | undefined> {
    const { login } = this.#options;
    const { href } = canonicalUrl(login.url) ?? { href: login.url };
    const before = await this.#read(fetch, href, undefined, isAgain);
    if ('why' in before) return { ...before, why: `${href}: ${before.why}` };
    const made = loginRequest(login, before.result, before.page.finalUrl);
    if (typeof made === 'string') {
      // Cookies of the operator may have done it already.
      return isLoggedIn(before.result) ? undefined : { why: `${href}: ${made}` };
    }
    const after = await this.#read(fetch, made.url, made.request, true);
    if ('why' in after) return { ...after, why: `after the form of ${href}: ${after.why}` };
    if (isLoggedIn(after.result)) return undefined;
    return { why: `the page after the form of ${href} does not have ${untilText(login)}` };
  }

  /** Fetches a page, and reads it by the rules of the login. */
  async #read(
    fetch: LoginFetch,
    url: string,
    request: TaskRequest | undefined,
    takesTurn: boolean,
  ): Promise<Failure | { readonly page: PageInput; readonly result: RuleResult }> {
    const { fetcher, rules, login } = this.#options;
    const { spec, identity, signal, blocks, open, onStart, onAnswer } = fetch;
    const home = new URL(fetch.url).origin;
    const isHome = new URL(url).origin === home;
    const follow = async (to: string): Promise<Turn> =>
      new URL(to).origin === home ? await fetch.turn() : 'go';
    const turn = takesTurn ? await follow(url) : 'go';
    if (turn !== 'go') return { why: 'the host must not be asked now', isLater: turn === 'later' };
    const fetched = await fetcher.fetch(plan, url, spec, signal, {
      ...identity,
      ...(isHome && { open, blocks, onStart, onAnswer }),
      request,
      follow,
      last: true,
    });
    switch (fetched.kind) {
      case 'body': {
        const page = pageInput(url, fetched, fetched.body.text);
        const outcome = await rules.examine(loginRules(login), page);
        if ('failed' in outcome) return { why: outcome.failed };
        const [failure] = outcome.result.failures;
        if (failure !== undefined) return { why: `${failure.rule}: ${failure.message}` };
        return { page, result: outcome.result };
      }
      case 'failed':
        return { why: errorText(fetched.failure.error), error: fetched.failure.error };
      case 'stuck':
        return { why: fetched.message };
      case 'answer':
      case 'unchanged':
        return { why: `status ${fetched.result.status}, type ${fetched.result.type ?? 'unknown'}` };
      case 'left':
      case 'put-off':
        return { why: 'the host must not be asked now', isLater: fetched.kind === 'put-off' };
      default:
        return fetched satisfies never;
    }
  }
}

function untilText({ until }: Login): string {
  const text = typeof until === 'string' ? until : JSON.stringify(until);
  const hint = typeof until === 'string' ? '; for a pattern write until: {regex: …}' : '';
  return `what until says, ${text.slice(0, 100)}${hint}`;
}

/** The same, but it rejects when the signal fires. */
async function raced<T>(made: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  let abort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason as Error);
    signal.addEventListener('abort', abort, { once: true });
  });
  try {
    return await Promise.race([made, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
