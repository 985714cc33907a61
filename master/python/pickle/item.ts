/**
 * The stored form of a Python item of a user queue: a pickle of its own, written by our writer.
 *
 * - It cannot be cut out of the request: the memo of a pickle spans the envelope, so that
 *   `q.put('put')` sends the item as a reference to the method's name.
 * - A pickle keeps what JSON and msgpack lose: 1.0 is not 1, tuples, sets, bytes, shared parts.
 * - Our pickle names only classes of the closed list, has no unread parts, and is the same for
 *   every Python version: `pickle.loads` of any Python 3 reads the stored bytes.
 * - A `get` needs no decoding: `returnOfItem` puts the kept bytes between those of the reply.
 *
 * The first byte tells them from msgpack: 0x80 is a whole msgpack value (an empty map) only if it
 * is alone. Bytes of a native peer that begin like a pickle are marked: a Python client would run
 * what they say.
 */
import { encodeFrame, frameHeaderBytes } from '../../../shared/frame.ts';
import { type PickleLimits, pickleLimits } from './limits.ts';
import { opcodes } from './opcodes.ts';
import { readPickle } from './reader.ts';
import { PickleScan } from './scan.ts';
import { PickleError, PyPickled, type PyValue } from './values.ts';
import { writePickle } from './writer.ts';

const itemProtocol = 3;

/** Returns the bytes to store. Errors: PickleError not writable, or beyond the limits. */
export function encodeItem(value: PyValue, limits: PickleLimits = pickleLimits): Buffer {
  if (value instanceof PyPickled) return value.bytes;
  if (typeof value === 'string' && isShortAscii(value)) return textItem(value);
  return writePickle(value, { protocol: itemProtocol, limits });
}

const shortCharsMax = 1024;

function isShortAscii(text: string): boolean {
  return text.length <= shortCharsMax && Buffer.byteLength(text) === text.length;
}

/** Returns the bytes of `writePickle`, in one step: the usual item is a URL. */
function textItem(text: string): Buffer {
  const bytes = Buffer.allocUnsafe(text.length + 8);
  bytes[0] = opcodes.PROTO;
  bytes[1] = itemProtocol;
  bytes[2] = opcodes.BINUNICODE;
  bytes.writeUInt32LE(text.length, 3);
  bytes.write(text, 7, 'latin1');
  bytes[text.length + 7] = opcodes.STOP;
  return bytes;
}

/** Returns the memory that the value of stored bytes would take, in bytes. Errors: PickleError. */
export function heapBytesOfItem(bytes: Uint8Array): number {
  const scan = new PickleScan(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  scan.run();
  return scan.heapBytes;
}

/** Returns the value of stored bytes. Errors: PickleError. */
export function decodeItem(bytes: Uint8Array, limits: PickleLimits = pickleLimits): PyValue {
  return readPickle(bytes, limits);
}

/** Are stored bytes a pickle (and not the msgpack of a Node program)? */
export function isItemPickle(bytes: Uint8Array): boolean {
  return bytes.length > 1 && bytes[0] === opcodes.PROTO;
}

/** Before raw bytes that begin like a pickle or like this mark, which no msgpack begins with. */
const rawMark = 0xc1;

/** Returns the stored form of the bytes of a Node program. */
export function asRawItem(bytes: Uint8Array): Buffer {
  const isMarked = isItemPickle(bytes) || bytes[0] === rawMark;
  return isMarked ? Buffer.concat([Buffer.from([rawMark]), bytes]) : Buffer.from(bytes);
}

/** Returns the bytes of an item that is no pickle, as they came. */
export function rawItem(stored: Uint8Array): Uint8Array {
  return stored[0] === rawMark ? stored.subarray(1) : stored;
}

// A frame's header, PROTO 3, BINUNICODE '#RETURN'; TUPLE2 makes a tuple of that and the item.
const returnHead = encodeFrame(writePickle('#RETURN').subarray(0, -1));

/** Returns the frame of the reply `('#RETURN', item)`, from bytes that `encodeItem` made, for a
 *  Python 3 client. */
export function returnOfItem(bytes: Uint8Array): Buffer {
  const isOurs = bytes[0] === opcodes.PROTO && bytes[1] === itemProtocol;
  if (!isOurs || bytes[bytes.length - 1] !== opcodes.STOP) {
    throw new PickleError('the item was not written by this master');
  }
  // The head has no memo entry, so those of the item keep their numbers.
  const frame = Buffer.allocUnsafe(returnHead.length + bytes.length - 1);
  frame.set(returnHead);
  frame.set(bytes.subarray(2), returnHead.length);
  frame[frame.length - 2] = opcodes.TUPLE2;
  frame[frame.length - 1] = opcodes.STOP;
  frame.writeInt32BE(frame.length - frameHeaderBytes, 0);
  return frame;
}
