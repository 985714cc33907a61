/**
 * Frames: the bytes of `multiprocessing.connection`, and the msgpack inside native ones.
 *
 *     int32 big-endian length | payload             length >= 0
 *     ff ff ff ff | uint64 big-endian length | payload    (-1: the long form)
 *
 * The decoder takes chunks cut anywhere and copies only the frames that span them. A length is
 * checked against the limit before anything is allocated.
 * Source: PROTOCOL.md [F-1]..[F-8].
 */
import { Packr, Unpackr } from 'msgpackr';
import { ProtocolError } from './errors.ts';
import { assertPlain } from './plain-value.ts';
import { limits } from './protocol.ts';

/** Of a short header, which all frames that we send have. */
export const frameHeaderBytes = 4;
const longHeaderBytes = 12;
const empty = Buffer.alloc(0);
/** What an unfinished frame takes before anybody has to know. */
const largeBytes = 1 << 20;

/** Cuts a byte stream into payloads: `push` a chunk, then call `next` until it gives undefined. */
export class FrameDecoder {
  /** Largest payload that is taken; raised once the peer has proved that it knows the key. */
  bytesMax: number;
  /** A large frame that is not whole took more memory; whoever looks sets it back. */
  hasGrown = false;
  #chunk: Buffer = empty;
  // A frame that spans chunks grows here, by doubling, so that a peer that sends single bytes
  // costs no more memory than it has sent.
  #partial: Buffer = empty;
  #filled = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  push(chunk: Buffer): void {
    this.#chunk = this.#chunk.length === 0 ? chunk : Buffer.concat([this.#chunk, chunk]);
  }

  /** The next whole payload, or undefined until more bytes come. It is a view: it stays valid,
   *  but keeps the chunk it came in alive.
   *  @throws ProtocolError E_BAD_FRAME on a negative or over-long length. */
  next(): Buffer | undefined {
    if (this.#filled > 0) return this.#nextOfPartial();
    if (this.#chunk.length === 0) return undefined;
    const size = this.#frameSize(this.#chunk);
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
      const size = this.#frameSize(this.#partial.subarray(0, this.#filled));
      if (size !== undefined && this.#filled === size.total) {
        const payload = this.#partial.subarray(size.header, size.total);
        this.#partial = empty;
        this.#filled = 0;
        return payload;
      }
      if (this.#chunk.length === 0) return undefined;
      // Without a size the header itself is cut: byte by byte until it is whole.
      this.#keep(Math.min(this.#chunk.length, size === undefined ? 1 : size.total - this.#filled));
    }
  }

  /** Forgets what is not whole: nobody will ask for it. */
  clear(): void {
    this.#chunk = empty;
    this.#partial = empty;
    this.#filled = 0;
  }

  /** What it keeps in memory. */
  get heldBytes(): number {
    return this.#chunk.length + this.#partial.length;
  }

  /** Nothing of a frame is there. */
  get isEmpty(): boolean {
    return this.#chunk.length === 0 && this.#filled === 0;
  }

  /** Moves the first `count` bytes of the chunk to the partial frame. */
  #keep(count: number): void {
    const filled = this.#filled + count;
    if (filled > this.#partial.length) {
      const grown = Buffer.allocUnsafe(Math.max(filled, this.#partial.length * 2));
      this.hasGrown ||= grown.length >= largeBytes;
      this.#partial.copy(grown, 0, 0, this.#filled);
      this.#partial = grown;
    }
    this.#chunk.copy(this.#partial, this.#filled, 0, count);
    this.#filled = filled;
    this.#chunk = this.#chunk.subarray(count);
  }

  /** Header and whole size of the frame that `bytes` begins with; undefined if that is cut. */
  #frameSize(bytes: Buffer): { header: number; total: number } | undefined {
    if (bytes.length < frameHeaderBytes) return undefined;
    let length = bytes.readInt32BE(0);
    let header = frameHeaderBytes;
    if (length === -1) {
      if (bytes.length < longHeaderBytes) return undefined;
      length = bytes.readUInt32BE(4) * 0x1_0000_0000 + bytes.readUInt32BE(8);
      header = longHeaderBytes;
    }
    if (length < 0) throw new ProtocolError(`a frame's length is ${length}`);
    if (length > this.bytesMax) {
      throw new ProtocolError(`a frame of ${length} bytes; the limit is ${this.bytesMax}`);
    }
    return { header, total: header + length };
  }
}

/** Header and payload in one buffer, short form. */
export function encodeFrame(payload: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(frameHeaderBytes + payload.length);
  frame.writeInt32BE(payload.length, 0);
  frame.set(payload, frameHeaderBytes);
  return frame;
}

// Plain msgpack: no record extension, so that any language can speak it; a field that is undefined
// is left out, because only an extension could hold it. [F-6]
const packing = { useRecords: false, skipValues: [undefined] }; // the types lack skipValues
const packr = new Packr(packing);
const unpackr = new Unpackr({ useRecords: false, mapsAsObjects: true, int64AsType: 'number' });

/** Any plain value as msgpack bytes of its own.
 *  @throws TypeError for what only an extension could hold: dates, errors, big integers,
 *  undefined. */
export function encodeValue(value: unknown): Buffer {
  try {
    const bytes = Buffer.from(packr.pack(value));
    assertPlain(bytes);
    return bytes;
  } catch (error) {
    throw new TypeError('only null, booleans, numbers, texts, bytes, arrays and maps are sent', {
      cause: error,
    });
  }
}

/** @throws ProtocolError when the bytes are not one whole msgpack value, plain all through. */
export function decodeValue(bytes: Uint8Array, valuesMax?: number): unknown {
  try {
    assertPlain(bytes, valuesMax);
    return unpackr.unpack(bytes);
  } catch (error) {
    // Trailing bytes, truncation, extensions, deep nesting, and containers as keys.
    throw new ProtocolError(
      `not a msgpack message: ${error instanceof Error ? error.message : ''}`,
    );
  }
}

/** A message off the wire, within the limits of one. @throws ProtocolError [F-6] [F-8] */
export function decodeMessage(bytes: Uint8Array): unknown {
  return decodeValue(bytes, limits.messageValuesMax);
}

/** A message as a whole frame. */
export function encodeMessage(message: object): Buffer {
  return encodeFrame(packr.pack(message));
}
