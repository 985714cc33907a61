/** The parts of a serving master: made once, each with those that it uses, and subscribed to the
 *  events that they hear. */
import { join } from 'node:path';
import { serverEncryption } from '../shared/encryption.ts';
import { makeLog } from '../shared/log.ts';
import { streamWaitingBytesMax } from '../shared/record-stream.ts';
import { version } from '../shared/version.ts';
import { Archives } from './archive/archives.ts';
import { UploadRoom } from './archive/uploads.ts';
import { Arrivals } from './arrivals.ts';
import { DebugLog } from './cli/debug-log.ts';
import { Notices } from './cli/notices.ts';
import { Departure, type Leaver } from './departure.ts';
import type { StartOptions } from './first-seeds.ts';
import type { ResultsCrawl } from './frontier/commit/results.ts';
import { Frontier } from './frontier/frontier.ts';
import { EventStream } from './frontier/frontier-events.ts';
import { FrontierRooms } from './frontier/rooms.ts';
import { Images } from './images/images.ts';
import { Failures } from './inspect/failures.ts';
import { Recount } from './inspect/recount.ts';
import { UrlAnswers } from './inspect/url-answers.ts';
import { JobRoom } from './jobs/job-room.ts';
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
import { Backups } from './repair/backup.ts';
import { Schedules } from './schedules.ts';
import { ResultStream } from './sinks/result-events.ts';
import { ResultQueue } from './sinks/result-queue.ts';
import { outputKind, sinkKinds } from './sinks/sinks.ts';
import { GroupCommit } from './store/group-commit.ts';
import { hostSecret } from './store/host-secret.ts';
import type { NativeStore } from './store/lmdb.ts';
import { authkeysOf } from './wire/authkeys.ts';
import { MasterServer } from './wire/server.ts';
import type { Services } from './wire/services.ts';

const commitEveryMs = 25;
/** Of results, while memory is tight. */
const tightResultBytes = 1 << 20;

/** `reader`: the program that reads the records of the crawl. */
export type MasterOptions = StartOptions & { readonly reader?: ProgramReader | undefined };

/** The master's methods that they call. */
type PartsMaster = Leaver &
  SlavesMaster & {
    readonly isDraining: boolean;
    /** A fault with which it cannot go on. */
    fail(error: unknown): void;
  };

export type Parts = ReturnType<typeof makeParts>;

