/**
 * Encodings by their labels and marks, and their decoders. Pure. Those of Node depend on its
 * version: Node 20 reads windows-1252 wrongly, and has no iso-8859-16. So only that of UTF-8 is
 * Node's own. Source: Encoding Standard.
 */
import { TextDecoder } from 'node:util';
import { TextDecoder as LegacyDecoder, labelToName } from '@exodus/bytes/encoding.js';

/** Returns the lower-case name of a label's encoding. */
export function nameOf(label: string): string | undefined {
  return labelToName(label)?.toLowerCase();
}

/** By a byte order mark. */
export function encodingOfMark([a, b, c]: Uint8Array): string | undefined {
  if (a === 0xef && b === 0xbb && c === 0xbf) return 'utf-8';
  if (a === 0xff && b === 0xfe) return 'utf-16le';
  return a === 0xfe && b === 0xff ? 'utf-16be' : undefined;
}

/** Returns the encoding for a name in the text: since the name could be read, it is not UTF-16. */
export function declared(name: string): string {
  if (name.startsWith('utf-16')) return 'utf-8';
  return name === 'x-user-defined' ? 'windows-1252' : name;
}

/** Of any but `replacement`. */
export function decoderOf(
  encoding: string,
  options?: { readonly ignoreBOM: boolean },
): TextDecoder {
  const Decoder = encoding === 'utf-8' ? TextDecoder : LegacyDecoder;
  return new Decoder(encoding, options);
}
