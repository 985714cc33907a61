/**
 * The namespaces of the elements of an XHTML page: a stack of the open elements and the prefixes
 * valid in them. It tolerates errors at which a browser would stop: an element without namespace is
 * HTML's, an end tag closes the open elements inside its element.
 * Source: Namespaces in XML 1.0.
 */
type Namespace = 'html' | 'svg' | 'other';

type Prefixes = ReadonlyMap<string, string>;
type Entry = {
  readonly name: string;
  readonly prefixes: Prefixes;
  /** It is a template of HTML, or in one. */
  readonly inTemplate: boolean;
};

/** Deeper elements are only counted. */
const depthMax = 4096;
const prefixesMax = 64;
/** How far up the stack an end tag is searched. */
const reachMax = 64;
const noPrefixes: Prefixes = new Map();

const namespaces: ReadonlyMap<string | undefined, Namespace> = new Map([
  ['http://www.w3.org/1999/xhtml', 'html'],
  ['http://www.w3.org/2000/svg', 'svg'],
]);

export class XmlNames {
  readonly #open: Entry[] = [];
  /** Elements that are open below the last entry. */
  #beyond = 0;

  /** A start tag, with its attributes; `isEmpty`: it is closed at once. */
  open(name: string, attributes: ReadonlyMap<string, string>, isEmpty: boolean): Namespace {
    const prefixes = this.#prefixesWith(attributes);
    const colon = name.indexOf(':');
    const uri = prefixes.get(colon < 0 ? '' : name.slice(0, colon));
    const isPlain = uri === undefined && colon < 0;
    const namespace = isPlain ? 'html' : (namespaces.get(uri) ?? 'other');
    if (!isEmpty) {
      const isTemplate = namespace === 'html' && name.slice(colon + 1) === 'template';
      const inTemplate = this.inTemplate || isTemplate;
      if (this.#open.length < depthMax) this.#open.push({ name, prefixes, inTemplate });
      else this.#beyond++;
    }
    return namespace;
  }

  get inTemplate(): boolean {
    return this.#open.at(-1)?.inTemplate === true;
  }

  close(name: string): void {
    if (this.#beyond > 0) {
      this.#beyond--;
      return;
    }
    const last = this.#open.length - 1;
    for (let at = last; at >= 0 && at > last - reachMax; at--) {
      if (this.#open[at]?.name !== name) continue;
      this.#open.length = at;
      return;
    }
  }

  #prefixesWith(attributes: ReadonlyMap<string, string>): Prefixes {
    const outer = this.#open.at(-1)?.prefixes ?? noPrefixes;
    let prefixes: Map<string, string> | undefined;
    for (const [name, value] of attributes) {
      if (name !== 'xmlns' && !name.startsWith('xmlns:')) continue;
      prefixes ??= new Map(outer);
      const prefix = name.slice('xmlns:'.length);
      if (prefixes.size < prefixesMax || prefixes.has(prefix)) prefixes.set(prefix, value.trim());
    }
    return prefixes ?? outer;
  }
}
