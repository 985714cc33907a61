/**
 * The turns of further requests of a fetch: of a redirect, of what a page in the browser goes on
 * to, of its frames. The slave asks the master before each, one after the other.
 * Source: PROTOCOL.md [T-22] [T-23] [T-143].
 */
import type { MasterClient } from '../shared/client.ts';
import { CommandError } from '../shared/errors.ts';
import type { Replies } from '../shared/replies.ts';
import type { Follow } from './fetch/outcome.ts';

type TurnsOptions = {
  readonly lease: number;
  readonly isTimed: boolean;
  /** So much later the first request may be announced. [T-145] */
  readonly tellMs?: number | undefined;
  /** Its first request has left. False: another one of its train will be announced. [T-147] */
  readonly onLeft?: () => boolean;
  /** Called before the master is asked for a turn. */
  readonly onAsk?: () => void;
  readonly master: () => MasterClient | undefined;
  /** The lease has ended. */
  readonly onLost: () => void;
};

export class Turns {
  readonly #options: TurnsOptions;
  #isTimed: boolean;
  #tellMs: number;
  /** A request that has left, and is announced with the next message, or soon. */
  #untold: { readonly leftAt: number; readonly timer: NodeJS.Timeout } | undefined;
  /** A lease has one turn at a time. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: TurnsOptions) {
    this.#options = options;
    this.#isTimed = options.isTimed;
    this.#tellMs = options.tellMs ?? 0;
  }

  /** The next request is to be announced. */
  get isTimed(): boolean {
    return this.#isTimed;
  }

  /** Its request leaves: the host's delay counts from now. */
  readonly started = (): void => {
    if (!this.#isTimed) return;
    // When it has left. Said before, it could leave late, and the next one came too early.
    process.nextTick(() => this.#left());
  };

  #left(): void {
    this.tell();
    const { lease, master, onLeft } = this.#options;
    const tellMs = this.#tellMs;
    this.#tellMs = 0;
    if (onLeft?.() === false) return;
    if (tellMs === 0) {
      master()?.notify('task.started', { lease });
      return;
    }
    // Most answers are here before: each message of its own wakes the master once more.
    const timer = setTimeout(() => this.tell(), tellMs);
    this.#untold = { leftAt: performance.now(), timer };
  }

  /** Announces a request that has left, if that was not done. */
  tell(): void {
    if (this.#untold === undefined) return;
    const { leftAt, timer } = this.#untold;
    clearTimeout(timer);
    this.#untold = undefined;
    const { lease, master } = this.#options;
    master()?.notify('task.started', { lease, agoMs: Math.floor(performance.now() - leftAt) });
  }

  /** Asks for the turn of a redirect, or of the next document. */
  readonly follow: Follow = async (url) => {
    const { state, timed = false } = await this.#ask(url, false);
    this.#isTimed = timed;
    return this.#turnOf(state);
  };

  /** The same for a frame, whose request is not announced. */
  readonly frame: Follow = async (url) => this.#turnOf((await this.#ask(url, true)).state);

  #turnOf(state: Replies['task.hop']['state']) {
    if (state === 'lost') this.#options.onLost();
    return state === 'go' || state === 'later' ? state : 'leave';
  }

  async #ask(url: string, frame: boolean): Promise<Replies['task.hop']> {
    this.#options.onAsk?.();
    this.tell();
    const before = this.#last;
    const answer = before.then(() => this.#request(url, frame));
    this.#last = answer.catch(() => {});
    return await answer;
  }

  async #request(url: string, frame: boolean): Promise<Replies['task.hop']> {
    const { lease, master } = this.#options;
    try {
      const body = frame ? { lease, url, frame: true as const } : { lease, url };
      return (await master()?.request('task.hop', body)) ?? { state: 'lost' };
    } catch (error) {
      if (error instanceof CommandError) throw error;
      return { state: 'lost' };
    }
  }
}
