/** Jobs that have ended and whose lines are written: the last ones stay in the store, for those who
 *  ask for their output. */

type Kept = { readonly job: number; readonly seq: number; readonly bytes: number };

const countMax = 1_000;
const bytesMax = 64 << 20;

export class KeptJobs {
  readonly #forget: (jobs: readonly number[]) => void;
  /** In the order of their ends. */
  #kept: Kept[] = [];
  #bytes = 0;
  #writtenTo = 0;

  constructor(forget: (jobs: readonly number[]) => void) {
    this.#forget = forget;
  }

  add(kept: Kept): void {
    const last = this.#kept.at(-1);
    this.#kept.push(kept);
    if (last !== undefined && last.seq > kept.seq) this.#kept.sort((a, b) => a.seq - b.seq);
    this.#bytes += kept.bytes;
    this.#trim();
  }

  /** The lines of all up to this one are in the file. */
  written(seq: number): void {
    this.#writtenTo = seq;
    this.#trim();
  }

  #trim(): void {
    let count = 0;
    for (const { seq, bytes } of this.#kept) {
      const isRoom = this.#kept.length - count <= countMax && this.#bytes <= bytesMax;
      if (isRoom || seq > this.#writtenTo) break;
      this.#bytes -= bytes;
      count++;
    }
    if (count > 0) this.#forget(this.#kept.splice(0, count).map(({ job }) => job));
  }
}
