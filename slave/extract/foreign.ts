/**
 * The scanner's position in svg or math. Inside, an `a` or `image` is not an HTML element, `title`
 * and `style` hold tags, and CDATA is real; a few elements (foreignObject, mtext, …) contain HTML
 * again, and many HTML tags end the foreign content. Only foreign elements are on the stack: HTML's
 * end tags are not reliable, and an unmatched end tag is assumed to close an HTML ancestor.
 * Source: HTML Standard 13.2.6.5.
 */
type Entry = {
  readonly name: string;
  readonly root: string;
  readonly holdsHtml: boolean;
  /** It holds HTML, and a tag of that began in it. */
  hasHtml: boolean;
};

const depthMax = 512;

const htmlHolders: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ['svg', new Set(['foreignobject', 'desc', 'title'])],
  ['math', new Set(['mi', 'mo', 'mn', 'ms', 'mtext'])],
]);

/** Of an annotation in MathML that contains HTML. */
const htmlEncoding = /^(?:text\/html|application\/xhtml\+xml)$/i;

/** Start tags that end foreign content; `font` does so only with certain attributes: see
 *  `leave`. */
const breakouts = new Set(
  (
    'b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img ' +
    'li listing menu meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var'
  ).split(' '),
);

/** Elements that HTML has not: their unmatched end tags close nothing. */
const foreignOnly = new Set(
  (
    'annotation-xml annotation circle clippath defs ellipse feimage filter foreignobject g line ' +
    'lineargradient marker mask mi mn mo mrow ms msup msub mtext path pattern polygon polyline ' +
    'radialgradient rect semantics stop switch symbol text textpath tspan use view'
  ).split(' '),
);

export class ForeignStack {
  readonly #entries: Entry[] = [];

  get depth(): number {
    return this.#entries.length;
  }

  /** Also right in a `desc` or `mtext`, which are not HTML's themselves. */
  get allowsCdata(): boolean {
    const top = this.#entries.at(-1);
    return top !== undefined && !top.hasHtml;
  }

  /** A start tag inside foreign content: true when it is an HTML element after all. */
  open(name: string): boolean {
    const top = this.#entries.at(-1);
    if (top === undefined) return true;
    if (top.holdsHtml) {
      top.hasHtml = true;
      return true;
    }
    if (!breakouts.has(name)) return false;
    this.leave();
    return true;
  }

  /** `name` of an element that stays open: svg or math themselves, or one inside them.
   *  `encoding`: that of an annotation, raw. */
  push(name: string, encoding: string | undefined): void {
    if (this.#entries.length >= depthMax) return;
    const top = this.#entries.at(-1);
    // A `math` within svg is one more element of svg.
    const isInner = top !== undefined && !top.holdsHtml;
    const isSvg = name === 'svg' && top?.name === 'annotation-xml';
    const root = isInner && !isSvg ? top.root : name;
    const isHtml =
      root === 'math' && name === 'annotation-xml' && htmlEncoding.test(encoding ?? '');
    this.#entries.push({
      name,
      root,
      holdsHtml: isHtml || (htmlHolders.get(root)?.has(name) ?? false),
      hasHtml: false,
    });
  }

  /** An end tag inside foreign content: true when it is that of an HTML element. */
  close(name: string): boolean {
    const top = this.#entries.at(-1);
    if (top?.holdsHtml === true && top.name !== name && !htmlHolders.has(name)) return true;
    const index = this.#entries.findLastIndex((entry) => entry.name === name);
    if (index >= 0) this.#entries.length = index;
    else if (!foreignOnly.has(name)) this.leave();
    return index < 0;
  }

  /** Back to the innermost element that holds HTML, or out. The scanner calls it for a `font` with
   *  color, face or size. */
  leave(): void {
    const holder = this.#entries.findLastIndex((entry) => entry.holdsHtml);
    this.#entries.length = holder + 1;
  }
}
