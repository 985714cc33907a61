/**
 * The tree of a page, for rules: tags, comments and entities are read as the HTML Standard says,
 * and the tree is made of them as libxml2's HTML parser does (`closing.ts`), so that XPaths
 * written with lxml find the same. Three things differ, so that nothing of a page is lost: content
 * after `</html>` stays in the root, attributes of any name are kept, and void elements are those
 * of the standard.
 * Source: libxml2, HTMLparser.c, read for its rules; HTML Standard, 13.2.5.
 */
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
import { PageTree } from './page-tree.ts';
import { TreeNames } from './tree-names.ts';
import { Document } from './tree-nodes.ts';

/** libxml2 refuses 2,048. */
const depthMax = 2_000;
/** An element with more has a set of their names, so that its page stays linear. */
const attributesPlain = 16;

/** Properties of a tag by the number of its name. */
type Tag = { readonly name: string; readonly rank: number; readonly isVoid: boolean };
class Tags {
  readonly names = new TreeNames();
  readonly html = this.names.idOf('html');
  readonly head = this.names.idOf('head');
  readonly body = this.names.idOf('body');
  readonly paragraph = this.names.idOf('p');
  readonly #known: Tag[] = [];

  of(id: number): Tag {
    let tag = this.#known[id];
    if (tag === undefined) {
      const name = this.names.texts[id] ?? '';
      tag = { name, rank: rankOf(name), isVoid: voidElements.has(name) };
      this.#known[id] = tag;
    }
    return tag;
  }
}
/** Of all pages: their names are mostly the same. */
let tags = new Tags();

/** Returns the tree of `text`. `xml`: of XML, without HTML's rules.
 *  @throws RuleFault it is nested too deeply */
export function treeOf(text: string, { xml = false } = {}): Document {
  if (tags.names.isFull) tags = new Tags();
  const builder = new TreeBuilder(text, xml, tags);
  const tokenizer = new Tokenizer({ xmlMode: xml, recognizeSelfClosing: true }, builder);
  tokenizer.write(text);
  tokenizer.end();
  return new Document(builder.end());
}

class TreeBuilder implements TokenizerCallbacks {
  readonly #text: string;
  readonly #isXml: boolean;
  readonly #tags: Tags;
  readonly #tree: PageTree;
  /** Open elements, and their names. */
  readonly #open: number[] = [];
  readonly #openNames: number[] = [];
  #root = -1;
  /** A head, or a body, has been opened. */
  #hadHead = false;
  #hadBody = false;
  /** Start tags of html, head and body that were dropped, and whose end tags will be. */
  #dropped = 0;
  /** The start tag that is being read. */
  #name = 0;
  #firstAttribute = 0;
  #attribute = 0;
  readonly #attributeNames = new Set<number>();
  /** Its value: a range of the text, or a string of its own. */
  #valueStart = 0;
  #valueEnd = 0;
  #value: string | undefined;

  constructor(text: string, isXml: boolean, of: Tags) {
    this.#text = text;
    this.#isXml = isXml;
    this.#tags = of;
    this.#tree = new PageTree(text, of.names, isXml);
  }

