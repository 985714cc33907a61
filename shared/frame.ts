/**
 * Frames: the bytes of `multiprocessing.connection`, and the msgpack inside native ones.
 *
 *     int32 big-endian length | payload             length >= 0
 *     ff ff ff ff | uint64 big-endian length | payload    (-1: the long form)
 *
 * The decoder accepts chunks cut anywhere and copies only frames that span chunks. It checks a
 * length against the limit before it allocates anything.
 * Source: PROTOCOL.md [F-1]..[F-8].
 */
import { Packr, Unpackr } from 'msgpackr';
import { ProtocolError } from './errors.ts';
import { pack } from './pack.ts';
import { assertPlain } from './plain-value.ts';
import { limits } from './protocol.ts';

/** Size of a short header, the only kind that we send. */
export const frameHeaderBytes = 4;
const longHeaderBytes = 12;
const empty = Buffer.alloc(0);
/** An unfinished frame above this size is kept in pieces of it, and its growth is reported. Blocks
 *  of one size leave no gaps when they are freed: those that doubled, up to 32 MiB, could make a
 *  process take twice as much memory as it used. */
const pieceBytes = 1 << 20;

/** Stands for the payload of a frame that was read over, by its identity. */
export const overlong = Buffer.alloc(0);

type FrameSize = { header: number; total: number; isOverlong: boolean };

/** Cuts a byte stream into payloads: `push` a chunk, then call `next` until it returns
 *  undefined. */
export class FrameDecoder {
  /** Largest payload accepted; raised once the peer has proved that it has the key. */
  bytesMax: number;
  /** An unfinished large frame took more memory; the reader of this flag resets it. */
  hasGrown = false;
  /** Frames above `bytesMax` are read over, of which `overlong` is the payload; else they throw. */
  passesOverlong = false;
  #chunk: Buffer = empty;
  // A frame that spans chunks grows here: full pieces, and one that grows by doubling, so that a
  // peer that sends single bytes costs little more memory than it has sent.
  #pieces: Buffer[] = [];
  #partial: Buffer = empty;
  /** Bytes of the frame in `#partial`. */
  #used = 0;
  /** Bytes to come of an overlong frame. */
  #toPass = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  push(chunk: Buffer): void {
    this.#chunk = this.#chunk.length === 0 ? chunk : Buffer.concat([this.#chunk, chunk]);
  }

  /** Returns the next whole payload, or undefined until more bytes come. It is a view: it stays
   *  valid, but keeps its chunk alive.
   *  @throws ProtocolError E_BAD_FRAME on a negative or over-long length. */
  next(): Buffer | undefined {
    if (this.#toPass > 0) return this.#pass(this.#toPass);
    if (this.#filled > 0) return this.#nextOfPartial();
    if (this.#chunk.length === 0) return undefined;
    const size = this.#frameSize(this.#chunk);
    if (size?.isOverlong) return this.#pass(size.total);
    if (size !== undefined && this.#chunk.length >= size.total) {
      const payload = this.#chunk.subarray(size.header, size.total);
      this.#chunk = this.#chunk.subarray(size.total);
      return payload;
    }
    this.#keep(this.#chunk.length);
    return undefined;
  }

  #nextOfPartial(): Buffer | undefined {
    while (true) {
      const last = this.#partial.subarray(0, this.#used);
      const size = this.#frameSize(this.#pieces[0] ?? last);
      if (size?.isOverlong) {
        const left = size.total - this.#filled;
        this.#dropPartial();
        return this.#pass(left);
      }
      if (size !== undefined && this.#filled === size.total) {
        const frame = this.#pieces.length === 0 ? last : Buffer.concat([...this.#pieces, last]);
        this.#dropPartial();
        return frame.subarray(size.header);
      }
      if (this.#chunk.length === 0) return undefined;
      // Without a size the header is incomplete: take single bytes until it is whole.
      this.#keep(Math.min(this.#chunk.length, size === undefined ? 1 : size.total - this.#filled));
    }
  }

  /** Reads over so many bytes, of which nothing is kept. */
  #pass(count: number): Buffer | undefined {
    const passed = Math.min(count, this.#chunk.length);
    this.#chunk = this.#chunk.subarray(passed);
    this.#toPass = count - passed;
    return this.#toPass === 0 ? overlong : undefined;
  }

  /** Drops unfinished frames, which will not be read. */
  clear(): void {
    this.#chunk = empty;
    this.#toPass = 0;
    this.#dropPartial();
  }

  #dropPartial(): void {
    this.#pieces = [];
    this.#partial = empty;
    this.#used = 0;
  }

  /** Bytes of the partial frame. */
  get #filled(): number {
    return this.#pieces.length * pieceBytes + this.#used;
  }

  /** Bytes kept in memory. */
  get heldBytes(): number {
    return this.#chunk.length + this.#pieces.length * pieceBytes + this.#partial.length;
  }

  /** No byte of a frame is pending. */
  get isEmpty(): boolean {
    return this.#chunk.length === 0 && this.#filled === 0 && this.#toPass === 0;
  }

  /** Moves the first `count` bytes of the chunk to the partial frame. */
  #keep(count: number): void {
    for (let left = count; left > 0; ) {
      if (this.#used === this.#partial.length) this.#grow(left);
      const copied = this.#chunk.copy(this.#partial, this.#used, 0, left);
      this.#chunk = this.#chunk.subarray(copied);
      this.#used += copied;
      left -= copied;
    }
  }

  /** Makes room for some of `count` bytes. */
  #grow(count: number): void {
    const full = this.#partial;
    if (full.length < pieceBytes) {
      const bytes = Math.max(full.length + count, full.length * 2);
      this.#partial = Buffer.allocUnsafe(Math.min(bytes, pieceBytes));
      full.copy(this.#partial);
    } else {
      this.#pieces.push(full);
      this.#partial = Buffer.allocUnsafe(pieceBytes);
      this.#used = 0;
    }
    this.hasGrown ||= this.#partial.length === pieceBytes;
  }

  /** Returns header and total size of the first frame in `bytes`; undefined if the header is
   *  cut. */
  #frameSize(bytes: Buffer): FrameSize | undefined {
    if (bytes.length < frameHeaderBytes) return undefined;
    let length = bytes.readInt32BE(0);
    let header = frameHeaderBytes;
    if (length === -1) {
      if (bytes.length < longHeaderBytes) return undefined;
      length = bytes.readUInt32BE(4) * 0x1_0000_0000 + bytes.readUInt32BE(8);
      header = longHeaderBytes;
    }
    if (length < 0) throw new ProtocolError(`a frame has the length ${length}`);
    const isOverlong = length > this.bytesMax;
    if (isOverlong && !this.passesOverlong) {
      throw new ProtocolError(`a frame of ${length} bytes; the limit is ${this.bytesMax}`);
    }
    return { header, total: header + length, isOverlong };
  }
}

