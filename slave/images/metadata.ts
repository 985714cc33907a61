/**
 * The author and the licence of an image: of EXIF, IPTC and XMP, as far as these are plain. Every
 * length is checked against the bytes that are there. Pure.
 * Source: CIPA DC-008 (Exif) 4.6; IPTC IIM 4.2, 2:80 to 2:116; XMP part 3; PNG 11.3.3; RFC 9649.
 */
import type { ImageFacts, ImageType } from '../../shared/images.ts';

type Rights = Pick<ImageFacts, 'creator' | 'credit' | 'copyright' | 'license'>;
type Draft = { -readonly [N in keyof Rights]: Rights[N] };

const charsMax = 512;
const xmpBytesMax = 256 << 10;
/** Segments, chunks, entries: of each list. */
const partsMax = 4_096;

/** Fields of the image's metadata; the first value of a field counts. */
export function rightsOf(type: ImageType, image: Buffer): Rights {
  const found: Draft = {};
  try {
    if (type === 'jpg') readJpeg(image, found);
    else if (type === 'png') readPng(image, found);
    else if (type === 'webp') readWebp(image, found);
    else if (type === 'tiff') readTiff(image, found);
    else if (type === 'svg') readXmp(image.toString('utf8', 0, xmpBytesMax), found);
  } catch (error) {
    // It ends in the middle: what was read counts.
    if (!(error instanceof RangeError)) throw error;
  }
  return found;
}

function take(found: Draft, field: keyof Draft, text: string | undefined): void {
  if (found[field] !== undefined || text === undefined) return;
  const clean = text
    .slice(0, charsMax)
    .replace(/[\p{Cc}\p{Cf}\p{Cs}\s]+/gu, ' ')
    .trim();
  if (clean !== '') found[field] = clean;
}

function readJpeg(image: Buffer, found: Draft): void {
  let at = 2;
  for (let i = 0; i < partsMax && image.readUInt8(at) === 0xff; i++) {
    const marker = image.readUInt8(at + 1);
    if (marker === 0xda || marker === 0xd9) return;
    const length = image.readUInt16BE(at + 2);
    const body = image.subarray(at + 4, at + 2 + length);
    if (marker === 0xe1 && startsWith(body, 'Exif\0\0')) readTiff(body.subarray(6), found);
    else if (marker === 0xe1 && startsWith(body, xmpHead)) {
      readXmp(body.toString('utf8', xmpHead.length), found);
    } else if (marker === 0xed && startsWith(body, 'Photoshop 3.0\0')) {
      readPhotoshop(body.subarray(14), found);
    }
    at += 2 + Math.max(2, length);
  }
}

const xmpHead = 'http://ns.adobe.com/xap/1.0/\0';

function readPng(image: Buffer, found: Draft): void {
  let at = 8;
  for (let i = 0; i < partsMax; i++) {
    const length = image.readUInt32BE(at);
    const kind = image.toString('latin1', at + 4, at + 8);
    const body = image.subarray(at + 8, at + 8 + length);
    if (kind === 'IEND') return;
    if (kind === 'eXIf') readTiff(body, found);
    else if (kind === 'iTXt' && startsWith(body, 'XML:com.adobe.xmp\0\0')) {
      readXmp(body.toString('utf8', 0, xmpBytesMax), found);
    } else if (kind === 'tEXt') {
      const [name = '', value] = body.toString('latin1', 0, 4096).split('\0');
      if (name === 'Copyright') take(found, 'copyright', value);
      else if (name === 'Author') take(found, 'creator', value);
    }
    at += 12 + length;
  }
}

function readWebp(image: Buffer, found: Draft): void {
  let at = 12;
  for (let i = 0; i < partsMax; i++) {
    const kind = image.toString('latin1', at, at + 4);
    const length = image.readUInt32LE(at + 4);
    const body = image.subarray(at + 8, at + 8 + length);
    if (kind === 'EXIF') readTiff(startsWith(body, 'Exif\0\0') ? body.subarray(6) : body, found);
    else if (kind === 'XMP ') readXmp(body.toString('utf8', 0, xmpBytesMax), found);
    at += 8 + length + (length % 2);
  }
}

