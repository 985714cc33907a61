/**
 * The leaves of trees that are read in the order of the file, not of their keys. A leaf has keys
 * from its *low* one on, which a branch names, and below that of the next leaf of its tree: if that
 * holds for each, the keys of the tree are in order. Some 35 bytes a leaf.
 */

const leavesMin = 1 << 10;

export class Leaves<Tree> {
  /** By the number of a page: one more than that of its leaf. */
  readonly #at: Uint32Array;
  readonly #trees: Tree[] = [];
  #count = 0;
  /** Where the low key of a leaf ends; the first one of a tree has none. */
  #ends = new Float64Array(leavesMin);
  #treeOf = new Uint8Array(leavesMin);
  #keys = Buffer.allocUnsafe(leavesMin * 32);

  /** `end`: all pages are below it. */
  constructor(end: number) {
    this.#at = new Uint32Array(end);
  }

  get trees(): readonly Tree[] {
    return this.#trees;
  }

  /** The next leaves are those of this tree, in the order of their keys. */
  begin(tree: Tree): void {
    this.#trees.push(tree);
  }

  add(page: number, low: Buffer | undefined): void {
    const leaf = this.#count++;
    if (leaf >= this.#ends.length) this.#grow();
    const from = leaf === 0 ? 0 : (this.#ends[leaf - 1] ?? 0);
    const end = from + (low?.length ?? 0);
    if (end > this.#keys.length) {
      const more = Buffer.allocUnsafe(Math.max(end, this.#keys.length * 2));
      more.set(this.#keys);
      this.#keys = more;
    }
    if (low !== undefined) this.#keys.set(low, from);
    this.#ends[leaf] = end;
    this.#treeOf[leaf] = this.#trees.length - 1;
    this.#at[page] = leaf + 1;
  }

  /** Returns the number of the leaf on a page; -1: it is none. */
  at(page: number): number {
    return (this.#at[page] ?? 0) - 1;
  }

  treeOf(leaf: number): Tree {
    const tree = this.#trees[this.#treeOf[leaf] ?? 0];
    if (tree === undefined) throw new RangeError('no such leaf');
    return tree;
  }

  /** Its first key is this one or a later one; undefined: any. */
  low(leaf: number): Buffer | undefined {
    const from = leaf === 0 ? 0 : (this.#ends[leaf - 1] ?? 0);
    const end = this.#ends[leaf] ?? 0;
    return end > from ? this.#keys.subarray(from, end) : undefined;
  }

  /** Its keys are below this one; undefined: it is the last one of its tree. */
  high(leaf: number): Buffer | undefined {
    const isLast = leaf + 1 >= this.#count || this.#treeOf[leaf] !== this.#treeOf[leaf + 1];
    return isLast ? undefined : this.low(leaf + 1);
  }

  #grow(): void {
    const ends = new Float64Array(this.#ends.length * 2);
    const treeOf = new Uint8Array(this.#ends.length * 2);
    ends.set(this.#ends);
    treeOf.set(this.#treeOf);
    this.#ends = ends;
    this.#treeOf = treeOf;
  }
}
