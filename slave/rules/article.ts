/**
 * The article of a page: its title, author, date and language, and its main text, plain and as
 * Markdown. Readability finds the main text in a tree of linkedom, which is made of our own tree of
 * the page; both packages are optional. Source: docs/articles.md.
 */
import { createRequire } from 'node:module';
import { type ArticleField, articleInstall } from '../../shared/article.ts';
import { messageOf } from '../../shared/errors.ts';
import type { Json } from '../../shared/rule-results.ts';
import { headTags } from './closing.ts';
import { htmlOf, startOf, textOf } from './css.ts';
import { RuleFault } from './fault.ts';
import { treeOf } from './html-tree.ts';
import { markdownOf, plainTextOf } from './markdown.ts';
import type { ArticlePackages } from './messages.ts';
import type { RulePage } from './rule-page.ts';
import { type Document, Element, type ParentNode, Text } from './tree-nodes.ts';
import { trimmed } from './value.ts';

/** Readability takes the square of the depth, and some seconds for as many elements. */
const limits = { chars: 4 << 20, elements: 30_000, depth: 500 } as const;
/** Outside of links, or there is nothing to look for. */
const charsMin = 50;
/** Part of the main text that may be links. */
const linkPartMax = 0.5;

type Found = {
  readonly title?: string | null | undefined;
  readonly byline?: string | null | undefined;
  readonly publishedTime?: string | null | undefined;
  /** HTML. */
  readonly content?: string | null | undefined;
};
type Libraries = {
  readonly Readability: new (document: object) => { parse(): Found | null };
  readonly parseHTML: (html: string) => { readonly document: object };
};

type Article = Readonly<Record<ArticleField, Json>>;

export class ArticleFinder {
  readonly #libraries: Libraries;

  /** Loads the packages, which takes some 100 ms.
   *  @throws RuleFault they are not installed, or not what they should be */
  constructor(packages: ArticlePackages | undefined) {
    if (packages === undefined || 'missing' in packages) {
      throw new RuleFault(packages?.missing ?? `needs packages: ${articleInstall}`);
    }
    const { readability, linkedom } = packages;
    try {
      const load = createRequire(linkedom);
      const { Readability } = load(readability) as Partial<Libraries>;
      const { parseHTML } = load(linkedom) as Partial<Libraries>;
      if (Readability === undefined || parseHTML === undefined) throw new Error('odd versions');
      this.#libraries = { Readability, parseHTML };
    } catch (error) {
      const [why = ''] = messageOf(error).split('\n');
      throw new RuleFault(`its packages cannot be loaded (${why}): ${articleInstall}`);
    }
  }

  /** Undefined: the page has no main text.
   *  @throws RuleFault the page is too large, or too deep, to be searched */
  find(page: RulePage): Article | undefined {
    const facts = factsOf(page.tree);
    if (facts.plainChars < charsMin) return undefined;
    refuseLarge(facts);
    const { document } = this.#libraries.parseHTML(wholeHtml(page.tree));
    const found = new this.#libraries.Readability(document).parse();
    if (found === null || !found.content) return undefined;
    const content = treeOf(found.content);
    const main = factsOf(content);
    const chars = main.plainChars + main.linkChars;
    if (chars === 0 || main.linkChars > chars * linkPartMax) return undefined;
    return {
      title: titleOf(lineOf(found.title), facts.heading) ?? null,
      author: lineOf(found.byline)?.replace(/^by:?\s+/i, '') ?? null,
      date: lineOf(found.publishedTime) ?? facts.date ?? null,
      language: facts.language ?? languageOf(page.input.headers['content-language']) ?? null,
      text: plainTextOf(content),
      markdown: markdownOf(content, page.base),
    };
  }
}

/** HTML with a head and a body, which Readability wants. libxml2's tree has in the head what
 *  follows it without a tag that libxml2 knows, such as `nav`. */
function wholeHtml(tree: Document): string {
  const root = tree.children.find((node) => node instanceof Element);
  let head = '';
  let body = '';
  for (const part of root?.children ?? []) {
    if (!(part instanceof Element)) continue;
    if (part.name === 'body') body += part.children.map((node) => htmlOf(node)).join('');
    else if (part.name !== 'head') body += htmlOf(part);
    else {
      for (const node of part.children) {
        if (node instanceof Element && headTags.has(node.name)) head += htmlOf(node);
        else body += htmlOf(node);
      }
    }
  }
  const start = root === undefined ? '<html>' : startOf(root);
  return `<!doctype html>${start}<head>${head}</head><body>${body}</body></html>`;
}

