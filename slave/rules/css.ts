/**
 * CSS selectors on the tree of a page: `::text` gives the text that stands directly in the
 * elements, `::attr(name)` an attribute, `::html` the element's HTML; without one of them, an
 * element gives its whole text.
 *
 * css-select decides what matches, by the numbers of the nodes. It is asked only about elements
 * that have the tag, and the class or other attributes, that the end of the selector names, which
 * are few.
 * Source: Selectors Level 4, as far as css-select has it; parsel for the endings.
 */
import { compile, type Options } from 'css-select';
import { parse, type Selector } from 'css-what';
import { messageOf } from '../../shared/errors.ts';
import { voidElements } from './closing.ts';
import { RuleFault } from './fault.ts';
import type { PageTree } from './page-tree.ts';
import type { TreeNames } from './tree-names.ts';
import { type AnyNode, Element, type ParentNode } from './tree-nodes.ts';

type Ending =
  | { readonly kind: 'element' | 'text' | 'html' }
  | { readonly kind: 'attribute'; readonly name: string };

export class Css {
  /** In HTML and in XML, where capitals count. */
  readonly #search: Search | undefined;
  readonly #xmlSearch: Search | undefined;
  readonly #ending: Ending;

  /** @throws RuleFault it is not valid, with the reason */
  constructor(text: string) {
    const { selector, ending } = endingOf(text);
    this.#ending = ending;
    // Of the row itself: `::attr(href)`, `:scope`.
    if (selector === '' || selector === ':scope') return;
    if (/::(?![^[]*\])/.test(selector)) {
      throw new RuleFault(
        'has :: before its end: one ::text or ::attr(name) counts for all of a list',
      );
    }
    try {
      this.#search = new Search(selector, false);
      this.#xmlSearch = new Search(selector, true);
    } catch (error) {
      const [line = ''] = messageOf(error).split('\n');
      const reason = line.replace(/found\s*$/, 'found the end');
      throw new RuleFault(`is not a CSS selector: ${reason.slice(0, 200)}`);
    }
  }

  /** It gives elements, not a part of them. */
  get isOfElements(): boolean {
    return this.#ending.kind === 'element';
  }

  /** The elements below `from`, in the order of the page. */
  elements(from: ParentNode): Element[] {
    return this.#numbers(from).map((number) => new Element(from.tree, number));
  }

  /** The texts that it finds below `from`. */
  texts(from: ParentNode): string[] {
    const { tree } = from;
    const ending = this.#ending;
    const numbers = this.#numbers(from);
    if (ending.kind === 'text') return textsIn(tree, numbers);
    return numbers.flatMap((number) => {
      if (ending.kind === 'attribute') {
        const name = tree.isXml ? ending.name : ending.name.toLowerCase();
        return tree.attributeOf(number, name) ?? [];
      }
      return ending.kind === 'html' ? htmlOfNumber(tree, number) : tree.textOf(number);
    });
  }

  #numbers(from: ParentNode): number[] {
    const search = from.tree.isXml ? this.#xmlSearch : this.#search;
    if (search === undefined) return from instanceof Element ? [from.number] : [];
    try {
      return search.below(from);
    } catch (error) {
      throw new RuleFault(`CSS: ${messageOf(error).slice(0, 200)}`);
    }
  }
}

/** The texts directly in elements, in the order of the page: those of an element within another one
 *  stand between the other's. */
function textsIn(tree: PageTree, elements: readonly number[]): string[] {
  const texts = elements.flatMap((element) =>
    tree.childrenOf(element).filter((child) => tree.isText(child)),
  );
  return texts.sort((a, b) => a - b).map((text) => tree.dataOf(text));
}

type Family = { readonly parent: number; readonly children: number[] };
const noFamily: Family = { parent: -1, children: [] };

/** A selector, compiled once for all pages. */
class Search {
  /** The tree that is searched, while it is. */
  #tree: PageTree | undefined;
  /** `:scope`: the element that is searched, or the root. */
  readonly #scope = [-1];
  /** The last parents whose children, and siblings, were asked for: mostly the next question is
   *  about them, too. */
  readonly #families = { children: noFamily, siblings: noFamily };
  readonly #matches: (node: number) => boolean;
  readonly #ends: readonly End[];
  /** `#ends` by the numbers of the names in a tree. */
  #known: { readonly names: TreeNames; readonly ends: readonly NumberedEnd[] } | undefined;

  constructor(selector: string, isXml: boolean) {
    const parsed = parse(selector);
    refuseNames(parsed);
    // compile() reorders what was parsed.
    this.#ends = parsed.map((one) => endOf(one, isXml));
    this.#matches = compile<number, number>(parsed, this.#options(isXml), this.#scope);
  }

