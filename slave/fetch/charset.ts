/**
 * Bytes of a page to text, in the order of the standard: byte order mark, the charset of
 * Content-Type, `<meta>` or an XML declaration in the first 1024 bytes, windows-1252; in XHTML the
 * declaration, UTF-8. Streaming: until the charset is known at most 1024 bytes are kept back.
 *
 * In nearly all encodings the characters of HTML's syntax are single bytes that are part of no
 * other character (trail bytes begin at 0x40, digits in gb18030), and decoders return an ASCII byte
 * when it breaks a sequence. So a page is scanned undecoded, one character per byte, and only the
 * few values that are kept are decoded (`value`). That saves decoding the rest and halves the
 * strings. UTF-16 and ISO-2022-JP are decoded whole.
 *
 * Without a byte order mark the first bytes allow only a guess: a later meta element overrides it
 * (`declare`). If nothing was decoded by the guess, the charset simply changes. Otherwise the page
 * is read again from the bytes that were kept: at most the first MiB of a page whose charset is
 * still a guess. A later meta element that would need this has no effect.
 * Source: HTML Standard 13.2.3.2 and 13.2.3.4; Encoding Standard.
 */
import sniffMeta from 'html-encoding-sniffer';
import { declared, decoderOf, encodingOfMark, nameOf } from '../extract/encodings.ts';
import { declaredEncoding, seenUtf16 } from '../extract/xml-declaration.ts';
import { heldOf } from './held-chunk.ts';

/** Bytes that the `<meta>` prescan looks at. */
const prescanBytes = 1024;
const heldBytesMax = 1 << 20;

type DecoderOptions = {
  /** XHTML: meta elements are ignored. */
  readonly xml?: boolean;
};

export class PageDecoder {
  readonly #label: string | undefined;
  readonly #xml: boolean;
  #encoding: string | undefined;
  /** `guess`: a meta element may still override it. */
  #state: 'unknown' | 'guess' | 'certain' = 'unknown';
  /** The bytes from the first on; undefined: no longer needed, or too many. */
  #held: Uint8Array[] | undefined = [];
  #heldBytes = 0;
  #text: TextStream | undefined;
  #hasEnded = false;
  /** Something was decoded that another charset would read differently. */
  #hasDecoded = false;
  /** The charset with which to read the page again from its first byte. */
  #anew: string | undefined;

  /** `label`: the charset parameter of Content-Type, if there was one. */
  constructor(label: string | undefined, { xml = false }: DecoderOptions = {}) {
    this.#label = label !== undefined && nameOf(label) !== undefined ? label : undefined;
    this.#xml = xml;
  }

  /** Lower-case name of the Encoding Standard; undefined while it is not known. */
  get encoding(): string | undefined {
    return this.#encoding;
  }

