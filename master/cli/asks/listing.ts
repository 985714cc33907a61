/**
 * A list that is printed as it comes, so that it may be longer than the memory: a line for each
 * entry, or with --json one array of all.
 */
import { visibleJson, visibleLines } from '../../../shared/visible.ts';

type Entry = {
  /** One line, or several. */
  readonly text: string;
  /** For --json. */
  readonly answer: unknown;
};

export class Listing {
  readonly #isJson: boolean;
  #count = 0;

  constructor(isJson: boolean) {
    this.#isJson = isJson;
  }

  get count(): number {
    return this.#count;
  }

  /** False: nobody reads it any more, such as a `head` that has its lines. */
  get isWanted(): boolean {
    return process.stdout.writable;
  }

  add(entries: readonly Entry[]): void {
    if (entries.length === 0) return;
    const before = this.#isJson ? (this.#count === 0 ? '[\n' : ',\n') : '';
    const texts = entries.map(({ text, answer }) =>
      this.#isJson ? visibleJson(JSON.stringify(answer)) : `${visibleLines(text)}\n`,
    );
    this.#count += entries.length;
    process.stdout.write(`${before}${texts.join(this.#isJson ? ',\n' : '')}`);
  }

  /** `none`: printed in place of an empty list. */
  end(none: string): void {
    if (this.#isJson) process.stdout.write(this.#count === 0 ? '[]\n' : '\n]\n');
    else if (this.#count === 0) process.stdout.write(`${visibleLines(none)}\n`);
  }
}
