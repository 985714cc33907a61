/**
 * Requests that would take much memory if they were read like others: large ones, and small ones
 * with parts that are referred to many times. They are weighed first, one at a time for the whole
 * master, in steps between which other requests are served. A value of plain data is then copied as
 * a pickle of its own and never built. Any other value is built if the master's memory has room for
 * it, else refused.
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
/** A smaller request is heavy if its repeated parts weigh more. */
export const lightLimits = { ...pickleLimits, weightMax: 8 << 20 };
/** One value may take the master's memory divided by this. */
const memoryPart = 8;
const builtMost = 128 << 20;
/** Other requests are served after each step of this length. */
const stepMs = 15;
/** Arguments up to this size are read as usual. */
const smallBytesMax = 4 << 10;

export class HeavyRequests {
  readonly #builtBytesMax: number;
  #last: Promise<unknown> = Promise.resolve();

  /** `builtBytesMax`: memory limit of a request that has to be built. */
  constructor(builtBytesMax: number) {
    this.#builtBytesMax = builtBytesMax;
  }

  /** Reads a request after those before it; returns undefined if its client is gone.
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
  if (typeof method !== 'string') throw new PickleError('a method must have a name');
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

/** Returns the memory limit of a request or item that has to be built, in bytes. */
export function builtBytesMax(memoryBytes: number): number {
  return Math.min(memoryBytes / memoryPart, builtMost);
}

function tooLarge(): PickleError {
  return new PickleError("the value is too large for the master's --memory-limit");
}
