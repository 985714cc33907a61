/**
 * The master that the conformance suite talks to: one that it starts itself, or a live one:
 *
 *     MASTER=box:6666 ORB_AUTHKEY=… node scripts/test.mjs protocol
 *
 * On a live master a test uses crawls and queues of its own, and tests that need control of the
 * process, or a master without other slaves, are skipped.
 */
import type { TestContext } from 'node:test';
import { Cluster, type Program } from './cluster.ts';
import { type Address, type Message, RawPeer } from './raw-peer.ts';

/** Short limits for tests that wait for them, in seconds. Source: PROTOCOL.md [B-4]. A process on a
 *  busy machine may not run for a second, so silence is longer. */
export const shortLimits = { lease: 1, heartbeat: 0.4, silence: 3, handshake: 1 };

let serial = 0;

export class Target implements Address {
  readonly host: string;
  readonly port: number;
  readonly authkey: Buffer;
  /** Undefined for a live master. */
  readonly cluster: Cluster | undefined;
  readonly #crawls: string[] = [];
  readonly #flags: readonly string[];
  #program: Program | undefined;

  private constructor(
    address: string,
    authkey: Buffer,
    own?: { cluster: Cluster; program: Program; flags: readonly string[] },
  ) {
    const colon = address.lastIndexOf(':');
    this.host = address.slice(0, colon);
    this.port = Number(address.slice(colon + 1));
    this.authkey = authkey;
    this.cluster = own?.cluster;
    this.#program = own?.program;
    this.#flags = own?.flags ?? [];
  }

  /** `limits` and `more` flags for a master of its own; a live one keeps what it has. */
  static async open(
    limits: Partial<typeof shortLimits> = {},
    more: readonly string[] = [],
  ): Promise<Target> {
    const live = process.env['MASTER'];
    if (live) return new Target(live, Buffer.from(process.env['ORB_AUTHKEY'] ?? ''));
    const cluster = new Cluster();
    const times = Object.entries(limits).flatMap(([name, s]) => [`--${name}`, String(s)]);
    const flags = [...times, ...more];
    const program = await cluster.master(flags);
    return new Target(cluster.address, cluster.authkey, { cluster, program, flags });
  }

  /** A master with these limits and flags that ends with the test; undefined, and the test skipped,
   *  when a live one is tested. */
  static async own(
    test: TestContext,
    limits: Partial<typeof shortLimits> = {},
    more: readonly string[] = [],
  ): Promise<Target | undefined> {
    if (process.env['MASTER']) {
      test.skip('needs a master of its own');
      return undefined;
    }
    const target = await Target.open(limits, more);
    test.after(() => target.close());
    return target;
  }

  /** The master's process. @throws Error on a live one. */
  get program(): Program {
    if (this.#program === undefined) throw new Error('the process of a live master is not ours');
    return this.#program;
  }

  /** The master's process; the test is skipped on a live one. */
  process(t: TestContext): Program | undefined {
    if (this.#program === undefined) t.skip('needs control of the process of the master');
    return this.#program;
  }

  /** kill -9, and the same master again at the same port. */
  async restart(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    await this.#program?.kill(signal);
    this.#program = await this.cluster?.master(this.#flags, {
      listen: `${this.host}:${this.port}`,
    });
  }

  /** False, and the test skipped, when a limit is too long to wait for. */
  isShort(t: TestContext, ms: unknown): boolean {
    if (Number(ms) <= 3_000) return true;
    t.skip(`this master's limit is ${ms} ms; start one with a shorter one`);
    return false;
  }

  join(role: 'slave' | 'client' = 'client', name?: string): Promise<RawPeer> {
    return RawPeer.join(this, role, name);
  }

  /** A slave that is the only one; undefined, and the test skipped, when there are others. */
  async slave(t: TestContext, credit = 0): Promise<RawPeer | undefined> {
    const peer = await this.join('slave', `conformance-${++serial}`);
    const { sessions, crawls } = (await peer.must('crawl.list')) as unknown as Status;
    const others = sessions.filter(({ role, name }) => role === 'slave' && !isOurs(name));
    const busy = crawls.filter(({ name, state }) => state === 'running' && !isOurs(name));
    if (others.length > 0 || busy.length > 0) {
      peer.abort();
      t.skip('needs a master without other slaves and running crawls');
      return undefined;
    }
    // A quarter of the slots is for hosts that have not answered, as all of these tests are. [T-52]
    if (credit > 0) await peer.must('task.credit', { count: credit, slots: credit * 4 });
    return peer;
  }

  /** Adds a crawl of its own and returns its name. It is cancelled at the end. */
  async crawl(by: RawPeer, seeds: readonly string[], spec: Message = {}): Promise<string> {
    const crawl = this.name();
    this.#crawls.push(crawl);
    // Nothing is fetched, so no site is disturbed: no delay unless the test is about it.
    const full = { delayMs: 0, perHost: 1_000, ignoreRobots: true, ...spec };
    await by.must('crawl.add', { crawl, seeds: [...seeds], spec: full });
    return crawl;
  }

  /** Returns a unique name for crawls, queues and hosts. */
  name(): string {
    return `conformance-${process.pid}-${Date.now().toString(36)}-${++serial}`;
  }

  /** A seed on a host of its own: nothing is ever fetched from it. */
  seed(path = ''): string {
    return `http://${this.name()}.invalid/${path}`;
  }

  /** Ends the crawls of a test, so that the next one's slave gets none of their tasks. */
  async clear(): Promise<void> {
    if (this.#crawls.length === 0) return;
    const peer = await this.join();
    for (const crawl of this.#crawls.splice(0)) await peer.request('crawl.cancel', { crawl });
    await peer.close();
  }

  async close(): Promise<void> {
    if (this.cluster === undefined) await this.clear();
    await this.cluster?.close();
  }
}

export type Status = {
  readonly crawls: readonly ({ name: string; state: string } & Record<string, number>)[];
  readonly sessions: readonly { name: string; role: string; leases: number }[];
};

/** State and counters of a crawl, without its rates, which come with time; empty if there is none
 *  of that name. */
export async function statusOf(peer: RawPeer, crawl: string): Promise<Record<string, unknown>> {
  const { crawls } = (await peer.must('crawl.list')) as unknown as Status;
  const { rates: _, ...status }: Record<string, unknown> =
    crawls.find(({ name }) => name === crawl) ?? {};
  return status;
}

function isOurs(name: string): boolean {
  return name.startsWith('conformance-');
}
