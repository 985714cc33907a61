/**
 * The machine that a pickle is a program for: its input, stack, marks and memo, each bounded.
 * `reader.ts` has the opcodes. Every method throws PickleError rather than read past the end, below
 * the last mark or beyond a limit; nothing is allocated for a declared length before that many
 * bytes are known to be there.
 *
 * Invariant: a PyGlobal (a class by its name) is only ever on the stack or in the memo. Every part
 * of a value passes `data` or `popMark`, which refuse it. **Source:** CPython `Modules/_pickle.c`
 * (the stack and its fence), `Lib/pickletools.py`.
 */
import { PyGlobal } from './globals.ts';
import { containerWeight, type PickleLimits } from './limits.ts';
import { decodeText } from './text.ts';
import {
  type KeyToken,
  keyToken,
  PickleError,
  type PyDict,
  type PySet,
  type PyValue,
  WeightError,
} from './values.ts';

type Operand = PyValue | PyGlobal;

export class PickleMachine {
  readonly input: Buffer;
  readonly limits: PickleLimits;
  /** Offset of the next byte. */
  at = 0;
  /** Containers made so far: no value is nested deeper than this. */
  containerCount = 0;
  /** Whether a container was referred to a second time; only then may the value be larger than its
   *  pickle. */
  sharesContainers = false;

  readonly #stack: Operand[] = [];
  /** Stack heights at the open MARKs; values below the last of them cannot be popped. */
  readonly #marks: number[] = [];
  #fence = 0;
  /** A usual memo counts up from 0; other indexes are kept separately, without gaps. */
  readonly #memo: Operand[] = [];
  #scattered: Map<number, Operand> | null = null;
  #weight = 0;
  #hasGlobals = false;

  constructor(input: Buffer, limits: PickleLimits) {
    this.input = input;
    this.limits = limits;
  }

  // --- input ---

  byte(): number {
    const byte = this.input[this.at];
    if (byte === undefined) throw truncated();
    this.at += 1;
    return byte;
  }

  /** Skips the next `count` bytes and returns their offset; they must be there. */
  take(count: number): number {
    const start = this.at;
    if (count > this.input.length - start) throw truncated();
    this.at = start + count;
    return start;
  }

  uint16(): number {
    const low = this.byte();
    return low | (this.byte() << 8);
  }

  uint32(): number {
    return this.int32() >>> 0;
  }

  int32(): number {
    const low = this.uint16();
    return low | (this.uint16() << 16);
  }

  /** A length of eight bytes: one too large for a number is certainly not there. */
  uint64(): number {
    const low = this.uint32();
    return low + this.uint32() * 2 ** 32;
  }

  text(byteCount: number): string {
    const start = this.take(byteCount);
    return decodeText(this.input, start, this.at);
  }

  /** A copy: the frame is not kept alive, nor changed through the value. */
  bytes(byteCount: number): Uint8Array {
    const start = this.take(byteCount);
    return new Uint8Array(this.input.subarray(start, this.at));
  }

  /** The rest of the line, as Latin-1, without its end. */
  line(): string {
    const end = this.input.indexOf(0x0a, this.at);
    if (end < 0) throw truncated();
    const start = this.take(end + 1 - this.at);
    return this.input.toString('latin1', start, end);
  }

  // --- limits ---

  /** Charges for data that a short instruction adds beyond the input. */
  charge(weight: number): void {
    this.#weight += weight;
    if (this.#weight > this.limits.weightMax) throw new WeightError();
  }

  /** Push a container that was just made. */
  pushContainer(container: PyValue, weight = containerWeight): void {
    this.containerCount += 1;
    this.charge(weight);
    this.#stack.push(container);
  }

  // --- stack ---

  push(operand: Operand): void {
    this.#stack.push(operand);
  }

  pushGlobal(global: PyGlobal): void {
    this.#hasGlobals = true;
    this.#stack.push(global);
  }

  pop(): Operand {
    if (this.#stack.length <= this.#fence) throw underflow();
    const operand = this.#stack.pop();
    if (operand === undefined) throw underflow();
    return operand;
  }

  popData(): PyValue {
    return this.data(this.pop());
  }

  top(): Operand {
    const operand = this.#stack[this.#stack.length - 1];
    if (operand === undefined || this.#stack.length <= this.#fence) throw underflow();
    return operand;
  }

  mark(): void {
    this.#fence = this.#stack.length;
    this.#marks.push(this.#fence);
  }

  /** All values above the last MARK, taken off with it. */
  popMark(): PyValue[] {
    const start = this.#marks.pop();
    if (start === undefined) throw new PickleError('no MARK is open');
    this.#fence = this.#marks[this.#marks.length - 1] ?? 0;
    const operands = this.#stack.slice(start);
    this.#stack.length = start;
    if (!this.#isData(operands)) throw new PickleError('a class is not a value');
    return operands;
  }

  /** POP: the top value, or the MARK if there is none above it. */
  drop(): void {
    if (this.#stack.length > this.#fence) this.pop();
    else this.popMark();
  }

  /** `operand` as part of a value. */
  data(operand: Operand): PyValue {
    if (operand instanceof PyGlobal) throw isClass(operand);
    return operand;
  }

  #isData(operands: Operand[]): operands is PyValue[] {
    // Few pickles name a class, so few are searched for one.
    if (!this.#hasGlobals) return true;
    const global = operands.find((operand) => operand instanceof PyGlobal);
    if (global instanceof PyGlobal) throw isClass(global);
    return true;
  }

  // --- containers ---

  setItem(dict: PyDict, key: PyValue, value: PyValue): void {
    if (typeof key === 'string') {
      dict.set(key, value);
      return;
    }
    const token = keyToken(key);
    this.#chargeToken(token);
    dict.setByToken(token, key, value);
  }

  addItem(set: PySet, item: PyValue): void {
    const token = keyToken(item);
    if (token !== item) this.#chargeToken(token);
    set.addByToken(token, item);
  }

  /** The token of a tuple contains all its shared parts, written out. */
  #chargeToken(token: KeyToken): void {
    if (typeof token === 'string') this.charge(token.length);
  }

  // --- memo ---

  /** MEMOIZE counts entries, whatever their indexes are. */
  get memoCount(): number {
    return this.#memo.length + (this.#scattered?.size ?? 0);
  }

  /** Remember the top of the stack. An index never needs to exceed the bytes read so far. */
  remember(index: number): void {
    if (index > this.at) throw new PickleError(`memo index ${index} is out of range`);
    const operand = this.top();
    if (index > this.#memo.length || this.#scattered?.has(index)) {
      this.#scattered ??= new Map();
      this.#scattered.set(index, operand);
    } else {
      this.#memo[index] = operand;
    }
  }

  recall(index: number): void {
    let operand = this.#memo[index];
    if (operand === undefined) operand = this.#scattered?.get(index);
    if (operand === undefined) throw new PickleError(`memo index ${index} is empty`);
    this.push(operand);
    this.repeated(operand);
  }

  /** Count `operand`, of which a second reference was just made. */
  repeated(operand: Operand): void {
    if (typeof operand === 'string') this.charge(operand.length);
    else if (operand instanceof Uint8Array) this.charge(operand.length);
    else if (typeof operand === 'bigint') this.charge(this.limits.intBytesMax);
    else if (typeof operand === 'object' && operand !== null) this.sharesContainers = true;
  }
}

const truncated = (): PickleError => new PickleError('the pickle is truncated');
const underflow = (): PickleError => new PickleError('the stack is empty');
const isClass = (global: PyGlobal): PickleError =>
  new PickleError(`${global.name} is a class: only its values are allowed`);
