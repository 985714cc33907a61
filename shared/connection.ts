/**
 * One authenticated connection of either side: frames in and out over a socket, heartbeats, silence
 * detection and back-pressure. It knows bytes and messages, not verbs.
 *
 *     handshaking --both challenges met--> open --end, error, silence, close()--> closed
 *          |                                                                        ^
 *          +--wrong answer--> mute --the verdict's time, end, any byte--------------+
 *
 * All messages of one turn of the event loop leave in one write, and the replies to a chunk when it
 * is read. Messages that may be delayed wait for more.
 * Source: PROTOCOL.md, "Frames" and "Heartbeats and time-outs".
 */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { standstillsOf } from './awake.ts';
import { channelBinding, type Encryption, tlsFirstByte } from './encryption.ts';
import { AuthError, ConnectionError, messageOf, type OrbError, ProtocolError } from './errors.ts';
import { encodeFrame, encodeMessage, FrameDecoder } from './frame.ts';
import { type Agreement, encryptedOnly, type HandshakeStep } from './handshake.ts';
import { limits } from './protocol.ts';

export type ConnectionHandler = {
  /** The peer is authenticated; agreement and channel bind the following messages. */
  readonly onOpen: (agreement: Agreement, channel: Buffer) => void;
  /** One payload. A throw of ProtocolError closes the connection with it. */
  readonly onPayload: (payload: Buffer) => void;
  /** A large frame that is not whole takes more memory than before. */
  readonly onGrown?: () => void;
  /** Server only: the peer gave the right answer, and continues the handshake. */
  readonly onProved?: () => void;
  /** Server only: the peer gave a wrong answer. Returns the delay of the verdict in ms. [H-7] */
  readonly onRefused?: (error: AuthError) => number;
  /** The authenticated peer broke the protocol: the last chance to send a message. */
  readonly onBroken?: (error: ProtocolError) => void;
  /** Called once at the end; `error` is undefined after an orderly end. */
  readonly onClose: (error: OrbError | undefined) => void;
  /** Called once, after `onClose`, when the socket is gone, too. */
  readonly onGone?: () => void;
};

const frameHead = Buffer.from([0]);
/** More bytes than this are written at once. */
const flushBytes = 32 << 10;

type Handshake = { receive(payload: Buffer): HandshakeStep; readonly isProved?: boolean };

/** A client begins TLS after the server's first frame. A server follows such a client; with
 *  `required` it refuses others. [K-1]..[K-5] */
export type Tls = {
  readonly encryption: Encryption;
  readonly as: 'client' | 'server' | 'server, required';
};

type ConnectionOptions = {
  /** Bounds the handshake and the first message. */
  readonly handshakeMs?: number;
  readonly tls?: Tls | undefined;
};

/** Time without sending before a ping, and time without receiving before the end, in ms. */
type Heartbeat = {
  readonly heartbeatMs: number;
  readonly silenceMs: number;
  /** A peer that reads nothing of what it is sent for this long is closed; default: never. A client
   *  leaves it unset: a full master reads nothing for as long as it needs. [B-5] */
  readonly untakenMs?: number;
};

export class Connection {
  readonly peer: string;
  #socket: Socket;
  /** The socket below TLS: it counts all bytes received. */
  readonly #plain: Socket;
  readonly #handler: ConnectionHandler;
  readonly #decoder = new FrameDecoder(limits.frameBytesBeforeAuthMax);
  #handshake: Handshake | undefined;
  /** Undefined once it is decided. */
  #tls: Tls | undefined;
  #encryption: Encryption | undefined;
  #state: 'handshaking' | 'mute' | 'open' | 'closed' = 'handshaking';
  #error: OrbError | undefined;
  #flush: 'none' | 'later' | 'soon' = 'none';
  #flushTimer: NodeJS.Timeout | undefined;
  /** The time of the later one. */
  #flushAt = 0;
  #isReceiving = false;
  #heldBack = false;
  #heardAt = performance.now();
  #sentAt = performance.now();
  #sentBytes = 0;
  /** Both count since the handshake. */
  #sentFrames = 0;
  #receivedFrames = 0;
  #isHeadSent = false;
  #takenBytes = 0;
  #queuedBytes = 0;
  #takenAt = performance.now();
  #deadline: NodeJS.Timeout;
  #heartbeat: NodeJS.Timeout | undefined;

