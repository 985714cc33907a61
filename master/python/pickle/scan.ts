/**
 * Weighs a pickle before any of it is built: a pass over its instructions that keeps, of each
 * value, only its kind, the start of its instructions, and its weight. A request of 14 MB can make
 * objects of many hundred MB; the scan takes some bytes per value, and can pause, so that other
 * requests do not wait for it.
 *
 * It knows the output of Python 3's picklers for plain data. A pickle with more, such as a class or
 * a POP, is only weighed, and is not `isPlain`. **Source:** CPython `Lib/pickletools.py`; the
 * limits are those of `reader.ts`.
 */
import { isAscii, isUtf8 } from 'node:buffer';
import {
  containerWeight,
  hashedWeight,
  type PickleLimits,
  pickleLimits,
  scalarWeight,
} from './limits.ts';
import { opcodes } from './opcodes.ts';
import { operandsAt } from './operands.ts';
import { decodeText } from './text.ts';
import { PickleError } from './values.ts';

type Operands = { readonly from: number; readonly end: number };

/** The instructions of one value, as offsets in the pickle. */
export type Range = { readonly start: number; readonly end: number };

/** The positions of the parts of `(ident, method, args, kwds)`. */
export type Envelope = {
  readonly ident: Range;
  readonly method: Range;
  readonly args: readonly Range[];
  /** Keys and values in turn. */
  readonly kwds: readonly Range[];
};

const hashable = 0;
const unhashable = 1;
const list = 2;
const dict = 3;
const set = 4;
/** The object is part of another one: later additions are missing in that one's weight. */
const attached = 8;

/** Approximate size of the engine's objects, in bytes: a list with one item has room for 17. */
const heapOf = { list: 184, hashed: 160, entry: 96, tuple: 64, text: 24, item: 12, other: 200 };
/** Arguments, or keywords and their values, of a request: no method has as many. */
const partsMax = 32;
const lookEvery = 4_096;

export class PickleScan {
  readonly input: Buffer;
  /** True: only plain data so far. */
  isPlain = true;
  /** Memory of the value if it were built, in bytes: a cautious estimate. */
  heapBytes = 0;
  /** For each memo entry, 1 if it is referred to. */
  recalled: Uint8Array = new Uint8Array(64);
  envelope: Envelope | undefined;
  readonly #limits: PickleLimits;
  #at = 0;
  #opcodes = 0;
  #charged = 0;
  #isDone = false;
  // The stack: the object of each value, or -1; its weight if it has none; where it begins.
  #height = 0;
  #objects = new Int32Array(64);
  #weights = new Float32Array(64);
  #starts = new Int32Array(64);
  readonly #marks: number[] = [];
  readonly #markedAt: number[] = [];
  // Containers.
  #count = 0;
  #kinds = new Uint8Array(64);
  #sums = new Float32Array(64);
  #depths = new Uint16Array(64);
  // The memo.
  #memoCount = 0;
  #memoObjects = new Int32Array(64);
  #memoWeights = new Float32Array(64);
  /** Undefined: more arguments than any call has. */
  #args: readonly Range[] | undefined;
  #kwds: readonly Range[] | undefined;

  constructor(input: Buffer, limits: PickleLimits = pickleLimits) {
    if (input.length > limits.bytesMax) {
      throw new PickleError(`the pickle has more than ${limits.bytesMax} bytes`);
    }
    this.input = input;
    this.#limits = limits;
  }

  get memoCount(): number {
    return this.#memoCount;
  }

  /** Continues until `performance.now()` is `until`; returns true when it is complete.
   *  Errors: PickleError broken, or beyond the limits. */
  run(until = Number.POSITIVE_INFINITY): boolean {
    while (!this.#isDone) {
      this.#step();
      if (++this.#opcodes > this.#limits.opcodesMax) {
        throw new PickleError('the pickle has too many instructions');
      }
      if (this.#opcodes % lookEvery === 0 && performance.now() >= until) return false;
    }
    return true;
  }

  #step(): void {
    const start = this.#at;
    const { input } = this;
    const opcode = input[start] ?? -1;
    const operands = operandsAt(input, start);
    if (operands.end > input.length) throw new PickleError('the pickle is truncated');
    this.#at = operands.end;
    if (opcode === opcodes.STOP) this.#stop();
    else if (this.isPlain) this.#apply(opcode, start, operands);
    else this.heapBytes += heapOf.other + 2 * (operands.end - start);
  }

