/**
 * Writes the tree of a page as XML that a strict parser takes: libxml2 has no other way in here. It
 * is never parsed with RECOVER, which would drop the rest of a page at the first fault.
 *
 * - No document type and no default namespace, so that `//a` finds what it says. The prefixes
 *   xlink, xml, svg and math are declared.
 * - Characters that a name must not have are written as `_xHHHH_`: `@click` is `_x0040_click`.
 * - Characters that XML forbids are U+FFFD. CR, and LF and tab in attributes, are references, since
 *   a parser would change them.
 * Pure. Source: XML 1.0, 2.2, 2.3, 2.11 and 3.3.3; ISO 9075-14 for the names.
 */
import { RuleFault } from './fault.ts';
import type { PageTree } from './page-tree.ts';
import type { Document } from './tree-nodes.ts';

/** Maximum size of the XML of a page, in bytes. */
const xmlBytesMax = 16 << 20;

/** The prefixes that XPaths may use. */
export const namespaces: Readonly<Record<string, string>> = {
  xlink: 'http://www.w3.org/1999/xlink',
  svg: 'http://www.w3.org/2000/svg',
  math: 'http://www.w3.org/1998/Math/MathML',
};

const declarations = Object.entries(namespaces)
  .map(([prefix, uri]) => ` xmlns:${prefix}="${uri}"`)
  .join('');

/** The text that was written, to be compared with the one that was read. */
type Written = {
  readonly xml: Buffer;
  readonly elements: number;
  readonly attributes: number;
};

/** @throws RuleFault it is too long */
export function strictXml(document: Document): Written {
  const writer = new Writer();
  writer.write(document);
  return writer.end();
}

class Writer {
  readonly #parts: string[] = [];
  #length = 0;
  #elements = 0;
  #attributes = 0;
  readonly #names = new Map<string, string>();

  /** Not recursive: a page decides how deep it is. */
  write({ tree }: Document): void {
    const open: { readonly name: string; next: number }[] = [{ name: '', next: tree.firstOf(0) }];
    for (let top = open.at(-1); top !== undefined; top = open.at(-1)) {
      const node = top.next;
      if (node < 0) {
        if (open.length > 1) this.#put(`</${top.name}>`);
        open.pop();
        continue;
      }
      top.next = tree.nextOf(node);
      if (tree.isElement(node)) {
        const name = this.#start(tree, node);
        const first = tree.firstOf(node);
        if (first < 0) this.#put('/>');
        else {
          this.#put('>');
          open.push({ name, next: first });
        }
      } else if (tree.isComment(node)) {
        this.#put(`<!--${commentOf(tree.dataOf(node))}-->`);
      } else if (open.length > 1) {
        // Text outside the root is none of the page's.
        this.#put(textOf(tree.dataOf(node)));
      }
    }
  }

  end(): Written {
    const xml = Buffer.from(this.#parts.join(''), 'utf8');
    if (xml.length > xmlBytesMax) throw tooLong();
    return { xml, elements: this.#elements, attributes: this.#attributes };
  }

  #start(tree: PageTree, element: number): string {
    const written = this.#nameOf(tree.nameOf(element));
    this.#put(`<${written}`);
    if (this.#elements === 0) this.#put(declarations);
    this.#elements++;
    const end = tree.attributesTo(element);
    for (let i = tree.attributesFrom(element); i < end; i++) {
      this.#put(` ${this.#nameOf(tree.attributeNameOf(i))}="${attributeOf(tree.valueOf(i))}"`);
      this.#attributes++;
    }
    return written;
  }

  #nameOf(name: string): string {
    let written = this.#names.get(name);
    if (written === undefined) {
      written = xmlName(name);
      if (this.#names.size < 10_000) this.#names.set(name, written);
    }
    return written;
  }

  #put(text: string): void {
    this.#length += text.length;
    if (this.#length > xmlBytesMax) throw tooLong();
    this.#parts.push(text);
  }
}

function tooLong(): RuleFault {
  return new RuleFault(`the page is longer than ${xmlBytesMax >> 20} MB as XML`);
}

const startChars =
  'A-Z_a-z\\u00c0-\\u00d6\\u00d8-\\u00f6\\u00f8-\\u02ff\\u0370-\\u037d\\u037f-\\u1fff\\u200c\\u200d' +
  '\\u2070-\\u218f\\u2c00-\\u2fef\\u3001-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\ufffd\\u{10000}-\\u{effff}';
const nameChars = `${startChars}\\-.0-9\\u00b7\\u0300-\\u036f\\u203f\\u2040`;
const isStart = new RegExp(`^[${startChars}]`, 'u');
const isNameChar = new RegExp(`^[${nameChars}]$`, 'u');
const isPlain = /^[A-Za-z_][\w.-]*$/;

/** The name of an element or attribute as XML allows it. Different names stay different. */
export function xmlName(name: string): string {
  // A declaration of a namespace would hide elements.
  if (name === 'xmlns') return '_x0078_mlns';
  if (isPlain.test(name) && !name.includes('_x')) return name;
  const [, prefix = '', local = ''] = /^(xlink|xml|svg|math):([^:]+)$/.exec(name) ?? [];
  return prefix === '' ? ncName(name) : `${prefix}:${ncName(local)}`;
}

function ncName(name: string): string {
  let written = '';
  for (const { index, 0: char } of name.matchAll(/[\s\S]/gu)) {
    const isOwnEscape = char === '_' && /^_x[\da-fA-F]{4,6}_/.test(name.slice(index, index + 9));
    const isAllowed = index === 0 ? isStart.test(char) : isNameChar.test(char);
    if (isAllowed && !isOwnEscape) written += char;
    else {
      const code = char.codePointAt(0) ?? 0;
      written += `_x${code.toString(16).toUpperCase().padStart(4, '0')}_`;
    }
  }
  return written;
}

const forbidden = '\\0-\\x08\\x0b\\x0c\\x0e-\\x1f\\ufffe\\uffff\\ud800-\\udfff';
const isForbidden = new RegExp(`[${forbidden}]`, 'gu');
const inText = new RegExp(`[&<>\\r${forbidden}]`, 'gu');
const inAttribute = new RegExp(`[&<>"\\t\\n\\r${forbidden}]`, 'gu');
const references = new Map([
  ['&', '&amp;'],
  ['<', '&lt;'],
  ['>', '&gt;'],
  ['"', '&quot;'],
  ['\t', '&#9;'],
  ['\n', '&#10;'],
  ['\r', '&#13;'],
]);
const reference = (char: string) => references.get(char) ?? '\ufffd';

function textOf(text: string): string {
  return text.replace(inText, reference);
}

function attributeOf(text: string): string {
  return text.replace(inAttribute, reference);
}

/** No two hyphens in a row, and none at the end. */
function commentOf(text: string): string {
  return text.replace(isForbidden, '\ufffd').replace(/-(?=-|$)/g, '- ');
}
