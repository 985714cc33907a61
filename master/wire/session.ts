/**
 * One connected peer: from the handshake to its end, and the requests of the native dialect in
 * between. The one place that decides between "reply and go on" and "reply and close". A peer whose
 * first message is a pickle speaks the Python dialect: its messages go to `python/dialect.ts`.
 *
 *     handshaking --authkey--> greeting --hello--> ready --bye, error, silence--> closed
 *                                  |                                                ^
 *                                  +---pickle--> python ---end----------------------+
 *
 * A session that has to wait (the frontier is full, or the peer does not read its replies) is not
 * read from, so that TCP slows its peer.
 */
import type { Socket } from 'node:net';
import { Connection } from '../../shared/connection.ts';
import { plainFetch } from '../../shared/crawl.ts';
import {
  CommandError,
  ConnectionError,
  messageOf,
  type OrbError,
  ProtocolError,
} from '../../shared/errors.ts';
import { decodeMessage } from '../../shared/frame.ts';
import { type Agreement, roleProof, ServerHandshake, sameBytes } from '../../shared/handshake.ts';
import { hasArticle } from '../../shared/items.ts';
import { limits, type Push, protocolVersion } from '../../shared/protocol.ts';
import type { Request, Requests } from '../../shared/requests.ts';
import type { SessionUploads } from '../archive/uploads.ts';
import type { CrawlView } from '../frontier/crawl/crawl-view.ts';
import type { Lease, LeaseHolder } from '../frontier/dispatch/leases.ts';
import { shortTurn } from '../machine/own-turn.ts';
import { isPickle, PythonCaller } from '../python/dialect.ts';
import { perform } from './commands/perform.ts';
import type { Credit, Peer } from './peer.ts';
import { idOf, parseRequest, versionOf } from './request.ts';
import type { Services } from './services.ts';
import { slaveAbilities } from './slave-abilities.ts';
import { SlaveRecord } from './slave-record.ts';

/** Bytes of unanswered requests, and of unread replies, while memory is tight. */
const tightBytesMax = 1 << 20;
/** A part's reply may wait so long for others, such as those to reports after a commit: slaves wait
 *  only for a window of them. */
const archiveReplyMs = 25;

/** The server's interest in a session. */
type SessionWatcher = {
  /** Delay of the challenge, in ms. */
  readonly waitMs: number;
  /** The peer gave the right answer to its challenge. */
  readonly onProved: () => void;
  /** The peer gave a wrong answer. Returns the delay of the verdict, in ms. */
  readonly onRefused: (error: OrbError) => number;
  /** See `WireEvents`. */
  refusedPickle(error: OrbError): void;
  /** Both sides have proved the authkey. False: the peer is dropped all the same. */
  readonly mayJoin: () => boolean;
  /** Its first message was valid: a hello, or a pickle. It is no longer a stranger. */
  readonly onGreeted: () => void;
  /** Called once; without the error that `onRefused` has reported. */
  readonly onEnd: (error: OrbError | undefined) => void;
  /** Its socket is gone, too. */
  readonly onGone: () => void;
};

export class Session implements Peer {
  readonly id: number;
  readonly leases = new Set<Lease>();
  readonly record = new SlaveRecord();
  /** Number of unanswered `queue.get` requests. */
  waitingGets = 0;
  readonly #services: Services;
  readonly #connection: Connection;
  readonly #watcher: SessionWatcher;
  #welcome: NodeJS.Timeout | undefined;
  readonly #knownSpecs = new Set<number>();
  #agreement: Agreement | undefined;
  #channel: Uint8Array = Buffer.alloc(0);
  #python: PythonCaller | undefined;
  #state: 'handshaking' | 'greeting' | 'ready' | 'python' | 'closed' = 'handshaking';
  #role: Requests['hello']['role'] = 'client';
  #name = '?';
  #can = slaveAbilities([]);
  readonly uploads: SessionUploads;
  #credit: Credit = { count: 0, slots: 0, lent: 0, trials: 0, takes: 'all' };
  #unanswered = 0;
  #unansweredBytes = 0;
  #heldBackSince: number | undefined;
  #heldBackMs = 0;
  #onAnswered: () => void = () => {};

