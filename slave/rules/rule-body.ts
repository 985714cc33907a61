/**
 * The body of a page that rules are evaluated on: kept whole up to the limit of the crawl, and
 * decoded when its charset is known. Pages of HTML are read as always, too, which finds the
 * charset.
 */

import { isDataType, isHtml, isXmlType, xhtml } from '../../shared/media-types.ts';
import { PageDecoder } from '../fetch/charset.ts';
import type { BodyReader } from '../fetch/fetch-plan.ts';

/** Types on which rules are evaluated: HTML, JSON, XML. No type may be HTML, too. */
export function isRuleType(essence: string | undefined): boolean {
  return essence === undefined || isHtml(essence) || isDataType(essence);
}

/** A page in HTML, read as always: what is needed of it here. */
type PageReading = { readonly charset: string };

/** A body in text, and what its own reader made of it. */
export type RuleBody<P extends PageReading> = {
  readonly text: string;
  readonly charset: string;
  /** More was sent than the crawl reads of a page. */
  readonly cut: boolean;
  /** Undefined: it is not HTML. */
  readonly page: P | undefined;
};

export class RuleBodyReader<P extends PageReading> implements BodyReader<RuleBody<P>> {
  readonly #chunks: Buffer[] = [];
  readonly #essence: string;
  readonly #charset: string | undefined;
  readonly #bytesMax: number;
  readonly #page: BodyReader<P> | undefined;
  #bytes = 0;
  #cut = false;

  /** `page`: the reader of a page in HTML. */
  constructor(options: {
    essence: string | undefined;
    charset: string | undefined;
    /** More is not read. */
    bytesMax: number;
    page: BodyReader<P> | undefined;
  }) {
    this.#essence = options.essence ?? 'text/html';
    this.#charset = options.charset;
    this.#bytesMax = options.bytesMax;
    this.#page = options.page;
  }

  get bytes(): number {
    return this.#bytes;
  }

  write(chunk: Uint8Array): 'more' | 'wait' | 'enough' | 'not-html' {
    const room = this.#bytesMax - this.#bytes;
    const taken = Buffer.from(chunk.subarray(0, room));
    this.#chunks.push(taken);
    this.#bytes += taken.length;
    this.#cut ||= chunk.length > room;
    const said = this.#page?.write(chunk) ?? 'more';
    return said === 'more' && this.#cut ? 'enough' : said;
  }

  /** Undefined: it was to be HTML, and is not. */
  end(): RuleBody<P> | undefined {
    const page = this.#page?.end() as P | undefined;
    if (this.#page !== undefined && page === undefined) return undefined;
    const isXml = isXmlType(this.#essence) || this.#essence === xhtml;
    const label = page?.charset ?? this.#charset ?? (isXml ? undefined : 'utf-8');
    const decoder = new PageDecoder(label, { xml: isXml });
    const raw = decoder.write(Buffer.concat(this.#chunks)) + decoder.end();
    const charset = decoder.encoding ?? 'utf-8';
    return { text: decoder.value(raw), charset, cut: this.#cut, page };
  }
}
