/**
 * Which elements and attributes the scanner stops at, and how the standard delimits names. Tables
 * and tests on character codes, so that a tag of no interest costs a look at one letter and a
 * length.
 */

export type Kind = 'other' | 'link' | 'image' | 'base' | 'raw' | 'script' | 'plaintext' | 'foreign';

export const kinds = new Map<string, Kind>([
  ['a', 'link'],
  ['area', 'link'],
  ['img', 'image'],
  // The tree builder renames this start tag.
  ['image', 'image'],
  ['base', 'base'],
  ['script', 'script'],
  ['plaintext', 'plaintext'],
  ['svg', 'foreign'],
  ['math', 'foreign'],
  ...['title', 'textarea', 'style', 'xmp', 'iframe', 'noembed', 'noframes'].map(
    (name): [string, Kind] => [name, 'raw'],
  ),
]);
/** By first letter, the lengths that a name in `kinds` can have, as bits: most tags end here. */
export const lengthsByLetter = new Uint16Array(128);
for (const name of kinds.keys()) {
  const bits = (lengthsByLetter[name.charCodeAt(0)] ?? 0) | (1 << name.length);
  lengthsByLetter[name.charCodeAt(0)] = bits;
  lengthsByLetter[name.charCodeAt(0) - 0x20] = bits;
}

export const href = 1;
export const src = 2;
export const srcset = 4;
export const alt = 8;
/** Attributes wanted of each kind, as bits. */
export const wantedOf: Record<Kind, number> = {
  other: 0,
  link: href,
  image: src | srcset | alt,
  base: href,
  raw: 0,
  script: 0,
  plaintext: 0,
  foreign: 0,
};

export const lt = 0x3c;
export const gt = 0x3e;
export const slash = 0x2f;
export const equals = 0x3d;
export const dash = 0x2d;

export function isLetter(c: number): boolean {
  const lower = c | 0x20;
  return lower >= 0x61 && lower <= 0x7a;
}

export function isSpace(c: number): boolean {
  return c === 0x20 || c === 0x0a || c === 0x09 || c === 0x0d || c === 0x0c;
}

export function endsTagName(c: number): boolean {
  return c === gt || c === slash || isSpace(c);
}

export function endsAttributeName(c: number): boolean {
  return c === equals || c === gt || c === slash || isSpace(c);
}

export function endsUnquoted(c: number): boolean {
  return c === gt || isSpace(c);
}

export function nameEnd(buffer: string, start: number): number {
  let at = start;
  while (at < buffer.length && !endsTagName(buffer.charCodeAt(at))) at++;
  return at;
}

export function isName(buffer: string, start: number, name: string): boolean {
  for (let i = 0; i < name.length; i++)
    if ((buffer.charCodeAt(start + i) | 0x20) !== name.charCodeAt(i)) return false;
  return true;
}

export function isTag(buffer: string, start: number, name: string): boolean {
  return isName(buffer, start, name) && endsTagName(buffer.charCodeAt(start + name.length));
}

/** The bit of a wanted attribute, else 0. */
export function attributeName(buffer: string, start: number, end: number): number {
  switch (end - start) {
    case 3:
      return isName(buffer, start, 'src') ? src : isName(buffer, start, 'alt') ? alt : 0;
    case 4:
      return isName(buffer, start, 'href') ? href : 0;
    case 6:
      return isName(buffer, start, 'srcset') ? srcset : 0;
    default:
      return 0;
  }
}
