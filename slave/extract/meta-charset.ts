/**
 * Returns the charset that a meta element names, by its attribute or its Content-Type. Pure.
 * Source: HTML Standard, "in head" insertion mode; "extracting a character encoding from a meta
 * element".
 */
import * as attribute from './elements.ts';
import type { Tag } from './tag.ts';

const assignment = /charset[\t\n\f\r ]*=[\t\n\f\r ]*/i;

/** Labels in the order in which they are tried. */
export function charsetLabels(tag: Tag): string[] {
  const labels: string[] = [];
  const own = tag.value(attribute.charset);
  if (own !== undefined) labels.push(own);
  if (tag.value(attribute.httpEquiv)?.toLowerCase() === 'content-type') {
    const named = labelOf(tag.value(attribute.content) ?? '');
    if (named !== undefined) labels.push(named);
  }
  return labels;
}

function labelOf(content: string): string | undefined {
  const found = assignment.exec(content);
  if (found === null) return undefined;
  const rest = content.slice(found.index + found[0].length);
  const quote = rest.charAt(0);
  if (quote !== '"' && quote !== "'") return /^[^\t\n\f\r ;]*/.exec(rest)?.[0];
  const end = rest.indexOf(quote, 1);
  return end < 0 ? undefined : rest.slice(1, end);
}
