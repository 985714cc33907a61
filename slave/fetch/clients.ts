/**
 * The HTTP clients of a slave, one for each address policy: a socket that one policy allowed is
 * never reused under another. Bounded; the one unused for longest ends when its fetches have. The
 * only file that imports undici; the fetcher calls it.
 */
import { Agent } from 'undici';
import { AddressPolicy } from '../../shared/address.ts';
import type { FetchSpec } from '../../shared/crawl.ts';
import { guardedLookup } from './guard.ts';
import type { AddressCache } from './resolver.ts';

export type Client = { readonly agent: Agent; readonly policy: AddressPolicy };

/** Policies at once: one a crawl at most, and nearly all crawls share two. */
const countMax = 16;
const headerBytesMax = 32 << 10;
const connectMs = 10_000;

export class Clients {
  readonly #options: { readonly connections: number; readonly addresses: AddressCache };
  /** In order of use: the first has been unused for longest. */
  readonly #clients = new Map<string, Client>();
  #closing: Promise<unknown> | undefined;

  /** `connections`: sockets per origin at once, of each client. */
  constructor(options: { connections: number; addresses: AddressCache }) {
    this.#options = options;
  }

  /** The client that connects to public addresses and to `allow`. */
  of(allow: FetchSpec['allowPrivate']): Client {
    const key = allow === 'all' ? allow : allow.join(' ');
    const client = this.#clients.get(key) ?? this.#make(allow);
    this.#clients.delete(key);
    this.#clients.set(key, client);
    if (this.#clients.size > countMax) this.#dropOldest();
    return client;
  }

  /** Ends all sockets, and the fetches that are still running with a failure. Idempotent. */
  async close(): Promise<void> {
    this.#closing ??= Promise.all([...this.#clients.values()].map(({ agent }) => agent.destroy()));
    await this.#closing;
  }

  #make(allow: FetchSpec['allowPrivate']): Client {
    const { connections, addresses } = this.#options;
    const policy = new AddressPolicy(allow);
    const agent = new Agent({
      connections,
      pipelining: 1,
      maxHeaderSize: headerBytesMax,
      // The deadline of the whole fetch stands in for undici's timers.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: { timeout: connectMs, lookup: guardedLookup(addresses, policy) },
    });
    return { agent, policy };
  }

  #dropOldest(): void {
    const [oldest] = this.#clients;
    if (oldest === undefined) return;
    this.#clients.delete(oldest[0]);
    void oldest[1].agent.close();
  }
}
