/**
 * The gate in front of the msgpack library: walks the bytes of a message, without building
 * anything, and refuses what is not plain, not whole, or too much. A length in msgpack is trusted
 * by decoders: an array header of five bytes that promises 30 million values takes 240 MB, nested
 * ones that much each. So no decoder sees a message that this has not passed.
 * Source: PROTOCOL.md [F-6] [F-8]; the msgpack specification.
 */
import { ProtocolError } from './errors.ts';
import { limits } from './protocol.ts';

/** Bytes after the code byte, for codes 0xc0 to 0xdf that have a fixed size; 0 elsewhere. */
const fixedBytes = new Uint8Array(32);
for (const [code, bytes] of [
  [0xca, 4],
  [0xcb, 8],
  [0xcc, 1],
  [0xcd, 2],
  [0xce, 4],
  [0xcf, 8],
  [0xd0, 1],
  [0xd1, 2],
  [0xd2, 4],
  [0xd3, 8],
] as const) {
  fixedBytes[code - 0xc0] = bytes;
}

/** Values still to come at each depth; one array, because the walk is never re-entered. */
const pending = new Uint32Array(limits.messageDepthMax + 1);

/** @throws ProtocolError when `bytes` are not one whole value of plain msgpack within limits. */
export function refuseUnplain(bytes: Uint8Array): void {
  const end = bytes.length;
  let at = 0;
  let depth = 0;
  let total = 1;
  pending[0] = 1;
  while (true) {
    while (pending[depth] === 0) {
      if (depth === 0) {
        if (at !== end) throw new ProtocolError('bytes follow the message');
        return;
      }
      depth--;
    }
    (pending[depth] as number)--;
    if (at >= end) throw new ProtocolError('the message is cut');
    const code = bytes[at++] as number;
    if (code < 0x80 || code >= 0xe0) continue;
    if (code >= 0xa0 && code < 0xc0) {
      at += code & 0x1f;
      continue;
    }
    let count = code & 0x0f;
    if (code >= 0xc0) {
      const size = headBytes(code);
      count = size === 0 ? 0 : uint(bytes, at, size);
      at += size;
      if (code < 0xdc) {
        at += fixedBytes[code - 0xc0] as number;
        if (size > 0) at += count;
        continue;
      }
    }
    if (code < 0x90 || code >= 0xde) count *= 2;
    total += count;
    // Every value takes a byte at least.
    if (count > end - at) throw new ProtocolError('the message is cut');
    if (total > limits.messageValuesMax) {
      throw new ProtocolError(`a message of more than ${limits.messageValuesMax} values`);
    }
    if (++depth > limits.messageDepthMax) {
      throw new ProtocolError(`a message nested deeper than ${limits.messageDepthMax}`);
    }
    pending[depth] = count;
  }
}

/** Bytes of the length that follows a code from 0xc0 on. @throws ProtocolError not plain */
function headBytes(code: number): number {
  switch (code) {
    case 0xc4:
    case 0xd9:
      return 1;
    case 0xc5:
    case 0xda:
    case 0xdc:
    case 0xde:
      return 2;
    case 0xc6:
    case 0xdb:
    case 0xdd:
    case 0xdf:
      return 4;
    case 0xc0:
    case 0xc2:
    case 0xc3:
      return 0;
    default:
      if (code >= 0xca && code <= 0xd3) return 0;
      throw new ProtocolError(`0x${code.toString(16)} is not plain msgpack`);
  }
}

function uint(bytes: Uint8Array, at: number, size: number): number {
  let value = 0;
  for (let i = 0; i < size; i++) value = value * 256 + (bytes[at + i] ?? 0);
  return value;
}
