/**
 * Makes the connections of a client: over TCP, and TLS without repeated work. One
 * SecureContext serves all connections (undici's own connector has Node build one for each), a
 * host's last session is resumed, and OpenSSL compares the name with the certificate (Node would
 * convert the whole chain into objects first). Each client has one.
 */
import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net';
import {
  connect,
  createSecureContext,
  type DetailedPeerCertificate,
  checkServerIdentity as fullCheck,
  type SecureContext,
  type TLSSocket,
} from 'node:tls';
import type { buildConnector } from 'undici';
import { AwakeTimer, awakeMs } from '../../shared/awake.ts';
import { findWay, type Way } from './any-address.ts';
import { endsPaused } from './paused-parser.ts';
import { PoorAddresses } from './poor-addresses.ts';
import type { TlsSessions } from './tls-sessions.ts';

type ConnectorOptions = {
  /** Time limit until the connection is ready, TLS included. */
  readonly timeoutMs: number;
  readonly lookup?: LookupFunction;
  /** HTTP/2 is offered. */
  readonly http2?: boolean;
  /** Sessions to resume, of this connector only. */
  readonly sessions: TlsSessions;
  /** Shared with other connectors; default: of this one. */
  readonly poor?: PoorAddresses;
  /** The trusted authorities; default: those that Node trusts. */
  readonly context?: SecureContext;
};

const keepAliveFirstMs = 60_000;
/** Largest read of a socket. */
const tcpReadBytes = 64 << 10;
/** Only a certificate's alternative names count, and only whole-label wildcards. */
const strictly = { subject: 'never', partialWildcards: false } as const;
/** At the end of a name: neither certificates nor server names have it. Source: RFC 6066, 3. */
const rootDot = /\.$/;
const noCertificate = {} as DetailedPeerCertificate;

/** The authorities that Node trusts are the same for all. Made at the first use. */
let sharedContext: SecureContext | undefined;

function contextOfAll(): SecureContext {
  sharedContext ??= createSecureContext();
  return sharedContext;
}

type Target = buildConnector.Options;
/** Makes a connection by a way, within so many ms. */
type ByWay = (target: Target, way: Way, ms: number, callback: buildConnector.Callback) => unknown;

/** Returns a `connect` for undici's clients and pools, with the parameters of their own. */
export function makeConnector(options: ConnectorOptions): buildConnector.connector {
  const { timeoutMs, lookup, poor = new PoorAddresses() } = options;
  const tls = tlsConnector(options);
  const byWay: ByWay = (target, way, ms, callback) =>
    (target.protocol === 'https:' ? tls : byTcp)(target, way, ms, callback);
  return (target, callback) => {
    const { hostname, httpSocket } = target;
    if (httpSocket || lookup === undefined || isIP(hostname) !== 0)
      byWay(target, httpSocket ?? hostname, timeoutMs, callback);
    else reach(target, { lookup, poor, byWay, leftMs: timeoutMs }, callback);
  };
}

type Reach = {
  readonly lookup: LookupFunction;
  readonly poor: PoorAddresses;
  readonly byWay: ByWay;
  readonly leftMs: number;
  /** Of another address of the host, which has no TLS for us. */
  readonly fault?: Error;
};

/** Connects to a name: by the first address that can be reached, and, if there is no TLS, once more
 *  by another one. */
function reach(target: Target, given: Reach, callback: buildConnector.Callback): void {
  const { lookup, poor, byWay, fault } = given;
  const { hostname } = target;
  const settings = tcpSettings(target);
  const host = `${hostname}:${settings.port}`;
  const endsAt = awakeMs() + given.leftMs;
  let stop = () => {};
  const timer = new AwakeTimer(() => {
    stop();
    callback(fault ?? tooLate(hostname), null);
  }, given.leftMs);
  const record = {
    sorted: (addresses: readonly string[]) => poor.sorted(host, addresses),
    onSlower: (address: string) => poor.failed(host, address),
  };
  stop = findWay(hostname, lookup, settings, record, (error, way, address) => {
    timer.clear();
    const leftMs = endsAt - awakeMs();
    if (way === undefined) callback(fault ?? error ?? closedEarly(), null);
    else if (address === undefined) byWay(target, way, leftMs, callback);
    else {
      byWay(target, way, leftMs, (failure, made) => {
        if (failure === null) {
          made.once('close', () => {
            if (made.bytesRead > 0) poor.worked(host, address);
            else poor.failed(host, address);
          });
          callback(null, made);
          return;
        }
        poor.failed(host, address);
        const left = endsAt - awakeMs();
        if (fault !== undefined || left <= 0) callback(fault ?? failure, null);
        else reach(target, { ...given, leftMs: left, fault: failure }, callback);
      });
    }
  });
}