  #apply(opcode: number, start: number, operands: Operands): void {
    if (this.#scalar(opcode, start, operands) || this.#container(opcode, start)) return;
    const { input } = this;
    const { from } = operands;
    switch (opcode) {
      case opcodes.MEMOIZE:
        this.#remember(this.#memoCount);
        return;
      case opcodes.BINPUT:
        this.#remember(input[from] ?? 0);
        return;
      case opcodes.LONG_BINPUT:
        this.#remember(input.readUInt32LE(from));
        return;
      case opcodes.BINGET:
        this.#recall(input[from] ?? 0, start);
        return;
      case opcodes.LONG_BINGET:
        this.#recall(input.readUInt32LE(from), start);
        return;
      default:
        // From here on it is only weighed; the part before may take as much as this.
        this.isPlain = false;
        this.heapBytes += heapOf.other;
    }
  }

  #scalar(opcode: number, start: number, { from, end }: Operands): boolean {
    switch (opcode) {
      case opcodes.PROTO:
      case opcodes.FRAME:
        return true;
      case opcodes.NONE:
      case opcodes.NEWTRUE:
      case opcodes.NEWFALSE:
      case opcodes.BININT:
      case opcodes.BININT1:
      case opcodes.BININT2:
      case opcodes.BINFLOAT:
        this.#push(start, scalarWeight, heapOf.item);
        return true;
      case opcodes.LONG1:
      case opcodes.LONG4:
        if (end - from > this.#limits.intBytesMax) throw new PickleError('an int is too large');
        this.#push(start, scalarWeight + end - from, heapOf.item + 24 + end - from);
        return true;
      case opcodes.SHORT_BINUNICODE:
      case opcodes.BINUNICODE:
      case opcodes.BINUNICODE8:
        this.#pushText(start, from, end);
        return true;
      case opcodes.SHORT_BINBYTES:
      case opcodes.BINBYTES:
      case opcodes.BINBYTES8:
        this.#push(start, scalarWeight + end - from, heapOf.other + end - from);
        return true;
      default:
        return false;
    }
  }

