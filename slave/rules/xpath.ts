/**
 * XPath 1.0 by libxml2, the engine under lxml, on the tree of a page written as strict XML. Results
 * are those of lxml: attributes and text as strings, an element as its text, numbers and booleans
 * as such. Documents and expressions live outside JavaScript's memory, so each has a `close`.
 * Loaded when a rule has an XPath.
 * Source: XPath 1.0; https://jameslan.github.io/libxml2-wasm/.
 */
import {
  ParseOption,
  XmlAttribute,
  XmlDocument,
  XmlElement,
  type XmlNode,
  XmlTreeNode,
  XmlXPath,
} from 'libxml2-wasm';
import { messageOf } from '../../shared/errors.ts';
import { RuleFault } from './fault.ts';
import { namespaces, strictXml } from './strict-xml.ts';
import type { Document } from './tree-nodes.ts';

/** A node of the page, or a value that is none. */
export type Found = XmlNode | string | number | boolean;

export function isElement(found: Found): found is XmlElement {
  return found instanceof XmlElement;
}

/** An expression, compiled once for all pages. */
export class XPath {
  readonly #compiled: XmlXPath;

  /** @throws RuleFault it is not valid, with the reason */
  constructor(text: string) {
    const problem = problemOf(text);
    if (problem !== undefined) throw new RuleFault(problem);
    try {
      this.#compiled = XmlXPath.compile(text, { ...namespaces });
    } catch {
      throw new RuleFault('is not valid XPath 1.0');
    }
    // libxml2 looks at the arguments of functions only when it evaluates them.
    const trial = XmlDocument.fromString('<html/>');
    try {
      trial.root.eval(this.#compiled);
    } catch (error) {
      this.#compiled.dispose();
      throw new RuleFault(`is not valid XPath 1.0: ${reasonOf(error)}`);
    } finally {
      trial.dispose();
    }
  }

  /** Returns its matches from `from` on. The nodes of the document as such are left out, as lxml
   *  does. @throws RuleFault */
  find(from: XmlNode): Found[] {
    let found: ReturnType<XmlNode['eval']>;
    try {
      found = from.eval(this.#compiled);
    } catch (error) {
      throw new RuleFault(`XPath: ${reasonOf(error)}`);
    }
    if (!Array.isArray(found)) return [found];
    return found.filter((node) => node instanceof XmlTreeNode || node instanceof XmlAttribute);
  }

  close(): void {
    this.#compiled.dispose();
  }
}

/** The tree of a page, in libxml2. */
export class XmlPage {
  readonly #document: XmlDocument;
  #elements: readonly XmlNode[] | undefined;
  /** By the addresses of their nodes. */
  #places: ReadonlyMap<number, number> | undefined;

  /** @throws RuleFault libxml2 refuses it, or has read something else than was written */
  constructor(tree: Document) {
    const { xml, elements, attributes } = strictXml(tree);
    try {
      const option = ParseOption.XML_PARSE_HUGE | ParseOption.XML_PARSE_NONET;
      this.#document = XmlDocument.fromBuffer(xml, {
        option: option | ParseOption.XML_PARSE_NO_XXE,
      });
    } catch (error) {
      throw new RuleFault(`libxml2 refuses the page: ${reasonOf(error)}`);
    }
    const read = [counts.elements, counts.attributes].map((count) => count().find(this.root)[0]);
    if (read[0] === elements && read[1] === attributes) return;
    this.close();
    throw new RuleFault('libxml2 read another tree than was written');
  }

  get root(): XmlNode {
    return this.#document.root;
  }

  /** The element with this number, in the order of the page. */
  elementAt(index: number): XmlNode {
    const element = this.#all[index];
    if (element === undefined) throw new RuleFault('the page has no such element');
    return element;
  }

  /** The number of an element, in the order of the page. */
  indexOf(element: XmlNode): number {
    this.#places ??= new Map(this.#all.map((one, index) => [addressOf(one), index]));
    return this.#places.get(addressOf(element)) ?? -1;
  }

  get #all(): readonly XmlNode[] {
    this.#elements ??= this.root.find('//*');
    return this.#elements;
  }

  close(): void {
    this.#document.dispose();
  }
}

/** Where libxml2 has a node: it gives out a new object for it each time. To count what is before it
 *  takes the square of the rows. */
function addressOf(node: XmlNode): number {
  return (node as unknown as { readonly _nodePtr: number })._nodePtr;
}

/** Compiled when first used. */
const counts = {
  elements: once('count(//*)'),
  attributes: once('count(//@*)'),
};

function once(text: string): () => XPath {
  let xpath: XPath | undefined;
  return () => {
    xpath ??= new XPath(text);
    return xpath;
  };
}

/** The text of what was found, as lxml has it. */
export function textOf(found: Found): string | number | boolean {
  return typeof found === 'object' ? found.content : found;
}

function reasonOf(error: unknown): string {
  const [line = ''] = messageOf(error)
    .replace(/^Failed to evaluate XPath expression '[\s\S]*?'(?::|$) */, '')
    .trim()
    .split('\n');
  return line === '' ? 'cannot be evaluated' : line.slice(0, 200);
}

/** Core functions, and the node tests that look like functions. Source: XPath 1.0, chapter 4. */
const functions = new Set(
  (
    'last position count id local-name namespace-uri name string concat starts-with contains ' +
    'substring-before substring-after substring string-length normalize-space translate boolean ' +
    'not true false lang number sum floor ceiling round comment text processing-instruction node'
  ).split(' '),
);

/** Expressions that libxml2 would accept, and evaluate to nothing or to something else. */
function problemOf(text: string): string | undefined {
  const code = text.replace(/"[^"]*"|'[^']*'/g, '""');
  const called = [...code.matchAll(/([A-Za-z_][\w.:-]*)\s*\(/g)].map(([, name = '']) => name);
  const names = called.map((name) => name.replace(/^.*::/, ''));
  if (names.includes('id')) return 'id() finds nothing in HTML; write //*[@id="…"]';
  const unknown = names.find((name) => !functions.has(name) && !isOperator(name));
  if (unknown !== undefined) {
    return `calls ${unknown}(), which XPath 1.0 does not have`;
  }
  const prefix = [...code.matchAll(/([A-Za-z_][\w.-]*):(?![:])/g)].find(
    ([, name = '']) => name !== 'xml' && !(name in namespaces),
  );
  if (prefix !== undefined) {
    const known = Object.keys(namespaces).join(', ');
    const name = `${prefix[1]}_x003A_…`;
    return `has the prefix ${prefix[1]}:, and only ${known} have a meaning here; write ${name}`;
  }
  if (/\bnamespace\s*::/.test(code)) return 'uses the axis namespace::, and HTML has no namespaces';
  if (/\$[A-Za-z_]/.test(code)) return 'has a variable, and no variable has a value here';
  return undefined;
}

function isOperator(name: string): boolean {
  return name === 'and' || name === 'or' || name === 'div' || name === 'mod';
}
