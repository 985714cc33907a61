/**
 * The tokenizer of HTML, reduced to the needs of an extractor: it follows the states of the
 * standard, jumps over text, comments, scripts and other tags' attributes with `indexOf`, and
 * reports only relevant elements, in document order. It accepts chunks of any size; a token that a
 * chunk cuts is read again with the next ones. It builds no tree: a small stack tracks foreign
 * content (svg, math). Where the text is bytes, `plain-tags` reads most of it.
 *
 * text ─"<x"─▶ tag ─">"─▶ text | raw | script | plaintext        tag ─long value─▶ value ─▶ tag
 * text ─"<!--"─▶ comment ─▶ text   "<!", "<?", "</?" ─▶ bogus ─▶ text   "<![CDATA[" ─▶ cdata ─▶
 * text
 *
 * Source: HTML Standard 13.2.5 (tokenization), 13.2.6.5 (foreign content). htmlparser2's Tokenizer
 * is not used because it ends `<![CDATA[` in HTML at "]]>", knows no script inside a script's
 * comment, ends `</a b=">">` too early, and takes twice the time.
 */
import { Carry } from './carry.ts';
import {
  encoding,
  endsAttributeName,
  endsTagName,
  endsUnquoted,
  equals,
  fontLook,
  gt,
  isLetter,
  isLetterOrDigit,
  isName,
  isSpace,
  isTag,
  lt,
  nameEnd,
  slash,
  type Tables,
  tablesFor,
  type,
  wantedOf,
} from './elements.ts';
import { ForeignStack } from './foreign.ts';
import { KeptText } from './kept-text.ts';
import type { LazyNames } from './lazy.ts';
import { type PlainTags, type PlainWants, plainTags, plainWantsOf } from './plain-tags.ts';
import { reportTag } from './report-tag.ts';
import type { ScannerSink } from './scanner-sink.ts';
import { commentEnd, type ScriptDepth, scanScript } from './script-comment.ts';
import { Tag, valueCharsMax } from './tag.ts';

const letterF = 0x66;
const letterT = 0x74;

type State =
  | 'text'
  | 'tag'
  | 'value'
  | 'comment'
  | 'bogus'
  | 'cdata'
  | 'raw'
  | 'script'
  | 'plaintext';

export type ScannerOptions = {
  /** The lazy attributes, with `all` sources of images; undefined: img elements alone. */
  readonly lazy: LazyNames | undefined;
  /** Links are reported with their rel. */
  readonly rel: boolean;
  /** iframes count as links. */
  readonly iframes: boolean;
  /** Links and images are not reported at all; they are by default. */
  readonly bare?: boolean;
  /** Figures are reported; not by default. */
  readonly figures?: boolean;
  /** Each character of the text is a byte, at most U+00FF; false by default. */
  readonly bytes?: boolean;
};

export class Scanner {
  readonly #sink: ScannerSink;
  readonly #tables: Tables;
  readonly #tag: Tag;
  readonly #figures: boolean;
  readonly #foreign = new ForeignStack();
  /** Templates that are open: a base in one is not the page's. All else in them counts. */
  #templates = 0;
  #state: State = 'text';
  #buffer = '';
  #at = 0;
  #last = false;
  /** The text that can be read as bytes; undefined: none. */
  readonly #wants: PlainWants | undefined;
  /** Has the buffer as bytes. */
  #plain: PlainTags | undefined;
  readonly #carry = new Carry((text, last) => this.#scan(text, last));

  /** The end of the long value that is being dropped: a quote, or 0 for whitespace and ">". */
  #valueEnd = 0;
  /** Nothing of the comment has been consumed yet, so `<!-->` can still end it. */
  #commentFresh = false;
  #scriptDepth: ScriptDepth = 'plain';
  readonly #kept: KeptText;

