/**
 * Tells whether a host took a stream of HTTP/2 back (RST_STREAM) in the midst of its answer. With
 * NO_ERROR or CANCEL Node ends such a stream as if it were whole, and undici shows nothing of it:
 * its end is read behind that of the stream, where an answer that is whole has its own first.
 * The library connection uses it. Source: RFC 9113, 8.1; Node's lib/internal/http2/core.js,
 * `onStreamClose`; undici 7.30, lib/dispatcher/client-h2.js.
 */
import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2';
import { undiciOwn } from './undici-own.ts';

export class StreamWatch {
  #newest: ClientHttp2Stream | undefined;
  #takenBack: ClientHttp2Stream | undefined;

  /** Watches the streams of the session that undici has on this socket, if it speaks HTTP/2. */
  watch(socket: object): void {
    const session = undiciOwn(socket, 'http2Session', isSession);
    if (session === undefined) return;
    const request = session.request.bind(session);
    session.request = (...asked) => {
      const stream = request(...asked);
      const push = stream.push.bind(stream);
      let hasEnded = false;
      stream.push = (...pushed) => {
        if (pushed[0] === null) {
          if (stream.closed && !hasEnded) this.#takenBack = stream;
          hasEnded = true;
        }
        return push(...pushed);
      };
      this.#newest = stream;
      return stream;
    };
  }

  /** Of the last request's stream. */
  get isTakenBack(): boolean {
    return this.#newest !== undefined && this.#newest === this.#takenBack;
  }
}

function isSession(value: object): value is ClientHttp2Session {
  return 'request' in value;
}
