/** How a further document of a page in the browser is fetched: as it is, of any status and type, up
 *  to the size of a page. The browser judges what it is. */
import type { BodyReader, FetchPlan } from './fetch-plan.ts';

export const documentPlan: FetchPlan<Buffer> = {
  accept: 'text/html,application/xhtml+xml;q=0.9,*/*;q=0.5',
  open: ({ status, spec }) =>
    status >= 300 && status <= 399 ? undefined : new WholeReader(spec.bodyBytesMax),
};

class WholeReader implements BodyReader<Buffer> {
  readonly #bytesMax: number;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  write(chunk: Uint8Array): 'more' | 'enough' {
    const taken = Buffer.from(chunk.subarray(0, this.#bytesMax - this.#bytes));
    this.#chunks.push(taken);
    this.#bytes += taken.length;
    return taken.length < chunk.length ? 'enough' : 'more';
  }

  end(): Buffer {
    return Buffer.concat(this.#chunks);
  }
}