  constructor(
    socket: Socket,
    handshake: Handshake,
    handler: ConnectionHandler,
    { handshakeMs = limits.handshakeMs, tls }: ConnectionOptions = {},
  ) {
    this.#socket = socket;
    this.#plain = socket;
    this.#handshake = handshake;
    this.#handler = handler;
    this.#tls = tls;
    this.peer = `${socket.remoteAddress ?? '?'}:${socket.remotePort ?? 0}`;
    this.#deadline = setTimeout(() => {
      this.close(new ProtocolError(`no handshake within ${handshakeMs / 1000} s`));
    }, handshakeMs);
    socket.setNoDelay(true);
    socket.setKeepAlive(true, 30_000);
    this.#listen(socket);
  }

  get state(): 'handshaking' | 'mute' | 'open' | 'closed' {
    return this.#state;
  }

  /** Bytes that the peer has not read yet. */
  get unsentBytes(): number {
    return this.#socket.writableLength;
  }

  /** Bytes received before the peer proved the key; TLS may keep much of them in memory. */
  get unprovedBytes(): number {
    return this.#state === 'handshaking' ? this.#plain.bytesRead : 0;
  }

  /** From now on a frame that is too long is read over: `overlong` is received in its place. */
  passOverlong(): void {
    this.#decoder.passesOverlong = true;
  }

  /** Bytes kept in memory: unread replies and incomplete frames. */
  get heldBytes(): number {
    return this.#socket.writableLength + this.#decoder.heldBytes;
  }

  /** Sends a message within `withinMs`, or with the next one that cannot wait. Returns false when
   *  the peer reads too slowly, so that the caller slows down. */
  send(message: object, withinMs = 0): boolean {
    return this.sendFrame(encodeMessage(message), withinMs);
  }

  /** Sends bytes as one frame. */
  sendPayload(payload: Uint8Array): boolean {
    return this.sendFrame(encodeFrame(payload));
  }

  /** Sends bytes that are a whole frame already. */
  sendFrame(frame: Buffer, withinMs = 0): boolean {
    if (this.#state === 'closed') return false;
    this.#flushWithin(this.#socket.writableLength > flushBytes ? 0 : withinMs);
    this.#sentAt = performance.now();
    this.#sentBytes += frame.length;
    if (this.#state === 'open') this.#sentFrames++;
    if (!this.#isHeadSent) return this.#socket.write(frame);
    this.#isHeadSent = false;
    assert.equal(frame[0], 0, 'the head of the frame was sent already');
    return this.#socket.write(frame.subarray(1));
  }

  /** Sends the first byte of the next frame ahead, which is 0 for every frame below 16 MiB, unless
   *  the peer's first message is here already. A Python client waits for the acknowledgement of its
   *  last frame (Nagle), which our kernel delays by 40 ms; this byte carries it at once.
   *  Source: PROTOCOL.md, "The Python dialect". */
  sendHeadSoon(): void {
    setImmediate(() => {
      if (this.#state !== 'open' || this.#sentFrames > 0 || this.#receivedFrames > 0) return;
      this.#isHeadSent = true;
      this.#socket.write(frameHead);
    });
  }

  /** Corks the socket until the flush; an earlier flush replaces a later one. */
  #flushWithin(ms: number): void {
    // If a chunk has only one frame, its reply is sent at once.
    if (this.#isReceiving && ms === 0 && this.#flush === 'none' && this.#decoder.isEmpty) return;
    if (this.#flush === 'soon') return;
    if (this.#flush === 'none') this.#socket.cork();
    else if (ms > 0 && performance.now() + ms >= this.#flushAt) return;
    clearTimeout(this.#flushTimer);
    this.#flush = ms > 0 ? 'later' : 'soon';
    if (ms > 0) {
      this.#flushAt = performance.now() + ms;
      this.#flushTimer = setTimeout(() => this.#flushNow(), ms);
    } else if (!this.#isReceiving) setImmediate(() => this.#flushNow());
  }

  #flushNow(): void {
    if (this.#flush === 'none') return;
    clearTimeout(this.#flushTimer);
    this.#flush = 'none';
    this.#socket.uncork();
  }

  /** Resolves when the peer has read all that was sent, or the connection is closed. */
  drained(): Promise<void> {
    if (this.#state === 'closed' || !this.#socket.writableNeedDrain) return Promise.resolve();
    return new Promise((resolve) => {
      this.#socket.once('drain', resolve);
      this.#socket.once('close', resolve);
    });
  }

  /** Stops reading, so that TCP slows the peer; `resume` goes on. */
  pause(): void {
    this.#heldBack = true;
    this.#socket.pause();
  }

  resume(): void {
    if (!this.#heldBack) return;
    this.#heldBack = false;
    // While we did not read, the peer's silence did not count.
    this.#heardAt = performance.now();
    this.#socket.resume();
    this.#drainDecoder();
  }

  /** From now on a silent peer is closed, and `ping` breaks our own silence. [B-1] [B-2] */
  startHeartbeat(ping: object, { heartbeatMs, silenceMs, untakenMs }: Heartbeat): void {
    clearTimeout(this.#deadline);
    const frame = encodeMessage(ping);
    const everyMs = heartbeatMs / 2;
    const standstillMs = standstillsOf(everyMs);
    this.#heartbeat = setInterval(() => {
      const now = performance.now();
      // This process stood still, and heard nothing that was said.
      this.#skipTime(standstillMs(), now);
      if (now - this.#sentAt >= heartbeatMs) this.sendFrame(frame);
      if (!this.#heldBack && now - this.#heardAt > silenceMs) {
        this.close(new ConnectionError(`nothing received for ${silenceMs / 1000} s`));
      }
      if (untakenMs !== undefined && now - this.#lastTakenAt(now) > untakenMs) {
        this.close(new ConnectionError(`the peer read nothing for ${untakenMs / 1000} s`));
      }
    }, everyMs);
    this.#heartbeat.unref();
  }

  /** That time does not count as the peer's silence. */
  #skipTime(ms: number, now: number): void {
    this.#heardAt = Math.min(now, this.#heardAt + ms);
    this.#takenAt = Math.min(now, this.#takenAt + ms);
  }

  /** The deadline of the handshake also covers the first message; this ends it for a dialect
   *  without heartbeats. */
  endDeadline(): void {
    clearTimeout(this.#deadline);
  }

  /** Idempotent. Messages that were sent before are still flushed. */
  close(error?: OrbError): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#error = error;
    this.#decoder.clear();
    clearTimeout(this.#deadline);
    clearInterval(this.#heartbeat);
    this.#flushNow();
    this.#socket.resume();
    this.#socket.end();
    // A peer that does not close its side must not keep ours.
    const kill = setTimeout(() => this.#socket.destroy(), 2_000);
    kill.unref();
    this.#socket.once('close', () => clearTimeout(kill));
    this.#handler.onClose(this.#error);
  }

  /** As `close`, but nothing is flushed, nor waited for. */
  abort(error: OrbError): void {
    this.close(error);
    this.#socket.destroy();
  }

  /** Returns when the peer last read something, or had nothing to read. A stream counts a write
   *  when all of it has gone; what the kernel took of it shows in libuv's queue. */
  #lastTakenAt(now: number): number {
    const unsent = this.#socket.writableLength;
    const taken = this.#sentBytes - unsent;
    const queued = queuedBytes(this.#plain);
    const isTaken = taken > this.#takenBytes || queued !== this.#queuedBytes;
    if (unsent === 0 || isTaken) this.#takenAt = now;
    this.#takenBytes = taken;
    this.#queuedBytes = queued;
    return this.#takenAt;
  }

  #listen(socket: Socket): void {
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('error', (error) => this.close(this.#reasonOf(error)));
    socket.on('end', () => this.close());
    socket.on('close', () => {
      this.close();
      this.#handler.onGone?.();
    });
  }

  #receive(chunk: Buffer): void {
    if (this.#state === 'closed') return;
    // The peer may send nothing more.
    if (this.#state === 'mute') {
      this.#socket.destroy();
      return;
    }
    if (this.#tls !== undefined && this.#tls.as !== 'client') {
      const { encryption, as } = this.#tls;
      this.#tls = undefined;
      if (chunk[0] === tlsFirstByte) {
        this.#encrypt(encryption, chunk);
        return;
      }
      if (as === 'server, required') {
        this.sendPayload(encryptedOnly);
        this.close(new ProtocolError('the peer did not encrypt, but --tls requires it'));
        return;
      }
    }
    this.#heardAt = performance.now();
    this.#decoder.push(chunk);
    this.#isReceiving = true;
    this.#drainDecoder();
    this.#isReceiving = false;
    if (this.#flush === 'soon') this.#flushNow();
    this.#tellOfGrowth();
  }

  #tellOfGrowth(): void {
    if (!this.#decoder.hasGrown) return;
    this.#decoder.hasGrown = false;
    this.#handler.onGrown?.();
  }

  /** Begins TLS; its first bytes, `head`, have been read already. */
  #encrypt(encryption: Encryption, head?: Buffer): Socket {
    const plain = this.#socket;
    if (this.#flush !== 'none') this.#flushNow();
    for (const event of ['data', 'error', 'end', 'close']) plain.removeAllListeners(event);
    // Its errors arrive at the TLS socket.
    plain.on('error', () => {});
    plain.pause();
    if (head !== undefined) plain.unshift(head);
    this.#encryption = encryption;
    this.#socket = encryption.begin(plain);
    this.#listen(this.#socket);
    return this.#socket;
  }

  #drainDecoder(): void {
    try {
      while (this.#state !== 'closed' && !this.#heldBack) {
        const payload = this.#decoder.next();
        if (payload === undefined) return;
        if (this.#handshake !== undefined) this.#shake(this.#handshake, payload);
        else {
          this.#receivedFrames++;
          this.#handler.onPayload(payload);
        }
      }
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      if (this.#state === 'open') this.#handler.onBroken?.(error);
      this.close(error);
    }
  }

  #shake(handshake: Handshake, payload: Buffer): void {
    const step = handshake.receive(payload);
    if (this.#tls?.as === 'client' && step.error === undefined) {
      const { encryption } = this.#tls;
      this.#tls = undefined;
      // Plain bytes after the challenge are not authenticated. [K-4]
      if (!this.#decoder.isEmpty)
        throw new ProtocolError('the master sent more than its challenge before TLS');
      // Send no byte before the other side has proved to be the master.
      this.#encrypt(encryption).once('secureConnect', () => this.#proceed(step));
    } else this.#proceed(step);
  }

  #proceed({ send, error, agreement }: HandshakeStep): void {
    if (error instanceof AuthError && send.length > 0 && this.#handler.onRefused) {
      this.#refuseAfter(this.#handler.onRefused(error), send);
      return;
    }
    for (const payload of send) this.sendPayload(payload);
    if (error) this.close(error);
    if (this.#handshake?.isProved) this.#handler.onProved?.();
    if (agreement === undefined) return;
    this.#handshake = undefined;
    this.#state = 'open';
    this.#decoder.bytesMax = limits.frameBytesMax;
    this.#handler.onOpen(agreement, channelBinding(this.#socket));
  }

  /** Sends the verdict on a wrong answer after `waitMs`; until then the connection is open and
   *  mute. The wrong answer was reported already, so the end has no error. */
  #refuseAfter(waitMs: number, verdict: readonly Buffer[]): void {
    clearTimeout(this.#deadline);
    const refuse = () => {
      for (const payload of verdict) this.sendPayload(payload);
      this.close();
    };
    if (waitMs <= 0) {
      refuse();
      return;
    }
    this.#state = 'mute';
    if (!this.#decoder.isEmpty) this.#socket.destroy();
    this.#decoder.clear();
    this.#deadline = setTimeout(refuse, waitMs);
  }

  #reasonOf(error: NodeJS.ErrnoException): OrbError {
    const ofTls = this.#state === 'handshaking' ? this.#encryption?.explain(error) : undefined;
    return ofTls ?? new ConnectionError(messageOf(error), error);
  }
}

/** Bytes of the write under way that the kernel has not taken; another write begins when it has all
 *  of them. Node has this number for its own time-outs, but its types lack it. */
function queuedBytes(socket: Socket & { _handle?: { writeQueueSize?: number } | null }): number {
  return socket._handle?.writeQueueSize ?? 0;
}
