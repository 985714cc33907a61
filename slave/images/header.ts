/**
 * Reads the first bytes of an image: its type, by magic bytes whatever the server said, and its
 * size. A size that is not among the first bytes is not known. Pure; nothing is decoded.
 * Source: PNG 5.2 and 11.2; GIF89a 17 and 18; ITU-T T.81, B.2; RFC 9649 (WebP); ISO 14496-12 and
 * 23008-12 (AVIF, HEIC); TIFF 6.0; ISO 18181-2 (JPEG XL).
 */
import type { ImageType } from '../../shared/images.ts';

export type Look = {
  readonly type: ImageType;
  readonly width?: number | undefined;
  readonly height?: number | undefined;
};

/** Bytes among which a size is looked for. */
export const headBytesMax = 1 << 20;
/** Enough to know the type. */
const typeBytes = 32;
/** Of a text: where its root element has to begin. */
const svgBytes = 4_096;

/** Returns what the bytes say; `more`: they are too few; undefined: this is no image. `isAll`: no
 *  more will come. */
export function lookAt(head: Buffer, isAll: boolean): Look | 'more' | undefined {
  if (head.length < typeBytes && !isAll) return 'more';
  const type = typeOf(head);
  if (type === undefined) {
    if (!mayBeText(head)) return undefined;
    const svg = svgOf(head.toString('utf8', 0, svgBytes));
    return svg ?? (head.length < svgBytes && !isAll ? 'more' : undefined);
  }
  const isLast = isAll || head.length >= headBytesMax;
  const size = sizeOf(type, head);
  if (size === undefined && !isLast) return 'more';
  const { width, height } = size ?? {};
  return { type, width, height };
}

type Size = { readonly width?: number; readonly height?: number };

function typeOf(head: Buffer): ImageType | undefined {
  const text = (from: number, to: number) => head.toString('latin1', from, to);
  if (text(0, 8) === '\x89PNG\r\n\x1a\n') return 'png';
  if (text(0, 3) === '\xff\xd8\xff') return 'jpg';
  if (text(0, 6) === 'GIF87a' || text(0, 6) === 'GIF89a') return 'gif';
  if (text(0, 4) === 'RIFF' && text(8, 12) === 'WEBP') return 'webp';
  if (text(0, 4) === 'II*\0' || text(0, 4) === 'MM\0*') return 'tiff';
  if (text(0, 2) === '\xff\x0a' || text(0, 12) === '\0\0\0\x0cJXL \r\n\x87\n') return 'jxl';
  if (text(0, 4) === '\0\0\x01\0' && head.length >= 22 && head.readUInt16LE(4) > 0) return 'ico';
  if (text(0, 2) === 'BM' && head.length >= 26 && bmpHeads.has(head.readUInt32LE(14))) return 'bmp';
  if (text(4, 8) !== 'ftyp') return undefined;
  const brands = text(8, Math.min(head.readUInt32BE(0), 128));
  if (/avif|avis/.test(brands)) return 'avif';
  return /hei[cxs]|hev[cx]|mif1|msf1/.test(brands) ? 'heic' : undefined;
}

/** Lengths of the second header of BMP. */
const bmpHeads = new Set([12, 40, 52, 56, 64, 108, 124]);

/** Undefined: it is not among these bytes. */
function sizeOf(type: ImageType, head: Buffer): Size | undefined {
  try {
    return sizes[type]?.(head) ?? undefined;
  } catch (error) {
    // It lies behind the end.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

const sizes: Readonly<Record<ImageType, (head: Buffer) => Size | undefined>> = {
  png: (head) => ({ width: head.readUInt32BE(16), height: head.readUInt32BE(20) }),
  gif: (head) => ({ width: head.readUInt16LE(6), height: head.readUInt16LE(8) }),
  jpg: jpegSize,
  webp: webpSize,
  tiff: tiffSize,
  ico: icoSize,
  bmp: (head) =>
    head.readUInt32LE(14) === 12
      ? { width: head.readUInt16LE(18), height: head.readUInt16LE(20) }
      : { width: Math.abs(head.readInt32LE(18)), height: Math.abs(head.readInt32LE(22)) },
  avif: boxSize,
  heic: boxSize,
  // Its size is in a stream of bits.
  jxl: () => ({}),
  svg: () => ({}),
};

/** The first frame header. */
function jpegSize(head: Buffer): Size | undefined {
  for (let at = 2; ; ) {
    // Fill bytes.
    while (head.readUInt8(at) === 0xff && head.readUInt8(at + 1) === 0xff) at++;
    if (head.readUInt8(at) !== 0xff) return {};
    const marker = head.readUInt8(at + 1);
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      return { height: head.readUInt16BE(at + 5), width: head.readUInt16BE(at + 7) };
    }
    // The image begins, or ends, without a frame.
    if (marker === 0xda || marker === 0xd9) return {};
    const isBare = marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8);
    at += isBare ? 2 : 2 + Math.max(2, head.readUInt16BE(at + 2));
  }
}

