/**
 * The elements and attributes that the scanner reads, and the delimiters of names in the standard.
 * Tables and tests on character codes, so that an irrelevant tag costs one check of a letter and a
 * length.
 */

/** `about`: link and meta, which describe the page and may name images; `extra`: elements that only
 *  describe images: source, video, input, object, embed; `template`: what it holds is not in the
 *  document. */
export type Kind =
  | 'other'
  | 'link'
  | 'image'
  | 'base'
  | 'template'
  | 'raw'
  | 'frame'
  | 'script'
  | 'plaintext'
  | 'foreign'
  | 'about'
  | 'extra';

export const href = 1 << 0;
export const src = 1 << 1;
export const srcset = 1 << 2;
export const alt = 1 << 3;
export const width = 1 << 4;
export const height = 1 << 5;
export const style = 1 << 6;
export const rel = 1 << 7;
export const as = 1 << 8;
export const type = 1 << 9;
export const content = 1 << 10;
export const property = 1 << 11;
export const metaName = 1 << 12;
export const poster = 1 << 13;
export const imagesrcset = 1 << 14;
export const sizes = 1 << 15;
export const xlinkHref = 1 << 16;
/** Any of the lazy attributes; their names are an option. */
export const lazy = 1 << 17;
export const httpEquiv = 1 << 18;
export const charset = 1 << 19;
export const encoding = 1 << 20;
export const data = 1 << 21;
/** Any of those with which a font element is HTML's, also in foreign content. */
export const fontLook = 1 << 22;
export const itemprop = 1 << 23;

/** The elements and attributes of a scanner: for `img`, links, img elements and descriptions of the
 *  page; for `all`, also everything that names images. */
export type Tables = {
  readonly kinds: ReadonlyMap<string, Kind>;
  /** By first letter, the lengths that a name in `kinds` can have, as bits: most tags end here. */
  readonly lengthsByLetter: Uint16Array;
  /** Attributes wanted of each kind, as bits. */
  readonly wantedOf: Readonly<Record<Kind, number>>;
  /** Attributes of elements that are wanted by their name. */
  readonly wantedByName: ReadonlyMap<string, number>;
};

const plainKinds: readonly (readonly [string, Kind])[] = [
  ['a', 'link'],
  ['area', 'link'],
  ['img', 'image'],
  // The tree builder renames this start tag.
  ['image', 'image'],
  ['base', 'base'],
  ['template', 'template'],
  ['link', 'about'],
  ['meta', 'about'],
  ['script', 'script'],
  ['plaintext', 'plaintext'],
  ['frame', 'frame'],
  ['svg', 'foreign'],
  ['math', 'foreign'],
  ...['title', 'textarea', 'style', 'xmp', 'iframe', 'noembed', 'noframes'].map(
    (name): [string, Kind] => [name, 'raw'],
  ),
];
/** Attributes of link and meta that describe the page. */
const abouts: readonly (readonly [string, number])[] = [
  ['link', href | rel],
  ['meta', metaName | httpEquiv | content | charset],
];
const extras: readonly (readonly [string, number])[] = [
  ['source', srcset | lazy],
  ['video', poster | lazy],
  ['input', type | src | alt | width | height | lazy],
  ['object', type | data | width | height],
  ['embed', type | src | width | height],
];
/** Attributes of link and meta that describe images. */
const aboutImages: readonly (readonly [string, number])[] = [
  ['link', href | rel | as | imagesrcset | sizes | itemprop],
  ['meta', metaName | httpEquiv | content | property | charset | itemprop],
];
/** Attributes of svg elements that show another file. */
const shows = href | xlinkHref | width | height;

const shown = ['image', 'use', 'feimage'];
/** In MathML it may hold HTML: its encoding decides. */
const annotation: readonly [string, number] = ['annotation-xml', encoding];
const font: readonly [string, number] = ['font', fontLook];
const foreignNames: ReadonlySet<string> = new Set([...shown, annotation[0], font[0]]);

const plainTables = tables(plainKinds, 0, [...abouts, annotation, font]);
const fullTables = tables(
  [...plainKinds, ...extras.map(([name]): [string, Kind] => [name, 'extra'])],
  style | lazy,
  [
    ...[...extras, ...aboutImages, annotation, font],
    ...shown.map((name): [string, number] => [name, shows]),
  ],
);

/** Without links and images: what describes the page alone. */
const bareTables = tables(
  plainKinds.filter(([, kind]) => kind !== 'link' && kind !== 'image' && kind !== 'frame'),
  0,
  [...abouts, annotation, font],
);

/** `all`: every place of an image; `rel`: also the rel of links; `iframes`: also their src. */
type Wants = { readonly all: boolean; readonly rel: boolean; readonly iframes: boolean };

const variants: ReadonlyMap<number, Tables> = new Map(
  [false, true].flatMap((all) =>
    [false, true].flatMap((rel) =>
      [false, true].map((iframes): [number, Tables] => {
        const wants = { all, rel, iframes };
        return [bitsOf(wants), variantOf(wants)];
      }),
    ),
  ),
);

