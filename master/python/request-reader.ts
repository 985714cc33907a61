/**
 * Reads the requests of one connection. Nearly all have one of two forms, which are recognised by
 * their bytes and need no pickle machine: `(ident, method, (), {})` and `(ident, method, (text,),
 * {})`, with ASCII texts below 256 bytes, as the C picklers of Python 3.8 and later write them:
 *
 *     80 protocol 95 length  28 8c n ident 94 8c n method 94  29              7d 94 74 94 2e
 *                                                             8c n text 94 85 94 7d 94 74 94 2e
 *
 * A request that differs by one byte is left to `readRequest`, so that both always read the same.
 */
import { type PyRequest, readRequest } from './arguments.ts';
import { heavyBytesMin, lightLimits } from './heavy-requests.ts';
import { opcodes } from './pickle/opcodes.ts';
import { PyDict, type PyValue, WeightError } from './pickle/values.ts';

const { PROTO, FRAME, MARK, SHORT_BINUNICODE, MEMOIZE, EMPTY_TUPLE, TUPLE1 } = opcodes;
const { EMPTY_DICT, TUPLE, STOP } = opcodes;
/** PROTO, FRAME and its length, MARK. */
const headBytes = 12;
const tail = [EMPTY_DICT, MEMOIZE, TUPLE, MEMOIZE, STOP];
const noArguments = [EMPTY_TUPLE, ...tail];
const oneArgument = [MEMOIZE, TUPLE1, MEMOIZE, ...tail];
const noKeywords = new PyDict();

export class RequestReader {
  /** Ident and method of the last request of such a form, and their bytes. */
  #calledBytes: Buffer = Buffer.alloc(0);
  #called = { ident: '', method: '' };

  /** Errors: as `readRequest`; WeightError for a heavy one. */
  read(payload: Buffer): PyRequest {
    if (payload.length > heavyBytesMin) throw new WeightError();
    return this.#usual(payload) ?? readRequest(payload, lightLimits);
  }

  #usual(payload: Buffer): PyRequest | undefined {
    if (!hasHead(payload)) return undefined;
    const at = this.#passCalled(payload);
    if (at === undefined) return undefined;
    const args = argumentsAt(payload, at);
    if (args === undefined) return undefined;
    const { ident, method } = this.#called;
    return { ident, method, args, kwds: noKeywords };
  }

  /** Returns the start of the arguments. Mostly ident and method are the same as before. */
  #passCalled(payload: Buffer): number | undefined {
    const known = headBytes + this.#calledBytes.length;
    if (known > headBytes && isAt(payload, headBytes, this.#calledBytes)) return known;
    const ident = textAt(payload, headBytes);
    if (ident === undefined) return undefined;
    const methodAt = headBytes + 2 + ident.length;
    const method = payload[methodAt] === MEMOIZE ? textAt(payload, methodAt + 1) : undefined;
    if (method === undefined) return undefined;
    const end = methodAt + 4 + method.length;
    if (payload[end - 1] !== MEMOIZE) return undefined;
    this.#called = { ident, method };
    this.#calledBytes = Buffer.from(payload.subarray(headBytes, end));
    return end;
  }
}

function hasHead(payload: Buffer): boolean {
  const protocol = payload[1];
  return (
    payload.length > headBytes &&
    payload[0] === PROTO &&
    (protocol === 4 || protocol === 5) &&
    payload[2] === FRAME &&
    payload.readUInt32LE(3) === payload.length - headBytes + 1 &&
    payload.readUInt32LE(7) === 0 &&
    payload[headBytes - 1] === MARK
  );
}

function argumentsAt(payload: Buffer, at: number): readonly PyValue[] | undefined {
  if (payload[at] === EMPTY_TUPLE) return isEnd(payload, at, noArguments) ? [] : undefined;
  const text = textAt(payload, at);
  if (text === undefined) return undefined;
  return isEnd(payload, at + 2 + text.length, oneArgument) ? [text] : undefined;
}

/** Returns the short ASCII text that begins there. */
function textAt(payload: Buffer, at: number): string | undefined {
  const start = at + 2;
  const end = start + (payload[at + 1] ?? 0);
  if (payload[at] !== SHORT_BINUNICODE || end > payload.length) return undefined;
  for (let index = start; index < end; index++) {
    if ((payload[index] ?? 0) > 0x7f) return undefined;
  }
  return payload.toString('latin1', start, end);
}

function isEnd(payload: Buffer, at: number, bytes: ArrayLike<number>): boolean {
  return payload.length === at + bytes.length && isAt(payload, at, bytes);
}

function isAt(payload: Buffer, at: number, bytes: ArrayLike<number>): boolean {
  for (let index = 0; index < bytes.length; index++) {
    if (payload[at + index] !== bytes[index]) return false;
  }
  return true;
}
