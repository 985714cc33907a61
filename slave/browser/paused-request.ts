/** A request of a page that waits for what is to become of it. Each method ends the wait. */
import type { DevTools } from './devtools.ts';
import type { PausedParams, Refusal } from './protocol.ts';

type Header = { readonly name: string; readonly value: string };

export class PausedRequest {
  readonly #devtools: DevTools;
  readonly #params: PausedParams;

  constructor(devtools: DevTools, params: PausedParams) {
    this.#devtools = devtools;
    this.#params = params;
  }

  /** The same for all requests of a chain of redirects. Undefined: nobody hears of its end. */
  get id(): string | undefined {
    return this.#params.networkId;
  }

  get url(): string {
    return this.#params.request.url;
  }

  get method(): string {
    return this.#params.request.method;
  }

  get headers(): Readonly<Record<string, string>> {
    return this.#params.request.headers;
  }

  get frame(): string {
    return this.#params.frameId;
  }

  /** `Document`: of the page, or of a frame. Source: Network.ResourceType. */
  get type(): string {
    return this.#params.resourceType;
  }

  /** It fails, in the eyes of the page. */
  refuse(errorReason: Refusal): void {
    this.#devtools.tell('Fetch.failRequest', { requestId: this.#params.requestId, errorReason });
  }

  /** It leaves the browser. `headers`: instead of its own. */
  resume(headers?: readonly Header[]): void {
    const { requestId } = this.#params;
    this.#devtools.tell('Fetch.continueRequest', { requestId, ...(headers && { headers }) });
  }

  /** It is answered. */
  answer(responseCode: number, responseHeaders: readonly Header[], body: Buffer): void {
    this.#devtools.tell('Fetch.fulfillRequest', {
      requestId: this.#params.requestId,
      responseCode,
      responseHeaders,
      body: body.toString('base64'),
    });
  }
}
