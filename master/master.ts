/**
 * A master that serves: opens its folder and store, starts its parts, and takes them down in
 * order.
 *
 *     starting --> serving --stop()--> draining --> stopped
 *                     |
 *                     +--every crawl finished (exitWhenDone)--> draining
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { makeAuthkeyFile } from '../shared/authkey.ts';
import { ConfigError, exitCodes, StoreError } from '../shared/errors.ts';
import { namedOutputs } from '../shared/outputs.ts';
import type { Leaver } from './departure.ts';
import { seedFirst } from './first-seeds.ts';
import { DataFolder, localAddress } from './machine/data-folder.ts';
import type { SlavesMaster } from './machine/local-slaves.ts';
import { type MasterOptions, makeParts, type Parts } from './parts.ts';
import {
  asConfigError,
  endingOf,
  isDiskFault,
  noSlaveError,
  refuseEarlyClock,
  refuseFirstPatterns,
  refuseFullDisk,
} from './refusals.ts';
import { OpenStore } from './repair/open-store.ts';
import { storeFile } from './store/lmdb.ts';

/** How long an orderly stop waits for the pages that slaves have under way. */
const drainMs = 10_000;
/** How long it waits for room on a full disk. */
const fullMs = 10_000;
/** How long programs whose work is over have to say good-bye. */
const leaveMs = 1_000;

export class Master implements Leaver, SlavesMaster {
  readonly #options: MasterOptions;
  readonly #folder: DataFolder;
  readonly #opened: OpenStore;
  readonly #parts: Parts;
  readonly #isNewKey: boolean;
  readonly #settleStopped: { resolve: () => void; reject: (error: unknown) => void };
  /** Resolves after an orderly stop; rejects with the fault that ended the master. */
  readonly stopped: Promise<void>;
  #port = 0;
  #exitCode: () => number = () => exitCodes.done;
  #state: 'starting' | 'serving' | 'draining' | 'stopped' = 'starting';

