/**
 * Sitemaps while they arrive: `urlset` and `sitemapindex` in XML, and plain text with a URL a line.
 * Bytes in, entries out; no I/O, gzip is undone before. Nothing is believed: entries, bytes, depth
 * and lengths are bounded, what is no absolute http or https URL is dropped, and a page that is no
 * sitemap gives no entries. Which hosts the URLs may be on is for the caller's scope to say.
 * Source: sitemaps.org protocol 0.9; Google's image extension 1.1.
 */
import { TextDecoder } from 'node:util';
import { Parser } from 'htmlparser2';
import { limits } from '../../shared/protocol.ts';

/** Source: sitemaps.org, "Using Sitemap index files": 50,000 URLs and 50 MiB a file. */
export const sitemapEntriesMax = 50_000;
export const sitemapBytesMax = 50 << 20;
/** A real sitemap is five deep; htmlparser2 looks for a closing tag through all open ones. */
const depthMax = 32;
/** Images of one entry. Source: image extension, "up to 1,000". */
const imagesMax = 1000;
/** Characters that are parsed between two looks at the limits. */
const pieceChars = 1 << 16;

export type SitemapEntry = {
  /** As written, trimmed: absolute, http or https, at most `limits.urlChars`. */
  readonly url: string;
  /** When it was last modified, in ms since 1970; absent if not a W3C date. */
  readonly lastmodMs?: number;
  /** `image:loc` of the entry. */
  readonly images?: readonly string[];
};

export type Sitemap = {
  /** `urlset` and `text` list pages, `index` lists sitemaps, `none` is something else. */
  readonly kind: 'urlset' | 'index' | 'text' | 'none';
  readonly entries: readonly SitemapEntry[];
  /** A limit ended it before its end. */
  readonly cut: boolean;
};

export type SitemapLimits = { readonly entriesMax?: number; readonly bytesMax?: number };

/** Read a whole sitemap from its chunks, cut anywhere. Never throws for any bytes. */
export function parseSitemap(chunks: Iterable<Uint8Array>, bounds?: SitemapLimits): Sitemap {
  const reader = new SitemapReader(bounds);
  for (const chunk of chunks) if (!reader.write(chunk)) break;
  return reader.end();
}

const none = new Uint8Array(0);

type Format = { write(text: string): void; end(): void };
type State = 'open' | 'cut' | 'ended';

/** A sitemap that is being read: `write` until it is false or there is no more, then `end`. */
export class SitemapReader {
  readonly #entriesMax: number;
  readonly #bytesMax: number;
  readonly #entries: SitemapEntry[] = [];
  #kind: Sitemap['kind'] = 'none';
  #state: State = 'open';
  #bytes = 0;
  /** Nothing is decoded before the two bytes of a UTF-16 mark are there. */
  #first: Uint8Array = none;
  #decoder: TextDecoder | undefined;
  #format: Format | undefined;

  constructor({ entriesMax = sitemapEntriesMax, bytesMax = sitemapBytesMax }: SitemapLimits = {}) {
    this.#entriesMax = entriesMax;
    this.#bytesMax = bytesMax;
  }

  /** Take the next bytes; false when no more are wanted. */
  write(chunk: Uint8Array): boolean {
    if (this.#state !== 'open' || chunk.length === 0) return this.#state === 'open';
    const taken = chunk.subarray(0, this.#bytesMax - this.#bytes);
    this.#bytes += taken.length;
    this.#decode(taken);
    if (taken.length < chunk.length) this.#cut();
    return this.#state === 'open';
  }

  end(): Sitemap {
    if (this.#state === 'open') {
      this.#text((this.#decoder ?? new TextDecoder()).decode(this.#first));
      this.#format?.end();
    }
    const cut = this.#state === 'cut';
    this.#state = cut ? 'cut' : 'ended';
    return { kind: this.#kind, entries: this.#entries, cut };
  }

  #decode(bytes: Uint8Array): void {
    const all = this.#first.length === 0 ? bytes : Buffer.concat([this.#first, bytes]);
    this.#first = this.#decoder === undefined && all.length < 2 ? Uint8Array.from(all) : none;
    if (this.#first.length > 0) return;
    this.#decoder ??= new TextDecoder(encodingOf(all));
    this.#text(this.#decoder.decode(all, { stream: true }));
  }

  #text(text: string): void {
    // The first character that is no space decides; until then there is nothing to keep.
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
    return xmlFormat({
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

/** UTF-8 is the only encoding that the protocol allows; a UTF-16 mark is believed all the same. */
function encodingOf(bytes: Uint8Array): string {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le';
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be';
  return 'utf-8';
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
      // What is longer than a URL is none, so its beginning need not be kept whole.
      rest = (lines.pop() ?? '').slice(0, 2 * limits.urlChars);
      for (const one of lines) line(one);
    },
    end: () => line(rest),
  };
}

type XmlEvents = {
  root: (kind: 'urlset' | 'index') => void;
  entry: (entry: SitemapEntry) => void;
  tooDeep: () => void;
};
type Leaf = 'loc' | 'lastmod' | 'image';

/**
 * `<urlset><url><loc/><lastmod/><image:image><image:loc/></image:image></url>…`, and the same with
 * `sitemapindex` and `sitemap`. Other elements are passed over wherever they stand.
 */
function xmlFormat(events: XmlEvents): Format {
  let depth = 0;
  /** Namespace prefix of the root, as `sm:`; its own `loc` carries the same one. */
  let prefix = '';
  let entryName: string | undefined;
  let entry: { loc: string; lastmod: string; images: string[] } | undefined;
  let leaf: Leaf | undefined;
  let text = '';

  const root = (name: string) => {
    const local = name.slice(name.indexOf(':') + 1);
    if (local !== 'urlset' && local !== 'sitemapindex') return;
    prefix = name.slice(0, name.length - local.length);
    entryName = `${prefix}${local === 'urlset' ? 'url' : 'sitemap'}`;
    events.root(local === 'urlset' ? 'urlset' : 'index');
  };
  const leafOf = (name: string): Leaf | undefined => {
    if (name === `${prefix}loc`) return 'loc';
    if (name === `${prefix}lastmod`) return 'lastmod';
    return name === 'image:loc' ? 'image' : undefined;
  };
  const closeLeaf = () => {
    if (entry !== undefined && leaf === 'image') {
      const url = urlOf(text);
      if (url !== undefined && entry.images.length < imagesMax) entry.images.push(url);
    } else if (entry !== undefined && leaf !== undefined && leaf !== 'image') {
      entry[leaf] ||= text;
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
          entry = { loc: '', lastmod: '', images: [] };
        }
        leaf = entry === undefined ? undefined : leafOf(name);
        text = '';
      },
      ontext(data) {
        if (leaf !== undefined && text.length <= 2 * limits.urlChars) text += data;
      },
      onclosetag(name) {
        depth--;
        closeLeaf();
        if (name === entryName) closeEntry();
      },
    },
    { xmlMode: true },
  );
  return { write: (data) => parser.write(data), end: () => parser.end() };
}

function emit(
  { loc, lastmod, images }: { loc: string; lastmod: string; images: string[] },
  add: (entry: SitemapEntry) => void,
): void {
  const url = urlOf(loc);
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

const w3cDate = /^\d{4}(-\d\d(-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?)?)?$/;

/** Source: sitemaps.org, "lastmod"; W3C note on date and time formats. */
function dateOf(text: string): number | undefined {
  const date = text.trim();
  const ms = w3cDate.test(date) ? Date.parse(date) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms;
}
