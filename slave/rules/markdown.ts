/**
 * The main part of a page as Markdown (CommonMark, with the tables of GFM), and as plain text with
 * the same paragraphs. Text is escaped, so that it is read as text; links and images are absolute.
 * Source: CommonMark 0.31.2; GFM 0.29.
 */
import { textOf } from './css.ts';
import { seamed } from './markdown-seam.ts';
import { type AnyNode, Element, type ParentNode, Text } from './tree-nodes.ts';
import { trimmed } from './value.ts';

/** `isList`: it follows the text of its list item without an empty line. */
type Block = { readonly text: string; readonly isList: boolean };

export function markdownOf(from: ParentNode, base: string): string {
  return new Writer(base).document(from);
}

/** Paragraphs with an empty line between them; no link addresses, no marks. */
export function plainTextOf(from: ParentNode): string {
  return new Writer(undefined).document(from);
}

const blocks = new Set(
  `address article aside blockquote body center dd details dialog div dl dt fieldset figcaption
  figure footer form h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li main menu nav ol p pre
  section summary table tbody td tfoot th thead tr ul`.split(/\s+/),
);
const unread = new Set(
  'script style template noscript svg iframe object button select textarea'.split(' '),
);
const marks: ReadonlyMap<string, string> = new Map([
  ['strong', '**'],
  ['b', '**'],
  ['em', '*'],
  ['i', '*'],
  ['del', '~~'],
  ['s', '~~'],
]);
const columnsMax = 64;

class Writer {
  /** Of addresses; undefined: plain text is written. */
  readonly #base: string | undefined;
  readonly #hasBlock = new Map<Element, boolean>();
  /** Marks that are open: a mark within itself would end it. */
  readonly #marks = new Set<string>();

  constructor(base: string | undefined) {
    this.#base = base;
  }

  document(from: ParentNode): string {
    return joined(this.#blocks(from.children));
  }

  get #isPlain(): boolean {
    return this.#base === undefined;
  }

