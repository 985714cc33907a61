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
  readonly master: () => MasterClient | undefined;
  /** The lease has ended. */
  readonly onLost: () => void;
};

export class Turns {
  readonly #options: TurnsOptions;
  #isTimed: boolean;
  /** A lease has one turn at a time. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: TurnsOptions) {
    this.#options = options;
    this.#isTimed = options.isTimed;
  }

  /** The next request is to be announced. */
  get isTimed(): boolean {
    return this.#isTimed;
  }

  /** Its request leaves: the host's delay counts from now. */
  readonly started = (): void => {
    if (!this.#isTimed) return;
    const { lease, master } = this.#options;
    // When it has left. Said before, it could leave late, and the next one came too early.
    process.nextTick(() => master()?.notify('task.started', { lease }));
  };

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
