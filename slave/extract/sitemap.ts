/**
 * Parses sitemaps as they arrive: `urlset` and `sitemapindex` in XML, RSS and Atom, and plain text
 * with a URL per line. Bytes in, entries out; no I/O; gzip is undone before. Input is not trusted:
 * entries, bytes, depth and lengths are bounded, values that are not absolute http or https URLs
 * are dropped (links of feeds may be relative), and a file that is not a sitemap has no entries.
 * The master decides on which hosts the URLs may be.
 * Source: sitemaps.org protocol 0.9; Google's image extension 1.1; RSS 2.0; RFC 4287; XML Base.
 */
import type { TextDecoder } from 'node:util';
import { Parser } from 'htmlparser2';
import { limits, type SitemapKind } from '../../shared/protocol.ts';
import { parseUrl } from '../../shared/url.ts';
import { decoderOf, encodingOfMark, nameOf } from './encodings.ts';
import { declaredEncoding, seenUtf16 } from './xml-declaration.ts';

/** The protocol allows 50,000 URLs and 50 MiB per file; not every site complies. Source:
 *  sitemaps.org, "Using Sitemap index files". */
const sitemapEntriesMax = 200_000;
export const sitemapBytesMax = 50 << 20;
/** A real sitemap has five levels; htmlparser2 searches all open elements for each end tag. */
const depthMax = 32;
/** Images of one entry. Source: image extension, "up to 1,000". */
const imagesMax = 1000;
/** Prefixes of the image extension in one file. */
const prefixesMax = 32;
/** A longer XML declaration is not looked at. */
const declarationBytesMax = 256;
/** Characters that are parsed between two checks of the limits. */
const pieceChars = 1 << 16;

type SitemapEntry = {
  /** Absolute, http or https, at most `limits.urlChars`; as written, trimmed, unless a feed has a
   *  relative one. */
  readonly url: string;
  /** The latest possible moment of its modification date, in ms since 1970. */
  readonly lastmodMs?: number;
  /** `image:loc` of the entry. */
  readonly images?: readonly string[];
};

export type Sitemap = {
  /** `index` lists sitemaps, `none` is something else, the others list pages. */
  readonly kind: SitemapKind;
  readonly entries: readonly SitemapEntry[];
  /** A limit ended the reading early. */
  readonly cut: boolean;
};

type SitemapOptions = {
  /** Its own URL, absolute: relative links of a feed count from it; default: they are dropped. */
  readonly url?: string | undefined;
  /** The charset parameter of its Content-Type. */
  readonly charset?: string | undefined;
  readonly entriesMax?: number;
  readonly bytesMax?: number;
};

const none = new Uint8Array(0);
const gt = 0x3e;

type Format = { write(text: string): void; end(isBroken: boolean): void };
type State = 'open' | 'cut' | 'ended';

/** Reads a sitemap: call `write` until it returns false or the input ends, then `end`. */
export class SitemapReader {
  readonly #url: string | undefined;
  readonly #charset: string | undefined;
  readonly #entriesMax: number;
  readonly #bytesMax: number;
  readonly #entries: SitemapEntry[] = [];
  #kind: Sitemap['kind'] = 'none';
  #state: State = 'open';
  #bytes = 0;
  /** Nothing is decoded before a mark or a declaration of the encoding is there. */
  #first: Uint8Array = none;
  #decoder: TextDecoder | undefined;
  #format: Format | undefined;

  constructor(options: SitemapOptions = {}) {
    const { url, charset, entriesMax = sitemapEntriesMax, bytesMax = sitemapBytesMax } = options;
    this.#url = url;
    this.#charset = charset;
    this.#entriesMax = entriesMax;
    this.#bytesMax = bytesMax;
  }