function tcpSettings({ protocol, port, localAddress }: Target) {
  return {
    port: Number(port || (protocol === 'https:' ? 443 : 80)),
    ...(localAddress && { localAddress }),
    highWaterMark: tcpReadBytes,
  };
}

const byTcp: ByWay = (target, way, ms, callback) => {
  const { hostname } = target;
  if (typeof way === 'string') {
    const socket = connectTcp({ ...tcpSettings(target), host: way });
    whenReady(socket, 'connect', { hostname, timeoutMs: ms }, callback);
  } else callback(null, endsPaused(keptAlive(way)));
};

function tlsConnector(options: ConnectorOptions): ByWay {
  const { http2 = false, sessions, context } = options;
  const ALPNProtocols = http2 ? ['http/1.1', 'h2'] : ['http/1.1'];
  return ({ hostname, host, port, servername, localAddress }, way, timeoutMs, callback) => {
    const sni = (servername || serverNameOf(host ?? hostname)).replace(rootDot, '');
    const name = sni || hostname;
    const key = `${name} ${port}`;
    const session = sessions.of(key);
    const isOpen = typeof way !== 'string';
    const settings = {
      ...(isOpen ? { socket: way } : { host: way, port: Number(port || 443) }),
      ...(localAddress && { localAddress }),
      // In an open socket, TLS starts at once, so the session must be an option.
      ...(session && isOpen && { session }),
      // Node expects '' for an address, which is not a name.
      servername: sni,
      secureContext: context ?? contextOfAll(),
      ALPNProtocols,
      checkServerIdentity: (): Error | undefined => checkName(socket, name),
      highWaterMark: 16_384,
    };
    const socket: TLSSocket = connect(settings);
    // As an option it would be parsed twice, which costs as much as the arithmetic of a handshake.
    if (session && !isOpen) resume(socket, session);
    skipTranslation(socket);
    socket.on('session', (made: Buffer) => sessions.keep(key, made));
    whenReady(socket, 'secureConnect', { hostname, timeoutMs }, (error, made) => {
      if (error === null) {
        callback(null, made);
        return;
      }
      // The session may be the cause, so the next try has none.
      sessions.forget(key);
      callback(error, null);
    });
    return socket;
  };
}

type Ready = { readonly hostname: string; readonly timeoutMs: number };

/** Calls back once: when the socket is ready, or with the reason why it never will be. */
function whenReady(
  socket: Socket,
  event: 'connect' | 'secureConnect',
  { hostname, timeoutMs }: Ready,
  callback: buildConnector.Callback,
): void {
  let isSettled = false;
  const settle = (error: Error | null): void => {
    if (isSettled) return;
    isSettled = true;
    timer.clear();
    if (error === null) callback(null, endsPaused(socket));
    else callback(error, null);
  };
  const timer = new AwakeTimer(() => socket.destroy(tooLate(hostname)), timeoutMs);
  keptAlive(socket)
    .once(event, () => settle(null))
    .on('error', settle)
    .once('close', () => {
      if (!isSettled) settle(closedEarly());
    });
}

function keptAlive<Of extends Socket>(socket: Of): Of {
  return socket.setKeepAlive(true, keepAliveFirstMs).setNoDelay(true);
}

function tooLate(hostname: string): Error {
  const error = new Error(`no connection to ${hostname} in time`);
  return Object.assign(error, { code: 'UND_ERR_CONNECT_TIMEOUT' });
}

/** Node has this method, but its types do not; without it there is a full handshake. */
function resume(socket: TLSSocket & { setSession?(session: Buffer): void }, session: Buffer): void {
  socket.setSession?.(session);
}

/** Node converts the certificate and its issuers to objects for `checkServerIdentity`, which costs
 *  as much as the handshake. Our check does not need them. */
function skipTranslation(socket: TLSSocket): void {
  socket.getPeerCertificate = () => noCertificate;
}

/** Returns undefined if the certificate has this name; else Node's own error. */
function checkName(socket: TLSSocket, name: string): Error | undefined {
  Reflect.deleteProperty(socket, 'getPeerCertificate');
  const certificate = socket.getPeerX509Certificate();
  const found =
    isIP(name) === 0 ? certificate?.checkHost(name, strictly) : certificate?.checkIP(name);
  // Node's check is less strict, and may still accept the certificate.
  return found === undefined ? fullCheck(name, socket.getPeerCertificate()) : undefined;
}

/** Returns the SNI name of `host:port`; '' for an address. Source: RFC 6066, 3. */
function serverNameOf(host: string): string {
  if (host.startsWith('[')) return '';
  const name = host.replace(/:\d*$/, '');
  return isIP(name) === 0 ? name : '';
}

function closedEarly(): Error {
  return Object.assign(new Error('closed before it was ready'), { code: 'ECONNRESET' });
}
