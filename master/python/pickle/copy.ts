/**
 * Copies one value out of a pickle as a pickle of its own, without building it. Its instructions
 * are copied unchanged, except for those that refer to the rest. Frames are dropped, and so are
 * memo entries without references; the others are renumbered. A text of the envelope that the value
 * refers to (`q.put('put')`) is written out.
 *
 * The result declares protocol 3 and has instructions of protocol 4: every Python from 3.4 on reads
 * both alike.
 */
import { opcodes } from './opcodes.ts';
import { operandsAt } from './operands.ts';
import type { PickleScan, Range } from './scan.ts';
import { PickleError } from './values.ts';

const lookEvery = 4_096;
const head = Buffer.from([opcodes.PROTO, 3]);
/** For texts of the envelope that are written out, and memo indexes that grow. */
const spareBytes = 64 << 10;

export class PickleCopy {
  readonly #scan: PickleScan;
  readonly #range: Range;
  readonly #out: Buffer;
  #filled = 0;
  #at = 0;
  /** Start of the input that is copied unchanged, up to `#at`. */
  #copyFrom: number;
  #memoCount = 0;
  #outCount = 0;
  /** The new index of each memo entry, or -1. */
  readonly #indexes: Int32Array;
  /** Texts before the value that are in the memo. */
  readonly #texts = new Map<number, Range>();
  #lastText: Range | undefined;

  /** `scan` is complete and `isPlain`; `range` is one of its envelope's. */
  constructor(scan: PickleScan, range: Range) {
    this.#scan = scan;
    this.#range = range;
    this.#copyFrom = range.start;
    this.#indexes = new Int32Array(scan.memoCount).fill(-1);
    this.#out = Buffer.allocUnsafe(range.end - range.start + spareBytes);
    this.#write(head);
  }

  /** The pickle of the value, once `run` has returned true. */
  get bytes(): Buffer {
    return this.#out.subarray(0, this.#filled);
  }

  /** Continues until `performance.now()` is `until`; returns true when it is complete. Errors:
   *  PickleError. */
  run(until = Number.POSITIVE_INFINITY): boolean {
    const { input } = this.#scan;
    for (let steps = 1; this.#at < this.#range.end; steps++) {
      const start = this.#at;
      const { from, end } = operandsAt(input, start);
      this.#at = end;
      this.#step(input[start] ?? 0, start, from, end);
      if (steps % lookEvery === 0 && performance.now() >= until) return false;
    }
    this.#flush(this.#range.end);
    this.#write(Buffer.from([opcodes.STOP]));
    return true;
  }

  #step(opcode: number, start: number, from: number, end: number): void {
    switch (opcode) {
      case opcodes.PROTO:
      case opcodes.FRAME:
        this.#leaveOut(start, end);
        return;
      case opcodes.MEMOIZE:
      case opcodes.BINPUT:
      case opcodes.LONG_BINPUT:
        this.#leaveOut(start, end);
        this.#remember();
        return;
      case opcodes.BINGET:
        this.#recall(this.#scan.input[from] ?? 0, start, end);
        return;
      case opcodes.LONG_BINGET:
        this.#recall(this.#scan.input.readUInt32LE(from), start, end);
        return;
      default:
        this.#lastText = isText(opcode) ? { start, end } : undefined;
    }
  }

  /** The scan has checked that indexes count up. */
  #remember(): void {
    const index = this.#memoCount++;
    if (this.#scan.recalled[index] !== 1) return;
    if (!this.#isInside) {
      if (this.#lastText !== undefined) this.#texts.set(index, this.#lastText);
      return;
    }
    this.#memoize(index);
  }

  #recall(index: number, start: number, end: number): void {
    this.#leaveOut(start, end);
    if (!this.#isInside) return;
    const known = this.#indexes[index] ?? -1;
    if (known >= 0) {
      const short = known < 256;
      const bytes = Buffer.alloc(short ? 2 : 5);
      bytes[0] = short ? opcodes.BINGET : opcodes.LONG_BINGET;
      if (short) bytes[1] = known;
      else bytes.writeUInt32LE(known, 1);
      this.#write(bytes);
      return;
    }
    const text = this.#texts.get(index);
    if (text === undefined) throw new PickleError('the value contains its own request');
    this.#write(this.#scan.input.subarray(text.start, text.end));
    this.#memoize(index);
  }

  #memoize(index: number): void {
    this.#indexes[index] = this.#outCount++;
    this.#write(Buffer.from([opcodes.MEMOIZE]));
  }

  get #isInside(): boolean {
    return this.#at > this.#range.start;
  }

  #leaveOut(start: number, end: number): void {
    this.#flush(start);
    this.#copyFrom = Math.max(this.#copyFrom, end);
  }

  /** Copies the skipped input, up to `end`. */
  #flush(end: number): void {
    if (end <= this.#copyFrom) return;
    this.#write(this.#scan.input.subarray(this.#copyFrom, end));
    this.#copyFrom = end;
  }

  #write(bytes: Uint8Array): void {
    if (this.#filled + bytes.length > this.#out.length) {
      throw new PickleError('the value is too large');
    }
    this.#out.set(bytes, this.#filled);
    this.#filled += bytes.length;
  }
}

function isText(opcode: number): boolean {
  return (
    opcode === opcodes.SHORT_BINUNICODE ||
    opcode === opcodes.BINUNICODE ||
    opcode === opcodes.BINUNICODE8
  );
}
