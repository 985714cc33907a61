/** Media types, in lower case, of which rules read more than HTML. Source: RFC 6839. */
import { xhtml } from '../fetch/content.ts';

export function isJsonType(type: string): boolean {
  return /^(?:application|text)\/(?:[\w.-]+\+)?json$/.test(type);
}

export function isXmlType(type: string): boolean {
  return /^(?:application|text)\/(?:[\w.-]+\+)?xml$/.test(type) && type !== xhtml;
}
