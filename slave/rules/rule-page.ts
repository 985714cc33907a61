/**
 * A page as rules see it: its text, its tree, its XML and its JSON, each made when a rule first
 * asks for it. If it cannot be made, each rule that asks has the same fault.
 */
import { messageOf } from '../../shared/errors.ts';
import { isJsonType, isXmlType } from '../../shared/media-types.ts';
import type { Json, PageInput } from '../../shared/rule-results.ts';
import { RuleFault } from './fault.ts';
import { treeOf } from './html-tree.ts';
import { parseJson } from './json-path.ts';
import { type Document, Element, type ParentNode } from './tree-nodes.ts';
import { XmlPage } from './xpath.ts';

export class RulePage {
  readonly input: PageInput;
  readonly #jsonBytesMax: number;
  readonly #tree: () => Document;
  /** The numbers of its elements, in its order. */
  readonly #elements: () => readonly number[];
  readonly #xml: () => XmlPage;
  readonly #base: () => string;
  #opened: XmlPage | undefined;
  #made: Document | undefined;

  /** `jsonBytesMax`: longer JSON is refused before it is parsed. */
  constructor(input: PageInput, jsonBytesMax: number) {
    this.input = input;
    this.#jsonBytesMax = jsonBytesMax;
    this.#tree = once(() => {
      if (isJsonType(input.type)) throw new RuleFault('the page is JSON: use JSONPath ($…)');
      this.#made = treeOf(input.text, { xml: isXmlType(input.type) });
      return this.#made;
    });
    this.#elements = once(() => elementsOf(this.#tree()));
    this.#xml = once(() => {
      this.#opened = new XmlPage(this.#tree());
      return this.#opened;
    });
    this.#base = once(() => this.#findBase());
  }

  /** @throws RuleFault */
  get tree(): Document {
    return this.#tree();
  }

  /** @throws RuleFault */
  get xml(): XmlPage {
    return this.#xml();
  }

  /** The place of an element among those of the page; −1: it is the document. */
  indexOf(node: ParentNode): number {
    return node instanceof Element ? placeOf(this.#elements(), node.number) : -1;
  }

  elementAt(index: number): Element {
    const number = this.#elements()[index];
    if (number === undefined) throw new RuleFault('the page has no such element');
    return new Element(this.#tree().tree, number);
  }

  /** JSON of the page, or of a text in it. @throws RuleFault */
  jsonOf(text: string): Json {
    const bytes = Buffer.byteLength(text);
    if (bytes > this.#jsonBytesMax) {
      throw new RuleFault(
        `${bytes} bytes of JSON are more than rules read (${this.#jsonBytesMax})`,
      );
    }
    return parseJson(text);
  }

  /** The URL that relative addresses of the page start from. */
  get base(): string {
    return this.#base();
  }

  /** That of the first base with an address, none of a template or a picture. */
  #findBase(): string {
    const { finalUrl } = this.input;
    if (isJsonType(this.input.type)) return finalUrl;
    const { tree } = this.#tree();
    const [base, ...others] = ['base', 'template', 'svg', 'math'].map((name) =>
      tree.names.idOf(name),
    );
    let href: string | undefined;
    for (let node = 1; node < tree.count && href === undefined; node++) {
      const name = tree.nameIdOf(node);
      if (name === base) href = tree.attributeOf(node, 'href');
      else if (name >= 0 && others.includes(name)) node = tree.endOf(node) - 1;
    }
    return URL.canParse(href ?? '', finalUrl) ? new URL(href ?? '', finalUrl).href : finalUrl;
  }

  /** Frees what JavaScript does not, and the tree. Idempotent. */
  close(): void {
    this.#opened?.close();
    this.#opened = undefined;
    this.#made?.tree.close();
    this.#made = undefined;
  }
}

function elementsOf({ tree }: Document): number[] {
  const elements: number[] = [];
  for (let node = 1; node < tree.count; node++) if (tree.isElement(node)) elements.push(node);
  return elements;
}

/** By halves: the numbers ascend. */
function placeOf(elements: readonly number[], number: number): number {
  let low = 0;
  let high = elements.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((elements[middle] ?? 0) < number) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Makes it once; a failure, too, is the same each time. */
function once<T>(make: () => T): () => T {
  let made: { value: T } | { fault: RuleFault } | undefined;
  return () => {
    if (made === undefined) {
      try {
        made = { value: make() };
      } catch (error) {
        made = { fault: error instanceof RuleFault ? error : new RuleFault(messageOf(error)) };
      }
    }
    if ('fault' in made) throw made.fault;
    return made.value;
  };
}
