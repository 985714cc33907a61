/**
 * A master that serves: makes the parts, wires them, and takes them down in order.
 *
 *     starting --> serving --stop()--> draining --> stopped
 *                     |
 *                     +--every crawl finished (exitWhenDone)--> draining
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { makeAuthkeyFile } from '../shared/authkey.ts';
import { serverEncryption } from '../shared/encryption.ts';
import { ConfigError, exitCodes, StoreError } from '../shared/errors.ts';
import { type Logger, makeLog } from '../shared/log.ts';
import { namedOutputs } from '../shared/outputs.ts';
import { streamWaitingBytesMax } from '../shared/record-stream.ts';
import { version } from '../shared/version.ts';
import { Archives } from './archive/archives.ts';
import { UploadRoom } from './archive/uploads.ts';
import { Arrivals } from './arrivals.ts';
import { DebugLog } from './cli/debug-log.ts';
import { Notices } from './cli/notices.ts';
import { Departure, type Leaver } from './departure.ts';
import { type StartOptions, seedFirst } from './first-seeds.ts';
import type { ResultsCrawl } from './frontier/commit/results.ts';
import { Frontier } from './frontier/frontier.ts';
import { EventStream } from './frontier/frontier-events.ts';
import { FrontierRooms } from './frontier/rooms.ts';
import { Images } from './images/images.ts';
import { Failures } from './inspect/failures.ts';
import { Recount } from './inspect/recount.ts';
import { UrlAnswers } from './inspect/url-answers.ts';
import { JobRoom } from './jobs/job-room.ts';
import { DataFolder, localAddress } from './machine/data-folder.ts';
import { DiskRoom } from './machine/disk-room.ts';
import { LocalSlaves, type SlavesMaster } from './machine/local-slaves.ts';
import { memoryShares } from './machine/memory-shares.ts';
import { MemoryWatch } from './machine/memory-watch.ts';
import type { ProgramReader } from './machine/program-reader.ts';
import { Progress } from './machine/progress.ts';
import { Rates } from './machine/rates.ts';
import { SeedLookup } from './machine/seed-lookup.ts';
import { builtBytesMax } from './python/heavy-requests.ts';
import { Manager } from './python/manager.ts';
import { PutPolicy } from './python/ports.ts';
import { UserQueues } from './queues/queues.ts';
import {
  asConfigError,
  endingOf,
  isDiskFault,
  noSlaveError,
  refuseEarlyClock,
  refuseFirstPatterns,
  refuseFullDisk,
} from './refusals.ts';
import { Backups } from './repair/backup.ts';
import { OpenStore } from './repair/open-store.ts';
import { Schedules } from './schedules.ts';
import { ResultStream } from './sinks/result-events.ts';
import { ResultQueue } from './sinks/result-queue.ts';
import { outputKind, sinkKinds } from './sinks/sinks.ts';
import { GroupCommit } from './store/group-commit.ts';
import { hostSecret } from './store/host-secret.ts';
import { storeFile } from './store/lmdb.ts';
import { authkeysOf } from './wire/authkeys.ts';
import { MasterServer } from './wire/server.ts';
import type { Services } from './wire/services.ts';

const commitEveryMs = 25;
/** Of results, while memory is tight. */
const tightResultBytes = 1 << 20;
/** How long an orderly stop waits for the pages that slaves have under way. */
const drainMs = 10_000;
/** How long it waits for room on a full disk. */
const fullMs = 10_000;
/** How long programs whose work is over have to say good-bye. */
const leaveMs = 1_000;

/** `reader`: the program that reads the records of the crawl. */
type MasterOptions = StartOptions & { readonly reader?: ProgramReader | undefined };

