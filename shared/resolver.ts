/**
 * Names to addresses: a bounded cache that keeps answers for their TTL (within limits), in front of
 * c-ares, which resolves many names at once where getaddrinfo has four threads. At most one query
 * per name is under way at a time. The guard filters afterwards, so the cache holds the DNS's
 * answer unchanged. Slaves use it for the hosts that they fetch from; the master uses it for the
 * hosts of seeds, and must find what its slaves would find.
 */

import { lookup, Resolver } from 'node:dns/promises';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { devNull } from 'node:os';
import { AwakeTimer } from './awake.ts';
import { codeOf, messageOf } from './errors.ts';

export type ResolvedAddress = { readonly address: string; readonly family: number };
type Resolved = {
  /** IPv4 first: it works in more places, and Node tries the other family soon after. */
  readonly addresses: readonly ResolvedAddress[];
  readonly ttlMs: number;
};
/** Asks for both families. Rejects with Node's DNS errors (`code` ENOTFOUND, ETIMEOUT, …). */
export type Resolve = (hostname: string) => Promise<Resolved>;

/** A name without an address now; always a FetchError of kind `dns`. `code`: Node's, of c-ares or
 *  getaddrinfo (ENOTFOUND, ESERVFAIL, EREFUSED, ETIMEOUT, EAI_AGAIN, …), or EMFILE, ENFILE if no
 *  file could be opened either. */
export class LookupError extends Error {
  readonly kind = 'dns';
  readonly code: string;

  constructor(message: string, code: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'LookupError';
    this.code = code;
  }
}

type AddressCacheOptions = {
  /** Names kept; the one unused for longest goes first. */
  readonly countMax?: number;
  /** An answer is used for its TTL, but no shorter and no longer than this. */
  readonly ttlMsMin?: number;
  readonly ttlMsMax?: number;
  /** A failure is used for this long, so that a dead name is not queried for every link. */
  readonly failureMs?: number;
  /** Time limit of one query, including its retries. */
  readonly deadlineMs?: number;
  readonly now?: () => number;
};

type Entry = { readonly answer: Promise<readonly ResolvedAddress[]>; endsAt: number };

export class AddressCache {
  readonly #resolve: Resolve;
  readonly #options: Required<AddressCacheOptions>;
  /** In order of use: the first has been unused for longest. */
  readonly #entries = new Map<string, Entry>();

  constructor(resolve: Resolve = systemResolve(), options: AddressCacheOptions = {}) {
    this.#resolve = resolve;
    this.#options = {
      countMax: 10_000,
      ttlMsMin: 1000,
      ttlMsMax: 600_000,
      failureMs: 5000,
      deadlineMs: 10_000,
      now: () => performance.now(),
      ...options,
    };
  }

  get size(): number {
    return this.#entries.size;
  }

  /** @throws LookupError */
  resolve(hostname: string): Promise<readonly ResolvedAddress[]> {
    const { countMax, now } = this.#options;
    const known = this.#entries.get(hostname);
    this.#entries.delete(hostname);
    const entry = known !== undefined && known.endsAt > now() ? known : this.#ask(hostname);
    this.#entries.set(hostname, entry);
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= countMax) break;
      this.#entries.delete(oldest);
    }
    return entry.answer;
  }

  #ask(hostname: string): Entry {
    const { ttlMsMin, ttlMsMax, failureMs, deadlineMs, now } = this.#options;
    const resolved = withDeadline(this.#resolve(hostname), hostname, deadlineMs);
    const entry: Entry = {
      answer: resolved.then(
        ({ addresses }) => addresses,
        (error: unknown) => {
          throw lookupError(error);
        },
      ),
      endsAt: Number.POSITIVE_INFINITY,
    };
    resolved.then(
      ({ ttlMs }) => {
        entry.endsAt = now() + Math.min(Math.max(ttlMs, ttlMsMin), ttlMsMax);
      },
      () => {
        entry.endsAt = now() + failureMs;
      },
    );
    return entry;
  }
}

/** getaddrinfo returns no TTL. */
const systemTtlMs = 30_000;
/** Names that only the system can resolve: they are not in the DNS, or must not be queried there.
 *  Source: RFC 6761, RFC 6762, RFC 8375. */
