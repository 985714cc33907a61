/**
 * Names of tags and attributes as numbers, so that the tree of a page needs no string for each. A
 * name is read from the page's text in place; only a new one becomes a string.
 */

/** Above this a new table is begun: pages decide what names there are. */
const namesMax = 10_000;
const slotCount = 4_096;
/** Names that share a place; further ones are looked up as strings. */
const probesMax = 8;

export class TreeNames {
  /** By their numbers. */
  readonly texts: string[] = [];
  readonly #ids = new Map<string, number>();
  /** Number + 1 of a name by the hash of its characters; 0: free. */
  readonly #slots = new Int32Array(slotCount);

  /** Pages should begin a new table. */
  get isFull(): boolean {
    return this.texts.length > namesMax;
  }

  idOf(name: string): number {
    let id = this.#ids.get(name);
    if (id === undefined) {
      id = this.texts.length;
      this.texts.push(name);
      this.#ids.set(name, id);
    }
    return id;
  }

  /** The number of the name in `text`. `fold`: in lower case. */
  idAt(text: string, start: number, end: number, fold: boolean): number {
    let hash = 0;
    for (let i = start; i < end; i++) {
      const code = folded(text.charCodeAt(i), fold);
      if (code > 127) return this.#slow(text, start, end, fold);
      hash = (hash * 31 + code) | 0;
    }
    for (let probe = 0; probe < probesMax; probe++) {
      const slot = (hash + probe) & (slotCount - 1);
      const id = (this.#slots[slot] ?? 0) - 1;
      if (id < 0) {
        const added = this.#slow(text, start, end, fold);
        this.#slots[slot] = added + 1;
        return added;
      }
      if (isAt(this.texts[id] ?? '', text, start, end, fold)) return id;
    }
    return this.#slow(text, start, end, fold);
  }

  #slow(text: string, start: number, end: number, fold: boolean): number {
    const name = text.slice(start, end);
    return this.idOf(fold ? name.toLowerCase() : name);
  }
}

function folded(code: number, fold: boolean): number {
  return fold && code >= 65 && code <= 90 ? code + 32 : code;
}

function isAt(name: string, text: string, start: number, end: number, fold: boolean): boolean {
  if (name.length !== end - start) return false;
  for (let i = 0; i < name.length; i++) {
    if (name.charCodeAt(i) !== folded(text.charCodeAt(start + i), fold)) return false;
  }
  return true;
}
