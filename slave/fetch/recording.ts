/**
 * The requests of a fetch and their answers, for the archive of its crawl: each body as it came,
 * after transfer decoding and before content decoding, up to a limit. Secrets of the operator are
 * left out: credentials and headers of the crawl.
 * Source: PROTOCOL.md [T-100]; ISO 28500 (WARC 1.1), 6.3 and 6.4.
 */
import { STATUS_CODES } from 'node:http';
import { archiveBytesDefault, type BodyEnd } from '../../shared/archive.ts';
import type { FetchSpec } from '../../shared/crawl.ts';
import { keepsViews, type ViewName } from '../../shared/render.ts';
import type { Headers } from './content.ts';
import { heldOf } from './held-chunk.ts';

/** One request, and its answer. */
export type ArchivedExchange = {
  readonly url: string;
  /** When the request left: Unix time in ms. */
  readonly at: number;
  /** Head of the request and of the answer, each with the empty line at its end. */
  readonly request: Buffer;
  readonly response: Buffer;
  readonly chunks: readonly Buffer[];
  readonly bytes: number;
  /** `whole`, or why the body is not. */
  readonly end: BodyEnd;
  readonly view?: ViewName;
};

/** Headers of requests that hold nothing but what every fetch of this crawler says. */
const plainNames: ReadonlySet<string> = new Set([
  'user-agent',
  'accept',
  'accept-encoding',
  'accept-language',
  'if-none-match',
  'if-modified-since',
]);

/** The browser's result for a page; `digest`: SHA-1 in hexadecimal. */
export type View = {
  readonly view: ViewName;
  readonly bytes: Buffer;
  readonly digest: string;
};

/** All exchanges of one fetch, and what a browser made of their page. */
export class Recording {
  readonly #bytesMax: number | undefined;
  readonly #exchanges: ExchangeRecord[] = [];
  readonly #views: ArchivedExchange[] = [];

  /** `bytesMax`: of a body; undefined: exchanges are not kept. */
  constructor(bytesMax: number | undefined) {
    this.#bytesMax = bytesMax;
  }

  /** `headers`: names and values in turn. The body of a POST is left out: it may be a login. */
  begin(method: string, url: URL, headers: readonly string[]): ExchangeRecord | undefined {
    if (this.#bytesMax === undefined) return undefined;
    const request = requestHead(method, url, headers);
    const exchange = new ExchangeRecord(url, request, this.#bytesMax);
    this.#exchanges.push(exchange);
    return exchange;
  }

  /** Takes what a browser made of the page of that URL. */
  addViews(url: string, seen: readonly View[]): void {
    for (const { view, bytes } of seen) {
      const type = view === 'html' ? 'text/html; charset=utf-8' : 'image/png';
      this.#views.push({
        url,
        view,
        at: Date.now(),
        request: Buffer.alloc(0),
        response: responseHead(200, { 'content-type': type }, undefined),
        chunks: [bytes],
        bytes: bytes.length,
        end: 'whole',
      });
    }
  }

  /** Those that were answered, and the views after them. */
  get exchanges(): ArchivedExchange[] {
    return [...this.#exchanges.flatMap((exchange) => exchange.archived ?? []), ...this.#views];
  }
}

/** Takes one request and its answer. */
export class ExchangeRecord {
  readonly #url: URL;
  readonly #request: Buffer;
  readonly #bytesMax: number;
  readonly #chunks: Buffer[] = [];
  #response: Buffer | undefined;
  #at = Date.now();
  #bytes = 0;
  #end: BodyEnd | undefined;

  constructor(url: URL, request: Buffer, bytesMax: number) {
    this.#url = url;
    this.#bytesMax = bytesMax;
    this.#request = request;
  }

  /** More of the body is wanted. */
  get isOpen(): boolean {
    return this.#response !== undefined && this.#end === undefined;
  }

  started(): void {
    this.#at = Date.now();
  }

  answered(status: number, headers: Headers, text: string | undefined): void {
    this.#response ??= responseHead(status, headers, text);
  }

  /** A chunk of the body. */
  data(chunk: Uint8Array): void {
    if (!this.isOpen) return;
    const room = this.#bytesMax - this.#bytes;
    if (room > 0) this.#chunks.push(heldOf(chunk.subarray(0, room)));
    this.#bytes += Math.min(chunk.length, room);
    if (chunk.length > room) this.#end = 'length';
  }

  /** The body has ended, or nothing more of it comes. Only the first call counts. */
  ended(end: BodyEnd): void {
    this.#end ??= end;
  }

  /** It is not sure that the answer is one to this request. */
  drop(): void {
    this.#response = undefined;
  }

  get archived(): ArchivedExchange | undefined {
    const response = this.#response;
    if (response === undefined) return undefined;
    return {
      url: this.#url.href,
      at: this.#at,
      request: this.#request,
      response,
      chunks: this.#chunks,
      bytes: this.#bytes,
      end: this.#end ?? 'unspecified',
    };
  }
}

function requestHead(method: string, url: URL, headers: readonly string[]): Buffer {
  let head = `${method} ${url.pathname}${url.search} HTTP/1.1\r\nhost: ${url.host}\r\n`;
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] ?? '';
    if (plainNames.has(name.toLowerCase())) head += `${name}: ${headers[i + 1]}\r\n`;
  }
  return Buffer.from(`${head}\r\n`, 'latin1');
}

/** A body without its chunk framing must not claim to have it. Source: RFC 9112, 7.1.3. */
function responseHead(status: number, headers: Headers, text: string | undefined): Buffer {
  let head = `HTTP/1.1 ${status} ${text || STATUS_CODES[status] || ''}`.trimEnd();
  for (const [name, value] of Object.entries(headers)) {
    const shown = name === 'transfer-encoding' ? 'x-crawler-transfer-encoding' : name;
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined) head += `\r\n${shown}: ${one}`;
    }
  }
  return Buffer.from(`${head}\r\n\r\n`, 'latin1');
}

/** Undefined: nothing of the crawl is kept. `bytesMin`: of a body that nothing else keeps. */
export function recordingOf(
  fetch: Pick<FetchSpec, 'archive' | 'save' | 'archiveBytes' | 'render'>,
  bytesMin = 0,
): Recording | undefined {
  const { archive, save, archiveBytes = archiveBytesDefault } = fetch;
  if ((archive ?? save) !== undefined) return new Recording(Math.max(archiveBytes, bytesMin));
  return keepsViews(fetch) ? new Recording(undefined) : undefined;
}
