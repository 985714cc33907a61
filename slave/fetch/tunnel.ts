/**
 * Asks an HTTP proxy, over a connection to it, for a tunnel to a host. Its answer is read as curl
 * and browsers read it: interim answers before it, bare line feeds, fields of any kind. The proxy
 * client calls it.
 * Source: RFC 9110, 9.3.6 and 15.2; RFC 9112, 2.2.
 */
import type { Socket } from 'node:net';

/** Limit of all heads together, as of those of hosts. */
const headBytesMax = 64 << 10;
const headEnd = /\r?\n\r?\n/;
const statusLine = /^HTTP\/[0-9](?:\.[0-9])?[ \t]+([0-9]{3})(?![0-9])/i;

/** Resolves to the status of the answer; after a 2xx the socket leads to the host. `fields`:
 *  alternating names and values. The caller bounds the time by destroying the socket. */
export function askTunnel(
  socket: Socket,
  authority: string,
  fields: readonly string[],
): Promise<number> {
  let request = `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n`;
  for (let i = 0; i + 1 < fields.length; i += 2) request += `${fields[i]}: ${fields[i + 1]}\r\n`;
  socket.write(`${request}\r\n`, 'latin1');
  return new Promise((resolve, reject) => {
    let read = Buffer.alloc(0);
    const settle = (result: number | Error): void => {
      socket.off('readable', look).off('close', onClose).off('end', onClose).off('error', settle);
      if (result instanceof Error) reject(result);
      else resolve(result);
    };
    const onClose = (): void => settle(closed());
    const look = (): void => {
      for (let bytes = more(socket); bytes !== undefined; bytes = more(socket)) {
        read = Buffer.concat([read, bytes]);
        const found = finalStatus(read);
        if (found === 'more' && read.length <= headBytesMax) continue;
        if (typeof found === 'object') {
          // Bytes after the head are the host's.
          if (found.rest.length > 0) socket.unshift(found.rest);
          settle(found.status);
        } else settle(new Error('no answer to CONNECT'));
        return;
      }
      if (socket.destroyed) onClose();
    };
    socket.on('readable', look).on('close', onClose).on('end', onClose).on('error', settle);
    look();
  });
}

function more(socket: Socket): Buffer | undefined {
  const bytes: unknown = socket.read();
  return Buffer.isBuffer(bytes) ? bytes : undefined;
}

/** Returns the status of the first head that is no interim answer, and the bytes after it. */
function finalStatus(read: Buffer): { status: number; rest: Buffer } | 'more' | 'none' {
  let text = read.toString('latin1');
  for (;;) {
    // Blank lines before an answer, as after one of an older request.
    text = text.replace(/^[\r\n]+/, '');
    if (text.length > 5 && !/^HTTP\//i.test(text)) return 'none';
    const end = headEnd.exec(text);
    if (end === null) return 'more';
    const status = Number(statusLine.exec(text)?.[1] ?? 0);
    if (status < 100) return 'none';
    text = text.slice(end.index + end[0].length);
    // 101 changes the protocol, so nothing comes after it.
    if (status >= 200 || status === 101) return { status, rest: Buffer.from(text, 'latin1') };
  }
}

/** The error of undici for the end of a connection. */
function closed(): Error {
  return Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' });
}
