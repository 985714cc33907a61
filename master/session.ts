/**
 * One connected peer of the native dialect: from the handshake to its end, and its requests in
 * between. The one place that decides between "reply and go on" and "reply and close".
 *
 *     handshaking --authkey--> greeting --hello--> ready --bye, error, silence--> closed
 *
 * A session that is told to wait (the frontier is full, or the peer does not read its answers)
 * is not read from, so that TCP slows its peer.
 */
import type { Socket } from 'node:net';
import { Connection } from '../shared/connection.ts';
import { CommandError, messageOf, type OrbError, ProtocolError } from '../shared/errors.ts';
import { decodeValue } from '../shared/frame.ts';
import { type Nonces, roleProof, ServerHandshake, sameBytes } from '../shared/handshake.ts';
import {
  limits,
  type Push,
  protocolVersion,
  type Request,
  type Requests,
  requestSchemas,
  type Verb,
} from '../shared/protocol.ts';
import { isVerb, perform } from './commands/perform.ts';
import { keyOf } from './frontier/gathering.ts';
import type { Lease, LeaseHolder } from './frontier/leases.ts';
import type { Services } from './services.ts';

/** Bytes a peer may leave unread before it is not read from either. */
const unsentBytesMax = 16 << 20;

export class Session implements LeaseHolder {
  readonly id: number;
  readonly leases = new Set<Lease>();
  readonly #services: Services;
  readonly #connection: Connection;
  readonly #onEnd: (session: Session, error: OrbError | undefined) => void;
  readonly #knownSpecs = new Set<number>();
  #nonces: Nonces | undefined;
  #state: 'handshaking' | 'greeting' | 'ready' | 'closed' = 'handshaking';
  #role: Requests['hello']['role'] = 'client';
  #name = '?';
  #credit = 0;
  #slots = 0;
  #waiting = false;

