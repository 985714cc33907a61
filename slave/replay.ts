/**
 * Archived answers, read as if they came from a host: the same exchange, reader, charsets and rules
 * as in a crawl, so that the same rows come of them. Nothing is asked for. The master's `extract`
 * has the archive, and decides which pages count.
 */
import type { FetchSpec } from '../shared/crawl.ts';
import { decodeValue } from '../shared/frame.ts';
import { isPageStatus } from '../shared/protocol.ts';
import type { Result } from '../shared/requests.ts';
import type { ArchivedAnswer, ReplayedPage } from '../shared/rule-results.ts';
import { Exchange, type Hop } from './fetch/exchange.ts';
import type { FetchPlan } from './fetch/fetch-plan.ts';
import type { Fetched } from './fetch/fetched.ts';
import { kindOf } from './kinds/kinds.ts';
import { CrawlRules } from './rules/crawl-rules.ts';

/** The one crawl whose rules are known here. */
const crawl = 1;
/** The error of undici for a connection that ended before the body did. */
const cutOff = Object.assign(new Error('the archive has no more of it'), {
  code: 'UND_ERR_SOCKET',
});
/** No master is told. */
const nobody = { task: new Uint8Array(0), lease: 0 };
const line = { abort: () => {}, pause: () => {}, resume: () => {} };

export class Replay {
  readonly #rules = new CrawlRules({ onKilled: () => {}, page: undefined });
  #spec: FetchSpec | undefined;

  /** The spec of all answers from now on. Returns what is wrong with its rules. */
  async learn(spec: FetchSpec): Promise<string | undefined> {
    // Only rows are wanted.
    this.#spec = { ...spec, images: [], follow: undefined };
    this.#rules.learn(crawl, this.#spec);
    return await this.#rules.fault(crawl);
  }

  /** Evaluates the rules on an answer. @throws Error no spec was learned */
  async page(answer: ArchivedAnswer): Promise<ReplayedPage> {
    const spec = this.#spec;
    const kind = kindOf({}, 'archive');
    if (spec === undefined || kind === undefined) throw new Error('the rules are not known');
    const { task, depth, end } = answer;
    // A request with a body goes by the name of its task.
    const finalUrl = task.startsWith(`${answer.url}#POST-`) ? task : answer.url;
    const none = { isPage: false, isNoindex: false, finalUrl };
    const hop = await hopOf(answer, kind.plan, spec);
    if (hop.kind !== 'body' || !isPageStatus(hop.status)) return none;
    const isShort = hop.incomplete === true;
    if (isShort && end === 'unspecified') return none;
    const { body, headers, kind: _, ...told } = hop;
    const fetched: Fetched<unknown> = {
      kind: 'body',
      body,
      headers,
      result: { ...told, finalUrl, ms: 0 },
    };
    const outcome = kind.outcome(fetched);
    if (!outcome.ok) return none;
    const read = kind.rulePage?.(outcome);
    const fault =
      isShort && end === 'length'
        ? `the archive has only the first ${answer.body.length} bytes; raise archive-bytes`
        : read?.fault;
    const input = read && { ...read.input, url: task, depth };
    const made = input && (await this.#rules.evaluate(crawl, input, fault));
    for (const { verb, body: said } of kind.statements(nobody, outcome, made)) {
      if (verb !== 'task.report') continue;
      const { directives = [], canonical } = decodeValue(said.result) as Result;
      const isNoindex = directives.includes('noindex');
      const { items } = said;
      return { isPage: true, isNoindex, finalUrl, canonical, ...(items && { items }) };
    }
    return none;
  }

  close(): Promise<void> {
    return this.#rules.close();
  }
}

/** The answer as an exchange with its host would have ended. */
function hopOf(
  { url, head, body, end }: ArchivedAnswer,
  plan: FetchPlan<unknown>,
  spec: FetchSpec,
): Promise<Hop<unknown>> {
  return new Promise((settle) => {
    const exchange = new Exchange({
      url,
      spec,
      plan,
      settle,
      takeCookie: () => {},
      keepsIncomplete: true,
    });
    exchange.onRequestStart(line);
    exchange.onResponseStart(line, statusOf(head), headersOf(head));
    exchange.onResponseData(line, Buffer.from(body.buffer, body.byteOffset, body.byteLength));
    if (end === 'whole') exchange.onResponseEnd();
    else exchange.onResponseError(line, cutOff);
  });
}

function statusOf(head: string): number {
  return Number(/^HTTP\/\d(?:\.\d)? (\d{3})/.exec(head)?.[1] ?? 0);
}

/** The headers as undici gives them: names in lower case, several lines of a name as a list. */
function headersOf(head: string): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = Object.create(null);
  for (const text of head.split('\r\n').slice(1)) {
    const colon = text.indexOf(':');
    if (colon <= 0) continue;
    const said = text.slice(0, colon).toLowerCase();
    // See `responseHead` in recording.ts.
    const name = said.replace(/^x-crawler-(?=transfer-encoding$)/, '');
    const value = text.slice(colon + 1).replace(/^ /, '');
    const before = headers[name];
    headers[name] = before === undefined ? value : [before, value].flat();
  }
  return headers;
}
