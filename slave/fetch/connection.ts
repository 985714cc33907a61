/** A connection to an origin, whoever reads its answers. */
import { channel } from 'node:diagnostics_channel';
import type { buildConnector, Dispatcher } from 'undici';

export type Asked = Dispatcher.DispatchOptions;
export type Handler = Dispatcher.DispatchHandler;
export type Controller = Dispatcher.DispatchController;
export type Connector = buildConnector.connector;
export type ConnectorTarget = buildConnector.Options;
export type ConnectorCallback = buildConnector.Callback;

/** One request at a time; the others wait. It connects when a request needs it, and again after the
 *  host has closed it. */
export type Connection = {
  /** Requests under way and waiting. */
  readonly size: number;
  readonly isConnected: boolean;
  dispatch(asked: Asked, handler: Handler): boolean;
  /** From now on each of its sockets carries one request. */
  endEach(): void;
  /** Closes when the requests have ended. */
  close(): Promise<void>;
  /** Closes; its requests fail. */
  destroy(): Promise<void>;
};

export type ConnectionEvents = {
  /** Its socket is open. */
  readonly onOpen: () => void;
  readonly onClosed: () => void;
  /** It could not connect; the requests have failed. */
  readonly onFailed: () => void;
  /** Its host sent an answer that no request has asked for. */
  readonly onUnasked: () => void;
};

/** Publishes each request that leaves, with its socket. undici publishes its own there.
 *  Source: undici's docs, "Diagnostics Channel Support". */
export const sentChannel = channel('undici:client:sendHeaders');