  /** The elements below `from`, those in templates left out. */
  below({ tree, number }: ParentNode): number[] {
    const ends = this.#endsIn(tree);
    // Of a list of selectors, an element may match any.
    const [only] = ends.length === 1 ? ends : [];
    const tag = only?.tag ?? -1;
    const attribute = only?.attributes[0]?.name ?? -1;
    const found: number[] = [];
    const end = tree.endOf(number);
    const template = tree.names.idOf('template');
    let hidden = tree.isXml ? -1 : tree.nextWith(number + 1, end, template, -1);
    this.#tree = tree;
    this.#scope[0] = number > 0 ? number : tree.nextWith(1, end, -1, -1);
    try {
      let node = tree.nextWith(number + 1, end, tag, attribute);
      while (node >= 0) {
        let next = node + 1;
        if (hidden >= 0 && hidden < node) {
          // Behind a template, or in it.
          const behind = tree.endOf(hidden);
          hidden = tree.nextWith(behind, end, template, -1);
          if (node < behind) next = behind;
          else continue;
        } else if (mayMatch(tree, node, ends) && this.#matches(node)) found.push(node);
        node = tree.nextWith(next, end, tag, attribute);
      }
    } finally {
      this.#tree = undefined;
      this.#families.children = noFamily;
      this.#families.siblings = noFamily;
    }
    return found;
  }

  #endsIn({ names }: PageTree): readonly NumberedEnd[] {
    if (this.#known?.names !== names) {
      const ends = this.#ends.map(({ tag, attributes }) => ({
        tag: tag === undefined ? -1 : names.idOf(tag),
        attributes: attributes.map(({ name, part }) => ({ name: names.idOf(name), part })),
      }));
      this.#known = { names, ends };
    }
    return this.#known.ends;
  }

  #options(isXml: boolean): Options<number, number> {
    const tree = () => {
      if (this.#tree === undefined) throw new Error('no page is searched');
      return this.#tree;
    };
    // While a selector is compiled there is no tree, and its scope is no element yet.
    const isTag = (node: number): node is number => node >= 0 && tree().isElement(node);
    const families = this.#families;
    const childrenOf = (parent: number, as: keyof typeof families) => {
      if (families[as].parent !== parent) {
        families[as] = { parent, children: tree().childrenOf(parent) };
      }
      return families[as].children;
    };
    return {
      xmlMode: isXml,
      cacheResults: false,
      adapter: {
        isTag,
        getAttributeValue: (element, name) => tree().attributeOf(element, name),
        hasAttrib: (element, name) => tree().attributeOf(element, name) !== undefined,
        getChildren: (node) => childrenOf(node, 'children'),
        getName: (element) => tree().nameOf(element),
        getParent: (node) => (node <= 0 ? null : tree().parentOf(node)),
        getSiblings: (node) => (node <= 0 ? [node] : childrenOf(tree().parentOf(node), 'siblings')),
        prevElementSibling: (node) => {
          let previous = tree().previousOf(node);
          while (previous >= 0 && !isTag(previous)) previous = tree().previousOf(previous);
          return previous < 0 ? null : previous;
        },
        getText: (node) => readText(tree(), node),
        // Searches begin at one node.
        removeSubsets: (nodes) => nodes,
      },
    };
  }
}

/** Requirements on the element at the end of a selector: more is possible. */
type End = {
  readonly tag: string | undefined;
  /** `part`: of the value. */
  readonly attributes: readonly { readonly name: string; readonly part: string }[];
};
type NumberedEnd = {
  readonly tag: number;
  readonly attributes: readonly { readonly name: number; readonly part: string }[];
};

/** css-what takes `a@href` for an element that is named both `a` and `@href`.
 *  @throws Error */
function refuseNames(selectors: readonly (readonly Selector[])[]): void {
  for (const selector of selectors) {
    for (const [i, token] of selector.entries()) {
      if (token.type === 'pseudo' && Array.isArray(token.data)) refuseNames(token.data);
      if (token.type !== 'tag') continue;
      const before = selector[i - 1];
      const isName = /^[\w\-\u00b0-\uffff]/.test(token.name);
      if (isName && (before === undefined || !isOfElement(before))) continue;
      const why = isName ? 'must stand before the rest of its element' : 'is no name of an element';
      const hint = token.name.startsWith('@') ? '; an attribute is ::attr(name)' : '';
      throw new Error(`${token.name} ${why}${hint}`);
    }
  }
}

