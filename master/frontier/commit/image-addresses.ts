/**
 * Addresses of images as slaves report them: each a URL like those of links, but with its fragment.
 * Other texts are left out and counted. Called by the kind of pages. Source: PROTOCOL.md [T-54].
 */
import type { Image, Result } from '../../../shared/requests.ts';
import { parseUrl } from '../../../shared/url.ts';

/** The most common forms, which the URL parser would leave unchanged. */
const plain =
  /^https?:\/\/(?!xn--)(?:[a-z0-9][a-z0-9-]*\.(?!xn--))*[a-z][a-z0-9-]*\/(?:[\w~!$&()*+,;=@:/-]|\.(?=\w)(?<=\w\.))*$/;

/** Returns the contents of a page, without images that have no such address. */
export function withHttpImages<F extends { readonly result: Result; readonly images: Image[] }>(
  found: F,
): F {
  const images = found.images.filter(({ src }) => isHttpUrl(src));
  const cut = found.images.length - images.length;
  if (cut === 0) return found;
  const { result } = found;
  return { ...found, images, result: { ...result, imagesCut: (result.imagesCut ?? 0) + cut } };
}

/** Is it an absolute http or https URL, exactly as the URL parser writes it? */
export function isHttpUrl(text: string): boolean {
  if (plain.test(text)) return true;
  if (!/^https?:/.test(text) || !URL.canParse(text)) return false;
  return parseUrl(text).href === text;
}