  constructor(id: number, socket: Socket, services: Services, watcher: SessionWatcher) {
    this.id = id;
    this.#services = services;
    this.uploads = services.uploads.session();
    this.#watcher = watcher;
    const handshake = new ServerHandshake(services.authkeys(), services.authDigest);
    const handler = {
      onOpen: (agreement: Agreement, channel: Buffer) => {
        this.#agreement = agreement;
        this.#channel = channel;
        this.#state = 'greeting';
        if (!watcher.mayJoin()) {
          // Not fatal: the address may try again when its dead connections are gone.
          this.close(new ConnectionError('too many sessions from this address'));
          return;
        }
        this.#connection.sendHeadSoon();
      },
      onProved: watcher.onProved,
      onRefused: watcher.onRefused,
      onGone: watcher.onGone,
      onPayload: (payload: Buffer) => this.#receive(payload),
      onGrown: () => services.memory.look(),
      onBroken: ({ code, message }: ProtocolError) => {
        if (this.#python !== undefined) this.#python.broken(message);
        else this.send({ verb: 'error', error: code, message });
      },
      onClose: (error: OrbError | undefined) => this.#ended(error),
    };
    const { timing, tls } = services;
    const { waitMs } = watcher;
    const handshakeMs = timing.handshakeMs + waitMs;
    this.#connection = new Connection(socket, handshake, handler, { handshakeMs, tls });
    const challenge = handshake.start();
    // A timer of 0 ms takes 1 ms, and a Python worker opens ten connections at its start.
    if (waitMs === 0) this.#connection.sendPayload(challenge);
    else this.#welcomeAfter(waitMs, challenge);
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

  /** Bytes that it sent before it proved the key. */
  get unprovedBytes(): number {
    return this.#connection.unprovedBytes;
  }

  get isReady(): boolean {
    return this.#state === 'ready';
  }

  get credit(): number {
    return this.#state === 'ready' && !this.record.isDraining ? this.#credit.count : 0;
  }

  get slots(): number {
    return this.#credit.slots;
  }

  get lent(): number {
    return this.#credit.lent;
  }

  get trials(): number {
    return this.#credit.trials;
  }

  get heldBackMs(): number {
    const since = this.#heldBackSince;
    return this.#heldBackMs + (since === undefined ? 0 : performance.now() - since);
  }

  /** Bytes that the master holds for it: incomplete frames, requests and replies under way, queue
   *  items, heads that are to be archived. */
  get heldBytes(): number {
    const items = this.#services.queues.heldBytes(this) + (this.#python?.heldBytes ?? 0);
    return this.#connection.heldBytes + this.#unansweredBytes + items + this.uploads.heldBytes;
  }

  get unreadBytes(): number {
    return this.#connection.unsentBytes;
  }

  get takes(): LeaseHolder['takes'] {
    return this.#credit.takes;
  }

  /** It evaluates the rules of crawls. [T-80] */
  get hasRules(): boolean {
    return this.#can.hasRules;
  }

  /** It sends requests with a body. [T-91] */
  get sendsBodies(): boolean {
    return this.#can.sendsBodies;
  }

  /** It takes several pages of a host at once. [T-146] */
  get hasTrains(): boolean {
    return this.#can.hasTrains;
  }

  get abilities(): number {
    return this.#can.abilities;
  }

  setAbilities(what: readonly string[]): void {
    this.#can = slaveAbilities(what);
    for (const crawl of this.#services.frontier.crawls) this.offerRules(crawl);
    if (this.#state === 'ready') this.#services.frontier.give(this);
  }

  setCredit(credit: Credit): void {
    this.#credit = credit;
    if (this.#state === 'ready') this.#services.frontier.give(this);
  }

  push(leases: readonly Lease[]): void {
    for (const { task } of leases) this.#sendSpec(task.queue.crawl);
    const { crawls } = this.#services.frontier;
    const tasks = leases.map((lease) => crawls.pushOf(lease));
    this.send({ verb: 'task.push', tasks });
  }

  cancel(leases: readonly Lease[]): void {
    this.send({ verb: 'task.cancel', leases: leases.map(({ id }) => id) });
  }

  recall(leases: readonly Lease[]): void {
    this.send({ verb: 'task.recall', leases: leases.map(({ id }) => id) });
  }

  /** Tells the slave that it may forget the crawl. [T-30] */
  endCrawl(crawl: number): void {
    if (this.#knownSpecs.delete(crawl)) this.send({ verb: 'crawl.ended', crawl });
  }

  /** A crawl has other options: sent at once to a slave that knows the old ones. [C-44] */
  specChanged(crawl: number): void {
    if (this.#knownSpecs.delete(crawl)) this.#sendSpec(crawl);
  }

  send(push: Push): void {
    this.#connection.send(push);
  }

  drain(): void {
    this.record.isDraining = true;
    this.send({ verb: 'drain' });
  }

  /** As `close`, but at once: nothing is flushed. */
  abort(error: OrbError): void {
    this.#connection.abort(error);
  }

  close(error?: OrbError): void {
    this.#connection.close(error);
  }

  /** Resolves when the peer has read all that was sent. */
  drained(): Promise<void> {
    return this.#connection.drained();
  }

  /** For a key that is short enough to be guessed. Nothing is read before the challenge: TLS would
   *  allow a guess without one. [H-7] */
  #welcomeAfter(waitMs: number, challenge: Buffer): void {
    this.#connection.pause();
    this.#welcome = setTimeout(() => {
      this.#connection.sendPayload(challenge);
      this.#connection.resume();
    }, waitMs);
  }

  #receive(payload: Buffer): void {
    if (this.#python !== undefined) this.#python.receive(payload);
    else if (this.#state === 'greeting') this.#greet(payload);
    else this.#serve(payload);
  }

  #serve(payload: Buffer): void {
    this.#services.frontier.heard(this);
    const message = decodeMessage(payload);
    const id = idOf(message);
    const refuse = (error: unknown) => this.#refuse(id, error);
    let request: Request;
    try {
      request = parseRequest(message);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      refuse(error);
      return;
    }
    if (request.verb === 'hello') {
      refuse(new CommandError('E_BAD_REQUEST', 'this session has already said hello'));
      return;
    }
    const bytes = payload.length;
    // Not the request, which keeps what was read from the socket.
    const { verb } = request;
    const answer = (reply: object) => {
      const withinMs = verb === 'task.archive' ? archiveReplyMs : 0;
      if (id !== undefined) this.#connection.send({ id, ok: true, ...reply }, withinMs);
      if (verb === 'bye') this.#connection.close();
    };
    try {
      const reply = perform(this.#services, this, request);
      if (reply instanceof Promise) this.#await(reply.then(answer, refuse), bytes);
      // At once, so that its bytes count before the next request starts.
      else answer(reply);
    } catch (error) {
      refuse(error);
    }
    void this.#holdBackIfFull();
  }

  /** The answer comes later; until then the request counts. */
  #await(answered: Promise<void>, bytes: number): void {
    this.#unanswered++;
    this.#unansweredBytes += bytes;
    void answered.finally(() => {
      this.#unanswered--;
      this.#unansweredBytes -= bytes;
      this.#onAnswered();
    });
  }

  /** The first message decides the dialect. A native one must be a valid `hello`. [D-1] [S-1] */
  #greet(payload: Buffer): void {
    if (isPickle(payload)) {
      this.#state = 'python';
      this.#watcher.onGreeted();
      const { manager, memory, master } = this.#services;
      const ports = { manager, memory, master, events: this.#watcher };
      this.#python = new PythonCaller(this.#connection, ports, payload);
      this.#python.receive(payload);
      return;
    }
    const message = decodeMessage(payload);
    try {
      this.#admit(message);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      this.#refuse(idOf(message), error);
      throw new ProtocolError(error.message, error.code === 'E_VERSION' ? error.code : undefined);
    }
  }

  /** @throws CommandError the peer is not admitted · ProtocolError not a request */
  #admit(message: unknown): void {
    const theirs = versionOf(message);
    // Before anything else: a hello of another version may look different. [V-1]
    if (theirs !== undefined && theirs !== protocolVersion) {
      const text = `this master speaks protocol ${protocolVersion}, the peer speaks ${theirs}; `;
      throw new CommandError('E_VERSION', `${text}use the same version of Orbweaver on both sides`);
    }
    const request = parseRequest(message);
    if (request.verb !== 'hello') {
      throw new CommandError('E_BAD_REQUEST', 'the first message must be hello');
    }
    const { timing } = this.#services;
    const { id, role, name, proof } = request;
    const proofOf = (of: string) =>
      this.#agreement && roleProof(this.#agreement, of, protocolVersion, this.#channel);
    const [expected, ours] = [proofOf(role), proofOf('master')];
    if (!expected || !sameBytes(proof, expected)) {
      throw new CommandError('E_AUTH', 'the proof is wrong');
    }
    this.#role = role;
    this.#name = name;
    this.#state = 'ready';
    this.#watcher.onGreeted();
    const untakenMs = timing.silenceMs;
    this.#connection.startHeartbeat({ verb: 'ping' }, { ...timing, untakenMs });
    this.#connection.send({
      id,
      ok: true,
      protocol: protocolVersion,
      server: this.#services.version,
      session: this.id,
      heartbeatMs: timing.heartbeatMs,
      silenceMs: timing.silenceMs,
      leaseMs: timing.leaseMs,
      frameBytesMax: limits.frameBytesMax,
      proof: ours,
    });
    this.#services.events.joined(this);
  }

  /** A slave that lacks the packages for the rules of a crawl is told these, but gets no task: it
   *  says so in its log. [T-131] */
  offerRules({ id, isOpen, spec }: CrawlView): void {
    if (!this.#can.lacksArticles || !isOpen || !hasArticle(spec.fetch.items)) return;
    if (this.#knownSpecs.has(id)) return;
    const push = this.#services.frontier.crawls.specOf(id);
    if (push === undefined) return;
    this.#knownSpecs.add(id);
    const { login: _, ...fetch } = push.fetch;
    this.send({ ...push, fetch });
  }

  /** A slave gets the spec of a crawl with the crawl's first task. */
  #sendSpec(crawlId: number): void {
    if (this.#knownSpecs.has(crawlId)) return;
    const spec = this.#services.frontier.crawls.specOf(crawlId);
    if (spec === undefined) return;
    this.#knownSpecs.add(crawlId);
    // Without rules it gets the robots.txt of such a crawl at most, and would refuse its rules.
    this.send(this.#can.hasRules ? spec : { ...spec, fetch: plainFetch(spec.fetch) });
  }

  #refuse(id: number | undefined, error: unknown): void {
    if (!(error instanceof CommandError)) {
      this.#services.master.fail(error);
      return;
    }
    const reply = { ok: false, error: error.code, message: messageOf(error) };
    if (id !== undefined) this.#connection.send({ id, ...reply });
  }

  /** True: too much is under way, so this peer has to wait. [P-1]..[P-3] */
  get #isFull(): boolean {
    // Once it is held back, half of it must be answered first, not one request at a time.
    const part = this.#heldBackSince === undefined ? 1 : 0.5;
    const { unansweredBytesMax, untakenBytesMax } = this.#bytesMax;
    return (
      // Peers without waiting requests go on: a ping, a status.
      (this.#unanswered > 0 && this.#services.frontier.room() !== undefined) ||
      this.#unanswered > limits.unansweredMax * part ||
      this.#unansweredBytes > unansweredBytesMax * part ||
      this.#connection.unsentBytes > untakenBytesMax
    );
  }

  /** The limits of a peer are lower while the master's memory is tight. */
  get #bytesMax(): { unansweredBytesMax: number; untakenBytesMax: number } {
    if (!this.#services.memory.isTight) return limits;
    return { unansweredBytesMax: tightBytesMax, untakenBytesMax: tightBytesMax };
  }

  async #holdBackIfFull(): Promise<void> {
    if (this.#heldBackSince !== undefined || !this.#isFull) return;
    this.#heldBackSince = performance.now();
    this.#connection.pause();
    while (this.#isFull && this.#state !== 'closed') {
      await this.#eased();
      // All that waited for the same go on now.
      await shortTurn();
    }
    this.#heldBackMs = this.heldBackMs;
    this.#heldBackSince = undefined;
    this.#connection.resume();
  }

  /** Resolves when one of the reasons to wait may be gone. */
  #eased(): Promise<void> {
    const room = this.#services.frontier.room();
    if (room !== undefined) return room;
    if (this.#connection.unsentBytes > this.#bytesMax.untakenBytesMax) {
      return this.#connection.drained();
    }
    return new Promise((resolve) => {
      this.#onAnswered = resolve;
    });
  }

  #ended(error: OrbError | undefined): void {
    const wasReady = this.#state === 'ready';
    this.#state = 'closed';
    this.#onAnswered();
    this.#python?.ended();
    if (wasReady) this.#services.events.left(this);
    this.uploads.close();
    clearTimeout(this.#welcome);
    this.#watcher.onEnd(error);
  }
}