  /** Takes the next bytes; returns false when no more are wanted. */
  write(chunk: Uint8Array): boolean {
    if (this.#state !== 'open' || chunk.length === 0) return this.#state === 'open';
    const taken = chunk.subarray(0, this.#bytesMax - this.#bytes);
    this.#bytes += taken.length;
    this.#decode(taken);
    if (taken.length < chunk.length) this.#cut();
    return this.#state === 'open';
  }

  /** `isBroken`: more should have come, so that what is open at the end is a part of an address. */
  end(isBroken = false): Sitemap {
    if (this.#state === 'open') {
      this.#text((this.#decoder ?? decoderFor(this.#first, this.#charset)).decode(this.#first));
      this.#format?.end(isBroken);
    }
    const cut = this.#state === 'cut';
    this.#state = cut ? 'cut' : 'ended';
    return { kind: this.#kind, entries: this.#entries, cut };
  }

  #decode(bytes: Uint8Array): void {
    const all = this.#first.length === 0 ? bytes : Buffer.concat([this.#first, bytes]);
    this.#first = this.#decoder === undefined && !isHead(all) ? Uint8Array.from(all) : none;
    if (this.#first.length > 0) return;
    this.#decoder ??= decoderFor(all, this.#charset);
    this.#text(this.#decoder.decode(all, { stream: true }));
  }

  #text(text: string): void {
    // The first non-space character decides; until then there is nothing to keep.
    this.#format ??= this.#formatOf(text.trimStart());
    for (let at = 0; at < text.length && this.#state === 'open'; at += pieceChars)
      this.#format?.write(text.slice(at, at + pieceChars));
  }

  #formatOf(start: string): Format | undefined {
    if (start === '') return undefined;
    if (!start.startsWith('<')) {
      this.#kind = 'text';
      return textFormat((entry) => this.#add(entry));
    }
    return xmlFormat(this.#url, {
      root: (kind) => {
        this.#kind = kind;
      },
      entry: (entry) => this.#add(entry),
      tooDeep: () => this.#cut(),
    });
  }

  #add(entry: SitemapEntry): void {
    if (this.#entries.length >= this.#entriesMax) this.#cut();
    if (this.#state === 'open') this.#entries.push(entry);
  }

  #cut(): void {
    if (this.#state === 'open') this.#state = 'cut';
  }
}

/** Is there enough to know the encoding? */
function isHead(bytes: Uint8Array): boolean {
  if (bytes.length >= declarationBytesMax) return true;
  const head = withoutBlanks(bytes);
  const start = Buffer.from(head.subarray(0, 4)).toString('latin1').replaceAll('\0', '');
  return head.length >= 4 && (!start.startsWith('<') || head.includes(gt));
}

/** UTF-8 is the only encoding that the protocol allows. Feeds have others, and so have some sites:
 *  a mark, the charset of Content-Type and the XML declaration count all the same, in that order.
 *  Source: RFC 7303, 3.2. */
function decoderFor(head: Uint8Array, charset: string | undefined): TextDecoder {
  const start = head.subarray(0, declarationBytesMax);
  const named = encodingOfMark(start) ?? (charset === undefined ? undefined : nameOf(charset));
  const encoding = named ?? encodingInside(withoutBlanks(start)) ?? 'utf-8';
  // Encodings that are used only for attacks count as none.
  return decoderOf(encoding === 'replacement' ? 'utf-8' : encoding);
}

function encodingInside(start: Uint8Array): string | undefined {
  return seenUtf16(start) ?? declaredEncoding(start);
}

/** Programs print blank lines before the declaration, which strict XML forbids. */
function withoutBlanks(bytes: Uint8Array): Uint8Array {
  let at = 0;
  while (isBlank(bytes[at])) at++;
  return bytes.subarray(at);
}

function isBlank(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function textFormat(add: (entry: SitemapEntry) => void): Format {
  let rest = '';
  const line = (text: string) => {
    const url = urlOf(text);
    if (url !== undefined) add({ url });
  };
  return {
    write(text) {
      const lines = (rest + text).split(/[\r\n]+/);
      // A longer line is not a URL, so its beginning need not be kept whole.
      rest = (lines.pop() ?? '').slice(0, 2 * limits.urlChars);
      for (const one of lines) line(one);
    },
    end(isBroken) {
      if (!isBroken) line(rest);
    },
  };
}

type XmlEvents = {
  root: (kind: SitemapKind) => void;
  entry: (entry: SitemapEntry) => void;
  tooDeep: () => void;
};
type Leaf = 'loc' | 'lastmod' | 'guid' | 'image';
type Written = { loc: string; lastmod: string; guid: string; images: string[] };

/** For each root: its kind, the name of its entries, and the elements wanted in them. */
const roots: ReadonlyMap<string, { kind: SitemapKind; entry: string; leaves: Leaves }> = new Map([
  ['urlset', { kind: 'urlset', entry: 'url', leaves: { loc: 'loc', lastmod: 'lastmod' } }],
  ['sitemapindex', { kind: 'index', entry: 'sitemap', leaves: { loc: 'loc', lastmod: 'lastmod' } }],
  [
    'rss',
    { kind: 'feed', entry: 'item', leaves: { link: 'loc', pubDate: 'lastmod', guid: 'guid' } },
  ],
  ['RDF', { kind: 'feed', entry: 'item', leaves: { link: 'loc', 'dc:date': 'lastmod' } }],
  // An Atom link has its URL in an attribute.
  ['feed', { kind: 'feed', entry: 'entry', leaves: { updated: 'lastmod' } }],
]);
type Leaves = Readonly<Record<string, Leaf>>;

/**
 * `<urlset><url><loc/><lastmod/><image:image><image:loc/></image:image></url>…`, and the
 * counterparts of the other roots. Other elements are ignored anywhere. `url`: of the file.
 */
function xmlFormat(url: string | undefined, events: XmlEvents): Format {
  let depth = 0;
  let isFeed = false;
  const bases = new Bases(url);
  /** Namespace prefix of the root, as `sm:`; its own elements carry the same one. */
  let prefix = '';
  const imageLocs = new Set(['image:loc']);
  /** Depth of an image element whose own namespace is declared without a prefix. */
  let imageDepth = 0;
  let entryName: string | undefined;
  let leaves: Leaves = {};
  let entry: Written | undefined;
  let entryDepth = 0;
  let leaf: Leaf | undefined;
  let text = '';
  let hasEnded = false;

  const root = (name: string) => {
    const local = name.slice(name.indexOf(':') + 1);
    const known = roots.get(local);
    if (known === undefined) return;
    // The items of RDF are not of its own namespace.
    prefix = local === 'RDF' ? '' : name.slice(0, name.length - local.length);
    entryName = prefix + known.entry;
    leaves = known.leaves;
    isFeed = known.kind === 'feed';
    events.root(known.kind);
  };
  const leafOf = (name: string): Leaf | undefined => {
    if (imageLocs.has(name)) return 'image';
    if (name === 'loc' && imageDepth > 0 && depth === imageDepth + 1) return 'image';
    // The address of an entry is not that of something in it.
    if (depth !== entryDepth + 1) return undefined;
    return name.startsWith(prefix) ? leaves[name.slice(prefix.length)] : undefined;
  };
  const closeLeaf = () => {
    // The file was cut off, perhaps within the address.
    if (hasEnded) leaf = undefined;
    if (entry !== undefined && leaf === 'image') {
      const url = urlOf(text);
      if (url !== undefined && entry.images.length < imagesMax) entry.images.push(url);
    } else if (entry !== undefined && leaf !== undefined && leaf !== 'image') {
      entry[leaf] ||= leaf === 'loc' && isFeed ? bases.resolve(text) : text;
    }
    leaf = undefined;
  };
  const closeEntry = () => {
    if (entry !== undefined) emit(entry, events.entry);
    entry = undefined;
  };

  const parser = new Parser(
    {
      onopentagname(name) {
        depth++;
        if (depth > depthMax) events.tooDeep();
        if (depth === 1) root(name);
        if (name === entryName) {
          closeEntry();
          entryDepth = depth;
          entry = { loc: '', lastmod: '', guid: '', images: [] };
        }
        leaf = entry === undefined ? undefined : leafOf(name);
        text = '';
      },
      onattribute(name, value) {
        if (name === 'xml:base' && isFeed) bases.open(value, depth);
        if (!name.startsWith('xmlns') || !imageNamespace.test(value)) return;
        if (name === 'xmlns') imageDepth = depth;
        else if (name[5] === ':' && imageLocs.size < prefixesMax)
          imageLocs.add(`${name.slice('xmlns:'.length)}:loc`);
      },
      onopentag(name, { href, rel = 'alternate', isPermaLink }) {
        if (leaf === 'guid' && isPermaLink === 'false') leaf = undefined;
        if (!isFeed || entry === undefined || depth !== entryDepth + 1) return;
        if (name !== `${prefix}link` || rel !== 'alternate') return;
        if (href !== undefined) entry.loc ||= bases.resolve(href);
      },
      ontext(data) {
        if (leaf !== undefined && text.length <= 2 * limits.urlChars) text += data;
      },
      onclosetag(name) {
        if (depth === imageDepth) imageDepth = 0;
        closeLeaf();
        bases.close(depth);
        depth--;
        if (name === entryName) closeEntry();
      },
    },
    { xmlMode: true },
  );
  return {
    write: (data) => parser.write(data),
    end() {
      hasEnded = true;
      parser.end();
    },
  };
}

/** The addresses from which relative ones count: of the file, and by xml:base of open elements. */
class Bases {
  readonly #open: { readonly depth: number; readonly url: string | undefined }[];

  constructor(url: string | undefined) {
    this.#open = [{ depth: 0, url }];
  }

  /** An element at this depth has an xml:base. */
  open(base: string, depth: number): void {
    this.close(depth);
    const url = this.resolve(base);
    if (url !== '') this.#open.push({ depth, url });
  }

  close(depth: number): void {
    if (this.#open.at(-1)?.depth === depth) this.#open.pop();
  }

  /** '' if it is no address. An empty one would be the file itself. */
  resolve(written: string): string {
    const text = written.trim();
    if (text === '' || text.length > limits.urlChars || urlOf(text) !== undefined) return text;
    try {
      const { href } = parseUrl(text, this.#open.at(-1)?.url);
      return href.length > limits.urlChars ? '' : href;
    } catch {
      return '';
    }
  }
}

const imageNamespace = /^https?:\/\/www\.google\.com\/schemas\/sitemap-image\/1\.\d\/?$/;

/** An item without a link may have its address as its guid. */
function emit({ loc, guid, lastmod, images }: Written, add: (entry: SitemapEntry) => void): void {
  const url = urlOf(loc || guid);
  if (url === undefined) return;
  const lastmodMs = dateOf(lastmod);
  add({
    url,
    ...(lastmodMs === undefined ? {} : { lastmodMs }),
    ...(images.length === 0 ? {} : { images }),
  });
}

function urlOf(text: string): string | undefined {
  const url = text.trim();
  if (url.length > limits.urlChars || !/^https?:\/\//i.test(url)) return undefined;
  return URL.canParse(url) ? url : undefined;
}

/** As PHP writes them, too: `+0100`, a space for `T`, no zone. */
const w3cDate =
  /^(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?) ?(Z|[+-]\d\d:?\d\d)?)?)?)?$/;
/** RFC 822, as feeds write it: `Sat, 07 Sep 2002 00:00:01 GMT`. */
const mailDate =
  /^(?:[A-Za-z]{3}, )?\d{1,2} [A-Za-z]{3} \d{4} \d\d:\d\d(?::\d\d)? (?:[A-Z]{1,3}|[+-]\d{4})$/;
/** The westernmost zone: a time there is the latest moment that a time without a zone can be. */
const lastZone = '-12:00';

/** Returns the latest possible moment of a date: the end of a day. undefined: not a date.
 *  Source: sitemaps.org, "lastmod"; W3C note on date and time formats. */
function dateOf(written: string): number | undefined {
  const text = written.trim();
  const [whole, year, month, day, time, zone = lastZone] = w3cDate.exec(text) ?? [];
  if (whole === undefined) return mailDate.test(text) ? momentOf(text) : undefined;
  if (time !== undefined) {
    const colon =
      zone === 'Z' || zone.includes(':') ? zone : `${zone.slice(0, 3)}:${zone.slice(3)}`;
    return momentOf(`${year}-${month}-${day}T${time}${colon}`);
  }
  const ms = momentOf(text);
  if (ms === undefined) return undefined;
  if (day !== undefined) return ms + dayMs - 1;
  if (month !== undefined) return Date.UTC(Number(year), Number(month), 1) - 1;
  return Date.UTC(Number(year) + 1, 0, 1) - 1;
}

function momentOf(text: string): number | undefined {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}

const dayMs = 86_400_000;