/** Facts about a page from our own tree. */
type Facts = {
  /** Characters of text outside of links, and in them, without white space. */
  plainChars: number;
  linkChars: number;
  elements: number;
  depth: number;
  heading: string | undefined;
  language: string | undefined;
  date: string | undefined;
};

function refuseLarge({ plainChars, linkChars, elements, depth }: Facts): void {
  const chars = plainChars + linkChars;
  if (chars > limits.chars) {
    throw new RuleFault(`the page has ${chars} characters; an article has up to ${limits.chars}`);
  }
  if (elements > limits.elements) {
    throw new RuleFault(
      `the page has ${elements} elements; articles are looked for in up to ${limits.elements}`,
    );
  }
  if (depth > limits.depth) {
    throw new RuleFault(
      `the page is nested ${depth} elements deep; articles are looked for up to ${limits.depth}`,
    );
  }
}

const unread = new Set(['script', 'style', 'template', 'noscript', 'svg', 'title']);

function factsOf(tree: Document): Facts {
  const facts: Facts = {
    plainChars: 0,
    linkChars: 0,
    elements: 0,
    depth: 0,
    heading: undefined,
    language: undefined,
    date: undefined,
  };
  type Open = { node: ParentNode; depth: number; isLink: boolean; isRead: boolean };
  const open: Open[] = [{ node: tree, depth: 0, isLink: false, isRead: true }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { node, depth } = next;
    let { isLink, isRead } = next;
    if (node instanceof Element) {
      facts.elements++;
      facts.depth = Math.max(facts.depth, depth);
      learn(node, facts);
      isLink ||= node.name === 'a';
      isRead &&= !unread.has(node.name);
    }
    for (let i = node.children.length - 1; i >= 0; i--) {
      const child = node.children[i];
      if (child instanceof Element) open.push({ node: child, depth: depth + 1, isLink, isRead });
      else if (isRead && child instanceof Text) {
        facts[isLink ? 'linkChars' : 'plainChars'] += solidChars(child.data);
      }
    }
  }
  return facts;
}

function solidChars(text: string): number {
  let count = 0;
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 32) count++;
  return count;
}

/** Readability leaves the name of the site at a short title; the heading does not have it. */
function titleOf(title: string | undefined, heading: string | undefined): string | undefined {
  if (title === undefined || heading === undefined) return title ?? heading;
  const isBefore = title.startsWith(heading) && /^ ?[-|–—:·»/] ?/.test(title.slice(heading.length));
  const isAfter =
    title.endsWith(heading) && / ?[-|–—:·«/] ?$/.test(title.slice(0, -heading.length));
  return isBefore || isAfter ? heading : title;
}

const dateNames =
  /^(?:article:published_time|date|pubdate|publish(?:ed)?[-_]?date|dc(?:terms)?\.(?:date|created|issued)(?:\.issued)?|datepublished|sailthru\.date)$/;

/** Takes what Readability does not look for, or leaves to its user. The first of each counts. */
function learn(element: Element, facts: Facts): void {
  const { name, attribs } = element;
  if (name === 'html') facts.language ??= languageOf(attribs['lang'] ?? attribs['xml:lang']);
  else if (name === 'h1') facts.heading ??= lineOf(textOf(element));
  else if (name === 'meta') {
    const key = (attribs['property'] ?? attribs['name'] ?? attribs['itemprop'] ?? '').toLowerCase();
    if (dateNames.test(key)) facts.date ??= lineOf(attribs['content']);
    if (key === 'og:locale') facts.language ??= languageOf(attribs['content']);
    if (attribs['http-equiv']?.toLowerCase() === 'content-language') {
      facts.language ??= languageOf(attribs['content']);
    }
  } else if (name === 'time') facts.date ??= lineOf(attribs['datetime']);
}

/** `en`, `pt-BR`: as RFC 5646 has it; undefined: it is none. */
function languageOf(text: string | undefined): string | undefined {
  const [first = ''] = (text ?? '').split(',');
  const tag = first.trim().replaceAll('_', '-');
  return /^[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8}){0,4}$/.test(tag) ? tag : undefined;
}

/** A text on one line; undefined: it has nothing. */
function lineOf(text: string | null | undefined): string | undefined {
  const line = trimmed((text ?? '').replace(/\s+/g, ' '));
  return line === '' ? undefined : line;
}
