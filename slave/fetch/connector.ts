/**
 * Makes the connections of a client: plain ones as undici does, and TLS at the price of what is
 * different from host to host. One SecureContext serves all of them (undici's own connector has
 * Node build one for each connection), a host's last session is resumed, and OpenSSL compares the
 * name with the certificate, where Node would turn the whole chain into objects first.
 * The clients make it, one for each of them.
 */
import { isIP } from 'node:net';
import {
  connect,
  createSecureContext,
  type DetailedPeerCertificate,
  checkServerIdentity as fullCheck,
  type SecureContext,
  type TLSSocket,
} from 'node:tls';
import type { buildConnector } from 'undici';
import makeTcpConnector from 'undici/lib/core/connect.js';
import type { TlsSessions } from './tls-sessions.ts';

export type ConnectorOptions = {
  /** Until the connection is ready, TLS included. */
  readonly timeoutMs: number;
  readonly lookup?: import('node:net').LookupFunction;
  /** HTTP/2 is offered. */
  readonly http2?: boolean;
  /** Sessions to resume; they are this connector's own. */
  readonly sessions: TlsSessions;
  /** Which authorities are trusted; default: those that Node trusts. */
  readonly context?: SecureContext;
};

const keepAliveFirstMs = 60_000;
/** No name but the alternative ones of a certificate, and no wildcard but a whole label. */
const strictly = { subject: 'never', partialWildcards: false } as const;
const noCertificate = {} as DetailedPeerCertificate;

/** The authorities that Node trusts are the same for all. Made by the first who needs it. */
let sharedContext: SecureContext | undefined;

function contextOfAll(): SecureContext {
  sharedContext ??= createSecureContext();
  return sharedContext;
}

/** A `connect` for undici's clients and pools; it takes what they give to their own. */
export function makeConnector(options: ConnectorOptions): buildConnector.connector {
  const { timeoutMs, lookup, http2 = false } = options;
  const tcp = makeTcpConnector({ timeout: timeoutMs, ...(lookup && { lookup }) });
  const tls = tlsConnector({ ...options, http2 });
  return (target, callback) => (target.protocol === 'https:' ? tls : tcp)(target, callback);
}

function tlsConnector(options: ConnectorOptions): buildConnector.connector {
  const { timeoutMs, lookup, http2, sessions, context } = options;
  const ALPNProtocols = http2 ? ['http/1.1', 'h2'] : ['http/1.1'];
  return ({ hostname, host, port, servername, localAddress, httpSocket }, callback) => {
    const sni = servername || serverNameOf(host ?? hostname);
    const name = sni || hostname;
    const key = `${name} ${port}`;
    const session = sessions.of(key);
    const settings = {
      host: hostname,
      port: Number(port || 443),
      ...(httpSocket && { socket: httpSocket }),
      ...(localAddress && { localAddress }),
      ...(lookup && { lookup }),
      // Into a tunnel it writes at once.
      ...(session && httpSocket && { session }),
      // Node takes '' for an address, which is no name.
      servername: sni,
      secureContext: context ?? contextOfAll(),
      ALPNProtocols,
      checkServerIdentity: (): Error | undefined => checkName(socket, name),
      highWaterMark: 16_384,
    };
    const socket: TLSSocket = connect(settings);
    // By the options it would be read twice, which costs as much as another handshake's arithmetic.
    if (session && !httpSocket) resume(socket, session);
    skipTranslation(socket);
    socket.setKeepAlive(true, keepAliveFirstMs).setNoDelay(true);
    let isSettled = false;
    const settle = (error: Error | null): void => {
      if (isSettled) return;
      isSettled = true;
      clearTimeout(timer);
      if (error === null) callback(null, socket);
      else {
        // If the session was to blame the next try has none.
        sessions.forget(key);
        callback(error, null);
      }
    };
    const timer = setTimeout(() => {
      const late = new Error(`no connection to ${hostname} within ${timeoutMs} ms`);
      socket.destroy(Object.assign(late, { code: 'UND_ERR_CONNECT_TIMEOUT' }));
    }, timeoutMs);
    socket
      .on('session', (made: Buffer) => sessions.keep(key, made))
      .once('secureConnect', () => settle(null))
      .on('error', settle)
      .once('close', () => {
        if (!isSettled) settle(closedEarly());
      });
    return socket;
  };
}

/** Node has this method, its types have not; without it there is a full handshake. */
function resume(socket: TLSSocket & { setSession?(session: Buffer): void }, session: Buffer): void {
  socket.setSession?.(session);
}

/** Node hands the certificate to `checkServerIdentity` as an object, of its issuers, too, which
 *  costs as much as the handshake. Ours does not need it. */
function skipTranslation(socket: TLSSocket): void {
  socket.getPeerCertificate = () => noCertificate;
}

/** Undefined if the certificate is of this name; else Node's own word for what is wrong. */
function checkName(socket: TLSSocket, name: string): Error | undefined {
  Reflect.deleteProperty(socket, 'getPeerCertificate');
  const certificate = socket.getPeerX509Certificate();
  const found =
    isIP(name) === 0 ? certificate?.checkHost(name, strictly) : certificate?.checkIP(name);
  // What is less strict, or was named otherwise, Node may accept all the same.
  return found === undefined ? fullCheck(name, socket.getPeerCertificate()) : undefined;
}

/** The name for SNI of `host:port`; '' of an address. Source: RFC 6066, 3. */
function serverNameOf(host: string): string {
  if (host.startsWith('[')) return '';
  const name = host.replace(/:\d*$/, '');
  return isIP(name) === 0 ? name : '';
}

function closedEarly(): Error {
  return Object.assign(new Error('closed before TLS was complete'), { code: 'ECONNRESET' });
}
