/**
 * One hostile peer: connects, proves the authkey, sends mutants as fast as they are taken, and
 * connects again when it is closed. A frame counts as tried when the master has answered what came
 * after it, or has closed the connection because of it.
 */

import { parseRequest } from '../../master/wire/request.ts';
import { ProtocolError } from '../../shared/errors.ts';
import { decodeMessage, encodeFrame, encodeMessage, FrameDecoder } from '../../shared/frame.ts';
import { limits } from '../../shared/protocol.ts';
import { RawPeer } from '../support/raw-peer.ts';
import type { Target } from '../support/target.ts';
import type { LiveTask, Mutator } from './mutator.ts';

const batchFrames = 250;
const batchesOfConnection = 8;
const lastId = Number.MAX_SAFE_INTEGER;
/** A blocking call of a Python mutant may wait for ever: then the connection is given up. */
const stuckMs = 400;

export type Counts = { native: number; python: number; fatal: number; connections: number };

export class Lane {
  readonly #target: Target;
  readonly #mutator: Mutator;
  readonly #counts: Counts;

  constructor(target: Target, mutator: Mutator, counts: Counts) {
    this.#target = target;
    this.#mutator = mutator;
    this.#counts = counts;
  }

  /** One connection of the native dialect. */
  async native(role: 'slave' | 'client'): Promise<void> {
    const wire = await Wire.open(this.#target, this.#mutator);
    this.#counts.connections++;
    const { authkey } = this.#target;
    const proof = wire.peer.proof(authkey, role);
    wire.write(encodeMessage({ verb: 'hello', id: 0, protocol: 2, role, name: 'fuzz', proof }));
    for (let i = 0; i < batchesOfConnection && !wire.isClosed; i++) {
      const { frames, isFatal } = this.#batch();
      const sync = encodeMessage({ verb: 'ping', id: lastId });
      wire.write(Buffer.concat(isFatal ? frames : [...frames, sync]));
      if (isFatal) await wire.closed;
      else if (!(await wire.answered())) break;
      this.#counts.native += frames.length;
      if (isFatal) this.#counts.fatal++;
    }
    wire.abort();
  }

  /** One connection of a Python program. Requests are served one after the other. */
  async python(): Promise<void> {
    const wire = await Wire.open(this.#target, this.#mutator);
    this.#counts.connections++;
    const first = this.#mutator.below(3) === 0;
    if (!first) wire.write(encodeFrame(acceptConnection));
    const frames = Array.from({ length: first ? 1 : 60 }, () => this.#mutator.python());
    wire.write(Buffer.concat(frames.map((pickle) => encodeFrame(pickle))));
    // The first one decides the dialect: a mutant may have left it.
    this.#counts.python += Math.min(frames.length, await wire.replies(frames.length, stuckMs));
    wire.abort();
  }

  /** Frames up to the first one that has to end the connection. */
  #batch(): { frames: Buffer[]; isFatal: boolean } {
    const frames: Buffer[] = [];
    while (frames.length < batchFrames) {
      const { payload, whole } = this.#mutator.native();
      const frame = encodeFrame(payload);
      const isFatal = !whole && this.#mutator.below(20) === 0 && spoilHeader(frame, this.#mutator);
      frames.push(frame);
      if (isFatal || ends(payload)) return { frames, isFatal: true };
    }
    return { frames, isFatal: false };
  }
}

/** What Python sends after the handshake: `(None, 'accept_connection', ('fuzz',), {})`. */
const acceptConnection = Buffer.from(
  '\x80\x03(NX\x11\x00\x00\x00accept_connectionX\x04\x00\x00\x00fuzz\x85}t.',
  'latin1',
);

/** A length that no frame may have. */
function spoilHeader(frame: Buffer, mutator: Mutator): boolean {
  frame.writeInt32BE(mutator.pick([limits.frameBytesMax + 1, 2 ** 31 - 1, -2, -(2 ** 31)]), 0);
  return true;
}

/** True for a message that ends the session. */
function ends(payload: Buffer): boolean {
  try {
    return parseRequest(decodeMessage(payload)).verb === 'bye';
  } catch (error) {
    return error instanceof ProtocolError;
  }
}

/** The socket below a peer that has shaken hands: what comes is counted, little of it is read. */
class Wire {
  readonly peer: RawPeer;
  readonly closed: Promise<void>;
  isClosed = false;
  readonly #mutator: Mutator;
  readonly #decoder = new FrameDecoder(limits.frameBytesMax);
  #frames = 0;
  #isAnswered = false;
  #wake: () => void = () => {};

  static async open(target: Target, mutator: Mutator): Promise<Wire> {
    const peer = await RawPeer.dial(target);
    await peer.shake(target.authkey, 'frames');
    return new Wire(peer, mutator);
  }

  private constructor(peer: RawPeer, mutator: Mutator) {
    this.peer = peer;
    this.#mutator = mutator;
    peer.socket.removeAllListeners('data');
    peer.socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    this.closed = peer.ended.then(() => {
      this.isClosed = true;
      this.#wake();
    });
  }

  write(bytes: Buffer): void {
    if (!this.isClosed) this.peer.socket.write(bytes);
  }

  /** False when the connection ends instead. */
  async answered(): Promise<boolean> {
    while (!this.#isAnswered && !this.isClosed) await this.#change();
    this.#isAnswered = false;
    return !this.isClosed;
  }

  /** Resolves with how many frames came: at least `count`, or fewer when nothing comes any more. */
  async replies(count: number, stuckMs: number): Promise<number> {
    while (this.#frames < count && !this.isClosed) {
      const before = this.#frames;
      const timer = setTimeout(() => this.#wake(), stuckMs);
      await this.#change();
      clearTimeout(timer);
      if (this.#frames === before) break;
    }
    return this.#frames;
  }

  abort(): void {
    // Not `abort` of the peer: that waits for what the master will never read.
    this.peer.socket.destroy();
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #receive(chunk: Buffer): void {
    this.#decoder.push(chunk);
    for (let frame = this.#decoder.next(); frame; frame = this.#decoder.next()) this.#read(frame);
    this.#wake();
  }

  #read(frame: Buffer): void {
    this.#frames++;
    // {id: lastId, ok: true} begins with a map of two, "id", and a 64-bit number.
    if (frame.length < 24 && frame[0] === 0x82 && frame.indexOf(lastIdBytes) > 0) {
      this.#isAnswered = true;
    } else if (frame.indexOf('task.push') === 7) {
      const { tasks } = decodeMessage(frame) as { tasks: LiveTask[] };
      for (const task of tasks) this.#mutator.learn(task);
    }
  }
}

const lastIdBytes = encodeMessage({ id: lastId }).subarray(-8);