  constructor(sink: ScannerSink, options: ScannerOptions) {
    const { lazy, rel, iframes, bare, figures, bytes } = options;
    const all = lazy !== undefined;
    this.#sink = sink;
    this.#kept = new KeptText(sink, all);
    this.#tables = tablesFor({ all, rel, iframes, bare: bare === true });
    this.#tag = new Tag(lazy);
    this.#figures = figures === true;
    // The ends of figures are not plain.
    const isPlain = bytes === true && !this.#figures;
    this.#wants = isPlain ? plainWantsOf(this.#tables, lazy) : undefined;
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
    const plain = this.#wants === undefined ? undefined : plainTags();
    this.#plain = this.#wants && plain?.begin(buffer, this.#wants) ? plain : undefined;
    try {
      while (this.#step());
    } finally {
      this.#plain?.end();
    }
    this.#buffer = '';
    return this.#at;
  }

  /** Reads one token or jump; returns false when the buffer is used up or ends inside a token. */
  #step(): boolean {
    switch (this.#state) {
      case 'text':
        return this.#text();
      case 'tag':
        return this.#attributes();
      case 'value':
        return this.#longValue();
      case 'comment':
        return this.#comment();
      case 'bogus':
        return this.#skipTo('>', 0);
      case 'cdata':
        return this.#skipTo(']]>', 2);
      case 'raw':
        return this.#raw();
      case 'script':
        return this.#script();
      case 'plaintext':
        this.#at = this.#buffer.length;
        return false;
      default:
        return this.#state satisfies never;
    }
  }

  #text(): boolean {
    const buffer = this.#buffer;
    const { length } = buffer;
    const isHtml = this.#foreign.depth === 0;
    const isInTemplate = this.#templates > 0;
    // There the end tags matter.
    if (isHtml && !isInTemplate && this.#plain !== undefined) this.#skipPlain(this.#plain);
    let at = buffer.indexOf('<', this.#at);
    // No character is read beyond the end: V8 deoptimizes the code at the first one.
    for (; at >= 0 && at + 2 < length; at = buffer.indexOf('<', at)) {
      if (buffer.charCodeAt(at + 1) !== slash || !isHtml) break;
      // A plain end tag needs no report, but for that of a figure or a template.
      const first = buffer.charCodeAt(at + 2);
      if (!isLetter(first) || (this.#figures && (first | 0x20) === letterF)) break;
      if (isInTemplate && (first | 0x20) === letterT) break;
      let end = at + 3;
      while (end < length && isLetterOrDigit(buffer.charCodeAt(end))) end++;
      if (end >= length || buffer.charCodeAt(end) !== gt) break;
      at = end + 1;
    }
    if (at < 0) {
      this.#at = buffer.length;
      return false;
    }
    this.#at = at;
    if (at + 1 >= length) return false;
    const c = buffer.charCodeAt(at + 1);
    if (isLetter(c)) return this.#openTag(at + 1);
    if (c === slash) return this.#closeTag(at + 2);
    if (c === 0x21) return this.#declaration(at + 2);
    if (c === 0x3f) this.#enter('bogus', at + 1);
    else this.#at = at + 1;
    return true;
  }

  /** Text and tags that need none of the rules here. */
  #skipPlain(plain: PlainTags): void {
    this.#at = plain.skip(this.#at);
    for (let link = 0; link < plain.count; link++)
      this.#sink.link(this.#buffer.slice(plain.start(link), plain.stop(link)), undefined);
  }

  #openTag(start: number): boolean {
    const buffer = this.#buffer;
    const end = nameEnd(buffer, start);
    if (end >= buffer.length) return this.#wait(start - 1);
    const tag = this.#tag;
    const { kinds, lengthsByLetter } = this.#tables;
    tag.kind = 'other';
    if (this.#foreign.depth > 0) {
      tag.name = buffer.slice(start, end).toLowerCase();
      tag.kind = this.#foreign.open(tag.name) ? (kinds.get(tag.name) ?? 'other') : 'foreign';
    } else if (((lengthsByLetter[buffer.charCodeAt(start)] ?? 0) >> (end - start)) & 1) {
      tag.name = buffer.slice(start, end).toLowerCase();
      tag.kind = kinds.get(tag.name) ?? 'other';
    } else if (this.#figures && isTag(buffer, start, 'figure')) this.#sink.figure(true);
    if (tag.kind === 'template') this.#templates++;
    const isIgnored = tag.kind === 'base' && this.#templates > 0;
    return this.#enterTag(end, isIgnored ? 0 : wantedOf(this.#tables, tag));
  }

  #closeTag(start: number): boolean {
    const buffer = this.#buffer;
    if (start >= buffer.length) return false;
    const c = buffer.charCodeAt(start);
    if (!isLetter(c)) {
      if (c === gt) this.#at = start + 1;
      else this.#enter('bogus', start);
      return true;
    }
    const end = nameEnd(buffer, start);
    if (end >= buffer.length) return this.#wait(start - 2);
    const isOutside = this.#foreign.depth === 0;
    const isHtml = isOutside || this.#foreign.close(buffer.slice(start, end).toLowerCase());
    if (isHtml && this.#templates > 0 && isTag(buffer, start, 'template')) this.#templates--;
    if (isOutside && this.#figures && isTag(buffer, start, 'figure')) this.#sink.figure(false);
    return this.#enterEndTag(end);
  }

  #enterEndTag(at: number): boolean {
    this.#tag.kind = 'other';
    return this.#enterTag(at, 0);
  }

  #enterTag(at: number, wanted: number): boolean {
    if (this.#tag.kind === 'other' && this.#buffer.charCodeAt(at) === gt) {
      this.#enter('text', at + 1);
      return true;
    }
    this.#tag.begin(wanted);
    this.#enter('tag', at);
    return true;
  }

  /** `start`: after "<!". */
  #declaration(start: number): boolean {
    const buffer = this.#buffer;
    if (buffer.startsWith('--', start)) {
      this.#commentFresh = true;
      this.#enter('comment', start + 2);
      return true;
    }
    const opening = this.#foreign.allowsCdata ? '[CDATA[' : '--';
    const rest = buffer.slice(start, start + opening.length);
    if (rest === '[CDATA[') {
      this.#enter('cdata', start + rest.length);
      return true;
    }
    if (rest.length < opening.length && !this.#last) {
      if (opening.startsWith(rest) || '--'.startsWith(rest)) return false;
    }
    this.#enter('bogus', start);
    return true;
  }

