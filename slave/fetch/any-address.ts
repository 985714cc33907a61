/**
 * TCP connections to hosts with several addresses, of which some may be dead, or of a family that
 * this machine cannot reach. The next address is tried as well when one has failed, or has not
 * answered within 250 ms, and the first connection is taken. Node's own choice gives an address up
 * after these 250 ms: a host further away than that, with an IPv6 address where there is no IPv6,
 * would never be reached, nor one whose first packet is lost. Addresses that failed before come
 * last. The connector uses it.
 * Source: RFC 8305, 4 and 5.
 */
import { connect, type LookupFunction, type Socket, type TcpNetConnectOpts } from 'node:net';

/** Time after which the next address is tried, too. */
const nextMs = 250;
/** Attempts at once: a host with more addresses gives each a second. */
const atOnceMax = 4;

/** An address to connect to, or a socket that is connected. */
export type Way = string | Socket;
type Settings = Omit<TcpNetConnectOpts, 'host'>;
type Address = { readonly address: string; readonly family: number };
/** `address`: that of the socket. */
type Callback = (error: Error | null, way?: Way, address?: string) => void;

/** Which addresses of the host are poor. */
type AddressRecord = {
  /** Returns the addresses in the order in which to try them. */
  readonly sorted: (addresses: readonly string[]) => string[];
  /** Another address has connected before this one. */
  readonly onSlower: (address: string) => void;
};

/** Calls back once: with the only address of a name, or with a socket to the first one of several
 *  that answers; if none does, with the error of the first. Returns a function that gives all up:
 *  there is no callback after it. */
export function findWay(
  hostname: string,
  lookup: LookupFunction,
  settings: Settings,
  record: AddressRecord,
  callback: Callback,
): () => void {
  let isGivenUp = false;
  let stop = () => {
    isGivenUp = true;
  };
  lookup(hostname, { all: true }, (error, found) => {
    if (isGivenUp) return;
    if (error !== null) {
      callback(error);
      return;
    }
    const addresses = typeof found === 'string' ? [found] : record.sorted(byTurns(found));
    if (addresses.length === 1) callback(null, addresses[0]);
    else stop = connectToAny(addresses, settings, record, callback);
  });
  return () => stop();
}

function connectToAny(
  addresses: readonly string[],
  settings: Settings,
  { onSlower }: AddressRecord,
  callback: Callback,
): () => void {
  const waiting = [...addresses];
  const trying = new Set<Socket>();
  let fault: Error | undefined;
  let timer: NodeJS.Timeout | undefined;
  const giveUp = (socket: Socket) => {
    trying.delete(socket);
    socket
      .removeAllListeners()
      .on('error', () => {})
      .destroy();
  };
  const stop = () => {
    clearTimeout(timer);
    waiting.length = 0;
    for (const socket of trying) giveUp(socket);
  };
  const next = () => {
    clearTimeout(timer);
    const host = waiting.shift();
    if (host === undefined) return;
    const [oldest] = trying;
    if (oldest !== undefined && trying.size >= atOnceMax) giveUp(oldest);
    const socket = connect({ ...settings, host });
    trying.add(socket);
    socket.once('connect', () => {
      trying.delete(socket);
      const tried = addresses.slice(0, addresses.length - waiting.length);
      for (const address of tried) if (address !== host) onSlower(address);
      stop();
      callback(null, socket.removeAllListeners('error'), host);
    });
    socket.once('error', (error) => {
      giveUp(socket);
      if (fault === undefined || host === addresses[0]) fault = error;
      if (waiting.length > 0) next();
      else if (trying.size === 0) callback(fault);
    });
    if (waiting.length > 0) timer = setTimeout(next, nextMs);
  };
  next();
  return stop;
}

/** The families by turns, the first one first. Source: RFC 8305, 4. */
function byTurns(addresses: readonly Address[]): string[] {
  const family = addresses[0]?.family;
  const first = addresses.filter((one) => one.family === family);
  const others = addresses.filter((one) => one.family !== family);
  const pairs = addresses.map((_, i) => [first[i], others[i]]);
  return pairs.flat().flatMap((one) => (one === undefined ? [] : [one.address]));
}
