/** The lines of a child's output, in turn. */
import { once } from 'node:events';
import { createInterface, type Interface } from 'node:readline';
import type { Readable } from 'node:stream';

export class Lines {
  readonly #said: string[] = [];
  readonly #reader: Interface;

  constructor(output: Readable) {
    this.#reader = createInterface(output);
    this.#reader.on('line', (line) => this.#said.push(line));
  }

  /** The next line. @throws Error when the output ends before. */
  async next(): Promise<string> {
    while (true) {
      const line = this.#said.shift();
      if (line !== undefined) return line;
      const ended = once(this.#reader, 'close').then(() => true);
      if (await Promise.race([ended, once(this.#reader, 'line').then(() => false)])) {
        throw new Error('the program ended');
      }
    }
  }
}
