/**
 * A master that serves: makes the parts, wires them, and takes them down in order.
 *
 *     starting --> serving --stop()--> draining --> stopped
 *                     |
 *                     +--every crawl finished (exitWhenDone)--> draining
 */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { AuthkeyFile, authkeyBytesMin, makeAuthkeyFile } from '../shared/authkey.ts';
import { serverEncryption } from '../shared/encryption.ts';
import { ConfigError, messageOf } from '../shared/errors.ts';
import { type Logger, makeLog } from '../shared/log.ts';
import { isLoopback } from '../shared/url.ts';
import { version } from '../shared/version.ts';
import { DataFolder } from './data-folder.ts';
import type { Crawl } from './frontier/crawl.ts';
import { Frontier } from './frontier/frontier.ts';
import { Grouping } from './frontier/grouping.ts';
import { MemoryWatch } from './memory-watch.ts';
import type { ServeOptions } from './options.ts';
import { Progress, summary } from './progress.ts';
import { Managed } from './python/managed.ts';
import { UserQueues } from './queues.ts';
import { RobotsSlave } from './robots-slave.ts';
import { MasterServer } from './server.ts';
import type { Services } from './services.ts';
import { ResultQueue } from './sinks/result-queue.ts';
import { GroupCommit } from './store/group-commit.ts';
import { openLmdbStore } from './store/lmdb.ts';
import { formatVersion } from './store/records.ts';
import type { Store } from './store/store.ts';

const commitEveryMs = 25;
/** Shares of the memory limit: Bloom filters, and results that are not yet written. */
const bloomShare = 3 / 8;
const resultShare = 1 / 16;
/** Of results, while memory is tight. */
const tightResultBytes = 1 << 20;
/** How long an orderly stop waits for the pages that slaves have under way. */
const drainMs = 10_000;
/** How long programs whose work is over have to say good-bye. */
const leaveMs = 1_000;

export class Master {
  readonly #options: ServeOptions;
  readonly #folder: DataFolder;
  readonly #store: Store;
  readonly #log: Logger;
  readonly #progress: Progress;
  readonly #commits: GroupCommit;
  readonly #results: ResultQueue;
  readonly #frontier: Frontier;
  readonly #queues: UserQueues;
  readonly #managed: Managed;
  readonly #server: MasterServer;
  readonly #robotsSlave: RobotsSlave;
  readonly #memory: MemoryWatch;
  readonly #isNewKey: boolean;
  readonly #settleStopped: { resolve: () => void; reject: (error: unknown) => void };
  /** Resolves after an orderly stop; rejects with the fault that ended the master. */
  readonly stopped: Promise<void>;
  #port = 0;
  #state: 'starting' | 'serving' | 'draining' | 'stopped' = 'starting';

  /** @throws ConfigError what the operator has to do. */
  static async start(options: ServeOptions): Promise<Master> {
    const folder = DataFolder.open(options.dataFolder);
    try {
      const store = await openLmdbStore(join(options.dataFolder, 'store'));
      const master = new Master(options, folder, store);
      await master.#serve();
      return master;
    } catch (error) {
      folder.close();
      throw error;
    }
  }