  constructor(
    id: number,
    socket: Socket,
    services: Services,
    onEnd: (session: Session, error: OrbError | undefined) => void,
  ) {
    this.id = id;
    this.#services = services;
    this.#onEnd = onEnd;
    const handshake = new ServerHandshake(services.authkey);
    this.#connection = new Connection(socket, handshake, {
      onOpen: (nonces) => {
        this.#nonces = nonces;
        this.#state = 'greeting';
      },
      onPayload: (payload) => this.#receive(payload),
      onClose: (error) => this.#ended(error),
    });
    this.#connection.sendPayload(handshake.start());
  }

  get name(): string {
    return this.#name;
  }

  get role(): Requests['hello']['role'] {
    return this.#role;
  }

  get peer(): string {
    return this.#connection.peer;
  }

  get isReady(): boolean {
    return this.#state === 'ready';
  }

  get credit(): number {
    return this.#state === 'ready' ? this.#credit : 0;
  }

  get slots(): number {
    return this.#slots;
  }

  setCredit(count: number, slots: number): void {
    if (this.#role !== 'slave') {
      throw new CommandError('E_BAD_REQUEST', 'only a slave takes tasks: say so in hello');
    }
    this.#credit = count;
    this.#slots = slots;
    this.#services.frontier.dispatcher.dispatchSoon();
  }

  push(leases: readonly Lease[]): void {
    for (const { task } of leases) this.#sendSpec(task.queue.crawl);
    const tasks = leases.map(({ id, task }) => ({
      task: keyOf(task),
      lease: id,
      crawl: task.queue.crawl,
      url: task.url,
      depth: task.depth,
      attempt: task.attempts + 1,
    }));
    this.send({ verb: 'task.push', tasks });
  }

  cancel(leases: readonly Lease[]): void {
    this.send({ verb: 'task.cancel', leases: leases.map(({ id }) => id) });
  }

  send(push: Push): void {
    this.#connection.send(push);
  }

  close(error?: OrbError): void {
    this.#connection.close(error);
  }

  /** Resolves when the peer has taken what was sent. */
  drained(): Promise<void> {
    return this.#connection.drained();
  }

  #receive(payload: Buffer): void {
    // A pickle begins with 0x80 and its protocol number; msgpack's 0x80 is an empty map. [D-1]
    if (this.#state === 'greeting' && payload[0] === 0x80) {
      throw new ProtocolError('this port does not speak the Python dialect');
    }
    const message = decodeValue(payload);
    const request = this.#validate(message);
    if (request === undefined) return;
    if (this.#state === 'greeting') {
      this.#greet(request);
      return;
    }
    if (request.verb === 'hello') {
      this.#refuse(request.id, new CommandError('E_BAD_REQUEST', 'hello was said already'));
      return;
    }
    perform(this.#services, this, request).then(
      (reply) => {
        if (request.id !== undefined) this.#reply({ id: request.id, ok: true, ...reply });
        if (request.verb === 'bye') this.#connection.close();
      },
      (error: unknown) => this.#refuse(request.id, error),
    );
    this.#holdBackIfFull();
  }

  /** The request, or undefined when it was refused. */
  #validate(message: unknown): Request | undefined {
    if (typeof message !== 'object' || message === null || !('verb' in message)) {
      throw new ProtocolError('a message is a map with a verb');
    }
    const { verb } = message;
    const id = 'id' in message && typeof message.id === 'number' ? message.id : undefined;
    if (typeof verb !== 'string' || !isVerb(verb)) {
      const text = String(verb).slice(0, 64);
      this.#refuse(id, new CommandError('E_UNKNOWN_VERB', `there is no verb "${text}"`));
      return undefined;
    }
    const parsed = requestSchemas[verb as Verb].safeParse(message);
    if (parsed.success) return parsed.data as Request;
    const issue = parsed.error.issues[0];
    const where = issue?.path.join('.') ?? '';
    this.#refuse(id, new CommandError('E_BAD_REQUEST', `${verb}: ${where} ${issue?.message}`));
    return undefined;
  }

  #greet(request: Request): void {
    if (request.verb !== 'hello') throw new ProtocolError('the first message is hello');
    const { authkey } = this.#services;
    const { id, role, protocol, proof } = request;
    if (protocol !== protocolVersion) {
      this.#refuse(
        id,
        new CommandError(
          'E_VERSION',
          `this master speaks protocol ${protocolVersion}, the peer ${protocol}; ` +
            'use the same version of Orbweaver on both sides',
        ),
      );
      this.#connection.close(new ProtocolError(`protocol ${protocol}`, 'E_VERSION'));
      return;
    }
    const nonces = this.#nonces;
    if (!nonces || !sameBytes(proof, roleProof(authkey, role, protocol, nonces))) {
      this.#refuse(id, new CommandError('E_AUTH', 'the proof is wrong'));
      this.#connection.close(new ProtocolError('wrong proof'));
      return;
    }
    this.#role = role;
    this.#name = request.name;
    this.#state = 'ready';
    this.#connection.startHeartbeat({ verb: 'ping' });
    this.#reply({
      id,
      ok: true,
      protocol: protocolVersion,
      server: this.#services.version,
      session: this.id,
      heartbeatMs: limits.heartbeatMs,
      silenceMs: limits.silenceMs,
      leaseMs: this.#services.leaseMs,
      frameBytesMax: limits.frameBytesMax,
      proof: roleProof(authkey, 'master', protocolVersion, nonces),
    });
    this.#services.onReady(this);
  }

  /** A slave learns what a crawl wants with the crawl's first task. */
  #sendSpec(crawlId: number): void {
    if (this.#knownSpecs.has(crawlId)) return;
    const crawl = this.#services.frontier.crawls.byId(crawlId);
    if (crawl === undefined) return;
    this.#knownSpecs.add(crawlId);
    this.send({ verb: 'crawl.spec', crawl: crawlId, name: crawl.name, fetch: crawl.spec.fetch });
  }

  #reply(reply: object): void {
    this.#connection.send(reply);
  }

  #refuse(id: number | undefined, error: unknown): void {
    if (!(error instanceof CommandError)) {
      this.#services.onFault(error);
      return;
    }
    const reply = { ok: false, error: error.code, message: messageOf(error) };
    if (id !== undefined) this.#reply({ id, ...reply });
  }

  #holdBackIfFull(): void {
    if (this.#waiting) return;
    const { frontier } = this.#services;
    const unsent = this.#connection.unsentBytes > unsentBytesMax;
    if (!unsent && !frontier.isFull) return;
    this.#waiting = true;
    this.#connection.pause();
    Promise.all([frontier.room(), unsent ? this.#connection.drained() : undefined]).then(() => {
      this.#waiting = false;
      this.#connection.resume();
    });
  }

  #ended(error: OrbError | undefined): void {
    const wasReady = this.#state === 'ready';
    this.#state = 'closed';
    if (wasReady) this.#services.onGone(this);
    this.#onEnd(this, error);
  }
}
