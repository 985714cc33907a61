/** Names of result files that were closed: `pages-20261122T215501Z.jsonl` of `pages.jsonl`. They
 *  order as they were written. */
import { extname } from 'node:path';

const secondMs = 1_000;

/** Of a moment: `20261122T215501Z`. */
export function dateOf(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`;
}

/** The next second. */
export function dateAfter(date: string): string {
  const iso = date.replace(/^(....)(..)(..)T(..)(..)(..)Z$/, '$1-$2-$3T$4:$5:$6Z');
  return dateOf(Date.parse(iso) + secondMs);
}

/** The name of a file that was closed under a date. */
export function datedName(name: string, date: string): string {
  const end = extname(name);
  return `${name.slice(0, name.length - end.length)}-${date}${end}`;
}

/** Is it the name of such a file, as the master or the operator left it? A packed one is not. */
export function isDated(candidate: string, name: string): boolean {
  const end = extname(name);
  const stem = `${name.slice(0, name.length - end.length)}-`;
  if (!candidate.startsWith(stem) || !candidate.endsWith(end)) return false;
  return /^\d{8}T\d{6}Z[\w.-]*$/.test(candidate.slice(stem.length, candidate.length - end.length));
}

/** The names among these under which a file was closed, oldest first, then its own, whether or not
 *  it is among them. */
export function inOrder(names: readonly string[], name: string): string[] {
  return [...names.filter((one) => isDated(one, name)).sort(), name];
}
