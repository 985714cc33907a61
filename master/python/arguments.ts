/**
 * The requests of a manager's client, and the arguments of its calls: bound to parameters as
 * Python binds them, with the TypeErrors that Python would raise.
 */
import type { PickleLimits } from './pickle/limits.ts';
import { readPickle } from './pickle/reader.ts';
import {
  PyByteArray,
  PyComplex,
  PyDict,
  PyFloat,
  PyRange,
  PySet,
  PyTuple,
  type PyValue,
  typeName,
} from './pickle/values.ts';
import { quoted, TracebackError, typeError, valueError } from './replies.ts';

/** `(ident, method, args, kwds)`. */
export type PyRequest = {
  readonly ident: PyValue;
  readonly method: string;
  readonly args: readonly PyValue[];
  readonly kwds: PyDict;
};

/** A parameter and its default; without a default it is required. */
export type Parameter = readonly [name: string, value?: PyValue];

/** Errors: PickleError not readable · TracebackError not a request. */
export function readRequest(payload: Buffer, limits?: PickleLimits): PyRequest {
  const value = readPickle(payload, limits);
  const parts = value instanceof PyTuple ? value.items : Array.isArray(value) ? value : [];
  const [ident = null, method, args, kwds] = parts;
  const isRequest =
    parts.length === 4 &&
    typeof method === 'string' &&
    args instanceof PyTuple &&
    kwds instanceof PyDict;
  if (!isRequest) {
    throw new TracebackError('ValueError', 'a request must be (ident, methodname, args, kwds)');
  }
  return { ident, method, args: args.items, kwds };
}

/** Returns the values of the parameters, in order. Errors: RaisedError TypeError. */
export function bind(
  method: string,
  parameters: readonly Parameter[],
  { args, kwds }: PyRequest,
): PyValue[] {
  if (args.length > parameters.length) {
    const most = parameters.length + 1;
    const least = parameters.filter((parameter) => parameter.length === 1).length + 1;
    const takes = least === most ? `${most}` : `from ${least} to ${most}`;
    const plural = most === 1 ? 'argument' : 'arguments';
    throw typeError(
      `${method}() takes ${takes} positional ${plural} but ${args.length + 1} were given`,
    );
  }
  if (kwds.size > 0) checkKeywords(method, parameters, { args, kwds });
  return parameters.map((parameter, index) => {
    const [name] = parameter;
    const given = index < args.length ? args[index] : kwds.get(name);
    if (given !== undefined) return given;
    if (parameter.length === 2) return parameter[1] ?? null;
    throw typeError(`${method}() missing 1 required positional argument: ${quoted(name)}`);
  });
}

function checkKeywords(
  method: string,
  parameters: readonly Parameter[],
  { args, kwds }: Pick<PyRequest, 'args' | 'kwds'>,
): void {
  for (const [key] of kwds) {
    const index = parameters.findIndex(([name]) => name === key);
    if (typeof key !== 'string') throw typeError('keywords must be strings');
    if (index < 0) {
      throw typeError(`${method}() got an unexpected keyword argument ${quoted(key)}`);
    }
    if (index < args.length) {
      throw typeError(`${method}() got multiple values for argument ${quoted(key)}`);
    }
  }
}

/** Returns how long a call may wait, in ms: 0 for `block=False`, Infinity for `timeout=None`.
 *  Errors: RaisedError for an invalid timeout, and for a text as `block`: it is the key of somebody
 *  who takes the queue for a manager's dict, and would wait without end, or take an item. */
export function waitMsOf(block: PyValue, timeout: PyValue): number {
  if (typeof block === 'string') {
    throw typeError("'block' must be True or False, not str: a queue has no keys");
  }
  if (!isTrue(block)) return 0;
  if (timeout === null) return Number.POSITIVE_INFINITY;
  const seconds = numberOf(timeout);
  if (seconds === undefined) {
    throw typeError(`'timeout' must be a number or None, not ${typeName(timeout)}`);
  }
  if (!(seconds >= 0)) throw valueError("'timeout' must be a non-negative number");
  return seconds * 1000;
}

/** Returns what Python's `bool()` returns. */
function isTrue(value: PyValue): boolean {
  if (value === null || value === false || value === 0 || value === '') return false;
  if (typeof value !== 'object') return value !== 0n;
  if (value instanceof PyFloat) return value.value !== 0;
  if (value instanceof PyTuple) return value.items.length > 0;
  if (value instanceof PyDict || value instanceof PySet) return value.size > 0;
  if (value instanceof PyByteArray) return value.bytes.length > 0;
  if (value instanceof Uint8Array || Array.isArray(value)) return value.length > 0;
  if (value instanceof PyComplex) return value.real !== 0 || value.imag !== 0;
  if (value instanceof PyRange) return value.start !== value.stop;
  return true;
}

/** An int, float or bool as a number. */
export function numberOf(value: PyValue): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value === 'bigint' || typeof value === 'boolean') return Number(value);
  return value instanceof PyFloat ? value.value : undefined;
}