  /** Reads attributes up to ">", one after the other; skips unwanted ones. */
  #attributes(): boolean {
    const buffer = this.#buffer;
    const length = buffer.length;
    const letters = this.#tag.wanted === 0 ? 0 : this.#tag.letters;
    let at = this.#at;
    for (;;) {
      let solidus = false;
      let c = 0;
      for (; at < length; at++) {
        c = buffer.charCodeAt(at);
        if (c === slash) solidus = true;
        else if (isSpace(c)) solidus = false;
        else break;
      }
      // A solidus at the very end is read again: it counts only right before ">".
      if (at >= length) return this.#waitInTag(solidus ? length - 1 : length);
      if (c === gt) return this.#endTag(at + 1, solidus);
      const start = at++;
      const wanted = ((letters >>> (c & 31)) & 1) !== 0;
      while (at < length && !endsAttributeName(buffer.charCodeAt(at))) at++;
      const end = at;
      while (at < length && isSpace(buffer.charCodeAt(at))) at++;
      if (at >= length) return this.#waitInTag(start);
      let value = end;
      let valueEnd = end;
      if (buffer.charCodeAt(at) === equals) {
        at++;
        while (at < length && isSpace(buffer.charCodeAt(at))) at++;
        if (at >= length) return this.#waitInTag(start);
        c = buffer.charCodeAt(at);
        const quote = c === 0x22 || c === 0x27 ? c : 0;
        if (quote === 0) {
          value = at;
          while (at < length && !endsUnquoted(buffer.charCodeAt(at))) at++;
          valueEnd = at;
        } else {
          value = at + 1;
          valueEnd = buffer.indexOf(quote === 0x22 ? '"' : "'", value);
          at = valueEnd + 1;
        }
        if (valueEnd < 0 || valueEnd >= length) return this.#waitForValue(start, end, value, quote);
      }
      if (wanted) this.#tag.take(buffer, start, end, value, valueEnd);
    }
  }

  #endTag(at: number, selfClosing: boolean): boolean {
    this.#enter('text', at);
    const tag = this.#tag;
    if (tag.wanted !== 0) reportTag(tag, this.#sink);
    // Most tags open nothing.
    if (tag.kind === 'other' || tag.kind === 'link') return true;
    switch (tag.kind) {
      case 'raw':
        this.#kept.begin(tag.name, tag.value(type));
        this.#state = 'raw';
        break;
      case 'script':
        if (tag.wanted !== 0) this.#kept.begin('script', tag.value(type));
        tag.name = 'script';
        this.#scriptDepth = 'plain';
        this.#state = 'script';
        break;
      case 'plaintext':
        this.#state = 'plaintext';
        break;
      case 'foreign':
        if (tag.has(fontLook)) this.#foreign.leave();
        else if (!selfClosing) this.#foreign.push(tag.name, tag.value(encoding));
        break;
      default:
    }
    return true;
  }

  #comment(): boolean {
    const end = commentEnd(this.#buffer, this.#at, this.#commentFresh);
    if (end >= 0) {
      this.#enter('text', end);
      return true;
    }
    // Three characters are enough to recognise "--!" before a later ">".
    const keep = Math.max(this.#at, this.#buffer.length - 3);
    if (keep > this.#at) this.#commentFresh = false;
    this.#at = keep;
    return false;
  }

  #skipTo(end: string, keepChars: number): boolean {
    const at = this.#buffer.indexOf(end, this.#at);
    if (at < 0) {
      this.#at = Math.max(this.#at, this.#buffer.length - keepChars);
      return false;
    }
    this.#enter('text', at + end.length);
    return true;
  }

  /** Text up to the end tag of the open element; that of a title or style may be kept. */
  #raw(): boolean {
    const buffer = this.#buffer;
    const { name } = this.#tag;
    for (let at = buffer.indexOf('</', this.#at); at >= 0; at = buffer.indexOf('</', at + 2)) {
      const end = at + 2 + name.length;
      if (end >= buffer.length) {
        if (!this.#last) return this.#keep(at);
        break;
      }
      if (endsTagName(buffer.charCodeAt(end)) && isName(buffer, at + 2, name)) {
        this.#keep(at);
        this.#kept.end();
        return this.#enterEndTag(end);
      }
    }
    const cut = !this.#last && buffer.charCodeAt(buffer.length - 1) === lt;
    return this.#keep(Math.max(this.#at, cut ? buffer.length - 1 : buffer.length));
  }

  #keep(end: number): false {
    this.#kept.add(this.#buffer, this.#at, end);
    this.#at = end;
    return false;
  }

  #script(): boolean {
    const found = scanScript(this.#buffer, this.#at, this.#scriptDepth, this.#last);
    this.#scriptDepth = found.depth;
    this.#keep(found.ended ? found.at - 8 : found.at);
    this.#at = found.at;
    if (!found.ended) return false;
    this.#kept.end();
    return this.#enterEndTag(found.at);
  }

  #longValue(): boolean {
    const buffer = this.#buffer;
    let at = this.#at;
    if (this.#valueEnd === 0)
      while (at < buffer.length && !endsUnquoted(buffer.charCodeAt(at))) at++;
    else at = buffer.indexOf(String.fromCharCode(this.#valueEnd), at);
    if (at < 0 || at >= buffer.length) {
      this.#at = buffer.length;
      return false;
    }
    this.#enter('tag', this.#valueEnd === 0 ? at : at + 1);
    return true;
  }

  #waitForValue(start: number, end: number, valueStart: number, quote: number): false {
    if (this.#buffer.length - valueStart <= valueCharsMax) return this.#waitInTag(start);
    this.#tag.drop(this.#buffer, start, end, valueStart);
    this.#valueEnd = quote;
    this.#enter('value', this.#buffer.length);
    return false;
  }

  /** Waits for more input from `at` on, where a tag begins. An endless name is dropped rather than
   *  kept. */
  #wait(at: number): false {
    this.#at = at;
    if (this.#isTooLong(at)) this.#enterEndTag(this.#buffer.length);
    return false;
  }

  /** The same from within a tag: its earlier attributes stay. */
  #waitInTag(at: number): false {
    this.#at = at;
    if (!this.#isTooLong(at)) return false;
    this.#tag.dropRest();
    this.#at = this.#buffer.length;
    return false;
  }

  #isTooLong(at: number): boolean {
    return this.#buffer.length - at > valueCharsMax + 256;
  }

  #enter(state: State, at: number): void {
    this.#state = state;
    this.#at = at;
  }
}
