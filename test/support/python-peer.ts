/**
 * A client of `multiprocessing.managers` by hand: the test makes every request and byte. The
 * product's own pickle writer makes its messages, unless the test supplies the bytes.
 */
import { readPickle } from '../../master/python/pickle/reader.ts';
import { PyDict, PyTuple, type PyValue } from '../../master/python/pickle/values.ts';
import { writePickle } from '../../master/python/pickle/writer.ts';
import { type Address, RawPeer } from './raw-peer.ts';

/** `kind` as on the wire; `value` of a #RETURN; `text`: class and message of what is raised. */
type PythonReply = { readonly kind: string; readonly value: PyValue; readonly text: string };

type Key = { readonly authkey: Buffer };

export class PythonPeer {
  readonly raw: RawPeer;

  private constructor(raw: RawPeer) {
    this.raw = raw;
  }

  /** A connection after the handshake, for one server function. */
  static async dial(address: Address & Key): Promise<PythonPeer> {
    const raw = await RawPeer.dial(address);
    await raw.shake(address.authkey, 'frames');
    return new PythonPeer(raw);
  }

  /** A connection for calls of objects. `name`: process, or process and thread. */
  static async attach(address: Address & Key, name = 'MainProcess'): Promise<PythonPeer> {
    const peer = await PythonPeer.dial(address);
    const { kind } = await peer.request(null, 'accept_connection', [name]);
    if (kind !== '#RETURN') throw new Error('accept_connection was refused');
    return peer;
  }

  /** The steps of a client for `manager.name()`: three connections with one request each. */
  static async create(address: Address & Key, name: string): Promise<readonly PyValue[]> {
    const { value } = await PythonPeer.once(address, 'create', [name]);
    await PythonPeer.once(address, 'incref', [name]);
    await PythonPeer.once(address, 'decref', [name]);
    return (value as PyTuple).items;
  }

  /** One server function over a connection of its own. */
  static async once(
    address: Address & Key,
    method: string,
    args: PyValue[] = [],
  ): Promise<PythonReply> {
    const peer = await PythonPeer.dial(address);
    const reply = await peer.request(null, method, args);
    await peer.raw.close();
    return reply;
  }

  request(
    ident: PyValue,
    method: string,
    args: PyValue[] = [],
    kwds: readonly (readonly [PyValue, PyValue])[] = [],
  ): Promise<PythonReply> {
    const request = new PyTuple([ident, method, new PyTuple(args), PyDict.of(kwds)]);
    return this.send(writePickle(request));
  }

  /** Any bytes as one frame; the reply. */
  async send(payload: Uint8Array): Promise<PythonReply> {
    this.raw.frame(payload);
    return replyOf(await this.raw.nextFrame());
  }

  /** Returns the value of a method. */
  async call(ident: string, method: string, ...args: PyValue[]): Promise<PyValue> {
    const { kind, value, text } = await this.request(ident, method, args);
    if (kind !== '#RETURN') throw new Error(`${ident}.${method}: ${text}`);
    return value;
  }

  /** Ends like a killed Python process. */
  kill(): void {
    if (!this.raw.socket.destroyed) this.raw.abort();
  }

  /** Ends like a Python process that exits in order: a decref for each of its queues, then the
   *  connection. */
  async leave(address: Address & Key, ...idents: readonly string[]): Promise<void> {
    for (const ident of idents) await PythonPeer.once(address, 'decref', [ident]);
    await this.raw.close();
  }
}

function replyOf(frame: Buffer): PythonReply {
  // An exception is a global, which the reader refuses, so its text identifies it.
  const text = frame.toString('latin1');
  const kind = /#(?:RETURN|ERROR|TRACEBACK)/.exec(text)?.[0] ?? '';
  if (kind === '#ERROR') return { kind, value: null, text: text.slice(text.indexOf(kind) + 7) };
  const reply = readPickle(frame);
  const value = reply instanceof PyTuple ? (reply.items[1] ?? null) : null;
  return { kind, value, text: typeof value === 'string' ? value : '' };
}