/** The first directory. */
function readTiff(tiff: Buffer, found: Draft): void {
  const order = tiff.toString('latin1', 0, 2);
  if (order !== 'II' && order !== 'MM') return;
  const u16 = (at: number) => (order === 'II' ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at));
  const u32 = (at: number) => (order === 'II' ? tiff.readUInt32LE(at) : tiff.readUInt32BE(at));
  const directory = u32(4);
  const count = Math.min(u16(directory), partsMax);
  // A tag stands there once: else thousands that name the same bytes would take minutes.
  const done = new Set<string>();
  for (let i = 0; i < count; i++) {
    const at = directory + 2 + i * 12;
    const field = tiffTags[u16(at)];
    if (field === undefined || done.has(field)) continue;
    done.add(field);
    const length = u32(at + 4);
    const from = length <= 4 ? at + 8 : u32(at + 8);
    const bytes = tiff.subarray(from, from + Math.min(length, 4096));
    if (field === 'xmp') {
      readXmp(tiff.toString('utf8', from, from + Math.min(length, xmpBytesMax)), found);
    } else if (u16(at + 2) === 2) take(found, field, bytes.toString('utf8').split('\0')[0]);
  }
}

const tiffTags: Readonly<Record<number, keyof Draft | 'xmp'>> = {
  315: 'creator',
  700: 'xmp',
  33432: 'copyright',
};

/** The resource with the IPTC record. */
function readPhotoshop(resources: Buffer, found: Draft): void {
  let at = 0;
  for (let i = 0; i < partsMax && startsWith(resources.subarray(at), '8BIM'); i++) {
    const id = resources.readUInt16BE(at + 4);
    const nameLength = resources.readUInt8(at + 6) + 1;
    const head = at + 6 + nameLength + (nameLength % 2);
    const length = resources.readUInt32BE(head);
    if (id === 0x0404) readIptc(resources.subarray(head + 4, head + 4 + length), found);
    at = head + 4 + length + (length % 2);
  }
}

function readIptc(record: Buffer, found: Draft): void {
  let at = 0;
  for (let i = 0; i < partsMax && at + 5 <= record.length && record[at] === 0x1c; i++) {
    const length = record.readUInt16BE(at + 3);
    const field = record[at + 1] === 2 ? iptcFields[record[at + 2] ?? 0] : undefined;
    if (field) take(found, field, record.toString('utf8', at + 5, at + 5 + length));
    at += 5 + length;
  }
}

const iptcFields: Readonly<Record<number, keyof Draft>> = {
  80: 'creator',
  110: 'credit',
  116: 'copyright',
};

/** XMP as cameras and editors write it: no tree is built. */
function readXmp(xmp: string, found: Draft): void {
  const text = xmp.slice(0, xmpBytesMax);
  const item = (name: string) => {
    const from = text.indexOf(`<${name}`);
    if (from < 0) return undefined;
    const part = text.slice(from, from + 4096);
    const inner = /<rdf:li[^>]{0,256}>([^<]{1,2048})</.exec(part)?.[1];
    return unescaped(inner ?? /^<[^>]{1,256}>([^<]{1,2048})</.exec(part)?.[1]);
  };
  const property = (name: string) => {
    const at = text.indexOf(`${name}="`);
    if (at < 0) return item(name);
    const from = at + name.length + 2;
    return unescaped(text.slice(from, from + 2048).split('"')[0]);
  };
  take(found, 'creator', item('dc:creator'));
  take(found, 'copyright', item('dc:rights'));
  take(found, 'credit', property('photoshop:Credit'));
  const license = /<cc:license[^>]{0,64}rdf:resource="([^"]{1,512})"/.exec(text)?.[1];
  take(found, 'license', unescaped(license) ?? property('xmpRights:WebStatement'));
  take(found, 'license', property('xmpRights:UsageTerms'));
}

function unescaped(text: string | undefined): string | undefined {
  const names: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
  return text?.replace(/&(amp|lt|gt|quot|apos);/g, (_, name: string) => names[name] ?? '');
}

function startsWith(bytes: Buffer, text: string): boolean {
  return bytes.toString('latin1', 0, text.length) === text;
}
