/**
 * A selector of any language, compiled, and the rows that it is applied to: the page, an element, a
 * piece of JSON, or a text. Languages may be mixed: an XPath can search the row that a CSS selector
 * found, and the reverse.
 */
import { placeOf, type RowsRule, type Selector, selectorOf } from '../../shared/items.ts';
import type { Json } from '../../shared/rule-results.ts';
import { Css, htmlOf } from './css.ts';
import { RuleFault } from './fault.ts';
import { JsonPath } from './json-path.ts';
import { Pattern } from './pattern.ts';
import type { RulePage } from './rule-page.ts';
import { Element, type ParentNode } from './tree-nodes.ts';
import { type Found, isElement, textOf, XPath } from './xpath.ts';

type XmlNode = Extract<Found, object>;

export type Row =
  | { readonly kind: 'whole' }
  | { readonly kind: 'element'; readonly element: Element }
  | { readonly kind: 'xml'; readonly node: XmlNode }
  | { readonly kind: 'json'; readonly value: Json }
  | { readonly kind: 'text'; readonly text: string };

/** Where a rule searches. `documents`: the JSON of the page, or of its scripts. */
export type Place = {
  readonly page: RulePage;
  readonly row: Row;
  readonly documents: () => readonly Json[];
};

export interface Finder {
  /** Returns its matches as values. @throws RuleFault */
  values(place: Place): Json[];
  /** Returns its matches as rows. @throws RuleFault */
  rows(place: Place): Row[];
  close(): void;
}

/** The finder of a rule: of its selector, and of its `regex`, which goes over what the selector
 *  finds, or over the source where there is none.
 *  @throws RuleFault it is not valid, with the reason */
export function finderOf(rule: RowsRule): Finder {
  if (typeof rule === 'string') return selectorFinder(selectorOf(rule));
  const place = placeOf(rule);
  const pattern = rule.regex === undefined ? undefined : new Pattern(rule.regex);
  if (place === undefined) {
    if (pattern === undefined) throw new RuleFault('says no place');
    return new PatternFinder(pattern);
  }
  const inner = selectorFinder(place);
  return pattern === undefined ? inner : new Narrowed(inner, pattern);
}

function selectorFinder({ kind, text }: Selector): Finder {
  switch (kind) {
    case 'css':
      return new CssFinder(new Css(text));
    case 'xpath':
      return new XPathFinder(new XPath(text));
    case 'json':
      return new JsonFinder(new JsonPath(text));
    case 'regex':
      return new PatternFinder(new Pattern(text));
    default:
      return kind satisfies never;
  }
}

class CssFinder implements Finder {
  readonly #css: Css;

  constructor(css: Css) {
    this.#css = css;
  }

  values(place: Place): Json[] {
    return this.#css.texts(elementOf(place));
  }

  rows(place: Place): Row[] {
    if (!this.#css.isOfElements) return asTexts(this.values(place));
    return this.#css.elements(elementOf(place)).map((element) => ({ kind: 'element', element }));
  }

  close(): void {}
}

class XPathFinder implements Finder {
  readonly #xpath: XPath;

  constructor(xpath: XPath) {
    this.#xpath = xpath;
  }

  values(place: Place): Json[] {
    return this.#xpath.find(nodeOf(place)).map(textOf);
  }

  rows(place: Place): Row[] {
    return this.#xpath.find(nodeOf(place)).map((found): Row => {
      if (isElement(found)) return { kind: 'xml', node: found };
      return { kind: 'text', text: String(textOf(found)) };
    });
  }

  close(): void {
    this.#xpath.close();
  }
}

class JsonFinder implements Finder {
  readonly #path: JsonPath;

  constructor(path: JsonPath) {
    this.#path = path;
  }

  values({ row, documents }: Place): Json[] {
    if (row.kind === 'json') return this.#path.find(row.value);
    return documents().flatMap((document) => this.#path.find(document));
  }

  rows(place: Place): Row[] {
    return this.values(place).map((value) => ({ kind: 'json', value }));
  }

  close(): void {}
}

/** A pattern over the source of the row. */
class PatternFinder implements Finder {
  readonly #pattern: Pattern;

  constructor(pattern: Pattern) {
    this.#pattern = pattern;
  }

  values(place: Place): Json[] {
    return this.#pattern.all(sourceOf(place));
  }

  rows(place: Place): Row[] {
    return asTexts(this.values(place));
  }

  close(): void {}
}

/** A pattern over each value that a selector finds. */
class Narrowed implements Finder {
  readonly #inner: Finder;
  readonly #pattern: Pattern;

  constructor(inner: Finder, pattern: Pattern) {
    this.#inner = inner;
    this.#pattern = pattern;
  }

  values(place: Place): Json[] {
    return this.#inner.values(place).flatMap((value) => this.#pattern.all(asText(value)));
  }

  rows(place: Place): Row[] {
    return asTexts(this.values(place));
  }

  close(): void {
    this.#inner.close();
  }
}

function asTexts(values: readonly Json[]): Row[] {
  return values.map((value) => ({ kind: 'text', text: asText(value) }));
}

export function asText(value: Json): string {
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

const notHere: Record<'json' | 'text', string> = {
  json: 'the row is JSON: use JSONPath ($…)',
  text: 'the row is a text: use regex',
};

function elementOf({ page, row }: Place): ParentNode {
  switch (row.kind) {
    case 'whole':
      return page.tree;
    case 'element':
      return row.element;
    case 'xml':
      return page.elementAt(page.xml.indexOf(row.node));
    case 'json':
    case 'text':
      throw new RuleFault(notHere[row.kind]);
    default:
      return row satisfies never;
  }
}

function nodeOf({ page, row }: Place): XmlNode {
  switch (row.kind) {
    case 'whole':
      return page.xml.root;
    case 'element':
      return page.xml.elementAt(page.indexOf(row.element));
    case 'xml':
      return row.node;
    case 'json':
    case 'text':
      throw new RuleFault(notHere[row.kind]);
    default:
      return row satisfies never;
  }
}

function sourceOf(place: Place): string {
  const { row, page } = place;
  if (row.kind === 'whole') return page.input.text;
  if (row.kind === 'text') return row.text;
  if (row.kind === 'json') return asText(row.value);
  const element = elementOf(place);
  return element instanceof Element ? htmlOf(element) : page.input.text;
}
