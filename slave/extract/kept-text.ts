/**
 * The text of the few elements whose text matters: the first title, noframes, and with `all` style
 * and JSON-LD. It is gathered piece by piece, up to a limit, and reported at its end.
 */
import { decodeAttribute } from './entities.ts';
import type { ScannerSink } from './scanner-sink.ts';

const titleCharsMax = 1 << 16;
/** Limit for the other elements. */
const textCharsMax = 1 << 20;
/** Source: HTML, "update a style block". */
const sheet = /^(?:text\/css)?$/i;
const jsonLd = /^\s*application\/ld\+json\s*(?:;|$)/i;

export class KeptText {
  readonly #sink: ScannerSink;
  readonly #all: boolean;
  #element = '';
  /** undefined: no text is being kept. */
  #text: string | undefined;
  #titleDone = false;

  constructor(sink: ScannerSink, all: boolean) {
    this.#sink = sink;
    this.#all = all;
  }

  /** An element of that name is open. `type`: its attribute of that name. */
  begin(name: string, type = ''): void {
    const isWanted =
      name === 'title' ? !this.#titleDone : name === 'noframes' || this.#isImages(name, type);
    if (!isWanted) return;
    this.#element = name;
    this.#text = '';
  }

  add(buffer: string, start: number, end: number): void {
    // One character beyond the limit shows that there was more.
    if (this.#text !== undefined && this.#text.length <= textCharsMax)
      this.#text += buffer.slice(start, end);
  }

  /** The element has ended, or the page. */
  end(): void {
    const text = this.#text;
    if (text === undefined) return;
    this.#text = undefined;
    const element = this.#element;
    if (element === 'title') {
      this.#sink.title(text.slice(0, titleCharsMax));
      this.#titleDone = true;
      return;
    }
    const kept = text.slice(0, textCharsMax);
    if (element === 'style') this.#sink.css(kept, false);
    else if (element === 'script') this.#sink.data(kept);
    else this.#sink.noframes(kept);
    if (text.length > textCharsMax) this.#sink.textDropped(element);
  }

  #isImages(name: string, type: string): boolean {
    if (!this.#all || (name !== 'style' && name !== 'script')) return false;
    return (name === 'style' ? sheet : jsonLd).test(decodeAttribute(type));
  }
}
