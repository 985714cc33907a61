/**
 * The tree of a page in a few arrays: a node is a number, in the order of the page, so that the
 * nodes of a subtree follow each other. Texts and values of attributes are ranges of the page's
 * text, and become strings when somebody asks. A tree of objects takes three times as long to
 * build, and as long again to collect. `Element` and the other classes show a node as an object,
 * for what is not called for each node of each page.
 *
 *     node:       kind or name | parent | previous | next | a | b | c | d
 *       element:  a, b: first and last child      c, d: its attributes, from and up to
 *       text, comment:  a, b: from and up to in the text, or c: its own string
 *     attribute:  name | from | up to | its own string
 *
 * −1 stands for none. Node 0 is the document.
 */
import type { TreeNames } from './tree-names.ts';

const isText = -1;
const isComment = -2;
const isDocument = -3;

const nodeInts = 8;
const attributeInts = 4;
const parentAt = 1;
const previousAt = 2;
const nextAt = 3;
const aAt = 4;
const bAt = 5;
const cAt = 6;
const dAt = 7;

/** Arrays of the last tree that was closed, for the next one: memory outside of V8's heap has it
 *  collect garbage early. Larger ones are not kept. */
const sparesMax = 1 << 22;
const spares: { nodes: Int32Array; attributes: Int32Array } = {
  nodes: new Int32Array(0),
  attributes: new Int32Array(0),
};

export class PageTree {
  readonly text: string;
  readonly names: TreeNames;
  /** Of XML: capitals count, and any element may have content. */
  readonly isXml: boolean;
  /** Nodes; the document is one. */
  count = 0;
  attributeCount = 0;
  #nodes: Int32Array;
  #attributes: Int32Array;
  /** Texts and values that do not stand in the page as they are. */
  readonly #strings: string[] = [];

  constructor(text: string, names: TreeNames, isXml = false) {
    this.text = text;
    this.names = names;
    this.isXml = isXml;
    // A guess: a node for each 8 characters, an attribute for each 32.
    this.#nodes = spareOf('nodes', nodeInts * (64 + Math.floor(text.length / 8)));
    this.#attributes = spareOf('attributes', attributeInts * (64 + Math.floor(text.length / 32)));
    this.#add(isDocument, -1, -1, -1, 0, 0);
  }

