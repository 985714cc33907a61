/**
 * Licences that a page names (`rel=license`), while it is scanned: of its figures, and of the page.
 * A link inside a figure is about what the figure shows; any other one about all images of the
 * page. The first of each counts. Source: HTML Standard 4.6.8.9 (license), 4.4.12 (figure).
 */
import * as attribute from './elements.ts';
import type { Tag } from './tag.ts';

const figuresMax = 10_000;
const depthMax = 64;

type Figure = { readonly above: Figure | undefined; license: string | undefined };

export class Licenses {
  readonly #page: Figure = { above: undefined, license: undefined };
  #here: Figure = this.#page;
  #figures = 0;
  #depth = 0;
  /** Open figures beyond a limit: they are part of the one around them. */
  #unseen = 0;

  /** Where the scanner is. */
  get here(): Figure {
    return this.#here;
  }

  /** A figure begins or ends. */
  figure(isOpen: boolean): void {
    if (isOpen && (this.#unseen > 0 || this.#depth === depthMax || this.#figures === figuresMax)) {
      this.#unseen++;
    } else if (isOpen) {
      this.#figures++;
      this.#depth++;
      this.#here = { above: this.#here, license: undefined };
    } else if (this.#unseen > 0) this.#unseen--;
    else if (this.#here.above !== undefined) {
      this.#depth--;
      this.#here = this.#here.above;
    }
  }

  /** A link with that rel, decoded, and its raw address. */
  link(href: string, rel: string): void {
    if (href !== '' && isLicense(rel)) this.#here.license ??= href;
  }

  /** A link element, which is about the page. `text`: decodes a value. */
  about(tag: Tag, text: (raw: string) => string): void {
    const rel = tag.name === 'link' ? tag.value(attribute.rel) : undefined;
    const href = tag.value(attribute.href);
    if (rel !== undefined && href && isLicense(text(rel))) this.#page.license ??= href;
  }
}

/** The raw address of the licence of an image that is there. */
export function licenseOf(figure: Figure): string | undefined {
  for (let at: Figure | undefined = figure; at !== undefined; at = at.above) {
    if (at.license !== undefined) return at.license;
  }
  return undefined;
}

function isLicense(rel: string): boolean {
  return rel
    .toLowerCase()
    .split(/[\t\n\f\r ]+/)
    .includes('license');
}
