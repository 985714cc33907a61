/**
 * A peer of the master made of a socket and bytes, for the conformance suite: frames, handshake
 * and messages by hand, step by step, wrong ones as well. It shares no code with the product.
 *
 *     const peer = await RawPeer.dial(address);      // bytes and frames
 *     await peer.shake(authkey);                     // both challenges
 *     await peer.hello({ role: 'slave' });           // messages
 */
import { createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { type ConnectionOptions, connect, TLSSocket } from 'node:tls';
import { pack, unpack } from './msgpack.ts';

export type Address = { readonly host: string; readonly port: number };
export type Message = Record<string, unknown>;
/** A reply: `ok`, and `error` when it is false. */
export type Answer = Message & { ok: boolean; error?: string; message?: string };

type Waiting = {
  readonly matches: (message: Message) => boolean;
  readonly resolve: (message: Message) => void;
  readonly reject: (error: Error) => void;
};

const challengeMark = '#CHALLENGE#';

export class RawPeer {
  socket: Socket;
  /** How the connection ended: FIN or RST. */
  readonly ended: Promise<'fin' | 'reset'>;
  /** Challenges of both sides once they are made; the proofs of `hello` cover them. */
  serverNonce: Buffer = Buffer.alloc(0);
  clientNonce: Buffer = Buffer.alloc(0);
  /** Messages that no test has read yet, in order. */
  readonly unread: Message[] = [];
  #chunks: Buffer[] = [];
  #length = 0;
  /** Bytes of the next frame, if known. */
  #wanted = 4;
  #frames: Buffer[] = [];
  #frameWaiters: { resolve: (frame: Buffer) => void; reject: (error: Error) => void }[] = [];
  #waiting: Waiting[] = [];
  #mode: 'frames' | 'messages' = 'frames';
  #isOver = false;
  #lastId = 0;

  /** `from`: an address of this machine to connect from. */
  static async dial({ host, port }: Address, from?: string): Promise<RawPeer> {
    const socket = createConnection({
      host,
      port,
      noDelay: true,
      allowHalfOpen: true,
      ...(from !== undefined && { localAddress: from }),
    });
    await once(socket, 'connect');
    return new RawPeer(socket);
  }

  /** Dials, shakes hands, says hello. */
  static async join(
    address: Address & { authkey: Buffer },
    role: 'slave' | 'client' = 'client',
    name = `raw-${process.pid}`,
  ): Promise<RawPeer> {
    const peer = await RawPeer.dial(address);
    await peer.shake(address.authkey);
    const reply = await peer.hello(address.authkey, { role, name });
    if (!reply.ok) throw new Error(`hello: ${reply.error} ${reply.message}`);
    return peer;
  }

  private constructor(socket: Socket) {
    this.socket = socket;
    this.ended = new Promise((resolve) => {
      socket.on('end', () => resolve('fin'));
      socket.on('error', () => resolve('reset'));
      socket.on('close', () => resolve('reset'));
    });
    void this.ended.then(() => this.#over());
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
  }

  /** The whole handshake inside TLS. */
  async shakeEncrypted(authkey: Buffer): Promise<void> {
    const challenge = await this.challenge();
    await this.encrypt(authkey);
    this.frame(answerTo(challenge, authkey));
    await this.expect('#WELCOME#');
    await this.challengeBack(authkey);
  }

  /** Begins TLS after the challenge: by the authkey, or as `options` say. [K-3] */
  async encrypt(authkey: Buffer, options: ConnectionOptions = {}): Promise<TLSSocket> {
    const psk = Buffer.from(hkdfSync('sha256', authkey, '', 'orbweaver tls psk', 32));
    const digest = createHmac('sha256', psk).update('identity').digest('hex');
    const identity = `orbweaver ${digest.slice(0, 16)}`;
    const plain = this.socket;
    plain.removeAllListeners('data');
    const socket = connect({
      socket: plain,
      minVersion: 'TLSv1.3',
      ciphers: 'TLS_AES_128_GCM_SHA256',
      checkServerIdentity: () => undefined,
      pskCallback: () => ({ psk, identity }),
      ...options,
    });
    this.socket = socket;
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    await once(socket, 'secureConnect');
    return socket;
  }

  /** Writes bytes unchanged. */
  write(bytes: Uint8Array): void {
    this.socket.write(bytes);
  }

  /** One frame, short form. */
  frame(payload: Uint8Array | string): void {
    this.write(frameOf(payload));
  }

  /** One message in one frame. */
  send(message: unknown): void {
    this.frame(pack(message));
  }

  /** The next frame while no message was asked for. Rejects when the connection ends first. */
  nextFrame(): Promise<Buffer> {
    const frame = this.#frames.shift();
    if (frame !== undefined) return Promise.resolve(frame);
    if (this.#isOver) return Promise.reject(new Error('the connection has ended'));
    return new Promise((resolve, reject) => this.#frameWaiters.push({ resolve, reject }));
  }

  /** The whole handshake. */
  async shake(authkey: Buffer, mode: 'messages' | 'frames' = 'messages'): Promise<void> {
    this.frame(answerTo(await this.challenge(), authkey));
    await this.expect('#WELCOME#');
    await this.challengeBack(authkey, newNonce(), mode);
  }

  /** Step 1: the master's challenge, without its mark. */
  async challenge(): Promise<Buffer> {
    const frame = await this.nextFrame();
    if (!frame.toString('latin1').startsWith(challengeMark)) {
      throw new Error(`not a challenge: ${frame.toString('latin1')}`);
    }
    this.serverNonce = frame.subarray(challengeMark.length);
    return this.serverNonce;
  }

  /** Steps 4 to 6: our challenge, the master's answer (checked), our welcome. */
  async challengeBack(
    authkey: Buffer,
    nonce = newNonce(),
    mode: 'messages' | 'frames' = 'messages',
  ): Promise<Buffer> {
    this.clientNonce = nonce;
    this.frame(Buffer.concat([Buffer.from(challengeMark), nonce]));
    const answer = await this.nextFrame();
    if (!answer.equals(answerTo(nonce, authkey))) throw new Error('the answer is wrong');
    this.frame('#WELCOME#');
    this.#mode = mode;
    return answer;
  }

  async expect(text: string): Promise<void> {
    const frame = await this.nextFrame();
    const got = frame.toString('latin1');
    if (got !== text) throw new Error(`expected ${text}, got ${got}`);
  }

  /** `hello` with a right proof, and with `fields` in place of its own. */
  hello(authkey: Buffer, fields: Message = {}): Promise<Answer> {
    const role = typeof fields['role'] === 'string' ? fields['role'] : 'client';
    const proof = this.proof(authkey, role);
    return this.request('hello', { protocol: 2, role, name: 'raw', proof, ...fields });
  }

  /** The proof of [H-6] for a role over both challenges of this connection. */
  proof(authkey: Buffer, role: string, version = 2): Buffer {
    return this.plainProof(authkey, role, version, this.#binding());
  }

  /** The proof that would be right on a plain connection. */
  plainProof(
    authkey: Buffer,
    role: string,
    version = 2,
    binding: Uint8Array = Buffer.alloc(0),
  ): Buffer {
    return createHmac('sha256', authkey)
      .update(`orbweaver ${version} ${role}\0`)
      .update(this.serverNonce)
      .update(this.clientNonce)
      .update(binding)
      .digest();
  }

  /** The secret that only the ends of this TLS connection know. [K-6] */
  #binding(): Buffer {
    if (!(this.socket instanceof TLSSocket)) return Buffer.alloc(0);
    return this.socket.exportKeyingMaterial(32, 'EXPORTER-orbweaver', Buffer.alloc(0));
  }

  /** Sends a request; returns the reply, also a refusal. */
  request(verb: unknown, body: Message = {}): Promise<Answer> {
    const id = ++this.#lastId;
    this.send({ verb, id, ...body });
    return this.reply(id);
  }

  reply(id: number): Promise<Answer> {
    return this.next((message) => message['id'] === id && 'ok' in message) as Promise<Answer>;
  }

  /** Sends a request, and fails if it is refused. */
  async must(verb: string, body: Message = {}): Promise<Answer> {
    const answer = await this.request(verb, body);
    if (!answer.ok) throw new Error(`${verb}: ${answer.error} ${answer.message}`);
    return answer;
  }

  /** The next push of that verb. */
  push(verb: string): Promise<Message> {
    return this.next((message) => message['verb'] === verb);
  }

  /** The next message that matches, past or to come; others stay unread. */
  next(matches: (message: Message) => boolean): Promise<Message> {
    const index = this.unread.findIndex(matches);
    if (index >= 0) return Promise.resolve(this.unread.splice(index, 1)[0] as Message);
    if (this.#isOver) return Promise.reject(new Error('the connection has ended'));
    return new Promise((resolve, reject) => this.#waiting.push({ matches, resolve, reject }));
  }

  /** Resolves when the master has read and answered all that was sent before. */
  async sync(): Promise<void> {
    await this.must('ping');
  }

  /** Closes this side, and waits for the other to follow. */
  async close(): Promise<void> {
    this.socket.end();
    await this.ended;
    this.socket.destroy();
  }

  /** Ends without a message: RST. */
  abort(): void {
    // A socket that is shutting down cannot be reset: Node would spin, waiting for its end.
    if (this.socket.writableEnded) this.socket.destroy();
    else this.socket.resetAndDestroy();
  }

  #receive(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    if (this.#length < this.#wanted) return;
    const all = Buffer.concat(this.#chunks);
    let at = 0;
    while (true) {
      this.#wanted = 4;
      if (all.length - at < 4) break;
      this.#wanted = 4 + all.readInt32BE(at);
      if (all.length - at < this.#wanted) break;
      this.#deliver(all.subarray(at + 4, at + this.#wanted));
      at += this.#wanted;
    }
    this.#chunks = [all.subarray(at)];
    this.#length = all.length - at;
  }

  #deliver(payload: Buffer): void {
    if (this.#mode === 'frames') {
      const waiter = this.#frameWaiters.shift();
      if (waiter === undefined) this.#frames.push(payload);
      else waiter.resolve(payload);
      return;
    }
    const message = unpack(payload) as Message;
    const index = this.#waiting.findIndex(({ matches }) => matches(message));
    if (index < 0) this.unread.push(message);
    else this.#waiting.splice(index, 1)[0]?.resolve(message);
  }

  #over(): void {
    this.#isOver = true;
    const error = new Error('the connection has ended');
    for (const { reject } of [...this.#waiting, ...this.#frameWaiters]) reject(error);
    this.#waiting = [];
    this.#frameWaiters = [];
    // The other side is done; with allowHalfOpen ours has to be ended by hand.
    this.socket.end();
  }
}

export function frameOf(payload: Uint8Array | string): Buffer {
  const bytes = Buffer.from(payload);
  const header = Buffer.alloc(4);
  header.writeInt32BE(bytes.length);
  return Buffer.concat([header, bytes]);
}

/** The long form: -1, then 8 bytes of length. */
export function longFrameOf(payload: Uint8Array | string): Buffer {
  const bytes = Buffer.from(payload);
  const header = Buffer.alloc(12, 0xff);
  header.writeBigUInt64BE(BigInt(bytes.length), 4);
  return Buffer.concat([header, bytes]);
}

export function newNonce(): Buffer {
  return Buffer.concat([Buffer.from('{sha256}'), randomBytes(40)]);
}

/** `{name}` and the HMAC over the whole challenge. */
export function answerTo(challenge: Buffer, authkey: Buffer, name = 'sha256'): Buffer {
  const digest = name.replace('_', '-');
  const mac = createHmac(digest, authkey).update(challenge).digest();
  return Buffer.concat([Buffer.from(`{${name}}`), mac]);
}
