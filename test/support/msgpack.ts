/**
 * Plain msgpack, by hand: exactly the types of PROTOCOL.md [F-6]. The conformance suite uses it
 * instead of the library of the product, so that a shared mistake cannot hide.
 */

/** JSON-like values and bytes. Keys keep their order. */
export function pack(value: unknown): Buffer {
  const parts: Buffer[] = [];
  write(value, parts);
  return Buffer.concat(parts);
}

/** One whole value. @throws Error anything else: extensions, trailing bytes, keys not text */
export function unpack(bytes: Buffer): unknown {
  const reader = new Reader(bytes);
  const value = reader.value();
  if (reader.at !== bytes.length) throw new Error(`${bytes.length - reader.at} bytes too many`);
  return value;
}

/** `cc` and a big-endian unsigned number of `size` bytes. */
function head(code: number, size: number, value: number): Buffer {
  const bytes = Buffer.alloc(1 + size);
  bytes[0] = code;
  if (size === 8) bytes.writeBigUInt64BE(BigInt(value), 1);
  else bytes.writeUIntBE(value, 1, size);
  return bytes;
}

function sized(length: number, codes: readonly [number, number, number]): Buffer {
  if (length < 0x100 && codes[0] !== 0) return head(codes[0], 1, length);
  return length < 0x10000 ? head(codes[1], 2, length) : head(codes[2], 4, length);
}

function write(value: unknown, parts: Buffer[]): void {
  if (value === null) parts.push(Buffer.from([0xc0]));
  else if (typeof value === 'boolean') parts.push(Buffer.from([value ? 0xc3 : 0xc2]));
  else if (typeof value === 'number') parts.push(writeNumber(value));
  else if (typeof value === 'string') {
    const text = Buffer.from(value);
    const small = text.length < 32;
    parts.push(small ? Buffer.from([0xa0 | text.length]) : sized(text.length, [0xd9, 0xda, 0xdb]));
    parts.push(text);
  } else if (value instanceof Uint8Array) {
    parts.push(sized(value.length, [0xc4, 0xc5, 0xc6]), Buffer.from(value));
  } else if (Array.isArray(value)) {
    const { length } = value;
    parts.push(length < 16 ? Buffer.from([0x90 | length]) : sized(length, [0, 0xdc, 0xdd]));
    for (const item of value) write(item, parts);
  } else if (typeof value === 'object') {
    const entries = Object.entries(value).filter(([, item]) => item !== undefined);
    const { length } = entries;
    parts.push(length < 16 ? Buffer.from([0x80 | length]) : sized(length, [0, 0xde, 0xdf]));
    for (const [key, item] of entries) {
      write(key, parts);
      write(item, parts);
    }
  } else throw new Error(`cannot pack ${typeof value}`);
}

function writeNumber(value: number): Buffer {
  if (!Number.isSafeInteger(value)) {
    const bytes = Buffer.alloc(9, 0xcb);
    bytes.writeDoubleBE(value, 1);
    return bytes;
  }
  if (value >= 0) {
    if (value < 0x80) return Buffer.from([value]);
    if (value < 0x100) return head(0xcc, 1, value);
    if (value < 0x10000) return head(0xcd, 2, value);
    return value < 0x1_0000_0000 ? head(0xce, 4, value) : head(0xcf, 8, value);
  }
  if (value >= -32) return Buffer.from([value & 0xff]);
  const bytes = Buffer.alloc(9, 0xd3);
  bytes.writeBigInt64BE(BigInt(value), 1);
  return bytes;
}

class Reader {
  at = 0;
  readonly #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  value(): unknown {
    const code = this.#uint(1);
    if (code < 0x80) return code;
    if (code < 0x90) return this.#map(code & 0x0f);
    if (code < 0xa0) return this.#array(code & 0x0f);
    if (code < 0xc0) return this.#take(code & 0x1f).toString();
    if (code >= 0xe0) return code - 0x100;
    switch (code) {
      case 0xc0:
        return null;
      case 0xc2:
      case 0xc3:
        return code === 0xc3;
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return Buffer.from(this.#take(this.#uint(1 << (code - 0xc4))));
      case 0xca:
        return this.#take(4).readFloatBE();
      case 0xcb:
        return this.#take(8).readDoubleBE();
      case 0xcc:
      case 0xcd:
      case 0xce:
        return this.#uint(1 << (code - 0xcc));
      case 0xcf:
        return Number(this.#take(8).readBigUInt64BE());
      case 0xd0:
      case 0xd1:
      case 0xd2: {
        const size = 1 << (code - 0xd0);
        return this.#take(size).readIntBE(0, size);
      }
      case 0xd3:
        return Number(this.#take(8).readBigInt64BE());
      case 0xd9:
      case 0xda:
      case 0xdb:
        return this.#take(this.#uint(1 << (code - 0xd9))).toString();
      case 0xdc:
      case 0xdd:
        return this.#array(this.#uint(2 << (code - 0xdc)));
      case 0xde:
      case 0xdf:
        return this.#map(this.#uint(2 << (code - 0xde)));
      default:
        throw new Error(`0x${code.toString(16)} is not plain msgpack`);
    }
  }

  #take(count: number): Buffer {
    if (this.at + count > this.#bytes.length) throw new Error('the message is cut');
    this.at += count;
    return this.#bytes.subarray(this.at - count, this.at);
  }

  #uint(size: number): number {
    return this.#take(size).readUIntBE(0, size);
  }

  #array(length: number): unknown[] {
    const array: unknown[] = [];
    for (let i = 0; i < length; i++) array.push(this.value());
    return array;
  }

  #map(length: number): Record<string, unknown> {
    const map: Record<string, unknown> = {};
    for (let i = 0; i < length; i++) {
      const key = this.value();
      if (typeof key !== 'string') throw new Error('a key is not text');
      map[key] = this.value();
    }
    return map;
  }
}
