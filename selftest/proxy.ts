/**
 * A TCP proxy on 127.0.0.1 between slaves and master that disturbs their connections like a
 * network. It sees only bytes, so plain and encrypted connections are the same to it.
 *
 *     client --up--> link --up--> master        each way: flows, slow, swallowed, held, cut after n
 *     client <-down- link <-down- master
 */
import { EventEmitter, once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createConnection, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { randomOf } from './site.ts';

/** The faults that connections can have; times in ms.
 *  - `drop`: a reset, of one connection or of all.
 *  - `mid-frame`: a reset after so many more bytes in one direction.
 *  - `half-open`: one direction, or both, goes nowhere for a while, then a reset; nobody is told.
 *  - `slow`: a piece of `bytes` now and then, for a while.
 *  - `late`: the client loses the connection, but what it has said last comes to the master `ms`
 *    later, when the client may be back on another one.
 *  - `shuffle`: all are reset, and those that come back get through in another order.
 *  - `refuse`: nobody gets through for a while. */
export type NetworkFault =
  | { readonly how: 'drop'; readonly isAll: boolean }
  | { readonly how: 'mid-frame'; readonly way: Way; readonly bytes: number }
  | { readonly how: 'half-open'; readonly way: Way | 'both'; readonly ms: number }
  | { readonly how: 'slow'; readonly bytes: number; readonly ms: number }
  | { readonly how: 'late'; readonly ms: number }
  | { readonly how: 'shuffle'; readonly seed: number; readonly ms: number }
  | { readonly how: 'refuse'; readonly ms: number };

export type Way = 'up' | 'down';

/** Time of the data before a `late` cut, in ms. */
const lateMs = 300;
const heldBytesMax = 8 << 20;
const slowPieceMs = 25;

type Flow = {
  /** Swallows everything. */
  isDeaf: boolean;
  /** Bytes to pass before it resets the link. */
  bytesLeft: number;
  /** Bytes of a piece, while it is slow. */
  pieceBytes: number;
  /** Bytes that wait for a late delivery. */
  held: Buffer[] | undefined;
};

export class FaultProxy {
  readonly #server: Server;
  readonly #links = new Set<Link>();
  readonly #target: () => number | undefined;
  readonly #closed = new AbortController();
  /** Returns the wait of a new connection. */
  #waitMs: () => number = () => 0;
  #refusesUntil = 0;

  /** `target` returns the master's port, or undefined while there is none. */
  constructor(target: () => number | undefined) {
    this.#target = target;
    this.#server = createServer((socket) => void this.#accept(socket));
  }

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Applies a fault to the present connection at `pick` (0 to 1). Returns false if there is
   *  none. */
  apply(fault: NetworkFault, pick: number): boolean {
    const links = [...this.#links];
    const link = links[Math.floor(pick * links.length)];
    if (fault.how === 'refuse') this.#refusesUntil = performance.now() + fault.ms;
    if (link === undefined) return false;
    switch (fault.how) {
      case 'drop':
        for (const one of fault.isAll ? links : [link]) one.cut();
        break;
      case 'shuffle':
        this.#shuffle(fault.seed, fault.ms);
        for (const one of links) one.cut();
        break;
      case 'refuse':
        for (const one of links) one.cut();
        break;
      case 'mid-frame':
        link.flows[fault.way].bytesLeft = fault.bytes;
        break;
      case 'half-open':
        if (fault.way !== 'down') link.flows.up.isDeaf = true;
        if (fault.way !== 'up') link.flows.down.isDeaf = true;
        this.#later(fault.ms, () => link.cut());
        break;
      case 'slow':
        link.flows.up.pieceBytes = link.flows.down.pieceBytes = fault.bytes;
        this.#later(fault.ms, () => link.heal());
        break;
      case 'late':
        void link.deliverLate(fault.ms);
        break;
      default:
        fault satisfies never;
    }
    return true;
  }

  /** Ends all faults. */
  heal(): void {
    this.#waitMs = () => 0;
    this.#refusesUntil = 0;
    for (const link of this.#links) link.heal();
  }

  async close(): Promise<void> {
    this.#closed.abort();
    for (const link of this.#links) link.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #shuffle(seed: number, ms: number): void {
    const random = randomOf(seed);
    this.#waitMs = () => random() * ms;
    this.#later(ms, () => {
      this.#waitMs = () => 0;
    });
  }

  async #accept(client: Socket): Promise<void> {
    client.on('error', () => {});
    const waitMs = this.#waitMs();
    if (waitMs > 0) await sleep(waitMs);
    const port = this.#target();
    if (
      port === undefined ||
      performance.now() < this.#refusesUntil ||
      this.#closed.signal.aborted
    ) {
      client.resetAndDestroy();
      return;
    }
    const link = new Link(client, createConnection({ port, host: '127.0.0.1' }));
    this.#links.add(link);
    await link.ended;
    this.#links.delete(link);
  }

  #later(ms: number, act: () => void): void {
    sleep(ms, undefined, { signal: this.#closed.signal }).then(act, () => {});
  }
}

class Link {
  readonly flows: Record<Way, Flow> = { up: newFlow(), down: newFlow() };
  readonly ended: Promise<unknown>;
  readonly #client: Socket;
  readonly #master: Socket;
  readonly #events = new EventEmitter();

  constructor(client: Socket, master: Socket) {
    this.#client = client;
    this.#master = master;
    master.on('error', () => {});
    this.ended = Promise.all([
      this.#carry(client, master, this.flows.up),
      this.#carry(master, client, this.flows.down),
    ]);
  }

  /** Both sides see a reset. */
  cut(): void {
    if (this.flows.up.held !== undefined) return; // it is cut already, and its bytes are to come
    this.#client.resetAndDestroy();
    this.#master.resetAndDestroy();
  }

  heal(): void {
    for (const flow of Object.values(this.flows)) flow.pieceBytes = Number.POSITIVE_INFINITY;
  }

  async deliverLate(ms: number): Promise<void> {
    const { up, down } = this.flows;
    if (up.held !== undefined) return;
    const held: Buffer[] = [];
    up.held = held;
    down.isDeaf = true;
    await sleep(lateMs);
    this.#client.resetAndDestroy();
    await sleep(ms);
    if (!this.#master.destroyed) this.#master.write(Buffer.concat(held));
    this.#events.emit('delivered');
    up.held = undefined;
    this.#master.end();
    await sleep(lateMs);
    this.cut();
  }

  async #carry(from: Socket, to: Socket, flow: Flow): Promise<void> {
    try {
      for await (const chunk of from as AsyncIterable<Buffer>) await this.#pass(chunk, to, flow);
    } catch {
      // a reset of either side, or a write to one that is gone
    }
    if (flow.held !== undefined) await once(this.#events, 'delivered');
    from.destroy();
    // Bytes that were written before the end still arrive.
    to.destroySoon();
  }

  async #pass(chunk: Buffer, to: Socket, flow: Flow): Promise<void> {
    for (let at = 0; at < chunk.length; ) {
      const piece = chunk.subarray(
        at,
        at + Math.min(flow.pieceBytes, flow.bytesLeft, chunk.length),
      );
      at += piece.length;
      if (flow.pieceBytes < Number.POSITIVE_INFINITY) await sleep(slowPieceMs);
      if (flow.held !== undefined) {
        const heldBytes = flow.held.reduce((sum, { length }) => sum + length, 0);
        if (heldBytes < heldBytesMax) flow.held.push(piece);
      } else if (!flow.isDeaf) {
        await written(piece, to);
      }
      flow.bytesLeft -= piece.length;
      if (flow.bytesLeft <= 0) this.cut();
    }
  }
}

function newFlow(): Flow {
  const { POSITIVE_INFINITY } = Number;
  return {
    isDeaf: false,
    bytesLeft: POSITIVE_INFINITY,
    pieceBytes: POSITIVE_INFINITY,
    held: undefined,
  };
}

/** Resolves when the socket has accepted the bytes. Rejects when it is gone. */
function written(piece: Buffer, to: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    to.write(piece, (error) => (error ? reject(error) : resolve()));
  });
}
