/**
 * Sends the bytes of images to the master, which is asked first whether it has them: in parts, each
 * when the one before it was taken, of a few images at once. Source: PROTOCOL.md [T-111] [T-112].
 */
import type { MasterClient } from '../shared/client.ts';
import { imagePartBytesMax, imagesUnderWayMax } from '../shared/images.ts';
import type { Held } from './statements.ts';

export class ImageSender {
  #underWay = 0;
  readonly #waiting: (() => void)[] = [];

  /** Resolves with true when the bytes were sent, with false if the master does not want them.
   *  Rejects when the connection ends. */
  async send(
    master: MasterClient,
    held: Held,
    digest: Uint8Array,
    image: Buffer,
  ): Promise<boolean> {
    const { task, lease } = held;
    const { state } = await master.request('task.known', { task, lease, digest });
    if (state !== 'send') return false;
    await this.#enter();
    try {
      for (let part = 0, from = 0; from < image.length; part++, from += imagePartBytesMax) {
        const body = image.subarray(from, from + imagePartBytesMax);
        await master.request('task.content', { task, lease, part, body });
      }
      return true;
    } finally {
      this.#underWay--;
      this.#waiting.shift()?.();
    }
  }

  async #enter(): Promise<void> {
    while (this.#underWay >= imagesUnderWayMax) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#underWay++;
  }
}