  /** The text of `write` is one character a byte. */
  get isByByte(): boolean {
    return isByByte(this.#encoding ?? '');
  }

  /** Returns text to scan; values taken from it must go through `value`. */
  write(bytes: Uint8Array): string {
    this.#hold(bytes);
    if (this.#text !== undefined) return this.#text.write(bytes);
    // Only a byte order mark could still override a charset from the header.
    if (this.#heldBytes < (this.#label === undefined ? prescanBytes : 3)) return '';
    return this.#start();
  }

  /** Decodes a piece of the text from `write` and `end`, delimited by ASCII characters. */
  value(text: string): string {
    if (this.#text === undefined || !nonAscii.test(text)) return text;
    this.#hasDecoded = true;
    return this.#text.value(text);
  }

  /** Returns the remaining text, with a replacement character for a cut sequence. */
  end(): string {
    this.#hasEnded = true;
    const text = this.#text === undefined ? this.#start() : '';
    return text + (this.#text?.end() ?? '');
  }

  /** A meta element names a charset. Returns the charset from here on; undefined: an unknown
   *  label. */
  declare(label: string): string | undefined {
    const name = nameOf(label);
    if (name === undefined) return undefined;
    if (this.#state === 'guess') this.#change(declared(name));
    return this.#encoding;
  }

  /** Called after the text of `write` is scanned. Returns the page's text from its first byte on,
   *  to replace all earlier text; undefined: no need. */
  anew(): string | undefined {
    const encoding = this.#anew;
    const held = this.#held;
    if (encoding === undefined || held === undefined) return undefined;
    this.#anew = undefined;
    this.#held = undefined;
    this.#use(encoding);
    const text = this.#text?.write(joined(held)) ?? '';
    return this.#hasEnded ? text + (this.#text?.end() ?? '') : text;
  }

  #start(): string {
    const head = joined(this.#held ?? []);
    const { encoding, isCertain } = sniff(head.subarray(0, prescanBytes), this.#label, this.#xml);
    this.#use(encoding);
    this.#state = isCertain ? 'certain' : 'guess';
    if (isCertain || this.#heldBytes > heldBytesMax) this.#held = undefined;
    return this.#text?.write(head.subarray(bomBytes(head, encoding))) ?? '';
  }

  #use(encoding: string): void {
    this.#encoding = encoding;
    this.#text = textStream(encoding);
  }

  #change(encoding: string): void {
    const before = this.#encoding ?? '';
    this.#state = 'certain';
    const isSame = encoding === before || before.startsWith('utf-16');
    const isFree = !this.#hasDecoded && isByByte(encoding) && isByByte(before);
    if (!isSame && !isFree && this.#held !== undefined) {
      this.#anew = encoding;
      return;
    }
    if (!isSame && isFree) this.#use(encoding);
    this.#held = undefined;
  }

  #hold(bytes: Uint8Array): void {
    if (this.#held === undefined) return;
    this.#held.push(heldOf(bytes));
    this.#heldBytes += bytes.length;
    if (this.#heldBytes > heldBytesMax && this.#state !== 'unknown' && this.#anew === undefined)
      this.#held = undefined;
  }
}

type Sniffed = {
  /** Lower-case name of the Encoding Standard. */
  readonly encoding: string;
  /** From a byte order mark or the header, or XML, whose declaration is final. */
  readonly isCertain: boolean;
};

/** `label`: a valid one, of Content-Type. */
function sniff(head: Uint8Array, label: string | undefined, isXml: boolean): Sniffed {
  const sure = encodingOfMark(head) ?? (label === undefined ? undefined : nameOf(label));
  if (sure !== undefined) return { encoding: sure, isCertain: true };
  const seen = seenUtf16(head);
  if (seen !== undefined) return { encoding: seen, isCertain: isXml };
  const byXml = declaredEncoding(head);
  if (isXml) return { encoding: byXml ?? 'utf-8', isCertain: true };
  // A meta element counts more than a declaration.
  const meta = prescan(head);
  return { encoding: meta !== '' ? meta : (byXml ?? 'windows-1252'), isCertain: false };
}

/** Of a meta element; '' if there is none. */
function prescan(head: Uint8Array): string {
  try {
    return sniffMeta(head, { defaultEncoding: '' }).toLowerCase();
  } catch {
    // html-encoding-sniffer 6.0.0 throws where a content attribute ends right after "charset" or
    // "charset=". The other meta elements are then tried one by one.
    return prescanEachMeta(head);
  }
}

/** Comments, and what is read as one. */
const notElements = /<!(?=--)[\s\S]*?(?:-->|$)|<[!?/][^>]*>?/g;

function prescanEachMeta(head: Uint8Array): string {
  const text = Buffer.from(head).toString('latin1').replace(notElements, '');
  for (const meta of text.match(/<meta[\s/][^>]*>?/gi) ?? []) {
    try {
      const encoding = sniffMeta(Buffer.from(meta, 'latin1'), { defaultEncoding: '' });
      if (encoding !== '') return encoding.toLowerCase();
    } catch {
      // The element that it cannot read names no charset.
    }
  }
  return '';
}

/** Makes no copy of a single chunk, which is nearly always the case. */
function joined(chunks: readonly Uint8Array[]): Uint8Array {
  const [first] = chunks;
  return chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks);
}

type TextStream = {
  write(bytes: Uint8Array): string;
  end(): string;
  value(text: string): string;
};

const nonAscii = /[^\0-\x7f]/;
/** Encodings in which a byte of "<" or a quote can be something else. */
const wholeOnly = new Set(['utf-16le', 'utf-16be', 'iso-2022-jp']);

/** Are its values decoded one by one? */
function isByByte(encoding: string): boolean {
  return encoding !== 'replacement' && !wholeOnly.has(encoding);
}

function textStream(encoding: string): TextStream {
  if (encoding === 'replacement') return replacementStream();
  if (!wholeOnly.has(encoding)) return byteStream(encoding);
  const decoder = decoderOf(encoding, { ignoreBOM: true });
  return {
    write: (bytes) => decoder.decode(bytes, { stream: true }),
    end: () => decoder.decode(),
    value: (text) => text,
  };
}

function byteStream(encoding: string): TextStream {
  const decoder = decoderOf(encoding, { ignoreBOM: true });
  return {
    write: (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1'),
    end: () => '',
    // As in the page, an ASCII character follows: gb18030 decodes a cut sequence depending on it.
    value: (text) => decoder.decode(Buffer.from(`${text}\n`, 'latin1')).slice(0, -1),
  };
}

/** Encodings that are used only for attacks: the whole page is one U+FFFD. */
function replacementStream(): TextStream {
  return { write: () => '', end: () => '\ufffd', value: (text) => text };
}

/** Length of the byte order mark of `encoding` at the start of `head`. */
function bomBytes(head: Uint8Array, encoding: string): number {
  if (encodingOfMark(head) !== encoding) return 0;
  return encoding === 'utf-8' ? 3 : 2;
}