  /** Texts and inline elements between two blocks are a paragraph. */
  #blocks(nodes: readonly AnyNode[]): Block[] {
    const found: Block[] = [];
    let run: AnyNode[] = [];
    const flush = () => {
      const text = this.#paragraph(this.#inline(run));
      if (text !== '') found.push({ text, isList: false });
      run = [];
    };
    for (const node of nodes) {
      if (!(node instanceof Element) || !this.#isBlock(node)) run.push(node);
      else {
        flush();
        found.push(...this.#block(node));
      }
    }
    flush();
    return found;
  }

  /** An inline element around a block is one, too. */
  #isBlock(element: Element): boolean {
    if (blocks.has(element.name)) return true;
    if (unread.has(element.name)) return false;
    let has = this.#hasBlock.get(element);
    if (has === undefined) {
      has = element.children.some((child) => child instanceof Element && this.#isBlock(child));
      this.#hasBlock.set(element, has);
    }
    return has;
  }

  #block(element: Element): Block[] {
    const { name, children } = element;
    if (unread.has(name)) return [];
    if (/^h[1-6]$/.test(name)) return this.#heading(element);
    switch (name) {
      case 'hr':
        return this.#isPlain ? [] : plain('---');
      case 'pre':
        return this.#code(element);
      case 'blockquote': {
        const text = joined(this.#blocks(children));
        return plain(this.#isPlain ? text : text.replace(/^/gm, '> ').replace(/^> $/gm, '>'));
      }
      case 'ul':
      case 'ol':
      case 'menu':
        return this.#list(element);
      case 'table':
        return this.#table(element);
      default:
        return this.#blocks(children);
    }
  }

  #heading({ name, children }: Element): Block[] {
    const text = this.#inline(children).replaceAll('\n', ' ');
    const line = trimmed(text.replace(/ +/g, ' '));
    if (line === '' || this.#isPlain) return plain(line);
    return plain(`${'#'.repeat(Number(name[1]))} ${line.replace(/(#+)$/, '\\$1')}`);
  }

  #code(element: Element): Block[] {
    const text = rawText(element).replace(/^\n/, '').trimEnd();
    if (text === '' || this.#isPlain) return plain(text);
    const fence = '`'.repeat(Math.max(3, longestRun(text) + 1));
    return plain(`${fence}\n${text}\n${fence}`);
  }

  #list({ name, attribs, children }: Element): Block[] {
    const first = /^\d{1,9}$/.test(attribs['start'] ?? '') ? Number(attribs['start']) : 1;
    const items: string[] = [];
    let isTight = true;
    for (const child of children) {
      const of = child instanceof Element && child.name === 'li' ? child.children : [child];
      const found = this.#blocks(of);
      if (found.length === 0) continue;
      // An empty line stands between the blocks of an item, but not before a list in it.
      isTight &&= found.every(({ isList }, i) => i === 0 || isList);
      const [head, ...rest] = found.map(({ text, isList }, i) =>
        i === 0 ? text : `${isList ? '\n' : '\n\n'}${text}`,
      );
      const text = [head, ...rest].join('');
      const mark = name === 'ol' ? `${first + items.length}. ` : '- ';
      const indent = ' '.repeat(mark.length);
      items.push(this.#isPlain ? text : mark + text.replace(/\n(?=[^\n])/g, `\n${indent}`));
    }
    if (items.length === 0) return [];
    // Right below a text only a list that begins with 1 is one.
    const isList = name !== 'ol' || first === 1;
    return [{ text: items.join(isTight ? '\n' : '\n\n'), isList }];
  }

  /** One of a single column, or with tables in it, is for the layout alone. */
  #table(table: Element): Block[] {
    const rows = rowsOf(table);
    const cells = rows.map(({ children }) =>
      children.filter((one) => one instanceof Element && /^t[dh]$/.test(one.name)),
    ) as Element[][];
    const width = Math.max(0, ...cells.map(({ length }) => length));
    const isLayout = cells.some((row) => row.some((cell) => hasTable(cell)));
    if (width < 2 || width > columnsMax || isLayout) {
      return rowsAndOthers(table).flatMap((one) => this.#blocks([one]));
    }
    const texts = cells.map((row) => row.map((cell) => this.#cell(cell)));
    if (this.#isPlain) return plain(texts.map((row) => row.join('\t')).join('\n'));
    const isHeaded = cells[0]?.some(({ name }) => name === 'th') === true;
    const [head, ...body] = isHeaded ? texts : [[], ...texts];
    const line = (row: readonly string[], filler = '') =>
      `| ${Array.from({ length: width }, (_, i) => row[i] ?? filler).join(' | ')} |`;
    return plain([line(head ?? []), line([], '---'), ...body.map((row) => line(row))].join('\n'));
  }

  #cell({ children }: Element): string {
    const text = trimmed(this.#inline(children).replace(/\s+/g, ' '));
    return this.#isPlain ? text : text.replaceAll('|', '\\|');
  }

  /** Lines are trimmed, and what would begin a block in Markdown is escaped. */
  #paragraph(inline: string): string {
    const lines = inline.split('\n').map((line) => trimmed(line.replace(/ +/g, ' ')));
    while (lines[0] === '') lines.shift();
    while (lines.at(-1) === '') lines.pop();
    if (this.#isPlain) return lines.join('\n');
    return lines
      .map(escapedStart)
      .join('  \n')
      .replace(/\n *\n+/g, '\n');
  }

  /** Of a line break comes `\n`, of no other text. */
  #inline(nodes: readonly AnyNode[]): string {
    let text = '';
    for (const node of nodes) {
      if (node instanceof Text) {
        const line = node.data.replace(/[\s\u200b\ufeff]+/g, ' ');
        text = this.#isPlain ? text + line : seamed(text, escaped(line));
      } else if (node instanceof Element && !unread.has(node.name)) {
        const piece = this.#element(node);
        text = this.#isPlain ? text + piece : seamed(text, piece);
      }
    }
    return text;
  }

  /** `to`: of a link. */
  #marked(children: readonly AnyNode[], mark: string, to?: string): string {
    if (this.#marks.has(mark)) return this.#inline(children);
    this.#marks.add(mark);
    const inner = this.#inline(children);
    this.#marks.delete(mark);
    return marked(inner, mark, to === undefined ? mark : `](${to})`);
  }

  #element(element: Element): string {
    const { name, attribs, children } = element;
    if (name === 'br') return '\n';
    if (name === 'img') return this.#image(attribs);
    if ((name === 'code' || name === 'kbd' || name === 'samp') && !this.#isPlain) {
      return inlineCode(textOf(element));
    }
    const to = name === 'a' && !this.#isPlain ? this.#address(attribs['href']) : undefined;
    if (to !== undefined && !to.startsWith('#')) return this.#marked(children, '[', to);
    const mark = this.#isPlain ? undefined : marks.get(name);
    if (mark !== undefined) return this.#marked(children, mark);
    const inner = this.#inline(children);
    return blocks.has(name) ? ` ${inner} ` : inner;
  }

  #image({ src, alt = '' }: Readonly<Record<string, string>>): string {
    const from = this.#address(src);
    if (from === undefined || this.#isPlain) return '';
    return `![${escaped(trimmed(alt.replace(/\s+/g, ' ')))}](${from})`;
  }

  /** Absolute, as Markdown takes it; undefined: it is none that leads to a page or a file. */
  #address(address: string | undefined): string | undefined {
    const base = this.#base ?? 'about:blank';
    if (address === undefined || !URL.canParse(address, base)) return undefined;
    const { protocol, href } = new URL(address, base);
    if (!/^(?:https?|mailto|ftp):$/.test(protocol)) return undefined;
    return href.replace(/[()\s<>]/g, (char) => `%${char.charCodeAt(0).toString(16)}`);
  }
}

function plain(text: string): Block[] {
  return text === '' ? [] : [{ text, isList: false }];
}

function joined(found: readonly Block[]): string {
  return found.map(({ text }) => text).join('\n\n');
}

/** White space at its ends stays outside of the marks. */
function marked(inner: string, before: string, after = before): string {
  const text = inner.trim();
  if (text === '') return inner;
  const at = inner.indexOf(text);
  // A mark does not go over a line break.
  const whole = text.replaceAll('\n', ' ');
  return `${inner.slice(0, at)}${before}${whole}${after}${inner.slice(at + text.length)}`;
}

function inlineCode(text: string): string {
  const line = trimmed(text.replace(/\s+/g, ' '));
  if (line === '') return '';
  const fence = '`'.repeat(longestRun(line) + 1);
  const space = line.startsWith('`') || line.endsWith('`') ? ' ' : '';
  return `${fence}${space}${line}${space}${fence}`;
}

function longestRun(text: string): number {
  return (text.match(/`+/g) ?? []).reduce((longest, run) => Math.max(longest, run.length), 0);
}

function escaped(text: string): string {
  return text.replace(/[\\`*_[\]~]|<(?=[A-Za-z/!?])|&(?=#?\w+;)/g, '\\$&');
}

/** A line that Markdown would take for a heading, a quotation, a list item or a ruler. */
function escapedStart(line: string): string {
  return line
    .replace(/^(?:#{1,6}(?= |$)|>|[-+](?= |$)|=+$|-{2,}$)/, '\\$&')
    .replace(/^(\d{1,9})([.)])(?= |$)/, '$1\\$2');
}

/** The text of a `pre` with its line breaks. */
function rawText(element: Element): string {
  let text = '';
  const open: AnyNode[] = [element];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (next instanceof Text) text += next.data;
    else if (next instanceof Element) {
      if (next.name === 'br') text += '\n';
      for (let i = next.children.length - 1; i >= 0; i--) {
        const child = next.children[i];
        if (child !== undefined) open.push(child);
      }
    }
  }
  return text;
}

function rowsOf(table: Element): Element[] {
  return rowsAndOthers(table).filter(({ name }) => name === 'tr');
}

/** The rows of a table, those in its sections included, and its caption. */
function rowsAndOthers({ children }: Element): Element[] {
  return children.flatMap((one) => {
    if (!(one instanceof Element)) return [];
    return /^t(?:head|body|foot)$/.test(one.name) ? rowsAndOthers(one) : [one];
  });
}

function hasTable({ children }: Element): boolean {
  return children.some((one) => one instanceof Element && (one.name === 'table' || hasTable(one)));
}
