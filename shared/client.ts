/**
 * A client's connection to a master: `connect` opens it, `request` sends a request, pushes arrive
 * at a handler. The slave, the subcommands and any Node program that wants the user queues use it.
 *
 *     const master = await connect({ host: 'box', port: 6666, authkey });
 *     await master.queue('jobs').put({ n: 7 });
 *     const job = await master.queue('jobs').get({ timeoutMs: 30_000 });   // undefined: none came
 */
import { createConnection } from 'node:net';
import { hostname } from 'node:os';
import { givenAuthkey } from './authkey.ts';
import { Connection, type ConnectionHandler, type Tls } from './connection.ts';
import { certificateEncryption, keyEncryption } from './encryption.ts';
import {
  AuthError,
  CommandError,
  ConfigError,
  ConnectionError,
  type OrbError,
  ProtocolError,
} from './errors.ts';
import { addressMsOf } from './far-addresses.ts';
import { decodeMessage, encodeMessage } from './frame.ts';
import { type Agreement, ClientHandshake, roleProof, sameBytes } from './handshake.ts';
import { limits, type Push, protocolVersion } from './protocol.ts';
import type { Replies } from './replies.ts';
import type { Said, Verb } from './requests.ts';
import { SharedQueue } from './shared-queue.ts';
import { isLoopback } from './url.ts';

export { AuthError, CommandError, ConnectionError, OrbError, ProtocolError } from './errors.ts';
export { QueueItem, SharedQueue } from './shared-queue.ts';

export type ConnectOptions = {
  readonly host: string;
  readonly port: number;
  /** The key, or all that the key file holds. */
  readonly authkey: Uint8Array | string;
  /** Shown by `status` and in the log. Default: host name and process id. */
  readonly name?: string;
  readonly role?: 'client' | 'slave';
  /** Connecting and handshake, in ms. Default: 10,000. */
  readonly timeoutMs?: number;
  /** True: encrypts with the authkey as the pre-shared key. With the PEM text of a CA: to a master
   *  that shows a certificate for `host`. Default: true, unless `host` is this machine. */
  readonly tls?: boolean | { readonly ca: string | Uint8Array } | undefined;
  readonly onPush?: (push: Push) => void;
  /** Called once, when the connection is gone; `error` is undefined after `close()`. */
  readonly onClose?: (error: OrbError | undefined) => void;
};

type Body<V extends Verb> = Omit<Said[V], 'verb' | 'id'>;
type Waiter = { resolve: (reply: never) => void; reject: (error: OrbError) => void };

/** Connects and proves the authkey both ways.
 *  @throws AuthError wrong authkey · ConnectionError unreachable · ProtocolError not a master,
 *  or one of another version. */
export async function connect(options: ConnectOptions): Promise<MasterClient> {
  const client = new MasterClient(options);
  await client.opened;
  return client;
}

export class MasterClient {
  /** Settles when the master has accepted or refused us. */
  readonly opened: Promise<Replies['hello']>;
  readonly #connection: Connection;
  readonly #options: ConnectOptions;
  readonly #authkey: Buffer;
  readonly #waiters = new Map<number, Waiter>();
  #hello: Replies['hello'] | undefined;
  #isGreeted = false;
  #lastId = 0;
  #closed: OrbError | undefined;