function webpSize(head: Buffer): Size | undefined {
  switch (head.toString('latin1', 12, 16)) {
    case 'VP8 ':
      return { width: head.readUInt16LE(26) & 0x3fff, height: head.readUInt16LE(28) & 0x3fff };
    case 'VP8L': {
      const bits = head.readUInt32LE(21);
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
    }
    case 'VP8X':
      return { width: head.readUIntLE(24, 3) + 1, height: head.readUIntLE(27, 3) + 1 };
    default:
      return {};
  }
}

function tiffSize(head: Buffer): Size | undefined {
  const isLittle = head.toString('latin1', 0, 2) === 'II';
  const u16 = (at: number) => (isLittle ? head.readUInt16LE(at) : head.readUInt16BE(at));
  const u32 = (at: number) => (isLittle ? head.readUInt32LE(at) : head.readUInt32BE(at));
  const directory = u32(4);
  const entries = u16(directory);
  const size: { width?: number; height?: number } = {};
  for (let i = 0; i < entries; i++) {
    const at = directory + 2 + i * 12;
    const tag = u16(at);
    if (tag !== 256 && tag !== 257) continue;
    const value = u16(at + 2) === 3 ? u16(at + 8) : u32(at + 8);
    size[tag === 256 ? 'width' : 'height'] = value;
  }
  return size;
}

/** The largest of its pictures. */
function icoSize(head: Buffer): Size {
  let best = { width: 0, height: 0 };
  const count = Math.min(head.readUInt16LE(4), 64);
  for (let i = 0; i < count && 6 + i * 16 + 2 <= head.length; i++) {
    const width = head.readUInt8(6 + i * 16) || 256;
    const height = head.readUInt8(7 + i * 16) || 256;
    if (width * height > best.width * best.height) best = { width, height };
  }
  return best;
}

/** The largest of its pictures: each has its size in a box `ispe`. */
function boxSize(head: Buffer): Size | undefined {
  const meta = head.indexOf('meta', 0, 'latin1');
  if (meta < 4) return undefined;
  const end = meta - 4 + head.readUInt32BE(meta - 4);
  if (end > head.length) return undefined;
  let best: Size | undefined;
  for (let at = head.indexOf('ispe', meta, 'latin1'); at >= 0 && at < end; ) {
    const [width, height] = [head.readUInt32BE(at + 8), head.readUInt32BE(at + 12)];
    if (width * height > (best?.width ?? 0) * (best?.height ?? 0)) best = { width, height };
    at = head.indexOf('ispe', at + 4, 'latin1');
  }
  return best ?? {};
}

/** Text may begin like this: a byte order mark, white space, a tag. */
function mayBeText(head: Buffer): boolean {
  return /^(?:\xef\xbb\xbf)?\s*</.test(head.toString('latin1', 0, 64)) || head.length === 0;
}

function svgOf(text: string): Look | undefined {
  const before = /^\ufeff?(?:\s+|<\?[^>]*>|<!--[\s\S]*?-->|<!DOCTYPE[^>[]*(?:\[[^\]]*\])?[^>]*>)*/i;
  const rest = text.slice(before.exec(text)?.[0].length ?? 0);
  const [, tag] = /^<(?:svg:)?svg((?:[^>"']|"[^"]*"|'[^']*')*)/i.exec(rest) ?? [];
  if (tag === undefined || !/^[\s/>]|^$/.test(tag)) return undefined;
  const pixels = (name: string) => {
    const [, value] =
      new RegExp(`\\s${name}\\s*=\\s*["']\\s*(\\d{1,9}(?:\\.\\d+)?)(?:px)?\\s*["']`).exec(tag) ??
      [];
    return value === undefined ? undefined : Math.round(Number(value));
  };
  const [, w, h] = viewBox.exec(tag) ?? [];
  const box = (value: string | undefined) =>
    value === undefined ? undefined : Math.round(Number(value));
  return { type: 'svg', width: pixels('width') ?? box(w), height: pixels('height') ?? box(h) };
}

const [left, size] = ['[-\\d.]+[\\s,]+', '(\\d{1,9}(?:\\.\\d+)?)'];
const viewBox = new RegExp(`\\sviewBox\\s*=\\s*["']\\s*${left}${left}${size}[\\s,]+${size}`);
