/**
 * The tokenizer of HTML, cut down to what an extractor needs: it follows the states of the
 * standard, jumps over text, comments, scripts and other tags' attributes with `indexOf`, and
 * reports only the elements that matter, in document order. Chunks of any size go in; a token that
 * a chunk cuts is kept (`#rest`) and read again when the input has doubled, so that one endless
 * token costs linear time. No tree: foreign content (svg, math) is followed on a small stack.
 *
 *   text ─"<x"─▶ tag ─">"─▶ text | raw | script | plaintext        tag ─long value─▶ value ─▶ tag
 *   text ─"<!--"─▶ comment ─▶ text   "<!", "<?", "</?" ─▶ bogus ─▶ text   "<![CDATA[" ─▶ cdata ─▶ text
 *
 * Source: HTML Standard 13.2.5 (tokenization), 13.2.6.5 (foreign content). htmlparser2's Tokenizer
 * is not used because it ends `<![CDATA[` in HTML at "]]>", knows no script inside a script's
 * comment, ends `</a b=">">` too early, and takes twice the time.
 */
import {
  attributeName,
  endsAttributeName,
  endsTagName,
  endsUnquoted,
  equals,
  gt,
  href,
  isLetter,
  isName,
  isSpace,
  type Kind,
  kinds,
  lengthsByLetter,
  lt,
  nameEnd,
  slash,
  src,
  srcset,
  wantedOf,
} from './elements.ts';
import { ForeignStack } from './foreign.ts';
import { commentEnd, type ScriptDepth, scanScript } from './opaque.ts';

/** What the scanner reports. Values are raw: character references are not decoded. */
export type ScannerSink = {
  link(href: string): void;
  image(src: string | undefined, srcset: string | undefined, alt: string | undefined): void;
  base(href: string): void;
  /** The text of the first title, at most `titleCharsMax` of it. */
  title(text: string): void;
};

/** A longer attribute value is read over and dropped: it holds no URL that would be kept. */
export const valueCharsMax = 1 << 20;
const titleCharsMax = 1 << 16;
/** A rest shorter than this is read again with every chunk. */
const rescanCharsMin = 1 << 12;

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
export class Scanner {
  readonly #sink: ScannerSink;
  readonly #foreign = new ForeignStack();
  #state: State = 'text';
  #buffer = '';
  #at = 0;
  #last = false;
  #rest = '';
  /** Chunks that wait until they are as long as `#rest`. */
  #held: string[] = [];
  #heldChars = 0;

  #kind: Kind = 'other';
  /** Lower-case name of the open tag where it matters: raw text and foreign content. */
  #name = '';
  #wanted = 0;
  /** Attributes already seen on this tag; the first of a name wins. */
  #seen = 0;
  #href: string | undefined;
  #src: string | undefined;
  #srcset: string | undefined;
  #alt: string | undefined;
  /** What ends the long value that is being dropped: a quote, or 0 for whitespace and ">". */
  #valueEnd = 0;
  /** Nothing of the comment has been consumed yet, so `<!-->` can still end it. */
  #commentFresh = false;
  #scriptDepth: ScriptDepth = 'plain';
  #title: string | undefined;
  #titleDone = false;

  constructor(sink: ScannerSink) {
    this.#sink = sink;
  }

