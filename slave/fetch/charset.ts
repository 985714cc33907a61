/**
 * Bytes of a page to text, in the order of the standard: byte order mark, the charset of
 * Content-Type, `<meta>` in the first 1024 bytes, windows-1252. Streaming: until the charset is
 * known at most 1024 bytes are kept back.
 *
 * In nearly all encodings the characters of HTML's syntax are single bytes that are part of no
 * other character (trail bytes begin at 0x40, digits in gb18030), and decoders give an ASCII byte
 * back when it breaks a sequence. So a page is scanned as it came, one character a byte, and only
 * the few values that are kept are decoded (`value`): that saves decoding the rest and halves the
 * strings. UTF-16 and ISO-2022-JP are decoded whole. Decoders other than UTF-8's are those of
 * @exodus/bytes, because Node 20 reads windows-1252 wrongly.
 * Source: HTML Standard 13.2.3.2; Encoding Standard.
 */
import { TextDecoder as LegacyDecoder, labelToName } from '@exodus/bytes/encoding.js';
import sniff from 'html-encoding-sniffer';

/** Bytes that the `<meta>` prescan looks at. */
export const prescanBytes = 1024;

export class PageDecoder {
  readonly #label: string | undefined;
  #encoding: string | undefined;
  #head: Uint8Array[] = [];
  #headBytes = 0;
  #text: TextStream | undefined;

  /** `label`: the charset parameter of Content-Type, if there was one. */
  constructor(label: string | undefined) {
    this.#label = label !== undefined && labelToName(label) !== null ? label : undefined;
  }

  /** Lower-case name of the Encoding Standard; undefined while it is not known. */
  get encoding(): string | undefined {
    return this.#encoding;
  }

  /** Text to scan; what is taken from it must go through `value`. */
  write(bytes: Uint8Array): string {
    if (this.#text !== undefined) return this.#text.write(bytes);
    this.#head.push(bytes);
    this.#headBytes += bytes.length;
    // With a charset from the header only a byte order mark could still overrule it.
    if (this.#headBytes < (this.#label === undefined ? prescanBytes : 3)) return '';
    return this.#start();
  }

  /** A piece of what `write` and `end` gave, delimited by ASCII characters, as real text. */
  value(text: string): string {
    return this.#text === undefined || !nonAscii.test(text) ? text : this.#text.value(text);
  }

  /** What was kept back, and a replacement character for a cut sequence. */
  end(): string {
    const text = this.#text === undefined ? this.#start() : '';
    return text + (this.#text?.end() ?? '');
  }

  #start(): string {
    const [first] = this.#head;
    const head = this.#head.length === 1 && first ? first : Buffer.concat(this.#head);
    this.#head = [];
    const encoding = sniffEncoding(head, this.#label).toLowerCase();
    this.#encoding = encoding;
    this.#text = textStream(encoding);
    return this.#text.write(head.subarray(bomBytes(head, encoding)));
  }
}

/** Name of the encoding of a page that begins with `head`. */
function sniffEncoding(head: Uint8Array, label: string | undefined): string {
  const options = label === undefined ? {} : { transportLayerEncodingLabel: label };
  try {
    return sniff(head, options);
  } catch {
    // html-encoding-sniffer 6.0.0 throws where a content attribute ends right after "charset" or
    // "charset=". The other meta elements are then tried one by one.
    return sniffEachMeta(head);
  }
}

function sniffEachMeta(head: Uint8Array): string {
  const text = Buffer.from(head.subarray(0, prescanBytes)).toString('latin1');
  for (const meta of text.match(/<meta[\s/][^>]*>?/gi) ?? []) {
    try {
      const encoding = sniff(Buffer.from(meta, 'latin1'), { defaultEncoding: '' });
      if (encoding !== '') return encoding;
    } catch {
      // The one that it cannot read names no charset.
    }
  }
  return 'windows-1252';
}

type TextStream = {
  write(bytes: Uint8Array): string;
  end(): string;
  value(text: string): string;
};

const nonAscii = /[^\0-\x7f]/;
/** Encodings in which a byte of "<" or a quote can be something else. */
const wholeOnly = new Set(['utf-16le', 'utf-16be', 'iso-2022-jp']);

function textStream(encoding: string): TextStream {
  if (encoding === 'replacement') return replacementStream();
  if (!wholeOnly.has(encoding)) return byteStream(encoding);
  const decoder = new LegacyDecoder(encoding, { ignoreBOM: true });
  return {
    write: (bytes) => decoder.decode(bytes, { stream: true }),
    end: () => decoder.decode(),
    value: (text) => text,
  };
}

function byteStream(encoding: string): TextStream {
  const Decoder = encoding === 'utf-8' ? TextDecoder : LegacyDecoder;
  const decoder = new Decoder(encoding, { ignoreBOM: true });
  return {
    write: (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1'),
    end: () => '',
    // As in the page, an ASCII character follows: gb18030 reads a cut sequence in its light.
    value: (text) => decoder.decode(Buffer.from(`${text}\n`, 'latin1')).slice(0, -1),
  };
}

/** Encodings that are only ever used to attack: the whole page is one U+FFFD. */
function replacementStream(): TextStream {
  return { write: () => '', end: () => '\ufffd', value: (text) => text };
}

/** Length of the byte order mark of `encoding` at the start of `head`. */
function bomBytes(head: Uint8Array, encoding: string): number {
  const [a, b, c] = head;
  if (encoding === 'utf-8') return a === 0xef && b === 0xbb && c === 0xbf ? 3 : 0;
  if (encoding === 'utf-16le') return a === 0xff && b === 0xfe ? 2 : 0;
  if (encoding === 'utf-16be') return a === 0xfe && b === 0xff ? 2 : 0;
  return 0;
}