/** Header and payload in one buffer, short form. */
export function encodeFrame(payload: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(frameHeaderBytes + payload.length);
  frame.writeInt32BE(payload.length, 0);
  frame.set(payload, frameHeaderBytes);
  return frame;
}

// Plain msgpack: no record extension, so that any language can speak it; undefined fields are left
// out, because only an extension could hold them. [F-6]
const packing = { useRecords: false, skipValues: [undefined] }; // the types lack skipValues
const packr = new Packr(packing);
const unpacking = { useRecords: false, mapsAsObjects: true };
const unpackr = new Unpackr({ ...unpacking, int64AsType: 'number' });
/** An integer beyond 2^53 is a bigint; the types lack `auto`. */
const exactUnpackr = new Unpackr({ ...unpacking, int64AsType: 'auto' as 'bigint' });

/** Returns a plain value as msgpack bytes of its own.
 *  @throws TypeError for values that only an extension could hold: dates, errors, integers beyond
 *  64 bits, undefined; and for objects of which msgpackr would lose something: promises, typed
 *  arrays. */
export function encodeValue(value: unknown): Buffer {
  try {
    const packed = pack(value);
    const bytes = packed ?? Buffer.from(packr.pack(value));
    assertPlain(bytes);
    // After the check of the bytes it is known to end.
    if (packed === undefined) refuseLossy(value);
    return bytes;
  } catch (error) {
    throw new TypeError('only null, booleans, numbers, texts, bytes, arrays and maps can be sent', {
      cause: error,
    });
  }
}

/** Objects that msgpackr writes with all that they hold, those of classes as their fields. */
const wholeKinds = ['Object', 'Array', 'Map', 'Set', 'Uint8Array', 'ArrayBuffer'];

/** msgpackr writes a promise as `{}`, and of a Float64Array one byte a number, followed by what was
 *  in its buffer before. @throws TypeError */
function refuseLossy(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  const kind = Object.prototype.toString.call(value).slice('[object '.length, -1);
  if (!wholeKinds.includes(kind)) throw new TypeError(`a ${kind} cannot be sent`);
  if (ArrayBuffer.isView(value)) return;
  if (value instanceof Map || value instanceof Set || Array.isArray(value)) {
    for (const part of value) refuseLossy(part);
  } else for (const part of Object.values(value)) refuseLossy(part);
}

/** The same of a value that is known to be plain, to be sent within a message. */
export function packValue(value: unknown): Buffer {
  return pack(value) ?? packr.pack(value);
}

/** @throws ProtocolError when the bytes are not one whole msgpack value, plain all through. */
export function decodeValue(bytes: Uint8Array, valuesMax?: number): unknown {
  return decode(unpackr, bytes, valuesMax);
}

/** As `decodeValue`, for values of programs: an integer beyond 2^53 is a bigint. */
export function decodeExactValue(bytes: Uint8Array): unknown {
  return decode(exactUnpackr, bytes);
}

function decode(reader: Unpackr, bytes: Uint8Array, valuesMax?: number): unknown {
  try {
    assertPlain(bytes, valuesMax);
    return reader.unpack(bytes);
  } catch (error) {
    // Trailing bytes, truncation, extensions, deep nesting, and containers as keys.
    throw new ProtocolError(
      `not a msgpack message: ${error instanceof Error ? error.message : ''}`,
    );
  }
}

/** Reads bytes that were checked before, or that this process made. */
export function unpackValue(bytes: Uint8Array): unknown {
  return unpackr.unpack(bytes);
}

/** A message off the wire, within the limits of one. @throws ProtocolError [F-6] [F-8] */
export function decodeMessage(bytes: Uint8Array): unknown {
  return decodeValue(bytes, limits.messageValuesMax);
}

/** A message as a whole frame. */
export function encodeMessage(message: object): Buffer {
  const frame = pack(message, frameHeaderBytes);
  if (frame === undefined) return encodeFrame(packr.pack(message));
  frame.writeInt32BE(frame.length - frameHeaderBytes, 0);
  return frame;
}