function endOf(selector: readonly Selector[], isXml: boolean): End {
  const folded = (name: string) => (isXml ? name : name.toLowerCase());
  let tag: string | undefined;
  const attributes: { name: string; part: string }[] = [];
  for (let i = selector.length - 1; i >= 0; i--) {
    const token = selector[i];
    if (token === undefined || !isOfElement(token)) break;
    if (token.type === 'tag') tag = folded(token.name);
    if (token.type !== 'attribute' || token.action === 'not') continue;
    // Of some attributes letters count in either case.
    const isExact = token.ignoreCase === 'quirks' || token.ignoreCase === false;
    const part = isExact && token.action !== 'exists' ? token.value : '';
    attributes.push({ name: folded(token.name), part });
  }
  return { tag, attributes };
}

function isOfElement({ type }: Selector): boolean {
  return type === 'tag' || type === 'universal' || type === 'attribute' || type === 'pseudo';
}

function mayMatch(tree: PageTree, element: number, ends: readonly NumberedEnd[]): boolean {
  for (const { tag, attributes } of ends) {
    if (tag >= 0 && tag !== tree.nameIdOf(element)) continue;
    let has = true;
    for (const { name, part } of attributes) has &&= hasPart(tree, element, name, part);
    if (has) return true;
  }
  return false;
}

function hasPart(tree: PageTree, element: number, name: number, part: string): boolean {
  const end = tree.attributesTo(element);
  for (let i = tree.attributesFrom(element); i < end; i++) {
    if (tree.attributeIdOf(i) === name) return part === '' || tree.valueHas(i, part);
  }
  return false;
}

/** A text as `:contains` sees it. */
function readText(tree: PageTree, from: number): string {
  if (!tree.isElement(from)) return tree.isText(from) ? tree.dataOf(from) : '';
  const end = tree.endOf(from);
  let text = '';
  for (let node = from; node < end; node++) {
    if (tree.isText(node)) text += tree.dataOf(node);
    else if (tree.nameOf(node) === 'br') {
      text += '\n';
      // In XML it may have children.
      node = tree.endOf(node) - 1;
    }
  }
  return text;
}

function endingOf(text: string): { selector: string; ending: Ending } {
  if (text.trim() === '') throw new RuleFault('must not be empty');
  const [, selector = text, name, argument] =
    /^([\s\S]*?)::\s*([a-z-]+)\s*(?:\(\s*([^)]*?)\s*\))?\s*$/.exec(text) ?? [];
  if (name === undefined) return { selector: text.trim(), ending: { kind: 'element' } };
  // `p ::text` is of all that is in p, as `p *::text`, and of p itself: parsel has it so.
  const own = selector.trim();
  const isBelow =
    name !== 'html' && !['', ':scope'].includes(own) && /[^\s>+~,]\s+$/.test(selector);
  const trimmed = isBelow ? `${own}, ${own} *` : own;
  if (name === 'attr' && argument) {
    const attribute = argument.replace(/^(["'])([\s\S]*)\1$/, '$2');
    return { selector: trimmed, ending: { kind: 'attribute', name: attribute } };
  }
  if ((name === 'text' || name === 'html') && argument === undefined) {
    return { selector: trimmed, ending: { kind: name } };
  }
  throw new RuleFault(`ends with ::${name}; write ::text, ::attr(name) or ::html`);
}

/** All text below a node, that of scripts included, as XPath's string(). */
export function textOf({ tree, number }: ParentNode): string {
  return tree.textOf(number);
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

/** A node as HTML, or all of a document.
 *  Source: HTML Standard, 13.3. */
export function htmlOf({ tree, number }: AnyNode): string {
  return htmlOfNumber(tree, number);
}

/** Not recursive. */
function htmlOfNumber(tree: PageTree, from: number): string {
  let html = '';
  const open: (number | string)[] = [from];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next === 'string') html += next;
    else if (tree.isText(next)) {
      const isRaw = !tree.isXml && rawElements.has(tree.nameOf(tree.parentOf(next)));
      html += isRaw ? tree.dataOf(next) : escaped(tree.dataOf(next), /[&<>\u00a0]/g);
    } else if (tree.isComment(next)) html += `<!--${tree.dataOf(next)}-->`;
    else {
      if (tree.isElement(next)) {
        html += startOfNumber(tree, next);
        const name = tree.nameOf(next);
        if (voidElements.has(name) && !tree.isXml) continue;
        open.push(`</${name}>`);
      }
      const children = tree.childrenOf(next);
      for (let child = children.pop(); child !== undefined; child = children.pop()) {
        open.push(child);
      }
    }
  }
  return html;
}

/** The start tag of an element. */
export function startOf({ tree, number }: Element): string {
  return startOfNumber(tree, number);
}

function startOfNumber(tree: PageTree, element: number): string {
  let start = `<${tree.nameOf(element)}`;
  const end = tree.attributesTo(element);
  for (let i = tree.attributesFrom(element); i < end; i++) {
    start += ` ${tree.attributeNameOf(i)}="${escaped(tree.valueOf(i), /[&"\u00a0<>]/g)}"`;
  }
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
