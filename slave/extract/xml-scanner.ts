/**
 * The scanner for pages of type application/xhtml+xml: the same reports as the one for HTML, by the
 * rules of XML. Any element can be empty (`<script/>`) and none has a special text mode, names have
 * case and namespaces, a comment ends only at "-->" and an instruction at "?>", and "<![CDATA[" is
 * text everywhere. A browser stops where a page is not well-formed; this scanner continues with the
 * likely meaning.
 *
 * text ─"<x"─▶ tag ─">"─▶ text     tag ─long value─▶ value ─▶ tag text ─"<!--"─▶ comment   "<?"─▶
 * instruction   "<![CDATA["─▶ cdata   "<!"─▶ declaration ─▶ text
 *
 * Such pages are few, so this scanner is short rather than fast.
 * Source: XML 1.0; Namespaces in XML 1.0.
 */
import { Carry } from './carry.ts';
import {
  endsAttributeName,
  endsTagName,
  equals,
  gt,
  isSpace,
  slash,
  type Tables,
  tablesFor,
  type,
  wantedOf,
} from './elements.ts';
import { KeptText } from './kept-text.ts';
import { reportTag } from './report-tag.ts';
import type { ScannerOptions } from './scanner.ts';
import type { ScannerSink } from './scanner-sink.ts';
import { Tag, valueCharsMax } from './tag.ts';
import { XmlNames } from './xml-names.ts';

type State = 'text' | 'tag' | 'value' | 'comment' | 'instruction' | 'cdata' | 'declaration';

/** Attributes of one tag that are kept, and their characters together. */
const attributesMax = 256;
const attributesCharsMax = 4 << 20;
const nameStart = /[A-Za-z_:\x80-\uffff]/;

export class XmlScanner {
  readonly #sink: ScannerSink;
  readonly #figures: boolean;
  readonly #tables: Tables;
  readonly #tag: Tag;
  readonly #kept: KeptText;
  readonly #names = new XmlNames();
  readonly #carry = new Carry((text, last) => this.#scan(text, last));
  #state: State = 'text';
  #buffer = '';
  #at = 0;
  #last = false;
  /** Of the tag that is open. */
  #name = '';
  readonly #attributes = new Map<string, string>();
  #attributesChars = 0;
  /** The beginnings of values that were too long. */
  readonly #dropped = new Map<string, string>();
  #quote = '"';
  /** The element whose text is kept. */
  #keptName = '';

  constructor(sink: ScannerSink, { lazy, rel, iframes, bare, figures }: ScannerOptions) {
    const all = lazy !== undefined;
    this.#sink = sink;
    this.#tables = tablesFor({ all, rel, iframes, bare: bare === true });
    this.#tag = new Tag(lazy);
    this.#figures = figures === true;
    this.#kept = new KeptText(sink, all);
  }

  write(chunk: string): void {
    this.#carry.write(chunk);
  }

  /** Ends the input: an open tag is dropped, an open title or style counts. */
  end(): void {
    this.#carry.end();
    this.#kept.end();
  }

  #scan(buffer: string, last: boolean): number {
    this.#buffer = buffer;
    this.#at = 0;
    this.#last = last;
    while (this.#step());
    this.#buffer = '';
    return this.#at;
  }