  private constructor(options: ServeOptions, folder: DataFolder, store: Store) {
    this.#options = options;
    this.#folder = folder;
    this.#store = store;
    this.#isNewKey = options.authkey === undefined && makeAuthkeyFile(options.authkeyFile);
    let settle: { resolve: () => void; reject: (error: unknown) => void } | undefined;
    this.stopped = new Promise((resolve, reject) => {
      settle = { resolve, reject };
    });
    this.#settleStopped = settle as NonNullable<typeof settle>;
    // Some terminals (of containers, of scripts) have no size: nothing can be painted there.
    const isTerminal = process.stdout.isTTY === true && process.stdout.columns > 0;
    this.#log = makeLog({
      level: options.logLevel,
      json: options.jsonLogs,
      write: (line) => this.#progress.above(line),
    });
    this.#progress = new Progress({
      look: () => ({
        crawls: [...this.#frontier.crawls].map((crawl) => crawl.status()),
        slaves: this.#slaveCount(),
      }),
      log: this.#log,
      repaints: isTerminal && !options.jsonLogs,
    });
    const onError = (error: unknown) => this.#fail(error);
    this.#commits = new GroupCommit({ store, everyMs: commitEveryMs, onError });
    const bytesMax = options.memoryBytes;
    this.#memory = new MemoryWatch({
      bytesMax,
      commits: () => this.#commits.count,
      onTight: (used) => {
        const mib = Math.round(used / 2 ** 20);
        this.#log.warn({ MiB: mib }, 'memory is short: peers wait; see --memory-limit');
      },
      onExceeded: (bytes) => this.#server.closeHeaviest(bytes),
    });
    const isTight = () => this.#memory.isTight;
    this.#results = new ResultQueue({
      store,
      commits: this.#commits,
      folder: options.outFolder,
      waitingBytesMax: () => (isTight() ? tightResultBytes : bytesMax * resultShare),
      onWritten: (crawl) => this.#frontier.settle(crawl),
      onError,
    });
    this.#frontier = new Frontier({
      store,
      commits: this.#commits,
      results: this.#results,
      folder: options.dataFolder,
      hostSecret: this.#secret(),
      grouping: new Grouping(options.grouping),
      leaseMs: options.timing.leaseMs,
      recentEntries: options.recentUrls,
      bloomBytesMax: bytesMax * bloomShare,
      isTight,
      onMade: (crawl, seeds) => {
        if (crawl.spec.ignoreRobots) this.#warnOfManners(crawl);
        this.#hintAtContact(crawl, seeds);
      },
      onEnded: (crawl) => this.#ended(crawl),
      onFilesWanted: () => this.#robotsSlave.want(),
    });
    this.#queues = new UserQueues(store, this.#commits, options.queues);
    this.#managed = new Managed(() => services, {
      isDurable: options.durablePut,
      plain: options.queues,
      crawl: options.crawl,
      spec: options.spec,
    });
    const authkeys = this.#authkeys();
    this.#robotsSlave = new RobotsSlave({
      authkeys,
      log: this.#log,
      address: () => `${localHost(options.host)}:${this.#port}`,
    });
    const services = this.#services(authkeys);
    this.#server = new MasterServer(services, options);
  }

  /** Ends orderly: no more leases, what is under way comes in, all is written. Idempotent. */
  async stop(): Promise<void> {
    if (this.#state !== 'serving') return await this.stopped.catch(() => {});
    this.#state = 'draining';
    this.#frontier.dispatcher.drain();
    const { leaseCount } = this.#frontier.dispatcher;
    if (leaseCount > 0) {
      this.#log.info(
        { leased: leaseCount },
        'stopping when the slaves have reported what they fetch; a second signal ends at once',
      );
    }
    await this.#leasesReturned();
    this.#robotsSlave.close();
    this.#queues.close();
    await this.#managed.close(leaveMs);
    await this.#commits.flushed();
    await this.#results.close();
    await this.#frontier.close();
    await this.#server.close(1_000);
    this.#progress.stop();
    this.#memory.close();
    await this.#store.close();
    this.#folder.close();
    this.#state = 'stopped';
    this.#settleStopped.resolve();
  }

  async #serve(): Promise<void> {
    const { host, port, seeds, crawl: name, spec } = this.#options;
    for (const crawl of this.#frontier.crawls) await this.#results.restore(crawl);
    if (seeds.length > 0 && !this.#frontier.crawls.has(name)) await this.#results.prepare(name);
    const actualPort = await this.#server.listen(host, port);
    this.#port = actualPort;
    this.#folder.publish(`${host || '127.0.0.1'}:${actualPort}`);
    this.#state = 'serving';
    this.#greet(actualPort);
    for (const crawl of this.#frontier.crawls) {
      if (crawl.spec.ignoreRobots && crawl.state === 'running') this.#warnOfManners(crawl);
    }
    if (seeds.length > 0) await this.#seed(name, seeds, spec);
    this.#progress.start(this.#options.statusEveryMs);
    for (const crawl of this.#frontier.crawls) this.#frontier.settle(crawl);
    this.#leaveIfDone();
  }

  async #seed(name: string, seeds: readonly string[], spec: ServeOptions['spec']): Promise<void> {
    this.#warnOfOtherSpec(name, spec);
    const { admitted, refused } = await this.#frontier.seed(name, spec, seeds);
    const crawl = this.#frontier.crawls.named(name);
    for (const { url, why } of refused) this.#log.warn({ url }, `seed refused: ${why}`);
    if (admitted === 0 && crawl.state === 'finished') {
      const folder = this.#results.folderOf(name);
      this.#log.info(
        `crawl ${name} was finished before: ${crawl.counters.pages} pages in ${folder}; ` +
          'to crawl again, give another --crawl',
      );
    }
  }

  /** A crawl keeps the options that it was made with. */
  #warnOfOtherSpec(name: string, spec: ServeOptions['spec']): void {
    if (!this.#frontier.crawls.has(name)) return;
    const kept = this.#frontier.crawls.named(name).spec;
    const fields = Object.keys({ ...kept, ...spec }) as (keyof typeof spec)[];
    const others = fields.filter((field) => !isDeepStrictEqual(kept[field], spec[field]));
    if (others.length === 0) return;
    this.#log.warn(
      { crawl: name, ignored: others },
      'the crawl goes on with the options it was made with',
    );
  }

  /** The keys that let a peer in, as the file has them now. @throws ConfigError */
  #authkeys(): () => readonly Buffer[] {
    const { authkey, authkeyFile, host } = this.#options;
    if (authkey !== undefined) {
      refuseWeakKey(authkey, host);
      return () => [authkey];
    }
    const file = new AuthkeyFile(authkeyFile, (error) => {
      this.#log.error(`${messageOf(error)}; the keys of before are still taken`);
    });
    const keys = () => file.keys;
    for (const key of keys()) refuseWeakKey(key, host);
    return keys;
  }

  #services(authkeys: () => readonly Buffer[]): Services {
    const { tls, certificate } = this.#options;
    return {
      authkeys,
      tls: {
        encryption: serverEncryption(authkeys, certificate),
        as: tls ? 'server, required' : 'server',
      },
      authDigest: this.#options.authDigest,
      version: `orbweaver/${version}`,
      defaultSpec: this.#options.spec,
      timing: this.#options.timing,
      memory: this.#memory,
      frontier: this.#frontier,
      results: this.#results,
      queues: this.#queues,
      managed: this.#managed,
      sessions: () => this.#server.sessions,
      isDraining: () => this.#state !== 'serving',
      onReady: (session) => {
        if (session.role !== 'slave') return;
        this.#log.info({ slave: session.name, peer: session.peer }, 'slave joined');
        if (session.name !== this.#robotsSlave.name) this.#robotsSlave.retire();
        this.#frontier.dispatcher.add(session);
      },
      onGone: (session) => {
        this.#queues.removeHolder(session);
        if (session.role !== 'slave') return;
        const leases = session.leases.size;
        this.#frontier.dispatcher.remove(session);
        this.#log.info({ slave: session.name, returned: leases }, 'slave left');
      },
      onWorker: ({ name: worker }, returned) => {
        if (returned === undefined) this.#log.info({ worker }, 'Python worker joined');
        else this.#log.info({ worker, returned }, 'Python worker left');
      },
      onFault: (error) => this.#fail(error),
      onRefusedPickle: (peer, error) => {
        this.#log.warn({ peer }, `pickle refused: ${messageOf(error)}`);
      },
      onRefused: (peer, error, times) => {
        // A flood of them fills no disk.
        if (times > 3 && (times & (times - 1)) !== 0) return;
        const often = times > 3 ? { times } : {};
        const fields = { peer, code: error.code, ...often };
        this.#log.warn(fields, `connection ended: ${messageOf(error)}`);
      },
    };
  }

  #greet(port: number): void {
    const { dataFolder, host, authkeyFile } = this.#options;
    const where = `${host || '*'}:${port}`;
    this.#log.info(
      { data: dataFolder, pid: process.pid },
      `orbweaver ${version} listens on ${where}`,
    );
    const reachable = host && host !== '0.0.0.0' && host !== '::' ? host : hostname();
    const join = `node slave.js --master ${reachable}:${port}`;
    if (this.#isNewKey) {
      this.#log.info(`made the authkey ${authkeyFile}: copy that file to the slaves' machines`);
    }
    const key = this.#options.authkey ? 'the same authkey' : authkeyFile;
    this.#log.info(`join a slave with: ${join} --authkey-file ${key}`);
  }

  #warnOfManners({ name }: Crawl): void {
    this.#log.warn(
      `crawl ${name} IGNORES robots.txt (--ignore-robots): it fetches what sites ask crawlers ` +
        'not to; only do that to sites that are yours',
    );
  }

  /** Owners of sites turn away whom they cannot ask. */
  #hintAtContact({ name, spec }: Crawl, seeds: readonly string[]): void {
    const agents = [spec.fetch.userAgent, ...spec.fetch.otherUserAgents];
    if (agents.some((agent) => /[@+]|:\/\//.test(agent)) || !seeds.some(isElsewhere)) return;
    this.#log.info(
      `crawl ${name} tells nobody whose it is: --contact https://you.example/bot (or a mail ` +
        'address) lets the owners of sites reach you',
    );
  }

  #ended(crawl: Crawl): void {
    // A seed may have come since: then it has not ended.
    if (!crawl.isOpen) for (const session of this.#server.sessions) session.endCrawl(crawl.id);
    const folder = this.#results.folderOf(crawl.name);
    this.#log.info(summary(crawl.status(), Date.now() - crawl.startedAt, folder));
    this.#managed.crawlEnded();
    // Who cancelled it gets the answer first.
    setImmediate(() => this.#leaveIfDone());
  }

  #leaveIfDone(): void {
    if (!this.#options.exitWhenDone || this.#state !== 'serving') return;
    const states = [...this.#frontier.crawls].map(({ state }) => state);
    if (states.length === 0 || states.includes('running') || states.includes('paused')) return;
    for (const session of this.#server.sessions) {
      if (session.role === 'slave') session.send({ verb: 'drain' });
    }
    void this.stop();
  }

  /** Waits until no slave holds a lease, for a limited time. */
  async #leasesReturned(): Promise<void> {
    const deadline = performance.now() + drainMs;
    while (this.#frontier.dispatcher.leaseCount > 0 && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Nothing can be promised any more; what was acknowledged is on the disk. */
  #fail(error: unknown): void {
    if (this.#state === 'stopped') return;
    this.#state = 'stopped';
    this.#progress.stop();
    this.#robotsSlave.close();
    this.#folder.close();
    this.#settleStopped.reject(error);
  }

  #slaveCount(): number {
    return this.#server.sessions.filter(({ role }) => role === 'slave').length;
  }

  /** The secret of the host hashes; with it the format version, which is checked. */
  #secret(): Buffer {
    const formatKey = Buffer.from('format');
    const secretKey = Buffer.from('secret');
    const format = this.#store.get('meta', formatKey);
    const known = this.#store.get('meta', secretKey);
    if (format !== undefined && format[0] !== formatVersion) {
      throw new ConfigError(
        `${this.#options.dataFolder} was written in format ${format[0]}, ` +
          `this is ${formatVersion}; use the version of Orbweaver that wrote it`,
      );
    }
    if (known !== undefined) return known;
    const secret = randomBytes(16);
    this.#commits.submit([
      { table: 'meta', key: formatKey, value: Buffer.from([formatVersion]) },
      { table: 'meta', key: secretKey, value: secret },
    ]);
    return secret;
  }
}

/** How programs on this machine reach a master that listens there. */
function localHost(host: string): string {
  if (host === '' || host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') ? `[${host}]` : host;
}

/** A seed of another machine. */
function isElsewhere(seed: string): boolean {
  return URL.canParse(seed) && !isLoopback(new URL(seed).hostname);
}

function refuseWeakKey(authkey: Buffer, host: string): void {
  const isPublic = !isLoopback(host);
  if (isPublic && authkey.length < authkeyBytesMin) {
    throw new ConfigError(
      `the authkey has ${authkey.length} bytes; on an address that others can reach it needs ` +
        `${authkeyBytesMin}: use a longer one, or --listen 127.0.0.1:6666`,
    );
  }
}
