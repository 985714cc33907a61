/**
 * The slave's connection to its master, which reconnects whenever it ends, with jittered back-off.
 *
 *     joining --hello--> joined --lost--> rejoining --hello--> joined …     (close() ends it)
 *
 * Before the first connection it gives up after a time limit; later it retries without a limit,
 * because a master comes back.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Joining } from '../shared/cli.ts';
import { MasterClient } from '../shared/client.ts';
import {
  ConfigError,
  ConnectionError,
  messageOf,
  type OrbError,
  ProtocolError,
} from '../shared/errors.ts';
import type { Logger } from '../shared/log.ts';
import type { Push } from '../shared/protocol.ts';

const retryFirstMs = 100;
const retryMaxMs = 5_000;
/** Connecting and handshake; the last try before giving up gets at least `connectMsMin`. */
const connectMsMin = 1_000;
const connectMsMax = 10_000;

type LinkHandler = {
  readonly onJoined: (master: MasterClient) => void;
  readonly onPush: (push: Push) => void;
  readonly onLost: () => void;
};

type LinkOptions = {
  readonly master: Joining;
  readonly name: string;
  readonly joinTimeoutMs: number;
  readonly log: Logger;
};

export class MasterLink {
  readonly #options: LinkOptions;
  readonly #handler: LinkHandler;
  readonly #closed = new AbortController();
  #master: MasterClient | undefined;

  constructor(options: LinkOptions, handler: LinkHandler) {
    this.#options = options;
    this.#handler = handler;
  }

  /** Undefined while there is no connection. */
  get master(): MasterClient | undefined {
    return this.#master;
  }

  /** Keeps the connection until `close`. @throws AuthError · ConfigError: retrying is useless */
  async run(): Promise<void> {
    const { joinTimeoutMs, log } = this.#options;
    const { host, port } = this.#options.master;
    let giveUpAt = performance.now() + joinTimeoutMs;
    for (let attempt = 0; !this.#closed.signal.aborted; attempt++) {
      try {
        await this.#session(Math.max(connectMsMin, giveUpAt - performance.now()));
        giveUpAt = Number.POSITIVE_INFINITY;
        attempt = 0;
      } catch (error) {
        if (this.#closed.signal.aborted) return;
        if (error instanceof ProtocolError) {
          throw new ConfigError(`${host}:${port}: ${error.message}`, error);
        }
        if (!(error instanceof ConnectionError)) throw error;
        if (performance.now() > giveUpAt) {
          throw new ConfigError(
            `no master answers at ${host}:${port} (${messageOf(error)}); ` +
              'start the master, or give its address with --master',
          );
        }
        if (attempt === 0) log.warn(`no master at ${host}:${port} (${messageOf(error)}); retrying`);
      }
      const backOffMs = Math.min(retryMaxMs, retryFirstMs * 2 ** attempt);
      const waitMs = backOffMs * (0.5 + Math.random());
      const { signal } = this.#closed;
      await sleep(Math.min(waitMs, Math.max(0, giveUpAt - performance.now())), undefined, {
        signal,
      }).catch(() => {});
    }
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await this.#master?.close();
  }

  /** One connection, from its beginning to its end. */
  async #session(leftMs: number): Promise<void> {
    const { name, log } = this.#options;
    const { host, port, authkey, tls } = this.#options.master;
    let ended: (error: OrbError | undefined) => void = () => {};
    const end = new Promise<OrbError | undefined>((resolve) => {
      ended = resolve;
    });
    const master = new MasterClient({
      host,
      port,
      authkey: authkey(),
      tls,
      name,
      role: 'slave',
      timeoutMs: Math.min(connectMsMax, leftMs),
      onPush: this.#handler.onPush,
      onClose: (error) => ended(error),
    });
    // A leaving slave does not wait for a master that may never answer.
    const giveUp = () => void master.close();
    this.#closed.signal.addEventListener('abort', giveUp, { once: true });
    try {
      await master.opened;
    } finally {
      this.#closed.signal.removeEventListener('abort', giveUp);
    }
    this.#master = master;
    log.info({ master: `${host}:${port}` }, 'joined');
    this.#handler.onJoined(master);
    const error = await end;
    this.#master = undefined;
    if (this.#closed.signal.aborted) return;
    log.warn(`lost the master${error ? `: ${messageOf(error)}` : ''}; reconnecting`);
    this.#handler.onLost();
  }
}
