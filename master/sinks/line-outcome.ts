/** The outcome of a URL, read from its line in pages.jsonl or images.jsonl. */

/** A column of the ledger; `givenUp`: it may have been tried again since. */
export type LineOutcome = 'pages' | 'redirects' | 'others' | 'failed' | 'excluded' | 'givenUp';

type Line = { readonly [field: string]: unknown };

export function outcomeOf(line: Line): LineOutcome {
  const { images, excluded, error, finalUrl, redirectedTo, sitemap } = line;
  if (images !== undefined) return 'pages';
  if (excluded !== undefined) return 'excluded';
  // Only a report has a final URL: without, every attempt has failed.
  if (error !== undefined && finalUrl === undefined) {
    return sitemap === undefined ? 'givenUp' : 'failed';
  }
  if (error !== undefined && sitemap === undefined) return 'failed';
  return redirectedTo === undefined ? 'others' : 'redirects';
}
