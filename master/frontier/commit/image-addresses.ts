/**
 * Addresses of images as slaves report them: each a URL like those of links, but with its fragment.
 * Other texts are left out and counted. Called by the kind of pages. Source: PROTOCOL.md [T-54].
 */
import type { Image, Result } from '../../../shared/requests.ts';
import { parseUrl } from '../../../shared/url.ts';

/** Paths that the URL parser leaves unchanged, in the most common forms, after the first "/". */
const plainRest = /(?:[\w~!$&()*+,;=@:/-]|\.(?=\w)(?<=\w\.))*$/y;
/** Texts up to that "/" that the parser leaves unchanged. A site has its images on a few hosts. */
const plainStarts = new Set<string>();
const startsMax = 256;

/** Returns the contents of a page, without images that have no such address. */
export function withHttpImages<F extends { readonly result: Result; readonly images: Image[] }>(
  found: F,
): F {
  const images = found.images.filter(({ src }) => isHttpUrl(src));
  const cut = found.images.length - images.length;
  if (cut === 0) return found;
  const { result } = found;
  // An integer still, whatever a slave says.
  const imagesCut = Math.min((result.imagesCut ?? 0) + cut, Number.MAX_SAFE_INTEGER);
  return { ...found, images, result: { ...result, imagesCut } };
}

/** Is it an absolute http or https URL, exactly as the URL parser writes it? */
export function isHttpUrl(text: string): boolean {
  if (!/^https?:/.test(text)) return false;
  const end = text.indexOf('/', 'https://'.length) + 1;
  plainRest.lastIndex = end;
  if (end > 0 && plainRest.test(text)) return isPlainStart(text.slice(0, end));
  return isUnchanged(text);
}

function isPlainStart(start: string): boolean {
  if (plainStarts.has(start)) return true;
  if (!isUnchanged(start)) return false;
  if (plainStarts.size === startsMax) plainStarts.clear();
  plainStarts.add(start);
  return true;
}

function isUnchanged(text: string): boolean {
  return URL.canParse(text) && parseUrl(text).href === text;
}
