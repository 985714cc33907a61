/**
 * A page of a crawl with rules: read as always, and its text kept if a rule may select it. JSON and
 * XML are pages where a rule asks for them. Source: PROTOCOL.md [T-81]; docs/rules.md.
 */
import type { FollowedLinks } from '../../shared/follow.ts';
import { ruleLimits } from '../../shared/items.ts';
import { isDataType } from '../../shared/media-types.ts';
import { isPageStatus, limits } from '../../shared/protocol.ts';
import { canonicalUrl } from '../../shared/url.ts';
import type { BodyReader } from '../fetch/fetch-plan.ts';
import { type Fetched, outcomeOf } from '../fetch/fetched.ts';
import type { FetchOutcome } from '../fetch/outcome.ts';
import { pageInput } from '../rules/page-input.ts';
import { type RuleBody, RuleBodyReader } from '../rules/rule-body.ts';
import { rulesFor } from '../rules/targets.ts';
import { report } from '../statements.ts';
import type { Kind, RulePage } from './kind.ts';
import { openPage, page } from './page.ts';
import type { Page } from './page-body.ts';

type Body = Pick<RuleBody<Page>, 'page'> & Partial<RuleBody<Page>>;
type Found = Extract<FetchOutcome, { ok: true }> & { readonly rulePage?: RulePage };

type Use = {
  /** A page function gets each page, so it is read whatever the rules select. */
  readonly isCalled?: boolean;
  /** The rows of the rules are wanted, but neither images nor links. */
  readonly isBare?: boolean;
};

export function ruledPage(use: Use = {}): Kind<Body, Found> {
  const plan = {
    accept: 'text/html,application/xhtml+xml;q=0.9,application/json;q=0.9,*/*;q=0.5',
    type: 'text/html',
    open: (head: Head) => open(head, use),
  };
  return { ...kind, plan };
}

type Head = Parameters<Kind['plan']['open']>[0];

function open(head: Head, { isCalled = false, isBare = false }: Use): BodyReader<Body> | undefined {
  const { url, status, essence, spec, charset } = head;
  const html = openPage(head, isBare);
  const isSelected = isPageStatus(status) && (isCalled || rulesFor(spec, url, essence).length > 0);
  if (html !== undefined) {
    const kept = { essence, charset, bytesMax: spec.bodyBytesMax, page: html };
    return isSelected ? new RuleBodyReader<Page>(kept) : new PlainReader(html);
  }
  if (!isSelected || essence === undefined || !isDataType(essence)) return undefined;
  const bytesMax = spec.ruleBytes ?? ruleLimits.jsonBytes;
  return new RuleBodyReader<Page>({ essence, charset, bytesMax, page: undefined });
}

const kind: Omit<Kind<Body, Found>, 'plan'> = {
  needsLogin: true,

  outcome(fetched): ReturnType<Kind<Body, Found>['outcome']> {
    if (fetched.kind !== 'body') return outcomeOf(fetched) as Found;
    const { page: html, text } = fetched.body;
    const outcome =
      html === undefined
        ? dataOf(fetched)
        : (page.outcome({ ...fetched, body: html }) as FetchOutcome);
    if (!outcome.ok || text === undefined) return outcome;
    return { ...outcome, rulePage: rulePageOf(fetched, text) };
  },

  rulePage: ({ rulePage }) => rulePage,

  statements(held, found, made) {
    if (made?.follow === undefined) {
      return [report(held, made === undefined ? found : withLinks(found, made.links), made?.items)];
    }
    // Of a page that says nofollow no link is left.
    const isOpen = found.links.length > 0 || (found.result.nofollowed ?? 0) === 0;
    const groups = isOpen ? made.follow : [];
    const plain = groups.filter(({ priority }) => priority === undefined);
    const bare = { ...found, links: new Uint8Array(0) };
    const chosen = withLinks(bare, [...plain.flatMap(({ urls }) => urls), ...made.links]);
    return [report(held, chosen, made.items, groups.flatMap(packedLinks))];
  },
};

/** For the report: links of a rule that has a priority. */
function packedLinks({ priority, urls }: FollowedLinks) {
  if (priority === undefined || urls.length === 0) return [];
  return [{ priority, links: Buffer.from(urls.join('\n'), 'latin1') }];
}

/** JSON or XML. */
function dataOf({ result, body }: Extract<Fetched<Body>, { kind: 'body' }>): FetchOutcome {
  const { charset, cut } = body;
  return {
    ok: true,
    result: {
      ...result,
      ...(charset !== undefined && { charset }),
      ...(cut === true && { cut }),
    },
    images: [],
    links: new Uint8Array(0),
  };
}

function rulePageOf(
  { result, headers, body }: Extract<Fetched<Body>, { kind: 'body' }>,
  text: string,
): RulePage {
  const { url: _, depth: __, ...input } = pageInput('', { result, headers }, text);
  // A part of a page in HTML is a page; a part of JSON is not JSON.
  if (body.page !== undefined || body.cut !== true) return { input };
  const fault = `the answer is longer than ${text.length} bytes; raise rule-bytes to read it`;
  return { input: { ...input, text: '' }, fault };
}

/** The links that rules found come behind those of the page; the master knows some of them. */
function withLinks(found: Found, more: readonly string[]): Found {
  const urls = more.flatMap((text) => canonicalUrl(text)?.href ?? []);
  if (urls.length === 0) return found;
  const own = Buffer.from(found.links);
  const joined = Buffer.from(urls.join('\n'), 'latin1');
  const parts = own.length === 0 ? [joined] : [own, Buffer.from('\n'), joined];
  const links = Buffer.concat(parts);
  return links.length > limits.linksBytesMax ? found : { ...found, links };
}

/** A page that no rule selects. */
class PlainReader implements BodyReader<Body> {
  readonly #page: BodyReader<Page>;

  constructor(page: BodyReader<Page>) {
    this.#page = page;
  }

  get bytes(): number {
    return this.#page.bytes;
  }

  write(chunk: Uint8Array): ReturnType<BodyReader<Page>['write']> {
    return this.#page.write(chunk);
  }

  /** Undefined: it is not HTML. */
  end(): Body | undefined {
    const page = this.#page.end() as Page | undefined;
    return page && { page };
  }
}