  constructor(options: ConnectOptions) {
    this.#options = options;
    this.#authkey = givenAuthkey(options.authkey);
    const where = `${options.host}:${options.port}`;
    const { host, port, timeoutMs = 10_000 } = options;
    const autoSelectFamilyAttemptTimeout = addressMsOf(timeoutMs);
    const socket = createConnection({ host, port, autoSelectFamilyAttemptTimeout });
    const deadline = setTimeout(() => {
      this.#connection.close(new ConnectionError(`no answer from ${where}`));
    }, timeoutMs);
    let settle: { resolve: (hello: Replies['hello']) => void; reject: (error: OrbError) => void };
    this.opened = new Promise<Replies['hello']>((resolve, reject) => {
      settle = { resolve, reject };
    }).finally(() => clearTimeout(deadline));
    this.opened.catch(() => {});
    const handler: ConnectionHandler = {
      onOpen: (agreement, channel) => {
        this.#isGreeted = true;
        this.#greet(agreement, channel).then(settle.resolve, (error: OrbError) => {
          settle.reject(error);
          this.#connection.close(error);
        });
      },
      onPayload: (payload) => this.#receive(payload),
      onClose: (error) => {
        const reason = reasonOf(error, where, this.#isGreeted);
        this.#closed = reason;
        settle.reject(reason);
        for (const waiter of this.#waiters.values()) waiter.reject(reason);
        this.#waiters.clear();
        options.onClose?.(error);
      },
    };
    const tls = this.#tls();
    const handshake = new ClientHandshake(this.#authkey);
    this.#connection = new Connection(socket, handshake, handler, { tls });
  }

  /** The master's reply to `hello`: its limits, and this session's number. */
  get hello(): Replies['hello'] {
    if (this.#hello === undefined) throw new ConnectionError('the connection is not open yet');
    return this.#hello;
  }

  /** Sends a request and waits for the reply. It may delay the request by up to `withinMs`, to send
   *  several in one write.
   *  @throws CommandError the master refused it · ConnectionError the connection ended. */
  request<V extends Verb>(verb: V, body: Body<V>, withinMs = 0): Promise<Replies[V]> {
    if (this.#closed) return Promise.reject(this.#closed);
    const id = ++this.#lastId;
    const frame = encodeMessage({ verb, id, ...body });
    const bytesMax = this.#hello?.frameBytesMax ?? limits.frameBytesMax;
    // The master would close the session because of it. [F-5]
    if (frame.length > bytesMax) {
      const text = `a ${verb} of ${frame.length} bytes is too long; the master accepts ${bytesMax}`;
      return Promise.reject(new CommandError('E_BAD_REQUEST', text));
    }
    const reply = new Promise<Replies[V]>((resolve, reject) => {
      this.#waiters.set(id, { resolve, reject });
    });
    this.#connection.sendFrame(frame, withinMs);
    return reply;
  }

  /** Sends a message that gets no reply. */
  notify<V extends Verb>(verb: V, body: Body<V>): void {
    this.#connection.send({ verb, ...body });
  }

  /** A queue of the master that every connected program shares, made by its first use. */
  queue(name: string): SharedQueue {
    return new SharedQueue(this, name);
  }

  /** Resolves when the master has read all that was sent. */
  drained(): Promise<void> {
    return this.#connection.drained();
  }

  /** Says good-bye and closes. Idempotent. */
  async close(): Promise<void> {
    if (this.#connection.state === 'open') {
      await this.request('bye', {}).catch(() => {});
    }
    this.#connection.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #tls(): Tls | undefined {
    const { host, tls = !isLoopback(host) } = this.#options;
    if (tls === false) return undefined;
    const encryption =
      tls === true
        ? keyEncryption(this.#authkey)
        : certificateEncryption(host, Buffer.from(tls.ca));
    return { encryption, as: 'client' };
  }

  async #greet(agreement: Agreement, channel: Buffer): Promise<Replies['hello']> {
    const role = this.#options.role ?? 'client';
    const hello = await this.request('hello', {
      protocol: protocolVersion,
      role,
      name: this.#options.name ?? `${hostname()}-${process.pid}`.slice(-64),
      proof: roleProof(agreement, role, protocolVersion, channel),
    });
    const expected = roleProof(agreement, 'master', protocolVersion, channel);
    if (!sameBytes(expected, hello.proof)) throw new AuthError('the master sent a wrong proof');
    // The master's limits apply, not those of this program's version. [B-3]
    this.#connection.startHeartbeat({ verb: 'ping' }, hello);
    this.#hello = hello;
    return hello;
  }

  #receive(payload: Buffer): void {
    const message = decodeMessage(payload);
    if (typeof message !== 'object' || message === null)
      throw new ProtocolError('the master sent something that is not a message');
    if (!('id' in message)) {
      const push = message as Push;
      if (push.verb === 'error') this.#connection.close(fatalErrorOf(push.error, push.message));
      else this.#options.onPush?.(push);
      return;
    }
    const reply = message as { id: number; ok: boolean; error?: string; message?: string };
    const waiter = this.#waiters.get(reply.id);
    this.#waiters.delete(reply.id);
    if (reply.ok) waiter?.resolve(reply as never);
    else waiter?.reject(errorOf(reply.error ?? '', reply.message ?? 'refused'));
  }
}

/** A master's address: `host:port`, with an optional port; the prefix `orbs://` asks for
 *  encryption. @throws ConfigError */
export function parseAddress(
  text: string,
  defaultPort = 6666,
): { host: string; port: number; isEncrypted: boolean } {
  const match = /^(?:orb(s?):\/\/)?(?:\[([^\]]+)\]|([^:[\]/]*))(?::(\d{1,5}))?$/.exec(text);
  const port = match?.[4] === undefined ? defaultPort : Number(match[4]);
  // A number alone would be read as an IPv4 address.
  if (/^\d+$/.test(text)) {
    throw new ConfigError(`"${text}" is not an address; write host:port, or :${text}`);
  }
  if (!match || port > 65_535) {
    throw new ConfigError(`"${text}" is not an address; write host:port, for example box:6666`);
  }
  return { host: match[2] ?? match[3] ?? '', port, isEncrypted: match[1] === 's' };
}

/** `host:port`, as `parseAddress` reads it. */
export function addressText(host: string, port: number): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

function fatalErrorOf(code: string, message: string): OrbError {
  if (code === 'E_AUTH') return new AuthError(message);
  return new ProtocolError(message, code === 'E_VERSION' ? code : 'E_BAD_FRAME');
}

/** Returns the reason why a connection is gone. Broken framing during the handshake is the greeting
 *  of another program. */
function reasonOf(error: OrbError | undefined, where: string, isGreeted: boolean): OrbError {
  if (error === undefined) return new ConnectionError(`${where} closed the connection`);
  if (error instanceof ProtocolError && !isGreeted) {
    return new ProtocolError(
      'this is not an Orbweaver master; give the address of yours with --master',
    );
  }
  return error;
}

function errorOf(code: string, message: string): OrbError {
  if (code === 'E_AUTH' || code === 'E_VERSION') return fatalErrorOf(code, message);
  return new CommandError(code as OrbError['code'], message);
}
