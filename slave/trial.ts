/**
 * `node slave.js trial`: answers the master's `check` and `try`, which have no fetcher and no rules
 * of their own. One page is fetched as a crawl would: the same guard of addresses, limits, headers
 * and charsets. The master says whether robots.txt allows it, and when its turn is.
 */
import { masterCall } from '../shared/calls.ts';
import { type FetchSpec, fetchSpecSchema } from '../shared/crawl.ts';
import { ConfigError, messageOf } from '../shared/errors.ts';
import { decodeValue } from '../shared/frame.ts';
import { ruleLimits } from '../shared/items.ts';
import { isDataType } from '../shared/media-types.ts';
import { errorText, isPageStatus } from '../shared/protocol.ts';
import type { Render } from '../shared/render.ts';
import type { Result } from '../shared/requests.ts';
import type {
  PageInput,
  RuleOutcome,
  TrialPage,
  TrialReply,
  TrialRequest,
  TrialSitemap,
} from '../shared/rule-results.ts';
import type { WebDocument } from './browser/page-traffic.ts';
import { documentPlan } from './fetch/document-plan.ts';
import type { FetchPlan } from './fetch/fetch-plan.ts';
import { type Fetched, outcomeOf } from './fetch/fetched.ts';
import { Fetcher } from './fetch/fetcher.ts';
import type { Turn } from './fetch/outcome.ts';
import { kindOf } from './kinds/kinds.ts';
import { type Page, PageReader } from './kinds/page-body.ts';
import { Replay } from './replay.ts';
import { pageInput } from './rules/page-input.ts';
import { isRuleType, type RuleBody, RuleBodyReader } from './rules/rule-body.ts';
import { RuleProcess } from './rules/rule-process.ts';
import { renderOnce } from './trial-browser.ts';

type Body = RuleBody<Page>;
type Answer = Extract<Fetched<Body>, { kind: 'body' }>;
type Asked<D extends TrialRequest['do']> = Extract<TrialRequest, { do: D }>;
/** A page to evaluate the rules on. `rendered`, `unrendered`: a browser was wanted for it. */
type Shown = { readonly input: PageInput; readonly cut: boolean } & Pick<
  TrialPage,
  'rendered' | 'unrendered'
>;

/** `anyText`: texts on which rules are not evaluated in a crawl, such as text/plain. */
function pagePlan(anyText: boolean): FetchPlan<Body> {
  return {
    accept: 'text/html,application/xhtml+xml;q=0.9,application/json;q=0.9,*/*;q=0.5',
    type: 'text/html',
    open: ({ url, status, essence, spec, charset, sniff }) => {
      const isText = anyText && /^text\/|\/javascript$/.test(essence ?? '');
      const isHtml = isRuleType(essence);
      if (!isPageStatus(status) || !(isHtml || isText)) return undefined;
      const isData = essence !== undefined && isDataType(essence);
      const isPage = isHtml && !isData;
      const page = isPage ? new PageReader({ url, spec, charset, sniff }) : undefined;
      const bytesMax = isData ? (spec.ruleBytes ?? ruleLimits.jsonBytes) : spec.bodyBytesMax;
      return new RuleBodyReader<Page>({ essence, charset, bytesMax, page });
    },
  };
}

/** Serves until the master closes the channel. */
export async function serveTrial(env: NodeJS.ProcessEnv): Promise<void> {
  if (process.send === undefined) {
    throw new ConfigError(`the master starts this by itself: ${masterCall} try FILE URL`);
  }
  const trial = new Trial((reply) => void process.send?.(reply), env);
  process.on('message', (request: TrialRequest) => void trial.heard(request));
  process.send({ is: 'ready' } satisfies TrialReply);
  await new Promise<void>((resolve) => process.once('disconnect', () => resolve()));
  await trial.close();
}

class Trial {
  readonly #say: (reply: TrialReply) => void;
  readonly #env: NodeJS.ProcessEnv;
  readonly #rules = new RuleProcess();
  readonly #fetcher = new Fetcher({ connections: 1 });
  readonly #replay = new Replay();
  #turn: (turn: Turn) => void = () => {};

  constructor(say: (reply: TrialReply) => void, env: NodeJS.ProcessEnv) {
    this.#say = say;
    this.#env = env;
  }

