/**
 * Finds the charset of an XML text at its beginning: by its declaration, or by the zeros of UTF-16.
 * Pure. `head`: the first bytes.
 * Source: HTML Standard, "prescan a byte stream", "get an XML encoding"; XML 1.0, appendix F.
 */
import { declared, nameOf } from './encodings.ts';

/** By its declaration. */
export function declaredEncoding(head: Uint8Array): string | undefined {
  const name = nameOf(declaredLabel(head) ?? '');
  return name === undefined ? undefined : declared(name);
}

/** The label in `<?xml … encoding="…"?>`, which may not name an encoding. */
function declaredLabel(head: Uint8Array): string | undefined {
  const text = Buffer.from(head).toString('latin1');
  const end = text.startsWith('<?xml') ? text.indexOf('>') : -1;
  if (end < 0) return undefined;
  const named = /encoding[\0-\x20]*=[\0-\x20]*(?:"([^"]*)"|'([^']*)')/.exec(text.slice(0, end));
  const label = named?.[1] ?? named?.[2] ?? '';
  // Elsewhere a label may be between spaces.
  return /[\0-\x20]/.test(label) ? undefined : label;
}

/** UTF-16 without a byte order mark, seen by the first characters of a declaration. */
export function seenUtf16(head: Uint8Array): 'utf-16le' | 'utf-16be' | undefined {
  const text = Buffer.from(head.subarray(0, 6)).toString('latin1');
  if (text === '<\0?\0x\0') return 'utf-16le';
  return text === '\0<\0?\0x' ? 'utf-16be' : undefined;
}
