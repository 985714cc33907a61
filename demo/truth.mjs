// What a right crawl of the demo site must find, walked from the targets that its pages were made
// from. It never reads HTML and never resolves a link, so it cannot repeat a crawler's mistake.
import { makeSite } from './site.mjs';

/**
 * The truth for a crawl that starts at `siteUrl` and stays on its host. Lists are sorted and hold
 * absolute URLs, each once.
 * @param {string} siteUrl as `startDemo` gives it
 * @returns {{
 *   pages: string[],      HTML answered with 200, by final URL
 *   images: string[],     img[src]
 *   srcset: string[],     candidates of img[srcset]
 *   broken: string[],     links of the site that are answered with 404
 *   others: string[],     links of the site that are answered with something else than HTML
 *   redirects: {from: string, to: string, status: number}[],
 *   external: string[],   links and redirects that leave the host
 *   titles: Record<string, string>,     by page
 *   charsets: Record<string, string>,   by page; lower-case names of the Encoding Standard
 * }}
 */
export function demoTruth(siteUrl) {
  const { origin } = new URL(siteUrl);
  const site = makeSite();
  const absolute = (path) => (path.startsWith('/') ? origin + path : path);
  const found = Object.fromEntries(
    ['pages', 'images', 'srcset', 'broken', 'others', 'external'].map((name) => [name, new Set()]),
  );
  const redirects = [];
  const titles = {};
  const charsets = {};

  const seen = new Set(['/']);
  for (const path of seen) {
    const url = absolute(path);
    const resource = site.get(path);
    if (!path.startsWith('/')) {
      found.external.add(url);
    } else if (resource === undefined) {
      found.broken.add(url);
    } else if (resource.kind === 'file') {
      found.others.add(url);
    } else if (resource.kind === 'redirect') {
      redirects.push({ from: url, to: absolute(resource.to), status: resource.status });
      seen.add(resource.to);
    } else {
      const { page } = resource;
      found.pages.add(url);
      titles[url] = page.title;
      charsets[url] = page.charset === 'gb18030' && page.declared === 'meta' ? 'gbk' : page.charset;
      for (const image of page.images) found.images.add(absolute(image));
      for (const image of page.srcset) found.srcset.add(absolute(image));
      // A set that grows while it is walked is walked to its new end.
      for (const link of page.links) seen.add(link);
    }
  }
  const lists = Object.fromEntries(
    Object.entries(found).map(([name, urls]) => [name, [...urls].sort()]),
  );
  return { ...lists, redirects, titles, charsets };
}
