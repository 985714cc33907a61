/**
 * Undici asserts that its parser is not paused when a connection ends, and the slave would die of
 * it: any host that closes while a reader pauses could end slaves. Source: undici 7.30,
 * lib/dispatcher/client-h1.js, `finish`. The connectors use it for each socket.
 */
import type { Duplex } from 'node:stream';
import { undiciOwn } from './undici-own.ts';

type Parser = {
  paused: boolean;
  readonly ptr: number;
  readonly llhttp: { llhttp_resume(ptr: number): void };
  resume(): void;
};

/** Undici has to get the socket after this, since the first listener is called first. */
export function endsPaused<Of extends Duplex>(socket: Of): Of {
  socket
    // All bytes were read: only the end of the answer is left.
    .on('end', () => {
      const parser = parserOf(socket);
      parser?.resume();
      // Its reader pauses again, at no bytes.
      if (parser?.paused !== true) return;
      parser.llhttp.llhttp_resume(parser.ptr);
      parser.paused = false;
    })
    .on('error', () => {
      const parser = parserOf(socket);
      if (parser !== undefined) parser.paused = false;
    });
  return socket;
}

function parserOf(socket: object): Parser | undefined {
  return undiciOwn(socket, 'parser', isParser);
}

function isParser(value: object): value is Parser {
  return 'paused' in value && 'llhttp' in value;
}
