/**
 * Mutants without a socket: cut anywhere, put together by the frame decoder, decoded, and checked
 * against the schemas or read as a pickled request. Each has to end in a request or in an error of
 * the protocol, soon.
 */

import { PickleError } from '../../master/python/pickle/values.ts';
import { TracebackError } from '../../master/python/replies.ts';
import { RequestReader } from '../../master/python/request-reader.ts';
import { parseRequest } from '../../master/wire/request.ts';
import { CommandError, ProtocolError } from '../../shared/errors.ts';
import { decodeMessage, encodeFrame, FrameDecoder } from '../../shared/frame.ts';
import { limits } from '../../shared/protocol.ts';
import { Mutator } from './mutator.ts';
import type { Traffic } from './recording.ts';

type Decoded = { frames: number; requests: number; slowestMs: number };

/** @throws what is no error of the protocol */
export function decodeMutants(options: {
  readonly frames: number;
  readonly seed: number;
  readonly traffic: Traffic;
}): Decoded {
  const mutator = new Mutator(options.seed, options.traffic);
  const decoder = new FrameDecoder(limits.frameBytesMax);
  const decoded: Decoded = { frames: 0, requests: 0, slowestMs: 0 };
  while (decoded.frames < options.frames) {
    const isPython = mutator.below(4) === 0;
    const payload = isPython ? mutator.python() : mutator.native().payload;
    const began = performance.now();
    const frame = encodeFrame(payload);
    const cut = mutator.below(frame.length + 1);
    decoder.push(frame.subarray(0, cut));
    const early = decoder.next();
    if (early === undefined) decoder.push(frame.subarray(cut));
    const whole = early ?? decoder.next();
    if (whole === undefined || !whole.equals(payload)) throw new Error('a frame was lost');
    if (isRequest(whole, isPython)) decoded.requests++;
    decoded.slowestMs = Math.max(decoded.slowestMs, performance.now() - began);
    decoded.frames++;
  }
  return decoded;
}

const reader = new RequestReader();

function isRequest(payload: Buffer, isPython: boolean): boolean {
  try {
    if (isPython) reader.read(payload);
    else parseRequest(decodeMessage(payload));
    return true;
  } catch (error) {
    const isRefusal = error instanceof CommandError || error instanceof ProtocolError;
    if (isRefusal || error instanceof PickleError || error instanceof TracebackError) return false;
    throw error;
  }
}
