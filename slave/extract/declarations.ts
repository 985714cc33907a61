/**
 * A page's statements about itself, in its headers and its head: directives for crawlers, the
 * target of a refresh, and its preferred URL. They are gathered while the page is scanned and
 * evaluated at the end. Pure; one instance serves one page.
 * Source: HTML Standard 4.2.5.3 (refresh), 4.6.8 (canonical); RFC 6596; RFC 8288.
 */
import { productToken, type RobotsDirective } from '../../shared/crawl.ts';
import { limits } from '../../shared/protocol.ts';
import * as attribute from './elements.ts';
import { parseLinkHeader } from './link-header.ts';
import { parseRefresh } from './refresh.ts';
import type { Resolver } from './resolve.ts';
import { addDirectives, addHeaderDirectives, isForUs, listed } from './robots-directives.ts';
import type { Tag } from './tag.ts';

/** Header fields of the answer, each line as it came. */
export type PageHeaders = {
  readonly robots: readonly string[];
  readonly refresh: string | undefined;
  readonly links: readonly string[];
};
export const noHeaders: PageHeaders = { robots: [], refresh: undefined, links: [] };

export type Declared = {
  /** Each once, in the order of `robotsDirectives`. */
  directives?: RobotsDirective[];
  /** Absolute, without fragment, and another URL than the page's own. */
  refresh?: string;
  canonical?: string;
};

type DeclarationOptions = {
  readonly headers: PageHeaders;
  readonly userAgent: string;
  /** Makes text of a raw attribute value. */
  readonly text: (raw: string) => string;
  /** Resolves against the base known so far. */
  readonly resolver: () => Resolver;
};

/** Maximum number of canonical links kept: two that differ invalidate all of them. */
const canonicalsMax = 8;

export class Declarations {
  readonly #options: DeclarationOptions;
  /** Our name in rules, lower-case. */
  readonly #token: string;
  readonly #directives = new Set<RobotsDirective>();
  /** Absolute; `''` for the page itself. The first one counts. */
  #refresh: string | undefined;
  /** Refreshes that were too long. */
  refreshesCut = 0;
  /** Of the headers, absolute. */
  readonly #headerCanonicals: string[] = [];
  /** Of the page, as text. */
  readonly #canonicals: string[] = [];

  /** Calls `options.resolver`: headers are resolved against the page's URL. */
  constructor(options: DeclarationOptions) {
    this.#options = options;
    this.#token = productToken(options.userAgent).toLowerCase();
    const { robots, refresh, links } = options.headers;
    for (const field of robots) addHeaderDirectives(this.#directives, field, this.#token);
    if (refresh !== undefined) this.#takeRefresh(refresh);
    for (const field of links) if (/canonical/i.test(field)) this.#takeLinkHeader(field);
  }

  /** A meta or link element. */
  tag(tag: Tag): void {
    if (tag.name === 'meta') this.#meta(tag);
    else if (hasToken(this.#options.text(tag.value(attribute.rel) ?? ''), 'canonical'))
      this.#takeCanonical(tag.value(attribute.href) ?? '');
  }

  /** A meta element with a value that was too long to be kept. */
  dropped(tag: Tag): void {
    const isRefresh = this.#isRefresh(tag) && this.#refresh === undefined;
    if (isRefresh && tag.dropped(attribute.content) !== undefined) this.refreshesCut++;
  }

  /** `resolver`: of the whole page, with its base. `url`: the page's own. */
  end(resolver: Resolver, url: string): Declared {
    const directives = listed(this.#directives);
    const refresh = this.#refresh === '' ? undefined : this.#refresh;
    const canonical = this.#canonical(resolver);
    return {
      ...(directives !== undefined && { directives }),
      ...(refresh !== undefined && refresh !== url && { refresh }),
      ...(canonical !== undefined && canonical !== url && { canonical }),
    };
  }

  #meta(tag: Tag): void {
    const content = tag.value(attribute.content);
    if (content === undefined) return;
    const { text } = this.#options;
    const name = tag.value(attribute.metaName);
    if (name !== undefined && isForUs(text(name), this.#token))
      addDirectives(this.#directives, text(content));
    if (this.#isRefresh(tag)) this.#takeRefresh(text(content));
  }

  #isRefresh(tag: Tag): boolean {
    const pragma = tag.value(attribute.httpEquiv);
    return pragma !== undefined && this.#options.text(pragma).toLowerCase() === 'refresh';
  }

  /** A target that cannot be resolved is ignored. */
  #takeRefresh(value: string): void {
    if (this.#refresh !== undefined) return;
    const target = parseRefresh(value);
    if (target === undefined) return;
    const url = target.trim() === '' ? '' : this.#options.resolver().resolveLink(target);
    if (url !== undefined && fitting(url) === undefined) this.refreshesCut++;
    this.#refresh = fitting(url);
  }

  #takeLinkHeader(field: string): void {
    for (const { target, rels, isAnchored } of parseLinkHeader(field)) {
      if (isAnchored || !rels.includes('canonical')) continue;
      const url = fitting(this.#options.resolver().resolveLink(target));
      if (url !== undefined && this.#headerCanonicals.length < canonicalsMax)
        this.#headerCanonicals.push(url);
    }
  }

  #takeCanonical(href: string): void {
    if (href !== '' && this.#canonicals.length < canonicalsMax)
      this.#canonicals.push(this.#options.text(href));
  }

  /** Canonical links that contradict each other are ignored. */
  #canonical(resolver: Resolver): string | undefined {
    const [first, ...others] = [
      ...this.#headerCanonicals,
      ...this.#canonicals.map((href) => fitting(resolver.resolveLink(href))),
    ].filter((url) => url !== undefined);
    return others.every((url) => url === first) ? first : undefined;
  }
}

/** True if one of the words of an attribute's value is `token`. */
export function hasToken(value: string, token: string): boolean {
  if (value.length < token.length) return false;
  const lower = value.toLowerCase();
  return lower === token || lower.split(/[\t\n\f\r ]+/).includes(token);
}

function fitting(url: string | undefined): string | undefined {
  return url === undefined || url.length > limits.urlChars ? undefined : url;
}
