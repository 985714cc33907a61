/**
 * The room for bodies that are kept as they are: of images, for the archive. Most fetches wait
 * without a slot, so hundreds of answers may begin at once. When what has come of all of them is
 * too much, only the oldest are read on, one for each slot; and none while what was read waits for
 * the master. The others pause in the middle of their answers.
 */

/** Bytes of all bodies after which most of them pause. */
const bytesMax = 64 << 20;

/** The place of one fetch. */
export type BodySeat = {
  /** So much more has come. Returns undefined, or resolves when it may be read on. */
  took(bytes: number): Promise<void> | undefined;
  /** The fetch has ended, and nothing of it is kept here. Idempotent. */
  leave(): void;
};

type Taken = { bytes: number; goOn: (() => void) | undefined };

export class BodyRoom {
  readonly #slots: number;
  readonly #isFull: () => boolean;
  /** Those of which something has come, the oldest first. */
  readonly #taken = new Set<Taken>();
  #bytes = 0;
  #waiting = 0;

  /** `isFull`: too much waits for the master; `look` is called when it does not any more. */
  constructor(slots: number, isFull: () => boolean) {
    this.#slots = slots;
    this.#isFull = isFull;
  }

  enter(): BodySeat {
    const taken: Taken = { bytes: 0, goOn: undefined };
    return {
      took: (bytes) => {
        this.#taken.add(taken);
        taken.bytes += bytes;
        this.#bytes += bytes;
        if (this.#mayGoOn(taken)) return undefined;
        this.#waiting++;
        return new Promise((resolve) => {
          taken.goOn = resolve;
        });
      },
      leave: () => {
        if (!this.#taken.delete(taken)) return;
        this.#bytes -= taken.bytes;
        if (taken.goOn !== undefined) this.#waiting--;
        this.look();
      },
    };
  }

  /** Lets go on what may. */
  look(): void {
    if (this.#waiting === 0) return;
    for (const taken of this.#taken) {
      const { goOn } = taken;
      if (goOn === undefined || !this.#mayGoOn(taken)) continue;
      taken.goOn = undefined;
      this.#waiting--;
      goOn();
    }
  }

  #mayGoOn(taken: Taken): boolean {
    if (this.#isFull()) return false;
    if (this.#bytes <= bytesMax) return true;
    let before = 0;
    for (const other of this.#taken) {
      if (other === taken) return true;
      if (++before >= this.#slots) return false;
    }
    return false;
  }
}