/** Makes them; nothing of them runs yet. */
export function makeParts(options: MasterOptions, store: NativeStore, master: PartsMaster) {
  const { dataFolder, outFolder, timing } = options;
  const onError = (error: unknown) => master.fail(error);
  // Some terminals (of containers, of scripts) have no size: nothing can be painted there.
  const isTerminal = process.stdout.isTTY === true && process.stdout.columns > 0;
  const log = makeLog({
    level: options.logLevel,
    json: options.jsonLogs,
    write: (line) => progress.above(line),
  });
  const progress = new Progress({ log, repaints: isTerminal && !options.jsonLogs });
  const notices = new Notices(log, options);
  const room = new DiskRoom({
    folders: [dataFolder, outFolder, join(dataFolder, 'store')],
    reserveBytes: options.diskReserveBytes,
    events: notices,
    onError,
  });
  const commits = new GroupCommit({ store, everyMs: commitEveryMs, onError, room });
  const shares = memoryShares(options.memoryBytes);
  const memory = new MemoryWatch({ bytesMax: options.memoryBytes, commits });
  const said = new ResultStream<ResultsCrawl>();
  const resultBytes = options.reader ? streamWaitingBytesMax : shares.resultBytes;
  const results = new ResultQueue<ResultsCrawl>({
    store,
    commits,
    sinks: sinkKinds(options),
    outputs: (output) => outputKind(output, { folder: outFolder, env: options.env }),
    backlogBytesMax: options.sinkBacklogBytes,
    folder: outFolder,
    waitingBytesMax: () => (memory.isTight ? tightResultBytes : resultBytes),
    events: said,
    onError,
    room,
  });
  const archives = new Archives({
    store,
    room,
    onError,
    events: notices,
    commits,
    folder: outFolder,
  });
  const images = new Images({ store, room, onError, folder: outFolder });
  const uploads = new UploadRoom(join(dataFolder, 'uploads'), room);
  const debug = log.isLevelEnabled('debug') ? new DebugLog(log) : undefined;
  const events = new EventStream();
  const seedLookup = new SeedLookup();
  const rooms = new FrontierRooms({
    store,
    commits,
    results,
    archives,
    images,
    folder: dataFolder,
    hostSecret: hostSecret(store, commits),
    spec: options.spec,
    grouping: options.grouping,
    leaseMs: timing.leaseMs,
    leaseMarginMs: timing.leaseMarginMs,
    recentEntries: options.recentUrls,
    bloomBytesMax: shares.bloomBytes,
    waitingKeys: shares.waitingKeys,
    patternBytesMax: shares.patternBytes,
    queuesMax: shares.hosts,
    tasksMax: shares.tasks,
    robotsBytesMax: shares.robotsBytes,
    memory,
    seedNames: seedLookup,
    env: options.env,
    trace: debug,
    events,
  });
  said.subscribe(rooms.lifeCycle);
  said.subscribe(notices);
  const frontier = new Frontier(rooms);
  const queues = new UserQueues(store, commits, {
    bytesMax: shares.itemBytes,
    maxima: options.queues,
  });
  const jobRoom = new JobRoom({
    store,
    commits,
    outFolder,
    room,
    log,
    onError,
    leaseMs: timing.leaseMs,
    onIdle: () => departure.idle(),
  });
  const backups = new Backups({
    store,
    dataFolder,
    outFolder,
    reserveBytes: options.diskReserveBytes,
    events: notices,
  });
  const ports = { frontier, queues, master, events: notices, leaseMs: timing.pythonLeaseMs };
  const manager = new Manager(ports, {
    puts: new PutPolicy(options.durablePut, room),
    plain: options.queues,
    crawl: options.crawl,
    spec: options.spec,
    builtBytesMax: builtBytesMax(options.memoryBytes),
  });
  const authkeys = authkeysOf(options, log);
  const localSlaves = new LocalSlaves({ authkeys, log, master, isEncrypted: options.tls });
  const schedules = new Schedules({ ...ports, store, commits, log, results, backups, onError });
  const departure = new Departure(master, frontier.crawls, notices, {
    leaves: options.exitWhenDone,
    isScheduled: () => schedules.isPlanned || jobRoom.jobs.isOpen,
  });
  const rates = new Rates();
  const { look } = rooms;
  const folderOf = (crawl: string) => results.folderOf(crawl);
  const services: Omit<Services, 'peers'> = {
    authkeys,
    tls: {
      encryption: serverEncryption(authkeys, options.certificate?.reader(log)),
      as: options.tls ? 'server, required' : 'server',
    },
    authDigest: options.authDigest,
    version: `orbweaver/${version}`,
    timing,
    memory,
    uploads,
    frontier,
    queues,
    jobs: jobRoom.jobs,
    backups,
    hosts: rooms.hosts,
    images: rooms.reports,
    failures: new Failures({ store, folderOf }),
    urls: new UrlAnswers({ store, folderOf, look }),
    recount: new Recount({ store, folderOf, look }),
    rates,
    disk: room,
    schedules: { of: (crawl) => schedules.of(crawl) },
    manager,
    master,
    events: new Arrivals({ frontier, queues, jobs: jobRoom.jobs, localSlaves, notices }),
  };
  const server = new MasterServer(services, options);
  memory.subscribe(notices);
  memory.subscribe(server);
  // The order in which each event is told.
  events.subscribe(server);
  events.subscribe(notices);
  events.subscribe(rates);
  if (debug !== undefined) events.subscribe(debug);
  events.subscribe(manager);
  events.subscribe(localSlaves);
  schedules.subscribe(events);
  events.subscribe(departure);
  return {
    archives,
    backups,
    commits,
    departure,
    events,
    frontier,
    images,
    jobRoom,
    localSlaves,
    log,
    manager,
    memory,
    notices,
    progress,
    queues,
    results,
    room,
    rooms,
    schedules,
    seedLookup,
    server,
  };
}
