/**
 * Sends the bytes of images to the master, which is asked first whether it has them: in parts, each
 * when the one before it was taken, of a few images at once. The report follows the last part
 * without a wait, so that both leave in one write. Source: PROTOCOL.md [T-111] [T-112].
 */
import type { MasterClient } from '../shared/client.ts';
import { imagePartBytesMax, imagesUnderWayMax } from '../shared/images.ts';
import type { Held } from './statements.ts';

export class ImageSender {
  #underWay = 0;
  readonly #waiting: (() => void)[] = [];

  /** Sends what the master does not have, then calls `report`, with whether bytes were sent; returns
   *  its result. `withinMs`: see `MasterClient.request`. Rejects when the connection ends. */
  async send<T>(
    master: MasterClient,
    { task, lease }: Held,
    { digest, bytes }: { readonly digest: Uint8Array; readonly bytes: Buffer },
    withinMs: number,
    report: (isSent: boolean) => Promise<T>,
  ): Promise<T> {
    const { state } = await master.request('task.known', { task, lease, digest }, withinMs);
    if (state !== 'send') return await report(false);
    await this.#enter();
    const last = Math.max(0, Math.ceil(bytes.length / imagePartBytesMax) - 1);
    const send = (part: number) => {
      const body = bytes.subarray(part * imagePartBytesMax, (part + 1) * imagePartBytesMax);
      return master.request('task.content', { task, lease, part, body }, withinMs);
    };
    const sendFirst = async () => {
      for (let part = 0; part < last; part++) await send(part);
    };
    const first = sendFirst();
    const whole = first.then(() => send(last)).finally(() => this.#leave());
    // The master takes requests in their order. If it refuses a part, it says why there.
    const [, result] = await Promise.all([whole, first.then(() => report(true))]);
    return result;
  }

  async #enter(): Promise<void> {
    while (this.#underWay >= imagesUnderWayMax) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#underWay++;
  }

  #leave(): void {
    this.#underWay--;
    this.#waiting.shift()?.();
  }
}
