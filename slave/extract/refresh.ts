/**
 * The value of `<meta http-equiv="refresh">` and of the header `Refresh`: a delay, which does not
 * matter to a crawler, and a target. Pure.
 * Source: HTML Standard 4.2.5.3, "shared declarative refresh steps".
 */

/** Returns the target of the refresh, unresolved; '' is the page itself; undefined if it is
 *  invalid. */
export function parseRefresh(value: string): string | undefined {
  const time = /^[\t\n\f\r ]*[0-9.]+/.exec(value)?.[0];
  if (time === undefined) return undefined;
  const rest = value.slice(time.length);
  if (rest === '') return '';
  const separator = /^[\t\n\f\r ]*[;,]?[\t\n\f\r ]*/.exec(rest)?.[0] ?? '';
  return separator === '' ? undefined : targetOf(rest.slice(separator.length));
}

/** `url=foo`, `"foo"bar`, or `foo`; in `url foo`, `url` is not a keyword but part of the name. */
function targetOf(text: string): string {
  const keyword = /^url[\t\n\f\r ]*=[\t\n\f\r ]*/i.exec(text)?.[0];
  const target = keyword === undefined ? text : text.slice(keyword.length);
  const quote = target.charAt(0);
  if (quote !== '"' && quote !== "'") return target;
  const end = target.indexOf(quote, 1);
  return target.slice(1, end < 0 ? undefined : end);
}
