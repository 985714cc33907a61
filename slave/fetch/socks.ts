/**
 * Asks a SOCKS5 proxy, over a connection to it, for a connection to a host. The proxy resolves the
 * name.
 * Source: RFC 1928 (SOCKS5), RFC 1929 (user and password).
 */
import type { Socket } from 'node:net';
import { ProxyClosedError, ProxyError } from './proxy-error.ts';

const replies: Readonly<Record<number, string>> = {
  1: 'general failure',
  2: 'not allowed by its rules',
  3: 'network unreachable',
  4: 'host unreachable',
  5: 'connection refused',
  6: 'TTL expired',
};

type SocksUser = { readonly username: string; readonly password: string };

/** Resolves when the proxy has accepted us, whichever hosts it can reach. The caller bounds the
 *  time by destroying the socket. @throws ProxyError */
export async function socksGreet(socket: Socket, user: SocksUser): Promise<void> {
  const hasUser = user.username !== '' || user.password !== '';
  socket.write(Buffer.from([5, 1, hasUser ? 2 : 0]));
  const [version, method] = await read(socket, 2);
  if (version !== 5) throw new ProxyError('proxy', noSocks);
  if (method !== (hasUser ? 2 : 0)) throw new ProxyError('proxy', wrongUser);
  if (!hasUser) return;
  const parts = [user.username, user.password].map((text) => withLength(text));
  socket.write(Buffer.concat([Buffer.from([1]), ...parts]));
  const [, status] = await read(socket, 2);
  if (status !== 0) throw new ProxyError('proxy', wrongUser);
}

/** Resolves when the socket, on which the proxy has accepted us, is connected to the host. The
 *  caller bounds the time by destroying the socket. @throws ProxyError */
export async function socksConnect(socket: Socket, host: string, port: number): Promise<void> {
  const target = Buffer.alloc(2);
  target.writeUInt16BE(port);
  // Addresses are sent as text, too: every proxy reads them, and names are the common case.
  socket.write(Buffer.concat([Buffer.from([5, 1, 0, 3]), withLength(host), target]));
  // Some proxies end a refusal here.
  const [, reply = 1] = await read(socket, 2);
  if (reply !== 0) {
    const reason = replies[reply] ?? `error ${reply}`;
    throw new ProxyError('connect', `the proxy answered: ${reason}`);
  }
  const [, type = 0, first = 0] = await read(socket, 3);
  // Bytes after an address of unknown length are not the host's answer.
  if (![1, 3, 4].includes(type)) throw new ProxyError('proxy', noSocks);
  // The address from which the proxy connected, without its first byte, which was read already, and
  // the port.
  const addressBytes = type === 1 ? 3 : type === 4 ? 15 : first;
  await read(socket, addressBytes + 2);
}

const noSocks = 'the proxy speaks no SOCKS5';
const wrongUser = 'the proxy wants other credentials';

function withLength(text: string): Buffer {
  const bytes = Buffer.from(text).subarray(0, 255);
  return Buffer.concat([Buffer.from([bytes.length]), bytes]);
}

/** Reads exactly `count` bytes: the following ones are the host's. */
function read(socket: Socket, count: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const settle = (bytes: Buffer | undefined): void => {
      socket.off('readable', look).off('close', onClose).off('end', onClose);
      if (bytes === undefined) reject(new ProxyClosedError());
      else resolve(bytes);
    };
    const onClose = (): void => settle(undefined);
    const look = (): void => {
      const bytes: unknown = socket.read(count);
      if (Buffer.isBuffer(bytes) && bytes.length === count) settle(bytes);
      else if (bytes !== null || socket.destroyed) settle(undefined);
    };
    socket.on('readable', look).on('close', onClose).on('end', onClose);
    look();
  });
}
