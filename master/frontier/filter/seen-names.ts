/**
 * The names in a crawl's filter that are not URLs of pages: a mark before the text distinguishes
 * them. The names are fingerprinted and kept in `seen` like URLs. Tasks of other kinds than pages
 * have marks, too: see their modules in `kinds/`.
 */
import { canonicalUrl, parseCanonical } from '../../../shared/url.ts';
import { isSameSite } from '../crawl/scope.ts';

export const imageMark = '!';
/** A name that pages share: see `--canonical`. */
const pageMark = '=';

export function imageName(src: string): string {
  return imageMark + src;
}

export function pageName(url: string): string {
  return pageMark + url;
}

/** Returns the canonical URL that a page declares, if it is on the site that the page was fetched
 *  from. `url`: the requested URL. */
export function preferredUrl(
  { url }: { readonly url: string },
  { canonical }: { readonly canonical?: string | undefined },
): URL | undefined {
  const preferred = canonical === undefined ? undefined : parseCanonical(canonical);
  const own = preferred === undefined ? undefined : canonicalUrl(url);
  if (preferred === undefined || own === undefined) return undefined;
  return isSameSite(preferred, own) ? preferred : undefined;
}