  #container(opcode: number, start: number): boolean {
    switch (opcode) {
      case opcodes.EMPTY_TUPLE:
        if (this.#isEnvelope(this.#height, 2)) this.#args = [];
        this.#pushContainer(start, hashable, containerWeight, heapOf.tuple);
        return true;
      case opcodes.EMPTY_LIST:
        this.#pushContainer(start, list, containerWeight, heapOf.list);
        return true;
      case opcodes.EMPTY_DICT:
        if (this.#isEnvelope(this.#height, 3)) this.#kwds = [];
        this.#pushContainer(start, dict, hashedWeight, heapOf.hashed);
        return true;
      case opcodes.EMPTY_SET:
        this.#pushContainer(start, set, hashedWeight, heapOf.hashed);
        return true;
      case opcodes.MARK:
        this.#marks.push(this.#height);
        this.#markedAt.push(start);
        return true;
      case opcodes.TUPLE:
        this.#tuple(this.#markedAt.at(-1), this.#popMark(), start);
        return true;
      case opcodes.TUPLE1:
      case opcodes.TUPLE2:
      case opcodes.TUPLE3:
        this.#tuple(undefined, this.#below(opcode - opcodes.TUPLE1 + 1), start);
        return true;
      case opcodes.FROZENSET:
        this.#frozenset(this.#markedAt.at(-1) ?? start, this.#popMark());
        return true;
      case opcodes.APPEND:
        this.#addTo(list, this.#below(1), start);
        return true;
      case opcodes.APPENDS:
        this.#addTo(list, this.#popMark(), start);
        return true;
      case opcodes.SETITEM:
        this.#addTo(dict, this.#below(2), start);
        return true;
      case opcodes.SETITEMS:
        this.#addTo(dict, this.#popMark(), start);
        return true;
      case opcodes.ADDITEMS:
        this.#addTo(set, this.#popMark(), start);
        return true;
      default:
        return false;
    }
  }

  #stop(): void {
    this.#isDone = true;
    if (this.#at !== this.input.length) throw new PickleError('there are bytes after the pickle');
    if (!this.isPlain) return;
    if (this.#height !== 1 || this.#marks.length > 0)
      throw new PickleError('the stack is not empty');
    const object = this.#objects[0] ?? -1;
    const weight = object < 0 ? 0 : (this.#sums[object] ?? 0);
    if (weight > this.#limits.weightMax) throw new PickleError('the value is too large');
  }

  // --- the stack ---

  #push(start: number, weight: number, heap: number, object = -1): void {
    const at = this.#height++;
    if (at >= this.#objects.length) {
      this.#objects = grown(this.#objects, new Int32Array(at * 2));
      this.#weights = grown(this.#weights, new Float32Array(at * 2));
      this.#starts = grown(this.#starts, new Int32Array(at * 2));
    }
    this.#objects[at] = object;
    this.#weights[at] = weight;
    this.#starts[at] = start;
    this.heapBytes += heap;
  }

  #pushText(start: number, from: number, end: number): void {
    const text = this.input.subarray(from, end);
    const isShort = isAscii(text);
    // Throws if it is not text; a lone surrogate is text.
    if (!isShort && !isUtf8(text)) decodeText(this.input, from, end);
    const heap = heapOf.text + (isShort ? 1 : 2) * text.length;
    this.#push(start, scalarWeight + text.length, heap + heapOf.item);
  }

  #pushContainer(start: number, kind: number, weight: number, heap: number, depth = 1): void {
    const object = this.#count++;
    if (object >= this.#kinds.length) {
      this.#kinds = grown(this.#kinds, new Uint8Array(object * 2));
      this.#sums = grown(this.#sums, new Float32Array(object * 2));
      this.#depths = grown(this.#depths, new Uint16Array(object * 2));
    }
    this.#charged += kind === hashable || kind === unhashable ? containerWeight : weight;
    if (this.#charged > this.#limits.weightMax) throw new PickleError('the value is too large');
    if (depth > this.#limits.depthMax) throw new PickleError('the value is nested too deep');
    this.#kinds[object] = kind;
    this.#sums[object] = weight;
    this.#depths[object] = depth;
    this.#push(start, 0, heap + heapOf.item, object);
  }

  /** The height of the stack below its top `count` values. */
  #below(count: number): number {
    const height = this.#height - count;
    if (height < (this.#marks.at(-1) ?? 0)) throw new PickleError('the stack is empty');
    return height;
  }

  #popMark(): number {
    this.#markedAt.pop();
    const height = this.#marks.pop();
    if (height === undefined) throw new PickleError('no MARK is open');
    return height;
  }

  // --- containers ---

  #weightOf(at: number): number {
    const object = this.#objects[at] ?? -1;
    return object < 0 ? (this.#weights[at] ?? 0) : (this.#sums[object] ?? 0);
  }

  #isHashable(at: number): boolean {
    const object = this.#objects[at] ?? -1;
    return object < 0 || ((this.#kinds[object] ?? 0) & ~attached) === hashable;
  }

  /** Returns the weight of all values above `height`, and their greatest depth. */
  #measure(height: number): { weight: number; depth: number; isHashable: boolean } {
    let weight = 0;
    let depth = 0;
    let isHashable = true;
    for (let at = height; at < this.#height; at++) {
      const object = this.#objects[at] ?? -1;
      weight += this.#weightOf(at);
      if (!this.#isHashable(at)) isHashable = false;
      if (object < 0) continue;
      depth = Math.max(depth, this.#depths[object] ?? 0);
      this.#kinds[object] = (this.#kinds[object] ?? 0) | attached;
    }
    return { weight, depth, isHashable };
  }

  #tuple(markedAt: number | undefined, height: number, end: number): void {
    const start = markedAt ?? this.#starts[height] ?? end;
    const { weight, depth, isHashable } = this.#measure(height);
    if (this.#isEnvelope(height, 2)) this.#args = this.#ranges(height, end);
    if (height === 0 && this.#marks.length === 0) this.#noteEnvelope(end);
    this.#height = height;
    const kind = isHashable ? hashable : unhashable;
    this.#pushContainer(start, kind, containerWeight + weight, heapOf.tuple, depth + 1);
  }

  #frozenset(start: number, height: number): void {
    const { weight, depth, isHashable } = this.#measure(height);
    if (!isHashable) throw new PickleError('unhashable type in a frozenset');
    const heap = heapOf.hashed + (this.#height - height) * heapOf.entry + weight * 2;
    this.#height = height;
    this.#pushContainer(start, hashable, hashedWeight + weight, heap, depth + 1);
  }

  #addTo(kind: number, height: number, end: number): void {
    const object = height > 0 ? (this.#objects[height - 1] ?? -1) : -1;
    const found = object < 0 ? -1 : (this.#kinds[object] ?? 0);
    if ((found & ~attached) !== kind || height <= (this.#marks.at(-1) ?? 0)) {
      throw new PickleError('items are added to a value that takes none');
    }
    if (found & attached) this.isPlain = false;
    const count = this.#height - height;
    if (kind === dict && count % 2 !== 0) throw new PickleError('a dict has a key without a value');
    if (kind !== list) this.#addKeys(height, kind === dict ? 2 : 1);
    if (kind === dict && this.#isEnvelope(height - 1, 3)) {
      const more = this.#ranges(height, end);
      this.#kwds = more && this.#kwds && [...this.#kwds, ...more];
    }
    const { weight, depth } = this.#measure(height);
    this.#height = height;
    this.#sums[object] = (this.#sums[object] ?? 0) + weight;
    this.#depths[object] = Math.max(this.#depths[object] ?? 0, Math.min(0xffff, depth + 1));
    if (depth >= this.#limits.depthMax) throw new PickleError('the value is nested too deep');
  }

  /** A key that is a tuple is looked up by a text of all its parts. */
  #addKeys(height: number, step: number): void {
    for (let at = height; at < this.#height; at += step) {
      if (!this.#isHashable(at)) throw new PickleError('unhashable type as a key');
      const isTuple = (this.#objects[at] ?? -1) >= 0;
      this.heapBytes += heapOf.entry + (isTuple ? this.#weightOf(at) * 2 : 0);
    }
  }

  // --- the memo ---

  #remember(index: number): void {
    const at = this.#below(1);
    if (index > this.#memoCount) {
      // Python counts up; other pickles are not worth a sparse memo.
      this.isPlain = false;
      return;
    }
    if (index === this.#memoCount) {
      this.#memoCount++;
      if (index >= this.#memoObjects.length) {
        this.#memoObjects = grown(this.#memoObjects, new Int32Array(index * 2));
        this.#memoWeights = grown(this.#memoWeights, new Float32Array(index * 2));
        this.recalled = grown(this.recalled, new Uint8Array(index * 2));
      }
    } else {
      // Two values have one index: the order decides which of them is meant.
      this.isPlain = false;
    }
    this.#memoObjects[index] = this.#objects[at] ?? -1;
    this.#memoWeights[index] = this.#weights[at] ?? 0;
    this.heapBytes += heapOf.item;
  }

  #recall(index: number, start: number): void {
    if (index >= this.#memoCount) throw new PickleError(`memo index ${index} is empty`);
    this.recalled[index] = 1;
    const [object, weight] = [this.#memoObjects[index], this.#memoWeights[index]];
    this.#push(start, weight ?? 0, heapOf.item, object ?? -1);
  }

  // --- the request ---

  /** Values above `height` are the parts of the request's `index`th part. */
  #isEnvelope(height: number, index: number): boolean {
    return height === index && this.#marks.length === 1 && this.#marks[0] === 0;
  }

  #ranges(height: number, end: number): readonly Range[] | undefined {
    if (this.#height - height > partsMax) return undefined;
    const ranges: Range[] = [];
    for (let at = height; at < this.#height; at++) {
      const next = at + 1 < this.#height ? this.#starts[at + 1] : end;
      ranges.push({ start: this.#starts[at] ?? 0, end: next ?? end });
    }
    return ranges;
  }

  #noteEnvelope(end: number): void {
    const [ident, method, ...rest] = this.#ranges(0, end) ?? [];
    const [args, kwds] = [this.#args, this.#kwds];
    if (!ident || !method || !args || !kwds || rest.length !== 2) return;
    this.envelope = { ident, method, args, kwds };
  }
}

function grown<T extends Int32Array | Float32Array | Uint8Array | Uint16Array>(from: T, to: T): T {
  to.set(from);
  return to;
}