  end(): PageTree {
    if (this.#root < 0 && !this.#isXml) this.#push(this.#tags.html);
    return this.#tree;
  }

  onopentagname(start: number, end: number): void {
    this.#name = this.#nameAt(start, end);
    this.#firstAttribute = this.#tree.attributeCount;
  }

  onattribname(start: number, end: number): void {
    this.#attribute = this.#nameAt(start, end);
    this.#valueStart = 0;
    this.#valueEnd = 0;
    this.#value = undefined;
  }

  onattribdata(start: number, end: number): void {
    if (this.#value === undefined && this.#valueStart === this.#valueEnd) {
      this.#valueStart = start;
      this.#valueEnd = end;
    } else if (this.#value === undefined && this.#valueEnd === start) this.#valueEnd = end;
    else this.#addValue(this.#text.slice(start, end));
  }

  onattribentity(code: number): void {
    this.#addValue(String.fromCodePoint(code));
  }

  onattribend(quote: QuoteType, _end: number): void {
    const name = this.#attribute;
    // The first of a name counts.
    if (this.#hasAttribute(name)) return;
    if (quote === QuoteType.NoValue && !this.#isXml) {
      const text = this.#tags.of(name).name;
      if (booleanAttributes.has(text)) this.#value = text;
    }
    this.#tree.addAttribute(name, this.#valueStart, this.#valueEnd, this.#value);
  }

  onopentagend(): void {
    this.#start();
  }

  onselfclosingtag(): void {
    if (this.#start()) this.#pop();
  }

  onclosetag(start: number, end: number): void {
    const { html, head, body } = this.#tags;
    const name = this.#nameAt(start, end);
    if (this.#dropped > 0 && (name === html || name === head || name === body)) {
      this.#dropped--;
      return;
    }
    const rank = this.#isXml ? Number.POSITIVE_INFINITY : this.#tags.of(name).rank;
    for (let i = this.#open.length - 1; i >= 0; i--) {
      const open = this.#openNames[i] ?? 0;
      if (open === name) {
        // Mostly one; to set the length of an array takes longer.
        while (this.#open.length > i) this.#pop();
        return;
      }
      if (this.#tags.of(open).rank > rank) return;
    }
  }

  ontext(start: number, end: number): void {
    if (this.#isOutside() && /[^\t\n\r ]/.test(this.#text.slice(start, end))) {
      this.#implyParagraph();
    }
    const parent = this.#open.at(-1);
    if (parent !== undefined) this.#tree.addText(parent, start, end);
  }

  ontextentity(code: number): void {
    if (this.#isOutside()) this.#implyParagraph();
    const parent = this.#open.at(-1);
    if (parent !== undefined) this.#tree.addText(parent, 0, 0, String.fromCodePoint(code));
  }

  oncomment(start: number, end: number, offset: number): void {
    this.#tree.addComment(this.#open.at(-1) ?? 0, start, end - offset);
  }

  oncdata(start: number, end: number, offset: number): void {
    const parent = this.#open.at(-1);
    if (!this.#isXml) {
      const own = `[CDATA[${this.#text.slice(start, end - offset)}]]`;
      this.#tree.addComment(parent ?? 0, 0, 0, own);
    } else if (parent !== undefined) this.#tree.addText(parent, start, end - offset);
  }

  // A document type and the instructions of XML are no part of the tree.
  ondeclaration(): void {}
  onprocessinginstruction(): void {}

  /** A tag that the end of the page cuts off is kept. */
  onend(): void {}

  #nameAt(start: number, end: number): number {
    return this.#tags.names.idAt(this.#text, start, end, !this.#isXml);
  }

  #addValue(text: string): void {
    this.#value ??= this.#text.slice(this.#valueStart, this.#valueEnd);
    this.#value += text;
  }

  #hasAttribute(name: number): boolean {
    const tree = this.#tree;
    const count = tree.attributeCount - this.#firstAttribute;
    if (count < attributesPlain) {
      for (let i = this.#firstAttribute; i < tree.attributeCount; i++) {
        if (tree.attributeIdOf(i) === name) return true;
      }
      return false;
    }
    const names = this.#attributeNames;
    if (count === attributesPlain) {
      names.clear();
      for (let i = 0; i < count; i++) names.add(tree.attributeIdOf(this.#firstAttribute + i));
    }
    if (names.has(name)) return true;
    names.add(name);
    return false;
  }

  /** Returns whether the element is open now. */
  #start(): boolean {
    const name = this.#name;
    const to = this.#tree.attributeCount;
    if (this.#isXml) {
      this.#push(name, this.#firstAttribute, to);
      return true;
    }
    this.#close(name);
    this.#imply(name);
    if (this.#isMisplaced(name)) {
      this.#dropped++;
      return false;
    }
    this.#push(name, this.#firstAttribute, to);
    if (!this.#tags.of(name).isVoid) return true;
    this.#pop();
    return false;
  }

  /** An html that is not the first, a head elsewhere than in html, and a body in a body. */
  #isMisplaced(name: number): boolean {
    const { html, head, body } = this.#tags;
    if (name === html) return this.#root >= 0;
    if (name === head) return this.#open.length !== 1;
    return name === body && this.#openNames.includes(body);
  }

  /** Ends the elements that the start tag ends. */
  #close(name: number): void {
    const tag = this.#tags.of(name).name;
    let top = this.#openNames.at(-1);
    while (top !== undefined && endsBefore(this.#tags.of(top).name, tag)) {
      this.#pop();
      top = this.#openNames.at(-1);
    }
  }

  /** Opens the elements whose tags were left out before the start tag `name`. */
  #imply(name: number): void {
    const { html, head, body } = this.#tags;
    if (name === html) return;
    if (this.#open.length === 0) {
      if (this.#root < 0) this.#push(html);
      else {
        this.#open.push(this.#root);
        this.#openNames.push(this.#tree.nameIdOf(this.#root));
      }
    }
    if (name === body || name === head || this.#hadBody) return;
    const tag = this.#tags.of(name).name;
    if (this.#open.length <= 1 && headTags.has(tag)) {
      if (!this.#hadHead) this.#push(head);
    } else if (!frameTags.has(tag)) {
      const isIn = this.#openNames.includes(body) || this.#openNames.includes(head);
      if (!isIn) this.#push(body);
    }
  }

  /** Text here would be in a paragraph of the body. */
  #isOutside(): boolean {
    if (this.#isXml) return false;
    const top = this.#openNames.at(-1);
    return top === undefined || top === this.#tags.html || top === this.#tags.head;
  }

  #implyParagraph(): void {
    const { paragraph } = this.#tags;
    this.#close(paragraph);
    this.#imply(paragraph);
    this.#push(paragraph);
  }

  #push(name: number, from = 0, to = 0): void {
    if (this.#open.length >= depthMax) {
      throw new RuleFault(`the page is nested more than ${depthMax} elements deep`);
    }
    const element = this.#tree.addElement(name, this.#open.at(-1) ?? 0, from, to);
    this.#open.push(element);
    this.#openNames.push(name);
    if (this.#root < 0) this.#root = element;
    if (name === this.#tags.head) this.#hadHead = true;
    else if (name === this.#tags.body) this.#hadBody = true;
  }

  #pop(): void {
    this.#open.pop();
    this.#openNames.pop();
  }
}