  write(chunk: string): void {
    if (this.#rest.length >= rescanCharsMin) {
      this.#held.push(chunk);
      this.#heldChars += chunk.length;
      if (this.#heldChars < this.#rest.length) return;
      this.#scan(this.#takeHeld(), false);
    } else {
      this.#scan(this.#rest.length === 0 ? chunk : this.#rest + chunk, false);
    }
  }

  /** The input is over: a tag that is still open is dropped, an open title counts. */
  end(): void {
    this.#scan(this.#takeHeld(), true);
    if (this.#title !== undefined) this.#endTitle();
  }

  #takeHeld(): string {
    const text = this.#rest + this.#held.join('');
    this.#held = [];
    this.#heldChars = 0;
    return text;
  }

  #scan(buffer: string, last: boolean): void {
    this.#buffer = buffer;
    this.#at = 0;
    this.#last = last;
    while (this.#step());
    this.#rest = last ? '' : buffer.slice(this.#at);
    this.#buffer = '';
  }

  /** One token or jump; false when the buffer is used up or ends inside a token. */
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
    const at = buffer.indexOf('<', this.#at);
    if (at < 0) {
      this.#at = buffer.length;
      return false;
    }
    this.#at = at;
    const c = buffer.charCodeAt(at + 1);
    if (isLetter(c)) return this.#openTag(at + 1);
    if (c === slash) return this.#closeTag(at + 2);
    if (c === 0x21) return this.#declaration(at + 2);
    if (at + 1 >= buffer.length) return false;
    if (c === 0x3f) this.#enter('bogus', at + 1);
    else this.#at = at + 1;
    return true;
  }

  #openTag(start: number): boolean {
    const buffer = this.#buffer;
    const end = nameEnd(buffer, start);
    if (end >= buffer.length) return this.#wait(start - 1);
    this.#kind = 'other';
    if (this.#foreign.depth > 0) {
      this.#name = buffer.slice(start, end).toLowerCase();
      this.#kind = this.#foreign.open(this.#name) ? (kinds.get(this.#name) ?? 'other') : 'foreign';
    } else if (((lengthsByLetter[buffer.charCodeAt(start)] ?? 0) >> (end - start)) & 1) {
      this.#name = buffer.slice(start, end).toLowerCase();
      this.#kind = kinds.get(this.#name) ?? 'other';
    }
    return this.#enterTag(end);
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
    if (this.#foreign.depth > 0) this.#foreign.close(buffer.slice(start, end).toLowerCase());
    this.#kind = 'other';
    return this.#enterTag(end);
  }

  #enterTag(at: number): boolean {
    if (this.#kind === 'other' && this.#buffer.charCodeAt(at) === gt) {
      this.#enter('text', at + 1);
      return true;
    }
    this.#wanted = wantedOf[this.#kind];
    this.#seen = 0;
    this.#href = undefined;
    this.#src = undefined;
    this.#srcset = undefined;
    this.#alt = undefined;
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

  /** Attributes up to ">", one after the other; those that are not wanted are jumped over. */
  #attributes(): boolean {
    const buffer = this.#buffer;
    const length = buffer.length;
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
      if (at >= length) return this.#wait(solidus ? length - 1 : length);
      if (c === gt) return this.#endTag(at + 1, solidus);
      const start = at++;
      while (at < length && !endsAttributeName(buffer.charCodeAt(at))) at++;
      const end = at;
      while (at < length && isSpace(buffer.charCodeAt(at))) at++;
      if (at >= length) return this.#wait(start);
      if (buffer.charCodeAt(at) !== equals) {
        this.#take(start, end, end, end);
        continue;
      }
      at++;
      while (at < length && isSpace(buffer.charCodeAt(at))) at++;
      if (at >= length) return this.#wait(start);
      c = buffer.charCodeAt(at);
      if (c === 0x22 || c === 0x27) {
        const close = buffer.indexOf(c === 0x22 ? '"' : "'", at + 1);
        if (close < 0) return this.#waitForValue(start, end, at + 1, c);
        this.#take(start, end, at + 1, close);
        at = close + 1;
      } else {
        const value = at;
        while (at < length && !endsUnquoted(buffer.charCodeAt(at))) at++;
        if (at >= length) return this.#waitForValue(start, end, value, 0);
        this.#take(start, end, value, at);
      }
    }
  }

  /** Keep the attribute if it is wanted and the first of its name. */
  #take(start: number, end: number, valueStart: number, valueEnd: number): void {
    if (this.#wanted === 0) return;
    const name = attributeName(this.#buffer, start, end) & this.#wanted & ~this.#seen;
    if (name === 0) return;
    this.#seen |= name;
    if (valueEnd - valueStart > valueCharsMax) return;
    const value = this.#buffer.slice(valueStart, valueEnd);
    if (name === href) this.#href = value;
    else if (name === src) this.#src = value;
    else if (name === srcset) this.#srcset = value;
    else this.#alt = value;
  }

  #endTag(at: number, selfClosing: boolean): boolean {
    this.#enter('text', at);
    switch (this.#kind) {
      case 'other':
        break;
      case 'link':
        if (this.#href !== undefined) this.#sink.link(this.#href);
        break;
      case 'image':
        if (this.#src !== undefined || this.#srcset !== undefined)
          this.#sink.image(this.#src, this.#srcset, this.#alt);
        break;
      case 'base':
        if (this.#href !== undefined) this.#sink.base(this.#href);
        break;
      case 'raw':
        if (this.#name === 'title' && !this.#titleDone) this.#title = '';
        this.#state = 'raw';
        break;
      case 'script':
        this.#scriptDepth = 'plain';
        this.#state = 'script';
        break;
      case 'plaintext':
        this.#state = 'plaintext';
        break;
      case 'foreign':
        if (!selfClosing) this.#foreign.push(this.#name);
        break;
      default:
        this.#kind satisfies never;
    }
    return true;
  }

  #comment(): boolean {
    const end = commentEnd(this.#buffer, this.#at, this.#commentFresh);
    if (end >= 0) {
      this.#enter('text', end);
      return true;
    }
    // Three characters are enough to see "--!" before a ">" that is still to come.
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

  /** Text up to the end tag of `#name`; a title's text is kept. */
  #raw(): boolean {
    const buffer = this.#buffer;
    const name = this.#name;
    for (let at = buffer.indexOf('</', this.#at); at >= 0; at = buffer.indexOf('</', at + 2)) {
      const end = at + 2 + name.length;
      if (end >= buffer.length) {
        if (!this.#last) return this.#keepTitle(at);
        break;
      }
      if (endsTagName(buffer.charCodeAt(end)) && isName(buffer, at + 2, name)) {
        this.#keepTitle(at);
        if (this.#title !== undefined) this.#endTitle();
        this.#kind = 'other';
        return this.#enterTag(end);
      }
    }
    const cut = !this.#last && buffer.charCodeAt(buffer.length - 1) === lt;
    return this.#keepTitle(Math.max(this.#at, cut ? buffer.length - 1 : buffer.length));
  }

  #keepTitle(end: number): false {
    if (this.#title !== undefined && this.#title.length < titleCharsMax)
      this.#title += this.#buffer.slice(this.#at, end);
    this.#at = end;
    return false;
  }

  #endTitle(): void {
    this.#sink.title((this.#title ?? '').slice(0, titleCharsMax));
    this.#title = undefined;
    this.#titleDone = true;
  }

  #script(): boolean {
    const found = scanScript(this.#buffer, this.#at, this.#scriptDepth, this.#last);
    this.#scriptDepth = found.depth;
    this.#at = found.at;
    if (!found.ended) return false;
    this.#kind = 'other';
    return this.#enterTag(found.at);
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
    if (this.#buffer.length - valueStart <= valueCharsMax) return this.#wait(start);
    this.#seen |= attributeName(this.#buffer, start, end);
    this.#valueEnd = quote;
    this.#enter('value', this.#buffer.length);
    return false;
  }

  /** More input is needed from `at` on. A name without end is dropped rather than kept whole. */
  #wait(at: number): false {
    if (this.#buffer.length - at <= valueCharsMax + 256) {
      this.#at = at;
      return false;
    }
    this.#kind = 'other';
    this.#enterTag(this.#buffer.length);
    return false;
  }

  #enter(state: State, at: number): void {
    this.#state = state;
    this.#at = at;
  }
}
