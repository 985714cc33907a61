/** The object behind a client's proxy: an object of the master with exposed methods. */
import type { PyRequest } from './arguments.ts';
import type { PyValue } from './pickle/values.ts';
import type { ReplyProtocol } from './replies.ts';

/** One connection of a client, as the objects see it. */
export interface Caller {
  /** Process and thread, as the client names them: `MainProcess|Thread-2`. */
  readonly name: string;
  /** Address and port. */
  readonly peer: string;
  /** The proxies that it has used and not dropped, by their idents, in that order; bounded. */
  readonly idents: ReadonlySet<string>;
  readonly protocol: ReplyProtocol;
  /** Time that the client spent between its last reply and this request, in ms, without the time on
   *  the network. */
  readonly thoughtMs: number;
  /** Aborted when the connection has ended. */
  readonly signal: AbortSignal;
  /** The frame of a reply. */
  returned(value: PyValue): Buffer;
}

/** The frame to reply with; undefined: no reply, close the connection.
 *  Errors: CommandError, for the client to raise. */
export type Answer = Buffer | undefined | Promise<Buffer | undefined>;
export type Method = (caller: Caller, request: PyRequest) => Answer;

/** The uses of an object by a connection. */
export type Use = {
  /** Of its proxies that the client has not dropped; bounded. */
  readonly idents: Set<string>;
  /** The client makes a proxy for each call, so that the end of one does not announce its exit. */
  isPerCall: boolean;
};

export interface Proxied {
  /** The queue's name, which the idents of its proxies begin with; the same at every start. */
  readonly ident: string;
  readonly methods: ReadonlyMap<string, Method>;
  /** The caller makes its next request, so the last reply has arrived. */
  nextRequest(caller: Caller): void;
  /** The caller has given up a call that waits: it made its next request. The wait ends without
   *  effect. False: no call of it waits. */
  giveUp(caller: Caller): boolean;
  /** Returns the bytes of the caller's items that are kept in memory. */
  heldBytes(caller: Caller): number;
  /** The caller is gone; `isOrderly`: it ended in order; nothing suggests that it died. */
  gone(caller: Caller, isOrderly: boolean): void;
  /** For `debug_info`. */
  describe(): string;
}
