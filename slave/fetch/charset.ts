/**
 * Bytes of a page to text, in the order of the standard: byte order mark, the charset of
 * Content-Type, `<meta>` in the first 1024 bytes, windows-1252. Streaming: until the charset is
 * known at most 1024 bytes are kept back. UTF-8 goes to Node's decoder (a third faster (m)), all
 * else to @exodus/bytes, because Node 20 reads windows-1252 wrongly.
 * Source: HTML Standard 13.2.3.2; Encoding Standard.
 */
import { isAscii } from 'node:buffer';
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

  write(bytes: Uint8Array): string {
    if (this.#text !== undefined) return this.#text.write(bytes);
    this.#head.push(bytes);
    this.#headBytes += bytes.length;
    // With a charset from the header only a byte order mark could still overrule it.
    if (this.#headBytes < (this.#label === undefined ? prescanBytes : 3)) return '';
    return this.#start();
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

type TextStream = { write(bytes: Uint8Array): string; end(): string };

function textStream(encoding: string): TextStream {
  if (encoding === 'utf-8') return utf8Stream();
  if (encoding === 'replacement') return replacementStream();
  const decoder = new LegacyDecoder(encoding, { ignoreBOM: true });
  return {
    write: (bytes) => decoder.decode(bytes, { stream: true }),
    end: () => decoder.decode(),
  };
}

/** Pure ASCII chunks become one-byte strings, which halves the scanner's memory traffic. */
function utf8Stream(): TextStream {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  let pending = false;
  return {
    write(bytes) {
      if (!pending && isAscii(bytes))
        return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
      // A sequence can be cut only if the last byte belongs to one.
      if (bytes.length > 0) pending = (bytes[bytes.length - 1] ?? 0) > 0x7f;
      return decoder.decode(bytes, { stream: true });
    },
    end: () => decoder.decode(),
  };
}

/** Encodings that are only ever used to attack: the whole page is one U+FFFD. */
function replacementStream(): TextStream {
  return { write: () => '', end: () => '\ufffd' };
}

/** Length of the byte order mark of `encoding` at the start of `head`. */
function bomBytes(head: Uint8Array, encoding: string): number {
  const [a, b, c] = head;
  if (encoding === 'utf-8') return a === 0xef && b === 0xbb && c === 0xbf ? 3 : 0;
  if (encoding === 'utf-16le') return a === 0xff && b === 0xfe ? 2 : 0;
  if (encoding === 'utf-16be') return a === 0xfe && b === 0xff ? 2 : 0;
  return 0;
}
