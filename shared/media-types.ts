/** Media types of pages, in lower case: of those that are parsed for links, and of the data that
 *  rules read besides. Source: RFC 6839. */

/** The type of pages that are XML; the end of a URL does not matter. */
export const xhtml = 'application/xhtml+xml';

/** Is the type parsed as a page? */
export function isHtml(type: string): boolean {
  return type === 'text/html' || type === xhtml;
}

export function isJsonType(type: string): boolean {
  return /^(?:application|text)\/(?:[\w.-]+\+)?json$/.test(type);
}

export function isXmlType(type: string): boolean {
  return /^(?:application|text)\/(?:[\w.-]+\+)?xml$/.test(type) && type !== xhtml;
}

/** JSON or XML: a page where rules ask for it. A picture in XML is none. */
export function isDataType(type: string): boolean {
  return isJsonType(type) || isXmlType(type);
}