  /** The tree is empty from now on. */
  close(): void {
    if (this.#nodes.length > spares.nodes.length && this.#nodes.length <= sparesMax) {
      spares.nodes = this.#nodes;
    }
    if (this.#attributes.length > spares.attributes.length) {
      if (this.#attributes.length <= sparesMax) spares.attributes = this.#attributes;
    }
    this.#nodes = new Int32Array(0);
    this.#attributes = new Int32Array(0);
    this.count = 0;
    this.attributeCount = 0;
  }

  /** `from`, `to`: its attributes. */
  addElement(name: number, parent: number, from: number, to: number): number {
    return this.#add(name, parent, -1, -1, from, to);
  }

  addComment(parent: number, start: number, end: number, own?: string): void {
    this.#add(isComment, parent, start, end, this.#own(own), -1);
  }

  /** Text behind what `parent` has; it is joined with a text that ends there. `own`: in place of
   *  the range. */
  addText(parent: number, start: number, end: number, own?: string): void {
    const last = this.#at(parent, bAt);
    if (last < 0 || this.#at(last, 0) !== isText) {
      this.#add(isText, parent, start, end, this.#own(own), -1);
      return;
    }
    const at = last * nodeInts;
    const number = this.#at(last, cAt);
    if (number >= 0) this.#strings[number] += own ?? this.text.slice(start, end);
    else if (own === undefined && this.#at(last, bAt) === start) this.#nodes[at + bAt] = end;
    else {
      this.#nodes[at + cAt] = this.#own(this.dataOf(last) + (own ?? this.text.slice(start, end)));
    }
  }

  addAttribute(name: number, start: number, end: number, own: string | undefined): void {
    const at = this.attributeCount * attributeInts;
    if (at === this.#attributes.length) this.#attributes = grown(this.#attributes);
    this.#attributes[at] = name;
    this.#attributes[at + 1] = start;
    this.#attributes[at + 2] = end;
    this.#attributes[at + 3] = this.#own(own);
    this.attributeCount++;
  }

  isElement(node: number): boolean {
    return this.#at(node, 0) >= 0;
  }

  isText(node: number): boolean {
    return this.#at(node, 0) === isText;
  }

  isComment(node: number): boolean {
    return this.#at(node, 0) === isComment;
  }

  /** Of an element; negative: it is none. */
  nameIdOf(node: number): number {
    return this.#at(node, 0);
  }

  nameOf(node: number): string {
    return this.names.texts[this.#at(node, 0)] ?? '';
  }

  parentOf(node: number): number {
    return this.#at(node, parentAt);
  }

  previousOf(node: number): number {
    return this.#at(node, previousAt);
  }

  nextOf(node: number): number {
    return this.#at(node, nextAt);
  }

  /** The first child of an element, or of the document. */
  firstOf(node: number): number {
    return this.#canHold(node) ? this.#at(node, aAt) : -1;
  }

  childrenOf(node: number): number[] {
    const children: number[] = [];
    for (let child = this.firstOf(node); child >= 0; child = this.nextOf(child)) {
      children.push(child);
    }
    return children;
  }

  /** One more than the last number below an element, or the document. */
  endOf(node: number): number {
    if (node === 0) return this.count;
    let last = node;
    while (this.#canHold(last) && this.#at(last, bAt) >= 0) last = this.#at(last, bAt);
    return last + 1;
  }

  /** The characters of a text or a comment. */
  dataOf(node: number): string {
    const own = this.#at(node, cAt);
    if (own >= 0) return this.#strings[own] ?? '';
    return this.text.slice(this.#at(node, aAt), this.#at(node, bAt));
  }

  /** All text below a node, that of scripts included, as XPath's string(). */
  textOf(node: number): string {
    let text = '';
    const end = this.endOf(node);
    for (let next = node; next < end; next++) if (this.isText(next)) text += this.dataOf(next);
    return text;
  }

  /** The attributes of an element, to be asked for by number: from and up to. */
  attributesFrom(element: number): number {
    return this.#at(element, cAt);
  }

  attributesTo(element: number): number {
    return this.#at(element, dAt);
  }

  attributeIdOf(attribute: number): number {
    return this.#attributes[attribute * attributeInts] ?? -1;
  }

  attributeNameOf(attribute: number): string {
    return this.names.texts[this.attributeIdOf(attribute)] ?? '';
  }

  valueOf(attribute: number): string {
    const at = attribute * attributeInts;
    const own = this.#attributes[at + 3] ?? -1;
    if (own >= 0) return this.#strings[own] ?? '';
    return this.text.slice(this.#attributes[at + 1], this.#attributes[at + 2]);
  }

  /** Does the value have this part? Does not make a string of it. */
  valueHas(attribute: number, part: string): boolean {
    const at = attribute * attributeInts;
    const own = this.#attributes[at + 3] ?? -1;
    if (own >= 0) return this.#strings[own]?.includes(part) === true;
    const last = (this.#attributes[at + 2] ?? 0) - part.length;
    const first = part.charCodeAt(0);
    for (let i = this.#attributes[at + 1] ?? 0; i <= last; i++) {
      if (this.text.charCodeAt(i) === first && this.text.startsWith(part, i)) return true;
    }
    return false;
  }

  attributeOf(element: number, name: string): string | undefined {
    const end = this.attributesTo(element);
    for (let i = this.attributesFrom(element); i < end; i++) {
      if (this.attributeNameOf(i) === name) return this.valueOf(i);
    }
    return undefined;
  }

  /** The first element from `from` on and before `to` that has this tag and an attribute of this
   *  name (−1: any, or none); −1: there is none. The loop over all nodes for each selector. */
  nextWith(from: number, to: number, tag: number, attribute: number): number {
    const nodes = this.#nodes;
    const attributes = this.#attributes;
    for (let node = from, at = from * nodeInts; node < to; node++, at += nodeInts) {
      const name = nodes[at] ?? -1;
      if (name < 0 || (tag >= 0 && name !== tag)) continue;
      if (attribute < 0) return node;
      const end = (nodes[at + dAt] ?? 0) * attributeInts;
      for (let i = (nodes[at + cAt] ?? 0) * attributeInts; i < end; i += attributeInts) {
        if (attributes[i] === attribute) return node;
      }
    }
    return -1;
  }

  #add(kind: number, parent: number, a: number, b: number, c: number, d: number): number {
    const node = this.count++;
    const at = node * nodeInts;
    if (at === this.#nodes.length) this.#nodes = grown(this.#nodes);
    const nodes = this.#nodes;
    nodes[at] = kind;
    nodes[at + parentAt] = parent;
    nodes[at + nextAt] = -1;
    nodes[at + aAt] = a;
    nodes[at + bAt] = b;
    nodes[at + cAt] = c;
    nodes[at + dAt] = d;
    let previous = -1;
    if (parent >= 0) {
      const of = parent * nodeInts;
      previous = nodes[of + bAt] ?? -1;
      if (previous < 0) nodes[of + aAt] = node;
      else nodes[previous * nodeInts + nextAt] = node;
      nodes[of + bAt] = node;
    }
    nodes[at + previousAt] = previous;
    return node;
  }

  #at(node: number, field: number): number {
    return this.#nodes[node * nodeInts + field] ?? -1;
  }

  #canHold(node: number): boolean {
    const kind = this.#at(node, 0);
    return kind >= 0 || kind === isDocument;
  }

  #own(text: string | undefined): number {
    return text === undefined ? -1 : this.#strings.push(text) - 1;
  }
}

function spareOf(kind: keyof typeof spares, length: number): Int32Array {
  const spare = spares[kind];
  if (spare.length < length) return new Int32Array(length);
  spares[kind] = new Int32Array(0);
  return spare;
}

function grown(array: Int32Array): Int32Array {
  const larger = new Int32Array(array.length * 2);
  larger.set(array);
  return larger;
}
