/**
 * The pipe to a browser: texts, each of which ends with a zero byte. A text that is too long is
 * dropped while it comes, so what a page makes its browser send takes no memory here.
 * Source: `--remote-debugging-pipe`; Chromium, devtools_pipe_handler.cc.
 */
import type { Readable, Writable } from 'node:stream';

type MessagePipeOptions = {
  /** From the browser. */
  readonly input: Readable;
  /** To the browser. */
  readonly output: Writable;
  /** Of one text; what is longer is dropped. */
  readonly bytesMax: number;
  /** `head`: the first bytes of a text. False: nobody wants it. */
  readonly isWanted: (head: string) => boolean;
  readonly onText: (text: string) => void;
  /** One was dropped that began so. */
  readonly onTooLong: (head: string) => void;
  /** Nothing more comes. Called once. */
  readonly onEnd: () => void;
};

/** Enough for the id of an answer, or the name of an event. */
const headBytes = 80;

export class MessagePipe {
  readonly #options: MessagePipeOptions;
  /** Of the text that is not whole yet. */
  #parts: Buffer[] = [];
  #bytes = 0;
  #isEnded = false;

  constructor(options: MessagePipeOptions) {
    this.#options = options;
    const { input, output } = options;
    input.on('data', (chunk: Buffer) => this.#take(chunk));
    for (const stream of [input, output]) {
      stream.on('error', () => this.close());
      stream.on('close', () => this.close());
    }
    input.on('end', () => this.close());
  }

  /** Does nothing once it has ended. */
  send(text: string): void {
    if (!this.#isEnded) this.#options.output.write(`${text}\0`);
  }

  /** Idempotent. */
  close(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#parts = [];
    const { input, output, onEnd } = this.#options;
    input.destroy();
    output.destroy();
    onEnd();
  }

  #take(chunk: Buffer): void {
    let from = 0;
    while (!this.#isEnded) {
      const end = chunk.indexOf(0, from);
      this.#keep(chunk.subarray(from, end < 0 ? undefined : end));
      if (end < 0) return;
      this.#whole();
      from = end + 1;
    }
  }

  #keep(part: Buffer): void {
    if (part.length === 0) return;
    this.#bytes += part.length;
    this.#parts.push(part);
    if (this.#bytes <= this.#options.bytesMax) return;
    // Its head is enough from here on, in bytes of its own.
    const heads = this.#parts.map((one) => one.subarray(0, headBytes));
    this.#parts = [Buffer.concat(heads, headBytes)];
  }

  #whole(): void {
    const { bytesMax, isWanted, onText, onTooLong } = this.#options;
    const [first = Buffer.alloc(0)] = this.#parts;
    const text = this.#parts.length > 1 ? Buffer.concat(this.#parts) : first;
    const isTooLong = this.#bytes > bytesMax;
    this.#parts = [];
    this.#bytes = 0;
    const head = text.toString('latin1', 0, headBytes);
    if (isTooLong) onTooLong(head);
    else if (isWanted(head)) onText(text.toString());
  }
}