/** `bare`: neither links nor images are wanted. */
export function tablesFor({ bare, ...wants }: Wants & { readonly bare: boolean }): Tables {
  if (bare) return bareTables;
  return variants.get(bitsOf(wants)) ?? plainTables;
}

/** Returns the bits of the attributes wanted of an element. `name`: as the tables have it. */
export function wantedOf(
  { wantedOf: byKind, wantedByName }: Tables,
  { kind, name }: { readonly kind: Kind; readonly name: string },
): number {
  const wanted = byKind[kind];
  // A `link` of svg is not HTML's.
  const isNamed =
    kind === 'about' || kind === 'extra' || (kind === 'foreign' && foreignNames.has(name));
  return isNamed ? (wantedByName.get(name) ?? wanted) : wanted;
}

function bitsOf({ all, rel, iframes }: Wants): number {
  return (all ? 1 : 0) | (rel ? 2 : 0) | (iframes ? 4 : 0);
}

function variantOf({ all, rel: withRel, iframes }: Wants): Tables {
  const base = all ? fullTables : plainTables;
  const { wantedOf } = base;
  const link = withRel ? wantedOf.link | rel : wantedOf.link;
  const raw = iframes ? wantedOf.raw | src : wantedOf.raw;
  return { ...base, wantedOf: { ...wantedOf, link, raw } };
}

function tables(
  kinds: readonly (readonly [string, Kind])[],
  /** Wanted of every element. */
  always: number,
  byName: readonly (readonly [string, number])[],
): Tables {
  const lengthsByLetter = new Uint16Array(128);
  for (const [name] of kinds) {
    const bits = (lengthsByLetter[name.charCodeAt(0)] ?? 0) | (1 << name.length);
    lengthsByLetter[name.charCodeAt(0)] = bits;
    lengthsByLetter[name.charCodeAt(0) - 0x20] = bits;
  }
  return {
    kinds: new Map(kinds),
    lengthsByLetter,
    wantedOf: {
      other: always,
      link: href | always,
      image: src | srcset | alt | width | height | always,
      base: href,
      template: always,
      raw: always === 0 ? 0 : type,
      frame: src | always,
      script: always === 0 ? 0 : type,
      plaintext: 0,
      foreign: always,
      about: always,
      extra: always,
    },
    wantedByName: new Map(byName.map(([name, bits]) => [name, bits | always])),
  };
}

export const lt = 0x3c;
export const gt = 0x3e;
export const slash = 0x2f;
export const equals = 0x3d;
export const dash = 0x2d;

export function isLetter(c: number): boolean {
  const lower = c | 0x20;
  return lower >= 0x61 && lower <= 0x7a;
}

/** Letters as bits, without case. */
export function letterBit(letter: string): number {
  return 1 << (letter.charCodeAt(0) & 31);
}

export function isLetterOrDigit(c: number): boolean {
  return isLetter(c) || (c >= 0x30 && c <= 0x39);
}

export function isSpace(c: number): boolean {
  return c <= 0x20 && (c === 0x20 || c === 0x0a || c === 0x09 || c === 0x0d || c === 0x0c);
}

// Letters are above ">", so that one comparison decides for most characters.
export function endsTagName(c: number): boolean {
  return c <= gt && (c === gt || c === slash || isSpace(c));
}

export function endsAttributeName(c: number): boolean {
  return c <= gt && (c === equals || c === gt || c === slash || isSpace(c));
}

export function endsUnquoted(c: number): boolean {
  return c <= gt && (c === gt || isSpace(c));
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

type KnownName = readonly [name: string, bit: number];

/** By length: few names have the same one. */
const knownNames: readonly (readonly KnownName[])[] = (() => {
  const names: KnownName[] = [
    ['as', as],
    ['src', src],
    ['alt', alt],
    ['rel', rel],
    ['href', href],
    ['type', type],
    ['data', data],
    ['name', metaName],
    ['style', style],
    ['width', width],
    ['sizes', sizes],
    ['srcset', srcset],
    ['height', height],
    ['poster', poster],
    ['content', content],
    ['charset', charset],
    ['property', property],
    ['encoding', encoding],
    ['itemprop', itemprop],
    ['xlink:href', xlinkHref],
    ['http-equiv', httpEquiv],
    ['imagesrcset', imagesrcset],
    ['color', fontLook],
    ['face', fontLook],
    ['size', fontLook],
  ];
  return Array.from({ length: 12 }, (_, length) =>
    names.filter(([name]) => name.length === length),
  );
})();

/** Returns the bit of a known attribute, else 0. */
export function attributeName(buffer: string, start: number, end: number): number {
  const names = knownNames[end - start];
  if (names === undefined) return 0;
  for (const [name, bit] of names) if (isName(buffer, start, name)) return bit;
  return 0;
}
