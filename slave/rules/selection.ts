/** The `$` of page functions: elements that CSS selectors find in the tree of a page. */
import type { Selection } from '../../shared/page-function.ts';
import { Css, htmlOf, textOf } from './css.ts';
import { RuleFault } from './fault.ts';
import type { Element, ParentNode } from './tree-nodes.ts';

export class Elements implements Selection {
  static readonly none = new Elements([]);
  readonly #elements: readonly Element[];

  private constructor(elements: readonly Element[]) {
    this.#elements = elements;
  }

  /** @throws RuleFault the selector is not valid */
  static in(root: ParentNode, selector: string): Elements {
    return new Elements(elementsIn([root], selector));
  }

  get length(): number {
    return this.#elements.length;
  }

  [Symbol.iterator](): Iterator<Elements> {
    return this.#elements.map((element) => new Elements([element]))[Symbol.iterator]();
  }

  find(selector: string): Elements {
    return new Elements(elementsIn(this.#elements, selector));
  }

  eq(index: number): Elements {
    const element = this.#elements.at(index);
    return new Elements(element === undefined ? [] : [element]);
  }

  first(): Elements {
    return this.eq(0);
  }

  text(): string {
    return this.#elements.map((element) => textOf(element)).join('');
  }

  attr(name: string): string | undefined {
    const [first] = this.#elements;
    return first?.attribs[first.tree.isXml ? name : name.toLowerCase()];
  }

  html(): string | undefined {
    const [first] = this.#elements;
    return first && htmlOf(first);
  }

  map<T>(make: (element: Elements, index: number) => T): T[] {
    return [...this].map(make);
  }
}

/** Each once, in the order of the page as long as the roots are. */
function elementsIn(roots: readonly ParentNode[], selector: string): Element[] {
  // Of a module that no compiler has checked.
  if (typeof selector !== 'string') {
    throw new RuleFault(`a selector is a text; this one is of type ${typeof selector}`);
  }
  const css = new Css(selector);
  const found = roots.flatMap((root) => css.elements(root));
  return [...new Map(found.map((element) => [element.number, element])).values()];
}
