/**
 * The replies to a manager's client, as frames: `('#RETURN', value)`, `('#ERROR', exception)`,
 * which it raises, and `('#TRACEBACK', text)`, which it raises as RemoteError. The text is ours: no
 * stack, no path of this machine. Source: CPython Lib/multiprocessing/managers.py.
 */
import { CommandError } from '../../shared/errors.ts';
import { encodeFrame } from '../../shared/frame.ts';
import { printable } from './pickle/text.ts';
import { PyException, PyTuple, type PyValue } from './pickle/values.ts';
import { writePickle } from './pickle/writer.ts';

/** The protocol of a client's own pickles: 2 is Python 2.7, which reads nothing newer. */
export type ReplyProtocol = 2 | 3;

/** An exception for the client to raise. */
class RaisedError extends CommandError {
  readonly exception: PyException;

  constructor(module: string, className: string, message?: string) {
    super('E_BAD_REQUEST', message ?? `${module}.${className}`);
    const args = message === undefined ? [] : [message];
    this.exception = new PyException(module, className, args);
  }
}

export const emptyError = (): RaisedError => new RaisedError('queue', 'Empty');
export const fullError = (): RaisedError => new RaisedError('queue', 'Full');
export const typeError = (text: string): RaisedError =>
  new RaisedError('builtins', 'TypeError', text);
export const valueError = (text: string): RaisedError =>
  new RaisedError('builtins', 'ValueError', text);
export const runtimeError = (text: string): RaisedError =>
  new RaisedError('builtins', 'RuntimeError', text);

/** An error that CPython reports by a traceback: the request cannot be served. */
export class TracebackError extends CommandError {
  constructor(className: string, message: string) {
    super('E_BAD_REQUEST', `${className}: ${message}`);
  }
}

// Common replies are always the same.
const constants = new Map<PyValue, Buffer>(
  [null, true, false].map((value) => [value, write(['#RETURN', value], 3)]),
);

export function returned(value: PyValue, protocol: ReplyProtocol): Buffer {
  const known = protocol === 3 ? constants.get(value) : undefined;
  return known ?? write(['#RETURN', value], protocol);
}

/** Returns the reply to a failed request. */
export function refused(error: CommandError, protocol: ReplyProtocol): Buffer {
  if (error instanceof RaisedError) return write(['#ERROR', error.exception], protocol);
  const isOurs = error instanceof TracebackError;
  const text = isOurs ? error.message : `RuntimeError: ${error.message}`;
  return write(['#TRACEBACK', `Traceback (on the Orbweaver master):\n${text}\n`], protocol);
}

/** Returns the reply to a request with a refused pickle, which had no effect. */
export function unpicklable(message: string, protocol: ReplyProtocol): Buffer {
  const error = new TracebackError('_pickle.UnpicklingError', message);
  return refused(error, protocol);
}

/** Returns a client's name in quotes as Python shows it, short enough for a log. */
export function quoted(name: string): string {
  return `'${printable(name)}'`;
}

function write(parts: PyValue[], protocol: ReplyProtocol): Buffer {
  return encodeFrame(writePickle(new PyTuple(parts), { protocol }));
}
