/**
 * The program that has started this master to read the records of a crawl (`--stream`), and the
 * channel to it. It says how far it is; when it is gone, the channel closes.
 */
import type { FromMaster, SentSection, ToMaster } from '../../shared/record-stream.ts';

/** One end of the channel: `process`. */
type Channel = {
  readonly send?: ((message: unknown, onSent: (error: Error | null) => void) => void) | undefined;
  on(event: 'message', listener: (message: unknown) => void): unknown;
  once(event: 'disconnect', listener: () => void): unknown;
};

export class ProgramReader {
  /** Of its process. */
  readonly pid = process.ppid;
  readonly #channel: Channel;
  /** Number of the last record that it is done with. */
  taken = 0;
  /** The same of the last one that it was sent. */
  sent = 0;
  /** No more is taken: the master ends. */
  isClosed = false;
  #wake: () => void = () => {};

  /** `onLeave`: it asks the master to end, or is gone. */
  constructor(channel: Channel, onLeave: (isGone: boolean) => void) {
    this.#channel = channel;
    channel.on('message', (message) => {
      const { taken, leave } = (message ?? {}) as ToMaster;
      if (typeof taken === 'number' && taken > this.taken) {
        this.taken = taken;
        this.#wake();
      }
      if (leave === true) onLeave(false);
    });
    channel.once('disconnect', () => onLeave(true));
  }

  send(crawl: string, sections: readonly SentSection[]): void {
    const message: FromMaster = { crawl, sections };
    // A channel that has closed says so by its own event.
    this.#channel.send?.(message, () => {});
  }

  /** Resolves when it has taken more than that, takes no more, or the wait is over after `wake`. */
  async beyond(taken: number, isOver: () => boolean): Promise<void> {
    while (this.taken <= taken && !this.isClosed && !isOver()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Makes those that wait look again. */
  wake(): void {
    this.#wake();
  }

  close(): void {
    this.isClosed = true;
    this.#wake();
  }
}
