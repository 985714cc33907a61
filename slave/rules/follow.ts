/**
 * Follow rules: the links of a page that are followed. A rule finds links by CSS or XPath, by a
 * pattern of their addresses, or by a pattern over the source, and picks all of them, the first
 * ones, or some by chance, which is the same for the same page and seed.
 * Source: docs/crawl-files.md.
 */
import { createHash } from 'node:crypto';
import { type FollowedLinks, type FollowRule, followLimits } from '../../shared/follow.ts';
import type { RuleProblem } from '../../shared/rule-results.ts';
import { canonicalUrl } from '../../shared/url.ts';
import { RuleFault } from './fault.ts';
import { Pattern } from './pattern.ts';
import type { RulePage } from './rule-page.ts';
import { type Finder, finderOf, type Row } from './selector.ts';
import type { Element } from './tree-nodes.ts';

type Compiled = {
  readonly rule: FollowRule;
  /** Links, or what holds them. */
  readonly finder: Finder;
  /** Of the addresses of what was found. */
  readonly pattern: Pattern | undefined;
};

const anyLink = 'a[href], area[href]';

export class Follow {
  readonly #rules: readonly Compiled[];

  private constructor(rules: readonly Compiled[]) {
    this.#rules = rules;
  }

  /** Returns what is wrong with the rules, if something is. */
  static compile(rules: readonly FollowRule[]): Follow | readonly RuleProblem[] {
    const problems: RuleProblem[] = [];
    const compiled: Compiled[] = [];
    for (const [index, rule] of rules.entries()) {
      try {
        compiled.push(compiledOf(rule));
      } catch (error) {
        if (!(error instanceof RuleFault)) throw error;
        problems.push({ path: ['follow', String(index)], message: error.message });
      }
    }
    return problems.length > 0 ? problems : new Follow(compiled);
  }

  /** The links that the rules pick on a page, each once. `onRule` hears whether it found any, also
   *  those of another rule. @throws RuleFault */
  links(page: RulePage, onRule: (index: number, isFound: boolean) => void): FollowedLinks[] {
    const taken = new Set<string>();
    return this.#rules.map(({ rule, finder, pattern }, index) => {
      const urls = new Set<string>();
      for (const text of addressesOf(finder, pattern, page)) {
        const url = absolute(text, page.base);
        if (url !== undefined && urls.size < followLimits.linksMax) urls.add(url);
      }
      onRule(index, urls.size > 0);
      const picked = pickedOf([...urls], rule, page.input.finalUrl).filter(
        (url) => !taken.has(url),
      );
      for (const url of picked) taken.add(url);
      return { priority: rule.priority, urls: picked };
    });
  }

  /** Frees the expressions. */
  close(): void {
    for (const { finder } of this.#rules) finder.close();
  }
}

/** @throws RuleFault */
function compiledOf(rule: FollowRule): Compiled {
  const { css, xpath, href, regex } = rule;
  // A pattern that has the attribute itself is one of the source.
  const isSource = href !== undefined && /^\s*href\s*=/i.test(href);
  const source = isSource ? href : regex;
  if (source !== undefined)
    return { rule, finder: finderOf({ regex: source }), pattern: undefined };
  if (href !== undefined) return { rule, finder: finderOf(anyLink), pattern: new Pattern(href) };
  return { rule, finder: finderOf(css === undefined ? { xpath } : { css }), pattern: undefined };
}

/** The addresses that a rule finds, as they are written. @throws RuleFault */
function* addressesOf(
  finder: Finder,
  pattern: Pattern | undefined,
  page: RulePage,
): Generator<string> {
  for (const row of finder.rows({ page, row: { kind: 'whole' }, documents: () => [] })) {
    for (const text of hrefsOf(row, page)) {
      if (pattern === undefined) yield text;
      else yield* matched(text, pattern, page.base);
    }
  }
}

/** An address that a pattern matches as it is written, or made absolute: its first group, if the
 *  pattern has one. */
function* matched(text: string, pattern: Pattern, base: string): Generator<string> {
  const form = [text, absolute(text, base) ?? ''].find((one) => pattern.isIn(one));
  if (form === undefined) return;
  if (pattern.hasGroup) yield* pattern.all(form).slice(0, 1);
  else yield text;
}

/** Of an element, its own address, or those of the links in it; a text is an address. */
function hrefsOf(row: Row, page: RulePage): string[] {
  switch (row.kind) {
    case 'text':
      return [row.text.replaceAll('&amp;', '&')];
    case 'element':
      return linksIn(row.element);
    case 'xml': {
      return linksIn(page.elementAt(page.xml.indexOf(row.node)));
    }
    default:
      return [];
  }
}

function linksIn({ tree, number }: Element): string[] {
  const own = tree.attributeOf(number, 'href');
  if (own !== undefined) return [own];
  const found: string[] = [];
  const end = tree.endOf(number);
  for (let node = number + 1; node < end; node++) {
    const href = tree.isElement(node) ? tree.attributeOf(node, 'href') : undefined;
    if (href !== undefined) found.push(href);
  }
  return found;
}

function absolute(text: string, base: string): string | undefined {
  const trimmed = text.trim();
  if (!URL.canParse(trimmed, base)) return undefined;
  return canonicalUrl(new URL(trimmed, base).href)?.href;
}

function pickedOf(urls: readonly string[], rule: FollowRule, page: string): readonly string[] {
  const { pick = 'all', count, seed = 0 } = rule;
  if (pick === 'all') return urls.slice(0, count);
  if (pick === 'first') return urls.slice(0, count ?? 1);
  // By the hash of each: the same choice however the page orders them.
  const rankOf = (url: string) =>
    createHash('sha256').update(`${seed} ${page} ${url}`).digest('hex');
  const ranked = urls.map((url) => ({ url, rank: rankOf(url) }));
  ranked.sort((a, b) => (a.rank < b.rank ? -1 : 1));
  return ranked.slice(0, count ?? 1).map(({ url }) => url);
}