const systemName = /^[^.]*\.?$|\.(localhost|local|test|internal|home\.arpa)\.?$/i;

type SystemResolveOptions = {
  /** `address:port` of name servers; default: the system's. */
  readonly servers?: readonly string[];
  readonly hosts?: string;
  /** Time limit of the first try of a query, in ms; the next try has twice that. */
  readonly tryMs?: number;
  readonly tries?: number;
};

/** Such names do not exist, and are not queried. Source: RFC 6761, 6.4. */
const noName = /(^|\.)invalid\.?$/i;

/**
 * The resolver of master and slaves: c-ares for both families at once; the system's own resolver
 * (hosts file, search list) for names that are in the hosts file, are not DNS names, or are unknown
 * to the DNS. The hosts file is read once. Source: hosts(5).
 */
export function systemResolve(options: SystemResolveOptions = {}): Resolve {
  const { servers, hosts = '/etc/hosts', tryMs = 2000, tries = 2 } = options;
  const own = namesIn(hosts);
  return async (hostname) => {
    if (systemName.test(hostname) || own.has(hostname)) return askSystem(hostname);
    if (noName.test(hostname))
      throw new LookupError('names below .invalid do not exist', 'ENOTFOUND');
    // A new resolver for each name, which costs 30 µs: after three answers c-ares waits five times
    // their average instead of `timeout`, 250 ms where the servers are near, and so gives up on a
    // name that takes a second. Source: c-ares 1.34, ares_metrics.c.
    const resolver = new Resolver({ timeout: tryMs, tries });
    if (servers !== undefined) resolver.setServers(servers);
    const answers = await Promise.allSettled([
      resolver.resolve4(hostname, { ttl: true }),
      resolver.resolve6(hostname, { ttl: true }),
    ]);
    const addresses: ResolvedAddress[] = [];
    let ttlMs = Number.POSITIVE_INFINITY;
    for (const [index, answer] of answers.entries()) {
      if (answer.status === 'rejected') continue;
      for (const { address, ttl } of answer.value) {
        addresses.push({ address, family: index === 0 ? 4 : 6 });
        ttlMs = Math.min(ttlMs, ttl * 1000);
      }
    }
    if (addresses.length > 0) return { addresses, ttlMs };
    // A server that does not answer will not answer getaddrinfo, which would hold a thread.
    for (const answer of answers)
      if (answer.status === 'rejected' && !isUnknownName(answer.reason)) throw answer.reason;
    return askSystem(hostname);
  };
}

/** The names of a hosts file, in lower case; none if it cannot be read. */
function namesIn(path: string): ReadonlySet<string> {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch {
    return new Set();
  }
  const lines = text.split('\n').map((line) => line.replace(/#.*/, '').trim());
  return new Set(lines.flatMap((line) => line.toLowerCase().split(/\s+/).slice(1)));
}

async function askSystem(hostname: string): Promise<Resolved> {
  const addresses = await lookup(hostname, { all: true });
  return { addresses: addresses.sort((a, b) => a.family - b.family), ttlMs: systemTtlMs };
}

/** The DNS has no such name or address, or there is no DNS at all. */
export function isUnknownName(error: unknown): boolean {
  const code = codeOf(error);
  return code === 'ENOTFOUND' || code === 'ENODATA' || code === 'ECONNREFUSED';
}

/** A resolver that may open no file or socket calls that by another name: c-ares ECONNREFUSED. */
function lookupError(error: unknown): LookupError {
  const cause = openingFault() ?? error;
  return new LookupError(messageOf(cause), codeOf(cause) ?? '', cause);
}

/** Why no file can be opened now; undefined: one can. */
function openingFault(): unknown {
  try {
    closeSync(openSync(devNull, 'r'));
    return undefined;
  } catch (error) {
    return error;
  }
}

async function withDeadline<T>(promise: Promise<T>, hostname: string, ms: number): Promise<T> {
  let timer: AwakeTimer | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = new Error(`no answer for ${hostname} within ${ms} ms`);
    timer = new AwakeTimer(() => reject(Object.assign(error, { code: 'ETIMEOUT', hostname })), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    timer?.clear();
  }
}
