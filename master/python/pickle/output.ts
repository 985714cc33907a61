/**
 * The bytes of a pickle under construction: a buffer that grows up to `bytesMax`, with the
 * shortest instruction for each scalar. Small pickles are put together in one scratch buffer
 * that all share (writing is synchronous) and copied out of it.
 * **Source:** CPython `Lib/pickletools.py`; the bytes are those of protocol 2 and 3.
 */
import { opcodes } from './opcodes.ts';
import { encodeSurrogatePass } from './text.ts';
import { PickleError } from './values.ts';

const scratchBytes = 64 << 10;
const scratch = Buffer.allocUnsafeSlow(scratchBytes);

/** Native encoding costs a call: ASCII up to this length is written here. */
const charsInlineMax = 32;

const charsCountedMin = 4096;
/** Bytes that `#room` may get without using them; `finish` checks the limit exactly. */
const slackBytes = charsCountedMin * 3;

export class PickleOutput {
  readonly #bytesMax: number;
  #bytes = scratch;
  #length = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Returns a copy of the written bytes. */
  finish(): Buffer {
    if (this.#length > this.#bytesMax) throw this.#tooLarge();
    return Buffer.from(this.#bytes.subarray(0, this.#length));
  }

  byte(byte: number): void {
    this.#room(1);
    this.#bytes[this.#length] = byte;
    this.#length += 1;
  }

  #uint32(value: number): void {
    this.#length = this.#bytes.writeUInt32LE(value, this.#length);
  }

  raw(bytes: Uint8Array): void {
    this.#room(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  /** PUT and GET alike: an opcode for small indexes, another one for the rest. */
  indexed(short: number, long: number, index: number): void {
    this.#room(5);
    if (index <= 0xff) {
      this.byte(short);
      this.byte(index);
    } else {
      this.byte(long);
      this.#uint32(index);
    }
  }

  int(value: number): void {
    this.#room(5);
    if (value === (value | 0)) {
      if (value >= 0 && value <= 0xff) {
        this.byte(opcodes.BININT1);
        this.byte(value);
      } else if (value >= 0 && value <= 0xffff) {
        this.byte(opcodes.BININT2);
        this.#length = this.#bytes.writeUInt16LE(value, this.#length);
      } else {
        this.byte(opcodes.BININT);
        this.#length = this.#bytes.writeInt32LE(value, this.#length);
      }
    } else {
      this.long(BigInt(value));
    }
  }

  /** Two's complement, little-endian, in the fewest whole bytes. */
  long(value: bigint): void {
    const magnitude = (value < 0n ? ~value : value).toString(16);
    // One more bit than the magnitude has, for the sign.
    const hexDigits = magnitude.length + (Number.parseInt(magnitude.charAt(0), 16) > 7 ? 1 : 0);
    const byteCount = (hexDigits + 1) >> 1;
    const hex = BigInt.asUintN(byteCount * 8, value).toString(16);
    this.#room(byteCount + 5);
    if (byteCount <= 0xff) {
      this.byte(opcodes.LONG1);
      this.byte(byteCount);
    } else {
      this.byte(opcodes.LONG4);
      this.#uint32(byteCount);
    }
    this.raw(Buffer.from(hex.padStart(byteCount * 2, '0'), 'hex').reverse());
  }

  float(value: number): void {
    this.#room(9);
    this.byte(opcodes.BINFLOAT);
    this.#length = this.#bytes.writeDoubleBE(value, this.#length);
  }

  bytes(bytes: Uint8Array): void {
    this.#room(bytes.length + 5);
    if (bytes.length <= 0xff) {
      this.byte(opcodes.SHORT_BINBYTES);
      this.byte(bytes.length);
    } else {
      this.byte(opcodes.BINBYTES);
      this.#uint32(bytes.length);
    }
    this.raw(bytes);
  }

  text(text: string): void {
    const size = text.length;
    // A UTF-16 unit is at most three bytes; only for long text it pays to count them.
    this.#room(5 + (size <= charsCountedMin ? size * 3 : Buffer.byteLength(text)));
    this.byte(opcodes.BINUNICODE);
    if (size <= charsInlineMax && this.#ascii(text)) return;
    const start = this.#length + 4;
    let byteCount = this.#bytes.write(text, start, 'utf8');
    const surrogates = byteCount === size ? null : encodeSurrogatePass(text);
    if (surrogates !== null) {
      this.#bytes.set(surrogates, start);
      byteCount = surrogates.length;
    }
    this.#uint32(byteCount);
    this.#length += byteCount;
  }

  /** Writes `text` if it is ASCII; returns whether it was. */
  #ascii(text: string): boolean {
    const start = this.#length + 4;
    for (let index = 0; index < text.length; index += 1) {
      const unit = text.charCodeAt(index);
      if (unit > 0x7f) return false;
      this.#bytes[start + index] = unit;
    }
    this.#uint32(text.length);
    this.#length += text.length;
    return true;
  }

  /** Makes room for `byteCount` more bytes. */
  #room(byteCount: number): void {
    const needed = this.#length + byteCount;
    if (needed <= this.#bytes.length) return;
    if (needed > this.#bytesMax + slackBytes) throw this.#tooLarge();
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2));
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
  }

  #tooLarge(): PickleError {
    return new PickleError(`the pickle would have more than ${this.#bytesMax} bytes`);
  }
}
