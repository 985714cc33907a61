/**
 * CSS selectors on the tree of a page: `::text` gives the text that stands directly in the elements,
 * `::attr(name)` an attribute, `::html` the element's HTML; without one of them, an element gives
 * its whole text.
 * Source: Selectors Level 4, as far as css-select has it; parsel for the endings.
 */
import { compile, type Options, selectAll } from 'css-select';
import {
  type AnyNode,
  type Document,
  Element,
  hasChildren,
  isComment,
  isText,
  type ParentNode,
} from 'domhandler';
import { messageOf } from '../../shared/errors.ts';
import { voidElements } from './closing.ts';
import { RuleFault } from './fault.ts';

type Ending =
  | { readonly kind: 'element' | 'text' | 'html' }
  | { readonly kind: 'attribute'; readonly name: string };

const options: Options<AnyNode, Element> = { xmlMode: false, cacheResults: false };

export class Css {
  readonly #query: ((node: AnyNode) => boolean) | undefined;
  readonly #ending: Ending;

  /** @throws RuleFault it is not valid, with the reason */
  constructor(text: string) {
    const { selector, ending } = endingOf(text);
    this.#ending = ending;
    // Of the row itself: `::attr(href)`.
    if (selector === '') return;
    try {
      this.#query = compile<AnyNode, Element>(selector, options);
    } catch (error) {
      const [line = ''] = messageOf(error).split('\n');
      throw new RuleFault(`is not a CSS selector: ${line.slice(0, 200)}`);
    }
  }

  /** It gives elements, not a part of them. */
  get isOfElements(): boolean {
    return this.#ending.kind === 'element';
  }

  /** The elements below `from`, in the order of the page. */
  elements(from: ParentNode): Element[] {
    if (this.#query === undefined) return from instanceof Element ? [from] : [];
    try {
      return selectAll<AnyNode, Element>(this.#query, from, options);
    } catch (error) {
      throw new RuleFault(`CSS: ${messageOf(error).slice(0, 200)}`);
    }
  }

  /** The texts that it finds below `from`. */
  texts(from: ParentNode): string[] {
    const ending = this.#ending;
    return this.elements(from).flatMap((element) => {
      if (ending.kind === 'attribute') {
        const value = element.attribs[ending.name];
        return value === undefined ? [] : [value];
      }
      if (ending.kind === 'html') return [htmlOf(element)];
      if (ending.kind === 'element') return [textOf(element)];
      return element.children.filter(isText).map(({ data }) => data);
    });
  }
}

function endingOf(text: string): { selector: string; ending: Ending } {
  const [, selector = text, name, argument] =
    /^([\s\S]*?)::\s*([a-z-]+)\s*(?:\(\s*([^)]*?)\s*\))?\s*$/.exec(text) ?? [];
  if (name === undefined) return { selector: text.trim(), ending: { kind: 'element' } };
  const trimmed = selector.trim();
  if (name === 'attr' && argument) {
    const attribute = argument.replace(/^(["'])([\s\S]*)\1$/, '$2').toLowerCase();
    return { selector: trimmed, ending: { kind: 'attribute', name: attribute } };
  }
  if ((name === 'text' || name === 'html') && argument === undefined) {
    return { selector: trimmed, ending: { kind: name } };
  }
  throw new RuleFault(`ends with ::${name}; write ::text, ::attr(name) or ::html`);
}

/** All text below a node, that of scripts included, as XPath's string(). Not recursive. */
export function textOf(node: ParentNode): string {
  let text = '';
  const open: AnyNode[] = [node];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (isText(next)) text += next.data;
    else if (hasChildren(next)) {
      for (let i = next.children.length - 1; i >= 0; i--) {
        const child = next.children[i];
        if (child !== undefined) open.push(child);
      }
    }
  }
  return text;
}

const rawElements = new Set([
  'script',
  'style',
  'xmp',
  'iframe',
  'noembed',
  'noframes',
  'plaintext',
]);

/** An element as HTML, or all of a document. Not recursive.
 *  Source: HTML Standard, 13.3. */
export function htmlOf(node: Element | Document): string {
  let html = '';
  const open: (AnyNode | string)[] = [node];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next === 'string') html += next;
    else if (isText(next)) {
      const isRaw = next.parent instanceof Element && rawElements.has(next.parent.name);
      html += isRaw ? next.data : escaped(next.data, /[&<>\u00a0]/g);
    } else if (isComment(next)) html += `<!--${next.data}-->`;
    else if (hasChildren(next)) {
      if (next instanceof Element) {
        html += startOf(next);
        if (voidElements.has(next.name)) continue;
        open.push(`</${next.name}>`);
      }
      for (let i = next.children.length - 1; i >= 0; i--) {
        const child = next.children[i];
        if (child !== undefined) open.push(child);
      }
    }
  }
  return html;
}

function startOf({ name, attribs }: Element): string {
  let start = `<${name}`;
  for (const key in attribs) start += ` ${key}="${escaped(attribs[key] ?? '', /[&"\u00a0<>]/g)}"`;
  return `${start}>`;
}

const references = new Map([
  ['&', '&amp;'],
  ['<', '&lt;'],
  ['>', '&gt;'],
  ['"', '&quot;'],
  ['\u00a0', '&nbsp;'],
]);

function escaped(text: string, special: RegExp): string {
  return text.replace(special, (char) => references.get(char) ?? char);
}
