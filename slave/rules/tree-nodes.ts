/**
 * Nodes of a page's tree as objects, each made when it is asked for: two of them may be the same
 * node, which `number` tells. Work on each node of each page goes by number instead.
 */
import type { PageTree } from './page-tree.ts';

class TreeNode {
  readonly tree: PageTree;
  /** In the order of the page. */
  readonly number: number;

  constructor(tree: PageTree, number: number) {
    this.tree = tree;
    this.number = number;
  }
}

export class Text extends TreeNode {
  get data(): string {
    return this.tree.dataOf(this.number);
  }
}

class Comment extends TreeNode {
  get data(): string {
    return this.tree.dataOf(this.number);
  }
}

class Parent extends TreeNode {
  #children: readonly AnyNode[] | undefined;

  get children(): readonly AnyNode[] {
    this.#children ??= this.tree.childrenOf(this.number).map((child) => nodeOf(this.tree, child));
    return this.#children;
  }
}

export class Document extends Parent {
  /** The whole tree. */
  constructor(tree: PageTree) {
    super(tree, 0);
  }
}

export class Element extends Parent {
  #attribs: Readonly<Record<string, string>> | undefined;

  get name(): string {
    return this.tree.nameOf(this.number);
  }

  /** By their names; it has no prototype. */
  get attribs(): Readonly<Record<string, string>> {
    this.#attribs ??= attribsOf(this.tree, this.number);
    return this.#attribs;
  }
}

export type AnyNode = Document | Element | Text | Comment;
export type ParentNode = Document | Element;

/** The node with this number. */
function nodeOf(tree: PageTree, node: number): AnyNode {
  if (tree.isElement(node)) return new Element(tree, node);
  if (tree.isText(node)) return new Text(tree, node);
  if (tree.isComment(node)) return new Comment(tree, node);
  return new Document(tree);
}

function attribsOf(tree: PageTree, element: number): Record<string, string> {
  const attribs = Object.create(null) as Record<string, string>;
  const end = tree.attributesTo(element);
  for (let i = tree.attributesFrom(element); i < end; i++) {
    attribs[tree.attributeNameOf(i)] = tree.valueOf(i);
  }
  return attribs;
}
