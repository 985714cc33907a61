/**
 * What a crawl's filter knows by other names than URLs of pages: a mark before the text keeps them
 * apart. The names are fingerprinted and kept in `seen` as URLs are. Tasks of other kinds than pages
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

/** The canonical URL that a page asks for, if it may have it: one of the site that it was fetched
 *  from. `url`: what was asked for. */
export function preferredUrl(
  { url }: { readonly url: string },
  { canonical }: { readonly canonical?: string | undefined },
): URL | undefined {
  const preferred = canonical === undefined ? undefined : parseCanonical(canonical);
  const own = preferred === undefined ? undefined : canonicalUrl(url);
  if (preferred === undefined || own === undefined) return undefined;
  return isSameSite(preferred, own) ? preferred : undefined;
}