  /** Reads one token or a part of one; returns false when the buffer is used up or ends inside a
   *  token. */
  #step(): boolean {
    switch (this.#state) {
      case 'text':
        return this.#text();
      case 'tag':
        return this.#attribute();
      case 'value':
        return this.#skipTo(this.#quote, 'tag');
      case 'comment':
        return this.#skipTo('-->', 'text');
      case 'instruction':
        return this.#skipTo('?>', 'text');
      case 'cdata':
        return this.#cdata();
      case 'declaration':
        return this.#declaration();
      default:
        return this.#state satisfies never;
    }
  }

  #text(): boolean {
    const buffer = this.#buffer;
    const open = buffer.indexOf('<', this.#at);
    this.#keep(open < 0 ? buffer.length : open);
    if (open < 0) return false;
    const c = buffer.charAt(open + 1);
    if (c === '') return false;
    if (c === '/') return this.#endTag(open + 2);
    if (c === '?') return this.#enter('instruction', open + 2);
    if (c === '!') return this.#markup(open + 2);
    if (nameStart.test(c)) return this.#startTag(open + 1);
    this.#keep(open + 1);
    return true;
  }

  /** `start`: after "<!". */
  #markup(start: number): boolean {
    const rest = this.#buffer.slice(start, start + 7);
    if (rest.startsWith('--')) return this.#enter('comment', start + 2);
    if (rest === '[CDATA[') return this.#enter('cdata', start + 7);
    const isCut = '--'.startsWith(rest) || '[CDATA['.startsWith(rest);
    if (isCut && !this.#last) return false;
    return this.#enter('declaration', start);
  }

  #startTag(start: number): boolean {
    const buffer = this.#buffer;
    let end = start;
    while (end < buffer.length && !endsTagName(buffer.charCodeAt(end))) end++;
    if (end === buffer.length) return this.#wait(start - 1);
    this.#name = buffer.slice(start, end);
    this.#attributes.clear();
    this.#attributesChars = 0;
    this.#dropped.clear();
    return this.#enter('tag', end);
  }

  #endTag(start: number): boolean {
    const end = this.#buffer.indexOf('>', start);
    if (end < 0) return this.#wait(start - 2);
    const name = this.#buffer.slice(start, end).trimEnd();
    this.#names.close(name);
    if (this.#figures && /(?:^|:)figure$/.test(name)) this.#sink.figure(false);
    if (name === this.#keptName) this.#endKept();
    return this.#enter('text', end + 1);
  }

  /** One attribute, or the end of the tag. */
  #attribute(): boolean {
    const buffer = this.#buffer;
    const start = this.#skipSpace(this.#at);
    const c = buffer.charCodeAt(start);
    if (c === gt) return this.#open(start + 1, false);
    // A slash counts only right before ">".
    if (c === slash && start + 1 < buffer.length) {
      if (buffer.charCodeAt(start + 1) === gt) return this.#open(start + 2, true);
      return this.#enter('tag', start + 1);
    }
    // No name begins with "=".
    let end = start + 1;
    while (end < buffer.length && !endsAttributeName(buffer.charCodeAt(end))) end++;
    let at = this.#skipSpace(end);
    if (at >= buffer.length) return this.#wait(start);
    if (buffer.charCodeAt(at) !== equals) return this.#enter('tag', at);
    at = this.#skipSpace(at + 1);
    if (at >= buffer.length) return this.#wait(start);
    return this.#value(buffer.slice(start, end), start, at);
  }

  #value(name: string, start: number, at: number): boolean {
    const buffer = this.#buffer;
    const quote = buffer.charAt(at);
    if (quote !== '"' && quote !== "'") {
      // Not XML, but the meaning is clear.
      let end = at;
      while (end < buffer.length && !endsTagName(buffer.charCodeAt(end))) end++;
      if (end >= buffer.length) return this.#wait(start);
      this.#take(name, buffer.slice(at, end));
      return this.#enter('tag', end);
    }
    const end = buffer.indexOf(quote, at + 1);
    if (end >= 0) {
      this.#take(name, buffer.slice(at + 1, end));
      return this.#enter('tag', end + 1);
    }
    if (buffer.length - at <= valueCharsMax) return this.#wait(start);
    this.#drop(name, buffer.slice(at + 1));
    this.#quote = quote;
    return this.#enter('value', buffer.length);
  }

  /** Keep an attribute; the first of a name counts. */
  #take(name: string, value: string): void {
    if (this.#attributes.has(name) || this.#dropped.has(name)) return;
    this.#attributesChars += name.length + value.length;
    const isRoom = this.#attributes.size < attributesMax;
    if (value.length > valueCharsMax || !isRoom || this.#attributesChars > attributesCharsMax)
      this.#drop(name, value);
    else this.#attributes.set(name, value);
  }

  #drop(name: string, value: string): void {
    if (this.#dropped.size < attributesMax) this.#dropped.set(name, value.slice(0, 256));
  }

  /** The start tag is complete. */
  #open(at: number, isEmpty: boolean): boolean {
    this.#enter('text', at);
    const namespace = this.#names.open(this.#name, this.#attributes, isEmpty);
    const local = this.#name.slice(this.#name.indexOf(':') + 1);
    const tag = this.#tag;
    tag.name = local;
    tag.kind = namespace === 'html' ? this.#kindOf(local) : 'other';
    if (namespace === 'svg') {
      tag.name = local.toLowerCase();
      if (this.#tables.wantedByName.has(tag.name) && shown.has(local)) tag.kind = 'foreign';
    }
    if (this.#figures && local === 'figure' && !isEmpty) this.#sink.figure(true);
    const isIgnored = namespace === 'other' || (tag.kind === 'base' && this.#names.inTemplate);
    tag.begin(isIgnored ? 0 : wantedOf(this.#tables, tag));
    if (tag.wanted !== 0) {
      this.#fill(tag);
      reportTag(tag, this.#sink);
    }
    if (namespace === 'html' && this.#keptName === '' && withText.has(local)) {
      this.#kept.begin(local, tag.value(type));
      this.#keptName = this.#name;
      if (isEmpty) this.#endKept();
    }
    return true;
  }

  #kindOf(local: string): Tag['kind'] {
    const kind = this.#tables.kinds.get(local) ?? 'other';
    // Only HTML's tree builder renames "image", and svg and math need their namespaces.
    return local === 'image' || kind === 'foreign' || kind === 'plaintext' ? 'other' : kind;
  }

  #fill(tag: Tag): void {
    for (const [name, value] of this.#attributes) {
      // HTML's own names are all in lower case.
      if (name === name.toLowerCase())
        tag.take(
          `${name}=${value}`,
          0,
          name.length,
          name.length + 1,
          name.length + 1 + value.length,
        );
    }
    for (const [name, beginning] of this.#dropped) {
      if (name === name.toLowerCase())
        tag.drop(`${name}=${beginning}`, 0, name.length, name.length + 1);
    }
  }

  #endKept(): void {
    this.#kept.end();
    this.#keptName = '';
  }

  #keep(end: number): void {
    if (this.#keptName !== '') this.#kept.add(this.#buffer, this.#at, end);
    this.#at = end;
  }

  #cdata(): boolean {
    const end = this.#buffer.indexOf(']]>', this.#at);
    const stop = end >= 0 ? end : Math.max(this.#at, this.#buffer.length - (this.#last ? 0 : 2));
    if (this.#keptName !== '') {
      // It has no references.
      const text = this.#buffer.slice(this.#at, stop).replaceAll('&', '&amp;');
      this.#kept.add(text, 0, text.length);
    }
    this.#at = stop;
    return end >= 0 && this.#enter('text', end + 3);
  }

  /** A document type, with its subset; any other is skipped in the same way. */
  #declaration(): boolean {
    const end = declarationEnd(this.#buffer, this.#at);
    return end < 0 ? this.#wait(this.#at) : this.#enter('text', end);
  }

  #skipTo(end: string, next: State): boolean {
    const at = this.#buffer.indexOf(end, this.#at);
    if (at >= 0) return this.#enter(next, at + end.length);
    this.#at = Math.max(this.#at, this.#buffer.length - end.length + 1);
    return false;
  }

  #skipSpace(from: number): number {
    let at = from;
    while (at < this.#buffer.length && isSpace(this.#buffer.charCodeAt(at))) at++;
    return at;
  }

  /** Waits for more input from `at` on. An endless token is dropped rather than kept. */
  #wait(at: number): false {
    const isTooLong = this.#buffer.length - at > 2 * valueCharsMax;
    this.#at = isTooLong ? this.#buffer.length : at;
    if (isTooLong && this.#state !== 'tag') this.#state = 'text';
    return false;
  }

  #enter(state: State, at: number): true {
    this.#state = state;
    this.#at = at;
    return true;
  }
}

/** Elements of svg that show another file. */
const shown = new Set(['image', 'use', 'feImage']);
/** Elements whose text matters. */
const withText = new Set(['title', 'style', 'script']);

/** Returns the index after the ">" that ends a declaration, or -1; a ">" in quotes, a comment or
 *  the subset does not end it. */
function declarationEnd(buffer: string, from: number): number {
  const token = /["'[\]>]|<!--|<\?/g;
  token.lastIndex = from;
  let depth = 0;
  for (let found = token.exec(buffer); found !== null; found = token.exec(buffer)) {
    const [word] = found;
    if (word === '[') depth++;
    else if (word === ']') depth--;
    else if (word !== '>') {
      const close = word === '<!--' ? '-->' : word === '<?' ? '?>' : word;
      const at = buffer.indexOf(close, token.lastIndex);
      if (at < 0) return -1;
      token.lastIndex = at + close.length;
    } else if (depth <= 0) return token.lastIndex;
  }
  return -1;
}