  /** @throws ConfigError what the operator has to do. */
  static async start(options: MasterOptions): Promise<Master> {
    refuseEarlyClock();
    if (!existsSync(storeFile(join(options.dataFolder, 'store')))) refuseFirstPatterns(options);
    const folder = await DataFolder.openWhenLeft(options);
    try {
      refuseFullDisk(options);
      const opened = await OpenStore.open(options);
      const master = new Master(options, folder, opened);
      if (opened.compacted !== undefined) master.#parts.notices.compacted(opened.compacted);
      await Promise.race([master.#serve(), master.stopped]); // a fault may end it meanwhile
      opened.readLater({ crawls: master.#parts.frontier.crawls, master, log: master.#parts.log });
      return master;
    } catch (error) {
      folder.close();
      // Of the seeds: their crawl was cancelled, or there is no room for one more.
      throw endingOf(asConfigError(error));
    }
  }

  private constructor(options: MasterOptions, folder: DataFolder, opened: OpenStore) {
    this.#options = options;
    this.#folder = folder;
    this.#opened = opened;
    this.#isNewKey = options.authkey === undefined && makeAuthkeyFile(options.authkeyFile);
    let settle: { resolve: () => void; reject: (error: unknown) => void } | undefined;
    this.stopped = new Promise((resolve, reject) => {
      settle = { resolve, reject };
    });
    this.#settleStopped = settle as NonNullable<typeof settle>;
    folder.onFault = (error) => this.fail(error);
    this.#parts = makeParts(options, opened.store, this);
  }

  /** Ends in order: no more leases, fetches under way come in, all is written. Idempotent.
   *  `why`: what `stopped` rejects with then; it resolves without. */
  async stop(why?: Error): Promise<void> {
    if (this.#state !== 'serving') return await this.stopped.catch(() => {});
    this.#state = 'draining';
    const { archives, commits, images, localSlaves, results, rooms } = this.#parts;
    this.#parts.seedLookup.close();
    this.#parts.departure.close();
    await this.#parts.schedules.close();
    rooms.drain();
    const { leaseCount } = rooms;
    if (leaseCount > 0) {
      this.#parts.log.info(
        { leased: leaseCount },
        'stopping when the slaves have reported their fetches; a second signal stops at once',
      );
    }
    await this.#leasesReturned();
    localSlaves.close();
    this.#parts.queues.close();
    const full = this.#endIfFull();
    await this.#parts.manager.close(leaveMs);
    await images.idle();
    await archives.idle();
    await this.#parts.jobRoom.close();
    await commits.flushed();
    const written = results.close();
    // Rows that it has not taken by now wait for the next start.
    this.#options.reader?.close();
    await written;
    await rooms.close();
    await archives.close();
    clearInterval(full);
    await Promise.all([this.#parts.server.close(1_000), localSlaves.ended()]);
    this.#parts.progress.stop();
    this.#parts.memory.close();
    this.#parts.room.close();
    await this.#parts.backups.idle();
    await this.#opened.close();
    this.#folder.close();
    this.#state = 'stopped';
    if (why === undefined) this.#settleStopped.resolve();
    else this.#settleStopped.reject(why);
  }

  /** For the process, after an orderly stop: 4 if no seed of a crawl was answered. */
  get exitCode(): number {
    return this.#exitCode();
  }

  get isDraining(): boolean {
    return !this.isServing;
  }

  get localAddress(): string {
    return localAddress(this.#options.host, this.#port);
  }

  get isServing(): boolean {
    return this.#state === 'serving';
  }

  /** Ends in order, because all is done: the slaves leave, too. */
  leave(exitCode: () => number): void {
    this.#exitCode = exitCode;
    for (const session of this.#parts.server.sessions) {
      if (session.role === 'slave') session.send({ verb: 'drain' });
    }
    void this.stop();
  }

  /** Process ids of the slaves that `suspend` stops. */
  get localPids(): readonly number[] {
    return this.#parts.localSlaves.pids;
  }

  /** The process is about to be stopped (Ctrl-Z). */
  suspend(): void {
    this.#parts.progress.hide();
    this.#parts.localSlaves.signal('SIGTSTP');
  }

  /** It goes on. */
  resumed(): void {
    this.#parts.localSlaves.signal('SIGCONT');
    this.#parts.progress.show();
  }

  /** Ends at once: the master can promise nothing more; all that it acknowledged is on the disk. */
  fail(error: unknown): void {
    if (this.#state === 'stopped') return;
    this.#state = 'stopped';
    this.#parts.events.end();
    this.#parts.progress.stop();
    this.#parts.room.close();
    this.#parts.seedLookup.close();
    this.#parts.localSlaves.close();
    this.#folder.close();
    if (isDiskFault(error)) this.#opened.distrust();
    const end = (cause: unknown) => this.#settleStopped.reject(endingOf(cause));
    if (error instanceof StoreError) void this.#parts.commits.causeOf(error).then(end);
    else end(error);
  }

  /** A master without slaves would wait for ever: it stops in order, and says so. */
  noSlaveLeft(): void {
    if (this.#parts.server.slaveCount === 0) void this.stop(noSlaveError());
  }

  /** A stop does not wait for ever for room. */
  #endIfFull(): NodeJS.Timeout {
    return setInterval(() => {
      if (this.#parts.room.shortMs < fullMs) return;
      this.fail(
        new ConfigError(
          'stopped with the disk full: all that was acknowledged is on it; free space and start again',
        ),
      );
    }, 250);
  }

  async #serve(): Promise<void> {
    const { frontier, localSlaves, log, notices, results, rooms, schedules, server } = this.#parts;
    await rooms.restore();
    this.#parts.jobRoom.jobs.restore();
    const options = schedules.restore(this.#options);
    const { host, port, crawl: name, spec } = options;
    if (options.only) rooms.setAside(name);
    const further = await schedules.seeds.first(options);
    const seeds = [...options.seeds, ...further.urls];
    const hasSeeds = seeds.length + further.requests.length > 0 && !options.stopping.aborted;
    const listen = async () => {
      this.#port = await server.listen(host, port);
    };
    if (hasSeeds && !frontier.crawls.has(name)) {
      frontier.crawls.refuseOneMore(spec);
      await results.prepare(name, namedOutputs(spec.outputs ?? []), spec.fetch, listen);
    } else await listen();
    this.#folder.publish(host, this.#port, options.tls);
    this.#state = 'serving';
    rooms.start();
    for (const warning of this.#options.warnings) log.warn(warning);
    notices.listening(this.#port, this.#isNewKey);
    localSlaves.start(this.#options.slaves); // they load while the seeds are written
    for (const crawl of frontier.crawls) {
      if (crawl.spec.ignoreRobots && crawl.state === 'running') notices.ignoresRobots(crawl);
      if (crawl.isOpen) notices.slowPatterns(crawl);
      if (crawl.isOpen && crawl.name !== name) notices.alsoThere(crawl, hasSeeds);
    }
    if (hasSeeds) {
      const folderOf = (crawl: string) => results.folderOf(crawl);
      const ports = { frontier, notices, log, folderOf };
      const all = { seeds, requests: further.requests };
      await seedFirst(ports, options, all, schedules.seeds.planned(options));
    }
    // The next start asks its sources of seeds again.
    if (!options.stopping.aborted) await schedules.start(options);
    this.#parts.progress.start(this.#options.statusEveryMs, {
      crawls: frontier.crawls,
      peers: server,
    });
    rooms.settle();
    this.#parts.departure.begin();
  }

  /** Waits until no slave holds a lease, for a limited time. */
  async #leasesReturned(): Promise<void> {
    const deadline = performance.now() + drainMs;
    while (this.#parts.rooms.leaseCount > 0 && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
