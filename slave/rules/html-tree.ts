/**
 * The tree of a page, for rules: tags, comments and entities are read as the HTML Standard says,
 * and the tree is made of them as libxml2's HTML parser does (`closing.ts`), so that XPaths
 * written with lxml find the same. Three things differ, so that nothing of a page is lost: content
 * after `</html>` stays in the root, attributes of any name are kept, and void elements are those
 * of the standard.
 * Source: libxml2, HTMLparser.c, read for its rules; HTML Standard, 13.2.5.
 */
import { type AnyNode, Comment, Document, Element, Text } from 'domhandler';
import { QuoteType, Tokenizer, type TokenizerCallbacks } from 'htmlparser2';
import {
  booleanAttributes,
  endsBefore,
  frameTags,
  headTags,
  rankOf,
  voidElements,
} from './closing.ts';
import { RuleFault } from './fault.ts';

/** libxml2 refuses 2,048. */
const depthMax = 2_000;

/** Returns the tree of `text`. `xml`: of XML, without HTML's rules.
 *  @throws RuleFault it is nested too deeply */
export function treeOf(text: string, { xml = false } = {}): Document {
  const builder = new TreeBuilder(text, xml);
  const tokenizer = new Tokenizer({ xmlMode: xml, recognizeSelfClosing: true }, builder);
  tokenizer.write(text);
  tokenizer.end();
  return builder.end();
}

class TreeBuilder implements TokenizerCallbacks {
  readonly #text: string;
  readonly #isXml: boolean;
  readonly #document = new Document([]);
  readonly #open: Element[] = [];
  #root: Element | undefined;
  /** A head, or a body, has been opened. */
  #hadHead = false;
  #hadBody = false;
  /** Start tags of html, head and body that were dropped, and whose end tags will be. */
  #dropped = 0;
  /** The start tag that is being read. */
  #name = '';
  #attributes: Record<string, string> = {};
  #attribute = '';
  #value = '';

  constructor(text: string, isXml: boolean) {
    this.#text = text;
    this.#isXml = isXml;
  }

  end(): Document {
    if (this.#root === undefined && !this.#isXml) this.#push('html', {});
    return this.#document;
  }

  onopentagname(start: number, end: number): void {
    this.#name = this.#nameAt(start, end);
    this.#attributes = Object.create(null) as Record<string, string>;
  }

  onattribname(start: number, end: number): void {
    this.#attribute = this.#nameAt(start, end);
    this.#value = '';
  }

  onattribdata(start: number, end: number): void {
    this.#value += this.#text.slice(start, end);
  }

  onattribentity(code: number): void {
    this.#value += String.fromCodePoint(code);
  }

  onattribend(quote: QuoteType, _end: number): void {
    const name = this.#attribute;
    // The first of a name counts.
    if (name in this.#attributes) return;
    const isNamed = quote === QuoteType.NoValue && !this.#isXml && booleanAttributes.has(name);
    this.#attributes[name] = isNamed ? name : this.#value;
  }

  onopentagend(): void {
    this.#start();
  }

  onselfclosingtag(): void {
    if (this.#start()) this.#open.pop();
  }

  onclosetag(start: number, end: number): void {
    const name = this.#nameAt(start, end);
    if (this.#dropped > 0 && (name === 'html' || name === 'head' || name === 'body')) {
      this.#dropped--;
      return;
    }
    const rank = this.#isXml ? Number.POSITIVE_INFINITY : rankOf(name);
    for (let i = this.#open.length - 1; i >= 0; i--) {
      const open = this.#open[i]?.name ?? '';
      if (open === name) {
        this.#open.length = i;
        return;
      }
      if (rankOf(open) > rank) return;
    }
  }

  ontext(start: number, end: number): void {
    const text = this.#text.slice(start, end);
    if (/[^\t\n\r ]/.test(text)) this.#implyParagraph();
    this.#add(text);
  }

  ontextentity(code: number): void {
    this.#implyParagraph();
    this.#add(String.fromCodePoint(code));
  }

  oncomment(start: number, end: number, offset: number): void {
    this.#append(new Comment(this.#text.slice(start, end - offset)));
  }

  oncdata(start: number, end: number, offset: number): void {
    const text = this.#text.slice(start, end - offset);
    if (this.#isXml) this.#add(text);
    else this.#append(new Comment(`[CDATA[${text}]]`));
  }

  // A document type and the instructions of XML are no part of the tree.
  ondeclaration(): void {}
  onprocessinginstruction(): void {}

  /** A tag that the end of the page cuts off is kept. */
  onend(): void {}

  #nameAt(start: number, end: number): string {
    const name = this.#text.slice(start, end);
    return this.#isXml ? name : name.toLowerCase();
  }

  /** Returns whether the element is open now. */
  #start(): boolean {
    const name = this.#name;
    if (this.#isXml) {
      this.#push(name, this.#attributes);
      return true;
    }
    this.#close(name);
    this.#imply(name);
    if (this.#isMisplaced(name)) {
      this.#dropped++;
      return false;
    }
    this.#push(name, this.#attributes);
    if (!voidElements.has(name)) return true;
    this.#open.pop();
    return false;
  }

  /** An html that is not the first, a head elsewhere than in html, and a body in a body. */
  #isMisplaced(name: string): boolean {
    if (name === 'html') return this.#root !== undefined;
    if (name === 'head') return this.#open.length !== 1;
    return name === 'body' && this.#open.some((open) => open.name === 'body');
  }

  /** Ends the elements that the start tag ends. */
  #close(name: string): void {
    let top = this.#open.at(-1);
    while (top !== undefined && endsBefore(top.name, name)) {
      this.#open.pop();
      top = this.#open.at(-1);
    }
  }

  /** Opens the elements whose tags were left out before the start tag `name`. */
  #imply(name: string): void {
    if (name === 'html') return;
    if (this.#open.length === 0) {
      if (this.#root === undefined) this.#push('html', {});
      else this.#open.push(this.#root);
    }
    if (name === 'body' || name === 'head') return;
    if (this.#open.length <= 1 && headTags.has(name)) {
      if (!this.#hadHead && !this.#hadBody) this.#push('head', {});
    } else if (!frameTags.has(name) && !this.#hadBody) {
      if (!this.#open.some((open) => open.name === 'body' || open.name === 'head')) {
        this.#push('body', {});
      }
    }
  }

  /** Text that is not in the body is in a paragraph of it. */
  #implyParagraph(): void {
    if (this.#isXml) return;
    const top = this.#open.at(-1);
    if (top !== undefined && top.name !== 'html' && top.name !== 'head') return;
    this.#close('p');
    this.#imply('p');
    this.#push('p', {});
  }

  #push(name: string, attributes: Record<string, string>): void {
    if (this.#open.length >= depthMax) {
      throw new RuleFault(`the page is nested more than ${depthMax} elements deep`);
    }
    const element = new Element(name, attributes);
    this.#append(element);
    this.#open.push(element);
    this.#root ??= element;
    if (name === 'head') this.#hadHead = true;
    else if (name === 'body') this.#hadBody = true;
  }

  #add(text: string): void {
    const parent = this.#open.at(-1);
    if (parent === undefined) return;
    const last = parent.children.at(-1);
    if (last instanceof Text) last.data += text;
    else this.#append(new Text(text));
  }

  #append(node: AnyNode & { parent: unknown }): void {
    const parent = this.#open.at(-1) ?? this.#document;
    const last = parent.children.at(-1);
    if (last !== undefined) {
      last.next = node as never;
      node.prev = last as never;
    }
    node.parent = parent as never;
    parent.children.push(node as never);
  }
}
