/** What a proxy of a client stands for: an object of the master with methods that it exposes. */
import type { PyRequest } from './arguments.ts';
import type { PyValue } from './pickle/values.ts';
import type { ReplyProtocol } from './replies.ts';

/** One connection of a client, as the objects see it. */
export interface Caller {
  /** Process and thread, as the client names them: `MainProcess|Thread-2`. */
  readonly name: string;
  /** Address and port. */
  readonly peer: string;
  /** The proxies that it has used, by their idents, in that order; bounded. */
  readonly idents: ReadonlySet<string>;
  readonly protocol: ReplyProtocol;
  /** How long the client did something else between its last answer and this request, in ms: the
   *  time on the way is left out. */
  readonly thoughtMs: number;
  /** Aborted when the connection has ended. */
  readonly signal: AbortSignal;
  /** The frame of a reply. */
  returned(value: PyValue): Buffer;
}

/** The frame to reply with; undefined: none, the connection is to be closed.
 *  Errors: CommandError, for the client to raise. */
export type Answer = Buffer | undefined | Promise<Buffer | undefined>;
export type Method = (caller: Caller, request: PyRequest) => Answer;

export interface Proxied {
  /** The queue's name, which the idents of its proxies begin with; the same at every start. */
  readonly ident: string;
  readonly methods: ReadonlyMap<string, Method>;
  /** The caller makes its next request: what it was given before has arrived. */
  nextRequest(caller: Caller): void;
  /** Bytes of what the caller was given, as far as they are kept in memory. */
  heldBytes(caller: Caller): number;
  /** The caller is gone; `isOrderly`: it ended its work, nothing suggests that it died. */
  gone(caller: Caller, isOrderly: boolean): void;
  /** For `debug_info`. */
  describe(): string;
}
