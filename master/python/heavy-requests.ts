/**
 * Requests that would take much memory if they were read as others are: large ones, and small ones
 * with parts that they refer to again and again. They are weighed first, one at a time for the
 * whole master, in steps between which others are served. A value of plain data is then copied as
 * a pickle of its own and never built; what else there is gets built if the master's memory has
 * room for it, and is refused if not.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type PyRequest, readRequest } from './arguments.ts';
import { PickleCopy } from './pickle/copy.ts';
import { pickleLimits } from './pickle/limits.ts';
import { readPickle } from './pickle/reader.ts';
import { type Envelope, PickleScan, type Range } from './pickle/scan.ts';
import { PickleError, PyDict, PyPickled, type PyValue } from './pickle/values.ts';

/** A request of more bytes is heavy. */
export const heavyBytesMin = 256 << 10;
/** A smaller one is, when what it repeats weighs more. */
export const lightLimits = { ...pickleLimits, weightMax: 8 << 20 };
/** Of the master's memory, what one value may take. */
const memoryPart = 8;
const builtMost = 128 << 20;
/** Others are served after so long. */
const stepMs = 15;
/** Arguments up to it are read as usual. */
const smallBytesMax = 4 << 10;

export class HeavyRequests {
  readonly #builtBytesMax: number;
  #last: Promise<unknown> = Promise.resolve();

  /** `builtBytesMax`: what a request may take of memory when it has to be built. */
  constructor(builtBytesMax: number) {
    this.#builtBytesMax = builtBytesMax;
  }

  /** Reads a request when those before it are through; undefined when its client has gone.
   *  Errors: as `readRequest`. */
  read(payload: Buffer, signal: AbortSignal): Promise<PyRequest | undefined> {
    const turn = this.#last.then(() => (signal.aborted ? undefined : this.#readNow(payload)));
    this.#last = turn.catch(() => {});
    return turn;
  }

  async #readNow(payload: Buffer): Promise<PyRequest> {
    const scan = new PickleScan(payload);
    while (!scan.run(performance.now() + stepMs)) await nextTurn();
    const { envelope } = scan;
    if (!scan.isPlain || envelope === undefined) {
      if (scan.heapBytes > this.#builtBytesMax) throw tooLarge();
      return readRequest(payload);
    }
    return await requestOf(scan, envelope);
  }
}

async function requestOf(scan: PickleScan, envelope: Envelope): Promise<PyRequest> {
  const ident = await valueIn(scan, envelope.ident);
  const method = await valueIn(scan, envelope.method);
  if (typeof method !== 'string') throw new PickleError('a method has a name');
  const args: PyValue[] = [];
  for (const range of envelope.args) args.push(await valueIn(scan, range));
  const kwds = new PyDict();
  for (let at = 0; at + 1 < envelope.kwds.length; at += 2) {
    const [key, value] = [envelope.kwds[at], envelope.kwds[at + 1]];
    if (key && value) kwds.set(await valueIn(scan, key), await valueIn(scan, value));
  }
  return { ident, method, args, kwds };
}

async function valueIn(scan: PickleScan, range: Range): Promise<PyValue> {
  const copy = new PickleCopy(scan, range);
  while (!copy.run(performance.now() + stepMs)) await nextTurn();
  if (range.end - range.start <= smallBytesMax) {
    const small = new PickleScan(copy.bytes);
    small.run();
    if (small.heapBytes <= smallBytesMax * 64) return readPickle(copy.bytes);
  }
  return new PyPickled(copy.bytes, scan.heapBytes);
}

/** What a request or an item may take of memory when it has to be built, in bytes. */
export function builtBytesMax(memoryBytes: number): number {
  return Math.min(memoryBytes / memoryPart, builtMost);
}

export function tooLarge(): PickleError {
  return new PickleError("the value is too large for the master's --memory-limit");
}
