/**
 * Writes plain values as msgpack: the bytes that msgpackr writes, with a fraction of its code,
 * which V8 would optimize in both processes of each crawl; and a little faster. Values that are not
 * plain, or have more fields than a short map, are left to msgpackr. Pure but for one buffer, which
 * all values are written to.
 * Source: the msgpack specification, "Formats".
 */
const shortChars = 48;
const fieldsMax = 15;
const startBytes = 16 << 10;
/** A larger buffer is not kept. */
const keptBytes = 1 << 20;

let bytes: Buffer = Buffer.allocUnsafe(startBytes);
let view = viewOf(bytes);
let at = 0;

/** Returns `before` free bytes and the value after them; undefined: it is for msgpackr. */
export function pack(value: unknown, before = 0): Buffer | undefined {
  at = before;
  const packed = write(value) ? copied() : undefined;
  if (bytes.length > keptBytes) use(Buffer.allocUnsafe(startBytes));
  return packed;
}

function copied(): Buffer {
  const copy = Buffer.allocUnsafe(at);
  bytes.copy(copy, 0, 0, at);
  return copy;
}

function viewOf({ buffer, byteOffset, byteLength }: Buffer): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}

function use(other: Buffer): void {
  bytes = other;
  view = viewOf(other);
}

/** Makes room for so many bytes more. */
function need(count: number): void {
  if (at + count <= bytes.length) return;
  const larger = Buffer.allocUnsafe(Math.max(at + count, bytes.length * 2));
  bytes.copy(larger, 0, 0, at);
  use(larger);
}

/** False: the value is not plain. */
function write(value: unknown): boolean {
  need(9);
  switch (typeof value) {
    case 'string':
      writeText(value);
      return true;
    case 'number':
      writeNumber(value);
      return true;
    case 'boolean':
      bytes[at++] = value ? 0xc3 : 0xc2;
      return true;
    case 'object':
      return writeObject(value);
    default:
      return false;
  }
}

function writeObject(value: object | null): boolean {
  if (value === null) {
    bytes[at++] = 0xc0;
    return true;
  }
  if (Array.isArray(value)) return writeList(value);
  if (value instanceof Uint8Array) {
    writeBytes(value);
    return true;
  }
  return Object.getPrototypeOf(value) === Object.prototype && writeMap(value);
}

function writeNumber(value: number): void {
  if (value >>> 0 === value) {
    if (value < 0x80) bytes[at++] = value;
    else writeHead(value, 0xcc);
  } else if (value >> 0 === value) {
    if (value >= -0x20) bytes[at++] = value & 0xff;
    else if (value >= -0x80) {
      bytes[at++] = 0xd0;
      bytes[at++] = value & 0xff;
    } else if (value >= -0x8000) {
      bytes[at++] = 0xd1;
      view.setInt16(at, value);
      at += 2;
    } else {
      bytes[at++] = 0xd2;
      view.setInt32(at, value);
      at += 4;
    }
  } else {
    bytes[at++] = 0xcb;
    view.setFloat64(at, value);
    at += 8;
  }
}

/** A kind that is followed by one byte; by two and four are the kinds after it. */
function writeHead(value: number, kind: number): void {
  if (value < 0x100) {
    bytes[at++] = kind;
    bytes[at++] = value;
  } else writeLongHead(value, kind + 1);
}

function writeLongHead(value: number, kind: number): void {
  if (value < 0x1_0000) {
    bytes[at++] = kind;
    bytes[at++] = value >> 8;
    bytes[at++] = value & 0xff;
  } else {
    bytes[at++] = kind + 1;
    view.setUint32(at, value);
    at += 4;
  }
}

function writeText(text: string): void {
  const { length } = text;
  if (length <= shortChars && writeAscii(text, length)) return;
  const size = Buffer.byteLength(text);
  need(size + 5);
  if (size < 32) bytes[at++] = 0xa0 | size;
  else writeHead(size, 0xd9);
  bytes.write(text, at, size);
  at += size;
}

/** False, and nothing is written: it has other characters. */
function writeAscii(text: string, length: number): boolean {
  need(length + 2);
  const begin = at;
  if (length < 32) bytes[at++] = 0xa0 | length;
  else writeHead(length, 0xd9);
  // Variables of a module are read and written each time.
  const target = bytes;
  const from = at;
  for (let i = 0; i < length; i++) {
    const c = text.charCodeAt(i);
    if (c > 0x7f) {
      at = begin;
      return false;
    }
    target[from + i] = c;
  }
  at = from + length;
  return true;
}

function writeBytes(value: Uint8Array): void {
  const { length } = value;
  need(length + 5);
  writeHead(length, 0xc4);
  bytes.set(value, at);
  at += length;
}

function writeList(values: readonly unknown[]): boolean {
  const { length } = values;
  if (length < 16) bytes[at++] = 0x90 | length;
  else writeLongHead(length, 0xdc);
  for (let i = 0; i < length; i++) if (!write(values[i])) return false;
  return true;
}

function writeMap(value: object): boolean {
  const head = at++;
  let count = 0;
  for (const key in value) {
    const field = (value as Record<string, unknown>)[key];
    // Left out: only an extension could hold it. [F-6]
    if (field === undefined) continue;
    if (++count > fieldsMax) return false;
    need(9);
    writeText(key);
    if (!write(field)) return false;
  }
  bytes[head] = 0x80 | count;
  return true;
}