  async heard(request: TrialRequest): Promise<void> {
    if (request.do === 'go' || request.do === 'leave') {
      this.#turn(request.do);
      return;
    }
    try {
      this.#say(await this.#answer(request));
    } catch (error) {
      this.#say({ is: 'failed', id: request.id, message: messageOf(error) });
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#rules.close(), this.#fetcher.close(), this.#replay.close()]);
  }

  async #answer(
    request: Asked<'check' | 'robots' | 'page' | 'sitemap' | 'learn' | 'replay'>,
  ): Promise<TrialReply> {
    const { id } = request;
    switch (request.do) {
      case 'check': {
        const learned = await this.#rules.learn(request.items, request.follow);
        const problems = typeof learned === 'number' ? [] : learned;
        if (typeof learned === 'number') this.#rules.forget(learned);
        return { is: 'checked', id, problems };
      }
      case 'robots':
        return { is: 'robots', id, answer: await this.#robots(request) };
      case 'page':
        return { is: 'page', id, page: await this.#page(request) };
      case 'sitemap':
        return { is: 'sitemap', id, sitemap: await this.#sitemap(request) };
      case 'learn':
        return { is: 'learned', id, fault: await this.#replay.learn(request.fetch) };
      case 'replay':
        return { is: 'replayed', id, page: await this.#replay.page(request) };
      default:
        return request satisfies never;
    }
  }

  /** The answer of a robots.txt, or why there is none. */
  async #robots({ url, fetch, blocks }: Asked<'robots'>) {
    const kind = kindOf({ kind: 'robots' });
    if (kind === undefined) throw new Error('no kind robots');
    const spec = fetchSpecSchema.parse(fetch);
    const fetched = await this.#fetcher.fetch(kind.plan, url, spec, new AbortController().signal, {
      open: true,
      blocks,
    });
    const outcome = kind.outcome(fetched);
    if (!outcome.ok) return outcome.error;
    for (const { verb, body } of kind.statements({ task: new Uint8Array(0), lease: 0 }, outcome)) {
      if (verb === 'task.robots') return { status: body.status, body: body.body };
    }
    throw new Error('no answer of a robots.txt');
  }

  /** The URLs of a sitemap, as a slave would report them. */
  async #sitemap({ url, fetch, blocks }: Asked<'sitemap'>): Promise<TrialSitemap> {
    const kind = kindOf({ kind: 'sitemap' });
    if (kind === undefined) throw new Error('no kind sitemap');
    const spec = fetchSpecSchema.parse(fetch);
    const fetched = await this.#fetcher.fetch(kind.plan, url, spec, new AbortController().signal, {
      open: true,
      blocks,
      last: true,
      follow: (to) => this.#mayFollow(to),
    });
    const outcome = kind.outcome(fetched);
    if (!outcome.ok) {
      const error = errorText(outcome.error);
      return { kind: 'none', urls: [], cut: false, status: 0, error };
    }
    let sitemap: TrialSitemap = { kind: 'none', urls: [], cut: false, status: 0 };
    for (const { verb, body } of kind.statements({ task: new Uint8Array(0), lease: 0 }, outcome)) {
      if (verb !== 'task.sitemap') continue;
      const listed = Buffer.from(body.urls).toString('latin1');
      const urls = [...sitemap.urls, ...listed.split('\n').filter((one) => one !== '')];
      sitemap = { ...sitemap, kind: body.kind, urls };
      if (body.end === undefined) continue;
      const { status, redirectedTo, cut = false } = decodeValue(body.end.result) as Result;
      sitemap = { ...sitemap, status, redirectedTo, cut };
    }
    return sitemap;
  }

  async #page(request: Asked<'page'>): Promise<TrialPage> {
    const { url, fetch, blocks, items, follow, jsonBytesMax, anyText = false } = request;
    const spec = fetchSpecSchema.parse(fetch);
    const set = await this.#rules.learn(items, follow);
    if (typeof set !== 'number') throw new Error(set[0]?.message);
    const plan = pagePlan(anyText);
    const fetched = await this.#fetcher.fetch(plan, url, spec, new AbortController().signal, {
      open: true,
      blocks,
      last: true,
      follow: (to) => this.#mayFollow(to),
    });
    if (fetched.kind !== 'body') return unread(fetched);
    const { result, body } = fetched;
    const plain: Shown = { input: pageInput(url, fetched, body.text), cut: body.cut };
    const evaluate = (input: PageInput) => this.#rules.evaluate(set, input, jsonBytesMax);
    const render = request.isRendered === true && body.page ? spec.render : undefined;
    // A page that may do without a browser is first read as it came.
    const isTriedPlain = render === undefined || render.when === 'auto';
    const plainRules = isTriedPlain ? await evaluate(plain.input) : undefined;
    const isEnough = plainRules !== undefined && !isEmpty(plainRules, body.page);
    const shown =
      render === undefined || isEnough
        ? plain
        : await this.#rendered(request, { spec, render, fetched, plain });
    if ('error' in shown) return { ...unanswered, error: shown.error };
    const { input, cut, ...browser } = shown;
    const isPlain = input === plain.input && plainRules !== undefined;
    return {
      status: input.status,
      finalUrl: input.finalUrl,
      ms: result.ms,
      bytes: input.text.length === 0 ? 0 : result.bytes,
      type: input.type,
      charset: body.charset,
      cut,
      rules: isPlain ? plainRules : await evaluate(input),
      ...browser,
      tbodies: [...input.text.matchAll(/<tbody[\s>]/gi)].length,
    };
  }

  /** The page as a browser shows it; without a browser, as it came; or why it cannot be shown. */
  async #rendered(
    { url, blocks }: Asked<'page'>,
    of: { spec: FetchSpec; render: Render; fetched: Answer; plain: Shown },
  ): Promise<Shown | { readonly error: string }> {
    const { spec, render, fetched, plain } = of;
    const { result, headers, body } = fetched;
    const type = `${result.type ?? 'text/html'}; charset=utf-8`;
    const document = {
      url: result.finalUrl.replace(/#.*/, ''),
      status: result.status,
      headers: { ...headers, 'content-type': type },
      body: Buffer.from(body.text),
    };
    // One turn at a time is asked for.
    let before: Promise<unknown> = Promise.resolve();
    const fetchDocument = (to: string) => {
      const own = before.then(() => this.#document(to, spec, blocks));
      before = own;
      return own;
    };
    const end = await renderOnce({ document, spec, render, blocks, fetchDocument }, this.#env);
    if (end.kind === 'missing') return { ...plain, unrendered: end.why };
    if (end.kind === 'failed') return { error: end.why };
    const { html, isCut, requests, missed, document: last } = end.page;
    const seen = { ...result, finalUrl: last.url, status: last.status };
    const input = pageInput(url, { result: seen, headers: last.headers }, html);
    return { input, cut: isCut, rendered: { requests, missed } };
  }

  /** Another document of the page, when the master says so. */
  async #document(
    to: string,
    spec: FetchSpec,
    blocks: readonly string[],
  ): Promise<WebDocument | string | undefined> {
    if ((await this.#mayFollow(to, true)) !== 'go') return undefined;
    const { signal } = new AbortController();
    const follow = (next: string) => this.#mayFollow(next, true);
    const context = { open: true, blocks, follow };
    const fetched = await this.#fetcher.fetch(documentPlan, to, spec, signal, context);
    if (fetched.kind === 'left') return fetched.target;
    if (fetched.kind !== 'body') return undefined;
    const { result, headers, body } = fetched;
    return { url: result.finalUrl, status: result.status, headers, body };
  }

  #mayFollow(url: string, waits = false): Promise<Turn> {
    return new Promise((resolve) => {
      this.#turn = resolve;
      this.#say({ is: 'turn', url, ...(waits && { waits }) });
    });
  }
}

/** Nothing is found in it without a browser. */
function isEmpty(rules: RuleOutcome, page: Page | undefined): boolean {
  if ('failed' in rules || (page?.extract.links.length ?? 0) > 0) return false;
  const { rows, links = [], follow = [] } = rules.result;
  return rows.length === 0 && links.length === 0 && follow.every(({ urls }) => urls.length === 0);
}

const unanswered = { status: 0, finalUrl: '', ms: 0, bytes: 0 };

/** An answer whose body was not read, or none. */
function unread(fetched: Exclude<Fetched<Body>, { kind: 'body' }>): TrialPage {
  const outcome = outcomeOf(fetched);
  if (!outcome.ok) return { ...unanswered, error: errorText(outcome.error) };
  const { status, finalUrl, ms, bytes, type, error, redirectedTo } = outcome.result;
  const why = error && errorText(error);
  const unfit = redirectedTo === undefined ? 'rules read HTML, JSON and XML' : undefined;
  const reason = why ?? unfit;
  const answer = { status, finalUrl, ms, bytes, type, redirectedTo };
  return reason === undefined ? answer : { ...answer, error: reason };
}