export class Master implements Leaver, SlavesMaster {
  readonly #options: MasterOptions;
  readonly #folder: DataFolder;
  readonly #room: DiskRoom;
  readonly #opened: OpenStore;
  readonly #log: Logger;
  readonly #notices: Notices;
  readonly #progress: Progress;
  readonly #commits: GroupCommit;
  readonly #results: ResultQueue<ResultsCrawl>;
  readonly #archives: Archives;
  readonly #images: Images;
  readonly #uploads: UploadRoom;
  readonly #events = new EventStream();
  readonly #rooms: FrontierRooms;
  readonly #frontier: Frontier;
  readonly #departure: Departure;
  readonly #schedules: Schedules;
  readonly #queues: UserQueues;
  readonly #jobs: JobRoom;
  readonly #backups: Backups;
  readonly #manager: Manager;
  readonly #server: MasterServer;
  readonly #localSlaves: LocalSlaves;
  readonly #rates = new Rates();
  readonly #seedLookup = new SeedLookup();
  readonly #memory: MemoryWatch;
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
      if (opened.compacted !== undefined) master.#notices.compacted(opened.compacted);
      await Promise.race([master.#serve(), master.stopped]); // a fault may end it meanwhile
      opened.readLater({ crawls: master.#frontier.crawls, master, log: master.#log });
      return master;
    } catch (error) {
      folder.close();
      // Of the seeds: their crawl was cancelled, or there is no room for one more.
      throw endingOf(asConfigError(error));
    }
  }

  private constructor(options: MasterOptions, folder: DataFolder, opened: OpenStore) {
    const { store } = opened;
    this.#opened = opened;
    this.#options = options;
    this.#folder = folder;
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
    this.#notices = new Notices(this.#log, options);
    this.#progress = new Progress({ log: this.#log, repaints: isTerminal && !options.jsonLogs });
    const onError = (error: unknown) => this.fail(error);
    folder.onFault = onError;
    const room = new DiskRoom({
      folders: [options.dataFolder, options.outFolder, join(options.dataFolder, 'store')],
      reserveBytes: options.diskReserveBytes,
      events: this.#notices,
      onError,
    });
    this.#room = room;
    this.#commits = new GroupCommit({ store, everyMs: commitEveryMs, onError, room });
    const shares = memoryShares(options.memoryBytes);
    this.#memory = new MemoryWatch({ bytesMax: options.memoryBytes, commits: this.#commits });
    const said = new ResultStream<ResultsCrawl>();
    const resultBytes = options.reader ? streamWaitingBytesMax : shares.resultBytes;
    this.#results = new ResultQueue<ResultsCrawl>({
      store,
      commits: this.#commits,
      sinks: sinkKinds(options),
      outputs: (output) => outputKind(output, { folder: options.outFolder, env: options.env }),
      backlogBytesMax: options.sinkBacklogBytes,
      folder: options.outFolder,
      waitingBytesMax: () => (this.#memory.isTight ? tightResultBytes : resultBytes),
      events: said,
      onError,
      room,
    });
    this.#archives = new Archives({
      ...{ store, room, onError, events: this.#notices },
      commits: this.#commits,
      folder: options.outFolder,
    });
    this.#images = new Images({ store, room, onError, folder: options.outFolder });
    this.#uploads = new UploadRoom(join(options.dataFolder, 'uploads'), room);
    const debug = this.#log.isLevelEnabled('debug') ? new DebugLog(this.#log) : undefined;
    this.#rooms = new FrontierRooms({
      store,
      commits: this.#commits,
      results: this.#results,
      archives: this.#archives,
      images: this.#images,
      folder: options.dataFolder,
      hostSecret: hostSecret(store, this.#commits),
      spec: options.spec,
      grouping: options.grouping,
      leaseMs: options.timing.leaseMs,
      leaseMarginMs: options.timing.leaseMarginMs,
      recentEntries: options.recentUrls,
      bloomBytesMax: shares.bloomBytes,
      waitingKeys: shares.waitingKeys,
      patternBytesMax: shares.patternBytes,
      queuesMax: shares.hosts,
      tasksMax: shares.tasks,
      robotsBytesMax: shares.robotsBytes,
      memory: this.#memory,
      seedNames: this.#seedLookup,
      env: options.env,
      trace: debug,
      events: this.#events,
    });
    said.subscribe(this.#rooms.lifeCycle);
    said.subscribe(this.#notices);
    this.#frontier = new Frontier(this.#rooms);
    this.#queues = new UserQueues(store, this.#commits, {
      bytesMax: shares.itemBytes,
      maxima: options.queues,
    });
    const { outFolder, timing } = options;
    this.#jobs = new JobRoom({
      ...{ store, commits: this.#commits, outFolder, room, log: this.#log, onError },
      ...{ leaseMs: timing.leaseMs, onIdle: () => this.#departure.idle() },
    });
    this.#backups = new Backups({
      store,
      dataFolder: options.dataFolder,
      outFolder: options.outFolder,
      reserveBytes: options.diskReserveBytes,
      events: this.#notices,
    });
    const ports = {
      frontier: this.#frontier,
      queues: this.#queues,
      master: this,
      events: this.#notices,
      leaseMs: options.timing.pythonLeaseMs,
    };
    this.#manager = new Manager(ports, {
      puts: new PutPolicy(options.durablePut, room),
      plain: options.queues,
      crawl: options.crawl,
      spec: options.spec,
      builtBytesMax: builtBytesMax(options.memoryBytes),
    });
    const authkeys = authkeysOf(options, this.#log);
    this.#localSlaves = new LocalSlaves({
      authkeys,
      log: this.#log,
      master: this,
      isEncrypted: options.tls,
    });
    this.#server = new MasterServer(this.#services(authkeys), options);
    const rest = { store, commits: this.#commits, log: this.#log, results: this.#results };
    this.#schedules = new Schedules({ ...ports, ...rest, backups: this.#backups, onError });
    this.#departure = new Departure(this, this.#frontier.crawls, this.#notices, {
      leaves: options.exitWhenDone,
      isScheduled: () => this.#schedules.isPlanned || this.#jobs.jobs.isOpen,
    });
    this.#memory.subscribe(this.#notices);
    this.#memory.subscribe(this.#server);
    // The order in which each event is told.
    this.#events.subscribe(this.#server);
    this.#events.subscribe(this.#notices);
    this.#events.subscribe(this.#rates);
    if (debug !== undefined) this.#events.subscribe(debug);
    this.#events.subscribe(this.#manager);
    this.#events.subscribe(this.#localSlaves);
    this.#schedules.subscribe(this.#events);
    this.#events.subscribe(this.#departure);
  }

  /** Ends in order: no more leases, fetches under way come in, all is written. Idempotent.
   *  `why`: what `stopped` rejects with then; it resolves without. */
  async stop(why?: Error): Promise<void> {
    if (this.#state !== 'serving') return await this.stopped.catch(() => {});
    this.#state = 'draining';
    this.#seedLookup.close();
    this.#departure.close();
    await this.#schedules.close();
    this.#rooms.drain();
    const { leaseCount } = this.#rooms;
    if (leaseCount > 0) {
      this.#log.info(
        { leased: leaseCount },
        'stopping when the slaves have reported their fetches; a second signal stops at once',
      );
    }
    await this.#leasesReturned();
    this.#localSlaves.close();
    this.#queues.close();
    const full = this.#endIfFull();
    await this.#manager.close(leaveMs);
    await this.#images.idle();
    await this.#archives.idle();
    await this.#jobs.close();
    await this.#commits.flushed();
    const written = this.#results.close();
    // What it has not taken by now waits for the next start.
    this.#options.reader?.close();
    await written;
    await this.#rooms.close();
    await this.#archives.close();
    clearInterval(full);
    await Promise.all([this.#server.close(1_000), this.#localSlaves.ended()]);
    this.#progress.stop();
    this.#memory.close();
    this.#room.close();
    await this.#backups.idle();
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
    for (const session of this.#server.sessions) {
      if (session.role === 'slave') session.send({ verb: 'drain' });
    }
    void this.stop();
  }

  /** Process ids of the slaves that `suspend` stops. */
  get localPids(): readonly number[] {
    return this.#localSlaves.pids;
  }

  /** The process is about to be stopped (Ctrl-Z). */
  suspend(): void {
    this.#progress.hide();
    this.#localSlaves.signal('SIGTSTP');
  }

  /** It goes on. */
  resumed(): void {
    this.#localSlaves.signal('SIGCONT');
    this.#progress.show();
  }

  /** Ends at once: the master can promise nothing more; all that it acknowledged is on the disk. */
  fail(error: unknown): void {
    if (this.#state === 'stopped') return;
    this.#state = 'stopped';
    this.#events.end();
    this.#progress.stop();
    this.#room.close();
    this.#seedLookup.close();
    this.#localSlaves.close();
    this.#folder.close();
    if (isDiskFault(error)) this.#opened.distrust();
    const end = (cause: unknown) => this.#settleStopped.reject(endingOf(cause));
    if (error instanceof StoreError) void this.#commits.causeOf(error).then(end);
    else end(error);
  }

  /** A master without slaves would wait for ever: it stops in order, and says so. */
  noSlaveLeft(): void {
    if (this.#server.slaveCount === 0) void this.stop(noSlaveError());
  }

  /** A stop does not wait for ever for room. */
  #endIfFull(): NodeJS.Timeout {
    return setInterval(() => {
      if (this.#room.shortMs < fullMs) return;
      this.fail(
        new ConfigError(
          'stopped with the disk full: all that was acknowledged is on it; free space and start again',
        ),
      );
    }, 250);
  }

  async #serve(): Promise<void> {
    await this.#rooms.restore();
    this.#jobs.jobs.restore();
    const options = this.#schedules.restore(this.#options);
    const { host, port, crawl: name, spec } = options;
    if (options.only) this.#rooms.setAside(name);
    const further = await this.#schedules.seeds.first(options);
    const seeds = [...options.seeds, ...further.urls];
    const hasSeeds = seeds.length + further.requests.length > 0 && !options.stopping.aborted;
    if (hasSeeds && !this.#frontier.crawls.has(name)) {
      this.#frontier.crawls.refuseOneMore(spec);
      await this.#results.prepare(name, namedOutputs(spec.outputs ?? []), spec.fetch);
    }
    this.#port = await this.#server.listen(host, port);
    this.#folder.publish(host, this.#port);
    this.#state = 'serving';
    this.#rooms.start();
    for (const warning of this.#options.warnings) this.#log.warn(warning);
    this.#notices.listening(this.#port, this.#isNewKey);
    this.#localSlaves.start(this.#options.slaves); // they load while the seeds are written
    for (const crawl of this.#frontier.crawls) {
      if (crawl.spec.ignoreRobots && crawl.state === 'running') this.#notices.ignoresRobots(crawl);
      if (crawl.isOpen) this.#notices.slowPatterns(crawl);
      if (crawl.isOpen && crawl.name !== name) this.#notices.alsoThere(crawl, hasSeeds);
    }
    if (hasSeeds) {
      const folderOf = (crawl: string) => this.#results.folderOf(crawl);
      const ports = { frontier: this.#frontier, notices: this.#notices, log: this.#log, folderOf };
      const all = { seeds, requests: further.requests };
      await seedFirst(ports, options, all, this.#schedules.seeds.planned(options));
    }
    // The next start asks its sources of seeds again.
    if (!options.stopping.aborted) await this.#schedules.start(options);
    const shown = { crawls: this.#frontier.crawls, peers: this.#server };
    this.#progress.start(this.#options.statusEveryMs, shown);
    this.#rooms.settle();
    this.#departure.begin();
  }

  #services(authkeys: () => readonly Buffer[]): Omit<Services, 'peers'> {
    const { tls, certificate } = this.#options;
    const { store } = this.#opened;
    const { look } = this.#rooms;
    const folderOf = (crawl: string) => this.#results.folderOf(crawl);
    return {
      authkeys,
      tls: {
        encryption: serverEncryption(authkeys, certificate?.reader(this.#log)),
        as: tls ? 'server, required' : 'server',
      },
      authDigest: this.#options.authDigest,
      version: `orbweaver/${version}`,
      timing: this.#options.timing,
      memory: this.#memory,
      uploads: this.#uploads,
      frontier: this.#frontier,
      queues: this.#queues,
      jobs: this.#jobs.jobs,
      backups: this.#backups,
      hosts: this.#rooms.hosts,
      images: this.#rooms.reports,
      failures: new Failures({ store, folderOf }),
      urls: new UrlAnswers({ store, folderOf, look }),
      recount: new Recount({ store, folderOf, look }),
      ...{ rates: this.#rates, disk: this.#room },
      schedules: { of: (crawl) => this.#schedules.of(crawl) },
      manager: this.#manager,
      master: this,
      events: new Arrivals({
        frontier: this.#frontier,
        queues: this.#queues,
        jobs: this.#jobs.jobs,
        localSlaves: this.#localSlaves,
        notices: this.#notices,
      }),
    };
  }

  /** Waits until no slave holds a lease, for a limited time. */
  async #leasesReturned(): Promise<void> {
    const deadline = performance.now() + drainMs;
    while (this.#rooms.leaseCount > 0 && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
