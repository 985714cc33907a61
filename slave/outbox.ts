/**
 * Messages to the master that are not yet on its disk. Each is kept until it is acknowledged, and
 * sent again after a lost connection.
 */
import type { MasterClient } from '../shared/client.ts';
import { CommandError } from '../shared/errors.ts';
import type { Logger } from '../shared/log.ts';
import { sendExchanges } from './archive-parts.ts';
import { ImageSender } from './image-parts.ts';
import { ofFailure, type Statement } from './statements.ts';

/** Bytes above which no fetch should begin. */
const bytesMax = 64 << 20;
/** A statement may wait this long for others, so that they leave in one write. */
const othersMs = 5;

type OutboxOptions = {
  /** Undefined while there is no connection. */
  readonly master: () => MasterClient | undefined;
  /** Called when there is more room than before. */
  readonly onRoom: () => void;
  /** No other statement comes soon: only one task is under way. */
  readonly isAlone: () => boolean;
  /** How long a statement about this lease may wait, in ms; undefined: as all others. */
  readonly holdMs: (lease: number) => number | undefined;
  readonly log: Logger;
};

export class Outbox {
  readonly #options: OutboxOptions;
  readonly #statements = new Set<Statement>();
  readonly #images = new ImageSender();
  #bytes = 0;

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  get isEmpty(): boolean {
    return this.#statements.size === 0;
  }

  get isFull(): boolean {
    return this.#bytes >= bytesMax;
  }

  tell(statement: Statement): void {
    this.#statements.add(statement);
    this.#bytes += statement.bytes;
    const master = this.#options.master();
    if (master !== undefined) this.#send(master, statement);
  }

  /** Sends everything again, to a master that may not have received it. */
  tellAll(master: MasterClient): void {
    for (const statement of this.#statements) this.#send(master, statement);
  }

  #send(master: MasterClient, statement: Statement): void {
    // The verb and the body of a statement belong together, which TypeScript cannot see of a union.
    const { verb, body, exchanges, image } = statement as Extract<
      Statement,
      { verb: 'task.report' }
    >;
    const withinMs = this.#withinMs(statement);
    const isPlain = exchanges === undefined && image === undefined;
    const sent = isPlain
      ? master.request(verb, body, withinMs)
      : this.#sendWhole(master, statement);
    sent.then(
      () => this.#forget(statement),
      (error: unknown) => {
        // Without an answer it is sent again when the master is back.
        if (error instanceof CommandError) this.#refused(statement, error);
      },
    );
  }

  #withinMs({ verb, body }: Statement): number {
    const { holdMs, isAlone } = this.#options;
    // The host may want to be left alone.
    const heldMs = verb === 'task.release' ? undefined : holdMs(body.lease);
    // A wait for nothing would only wake the process once more.
    return heldMs ?? (isAlone() ? 0 : othersMs);
  }

  /** Sends the parts that belong to a statement before it. */
  async #sendWhole(master: MasterClient, statement: Statement): Promise<unknown> {
    const { verb, body, exchanges, image } = statement as Extract<
      Statement,
      { verb: 'task.image' }
    >;
    const withinMs = this.#withinMs(statement);
    if (exchanges !== undefined) await sendExchanges(master, body, exchanges, withinMs);
    if (image === undefined) return await master.request(verb, body, withinMs);
    const report = (isSent: boolean) =>
      master.request(verb, isSent ? { ...body, sent: true } : body, withinMs);
    return await this.#images.send(master, body, image, withinMs, report);
  }

  /** The task must end all the same. */
  #refused(statement: Statement, { message }: CommandError): void {
    this.#options.log.warn(`the master refused a ${statement.verb}: ${message}`);
    this.#forget(statement);
    if (statement.verb === 'task.release') return;
    const error = { kind: 'protocol' as const, message: message.slice(0, 512) };
    this.tell(ofFailure(statement.body, { ok: false, error }));
  }

  #forget(statement: Statement): void {
    if (!this.#statements.delete(statement)) return;
    this.#bytes -= statement.bytes;
    this.#options.onRoom();
  }
}
