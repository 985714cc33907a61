/**
 * Watches a request that goes through a proxy: while there is no answer, either the host is slow or
 * the proxy hangs, and only the proxy itself can show which. So the proxy is probed. If it does not
 * answer the probe, the request fails by the proxy's fault. The same where the connection ends
 * instead. The proxy client wraps each request in it.
 */
import type { Dispatcher } from 'undici';
import { AwakeTimer } from '../../shared/awake.ts';

type Handler = Dispatcher.DispatchHandler;
type Controller = Dispatcher.DispatchController;

type SilenceOptions = {
  /** After this time without an answer the proxy is probed. */
  readonly afterMs: number;
  readonly isAlive: () => Promise<boolean>;
  /** Returns the error of a request when the proxy is silent. */
  readonly blame: () => Error;
  /** Of a request that failed before its answer: whose fault was it? Undefined: as it is. */
  readonly judge: (error: Error) => Promise<Error> | undefined;
};

export class SilenceWatch implements Handler {
  readonly #handler: Handler;
  readonly #options: SilenceOptions;
  readonly #timer: AwakeTimer;
  #state: 'waiting' | 'answered' | 'failed' = 'waiting';
  #controller: Controller | undefined;

  constructor(handler: Handler, options: SilenceOptions) {
    this.#handler = handler;
    this.#options = options;
    this.#timer = new AwakeTimer(() => void this.#look(), options.afterMs).unref();
  }

  onRequestStart(controller: Controller, context: unknown): void {
    this.#controller = controller;
    if (this.#state === 'failed') controller.abort(new Error('no longer wanted'));
    else this.#handler.onRequestStart?.(controller, context);
  }

  onResponseStart(...answer: Parameters<NonNullable<Handler['onResponseStart']>>): void {
    this.#answered();
    if (this.#state !== 'failed') this.#handler.onResponseStart?.(...answer);
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    if (this.#state !== 'failed') this.#handler.onResponseData?.(controller, chunk);
  }

  onResponseEnd(...end: Parameters<NonNullable<Handler['onResponseEnd']>>): void {
    if (this.#state !== 'failed') this.#handler.onResponseEnd?.(...end);
  }

  onResponseError(controller: Controller, error: Error): void {
    if (this.#state === 'failed') return;
    const judged = this.#state === 'waiting' ? this.#options.judge(error) : undefined;
    this.#answered();
    if (judged === undefined) this.#handler.onResponseError?.(controller, error);
    else void judged.then((fault) => this.#handler.onResponseError?.(controller, fault));
  }

  #answered(): void {
    if (this.#state === 'waiting') this.#state = 'answered';
    this.#timer.clear();
  }

  async #look(): Promise<void> {
    const isAlive = await this.#options.isAlive();
    if (isAlive || this.#state !== 'waiting') return;
    this.#state = 'failed';
    const error = this.#options.blame();
    const controller = this.#controller ?? notStarted;
    this.#handler.onResponseError?.(controller, error);
    this.#controller?.abort(error);
  }
}

/** For a request that still waits for its connection. */
const notStarted: Controller = {
  aborted: true,
  paused: false,
  reason: null,
  abort() {},
  pause() {},
  resume() {},
};
