/**
 * The index of a WARC file: a line for each response and revisit, by which replay tools find it.
 *
 *     com,example)/a?b=1 20261123010203 {"url":…,"mime":…,"status":…,"digest":…,"length":…,
 *     "offset":…,"filename":…}
 *
 * Pure. Source: CDXJ as pywb writes it, https://specs.webrecorder.net/cdxj/0.1.0/
 */

/** A record, as its line has it. */
export type Indexed = {
  readonly url: string;
  /** `WARC-Date` of the record. */
  readonly date: string;
  readonly mime: string;
  readonly status: number;
  readonly digest: string;
  /** Bytes of the compressed record, and where it begins. */
  readonly length: number;
  readonly offset: number;
  readonly filename: string;
};

export const revisitMime = 'warc/revisit';

export function cdxjLine(indexed: Indexed): string {
  const { url, date, mime, status, digest, length, offset, filename } = indexed;
  const stamp = date.slice(0, 19).replaceAll(/[-:T]/g, '');
  const value = {
    url,
    mime,
    status: String(status),
    digest: digest.replace(/^sha1:/, ''),
    length: String(length),
    offset: String(offset),
    filename,
  };
  return `${surtOf(url)} ${stamp} ${JSON.stringify(value)}\n`;
}

/** The key by which a URL is found: its host backwards, without www, port of its scheme, and case;
 *  parameters in order. Source: the canonicalizer of the Internet Archive, as pywb has it. */
export function surtOf(url: string): string {
  if (!URL.canParse(url)) return url.toLowerCase();
  const { hostname, port, pathname, search } = new URL(url);
  const host = hostname.replace(/^www\d*\./, '');
  // An address is no name.
  const isAddress = /^[\d.]+$|^\[/.test(host);
  const name = isAddress ? host : host.split('.').reverse().join(',');
  const path = pathname.length > 1 ? pathname.replace(/\/$/, '') : pathname;
  const query = search.slice(1).toLowerCase().split('&').sort().join('&');
  const at = `${name}${port === '' ? '' : `:${port}`})${path.toLowerCase()}`;
  return query === '' ? at : `${at}?${query}`;
}

/** The lines of an index in the order of their bytes. */
export function sortedLines(text: string): string {
  const lines = text.split('\n').filter((line) => line !== '');
  lines.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  return lines.map((line) => `${line}\n`).join('');
}
