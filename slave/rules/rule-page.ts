/**
 * A page as rules see it: its text, its tree, its XML and its JSON, each made when a rule first
 * asks for it. What cannot be made is the same fault for each rule that asks.
 */
import { type Document, Element, hasChildren, type ParentNode } from 'domhandler';
import { messageOf } from '../../shared/errors.ts';
import type { Json, PageInput } from '../../shared/rule-results.ts';
import { RuleFault } from './fault.ts';
import { treeOf } from './html-tree.ts';
import { parseJson } from './json-path.ts';
import { isJsonType, isXmlType } from './rule-types.ts';
import { XmlPage } from './xpath.ts';

export class RulePage {
  readonly input: PageInput;
  readonly #jsonBytesMax: number;
  readonly #tree: () => Document;
  readonly #elements: () => { all: Element[]; indexOf: ReadonlyMap<Element, number> };
  readonly #xml: () => XmlPage;
  #opened: XmlPage | undefined;

  /** `jsonBytesMax`: longer JSON is refused before it is parsed. */
  constructor(input: PageInput, jsonBytesMax: number) {
    this.input = input;
    this.#jsonBytesMax = jsonBytesMax;
    this.#tree = once(() => {
      if (isJsonType(input.type)) throw new RuleFault('the page is JSON: use JSONPath ($…)');
      return treeOf(input.text, { xml: isXmlType(input.type) });
    });
    this.#elements = once(() => numbered(this.#tree()));
    this.#xml = once(() => {
      this.#opened = new XmlPage(this.#tree());
      return this.#opened;
    });
  }

  /** @throws RuleFault */
  get tree(): Document {
    return this.#tree();
  }

  /** @throws RuleFault */
  get xml(): XmlPage {
    return this.#xml();
  }

  /** The number of an element, in the order of the page; −1: it is the document. */
  indexOf(node: ParentNode): number {
    return node instanceof Element ? (this.#elements().indexOf.get(node) ?? -1) : -1;
  }

  elementAt(index: number): Element {
    const element = this.#elements().all[index];
    if (element === undefined) throw new RuleFault('the page has no such element');
    return element;
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
    const { finalUrl } = this.input;
    if (isJsonType(this.input.type)) return finalUrl;
    const base = this.#elements().all.find(
      ({ name, attribs }) => name === 'base' && attribs['href'],
    );
    const href = base?.attribs['href'] ?? '';
    return URL.canParse(href, finalUrl) ? new URL(href, finalUrl).href : finalUrl;
  }

  /** Frees what JavaScript does not. Idempotent. */
  close(): void {
    this.#opened?.close();
    this.#opened = undefined;
  }
}

function numbered(tree: Document): { all: Element[]; indexOf: Map<Element, number> } {
  const all: Element[] = [];
  const indexOf = new Map<Element, number>();
  const open: ParentNode[] = [tree];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (next instanceof Element) {
      indexOf.set(next, all.length);
      all.push(next);
    }
    for (let i = next.children.length - 1; i >= 0; i--) {
      const child = next.children[i];
      if (child !== undefined && hasChildren(child)) open.push(child);
    }
  }
  return { all, indexOf };
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
