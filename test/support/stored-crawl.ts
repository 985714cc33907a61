/**
 * A crawl without sockets, over the real frontier, LMDB, result queue and files: what a master does
 * with reports, with a model of a site in the place of slaves. For tests that kill or damage it.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Crawl } from '../../master/frontier/crawl/crawl.ts';
import type { Lease } from '../../master/frontier/dispatch/leases.ts';
import { Frontier } from '../../master/frontier/frontier.ts';
import { EventStream } from '../../master/frontier/frontier-events.ts';
import { FrontierRooms } from '../../master/frontier/rooms.ts';
import { checkStore } from '../../master/repair/check.ts';
import { filesOfPart } from '../../master/sinks/file-rotation.ts';
import type { FileMarks } from '../../master/sinks/files.ts';
import { ResultStream } from '../../master/sinks/result-events.ts';
import { ResultQueue } from '../../master/sinks/result-queue.ts';
import { sinkKinds } from '../../master/sinks/sinks.ts';
import { GroupCommit } from '../../master/store/group-commit.ts';
import { openLmdbStore, storeFile } from '../../master/store/lmdb.ts';
import { partsOf, rotatingCrawls } from '../../master/store/parts.ts';
import {
  crawlKey,
  cursorKey,
  decodeCrawl,
  decodeCursor,
  encodeCrawl,
  secretKey,
} from '../../master/store/records.ts';
import type { Store } from '../../master/store/store.ts';
import { upgrade } from '../../master/store/upgrade.ts';
import { randomOf } from '../../selftest/site.ts';
import type { Cluster } from './cluster.ts';
import { FakeSlave } from './fake-slave.ts';
import { reportOf, specOf } from './world.ts';

const origin = 'http://model.example';

/** A site: a tree with cross links, so that all pages are found; some are missing, some are ill. */
export class ModelSite {
  readonly pages = new Map<string, { links: string[]; images: string[]; ills: number }>();
  readonly images = new Set<string>();
  readonly missing = new Set<string>();

  /** `illPart` of the pages fail at first. */
  constructor(seed: number, count: number, illPart = 0.03) {
    const random = randomOf(seed);
    const pick = (max: number) => Math.floor(random() * max);
    const urlOf = (page: number) => (page === 0 ? `${origin}/` : `${origin}/page/${page}`);
    for (let page = 0; page < count; page++) {
      const links = [2 * page + 1, 2 * page + 2].filter((child) => child < count).map(urlOf);
      for (let i = pick(5); i > 0; i--) links.push(urlOf(pick(count)));
      if (random() < 0.1) links.push(`${origin}/missing/${page}`);
      if (random() < 0.1) links.push(`http://elsewhere.example/${page}`);
      const images = Array.from({ length: pick(4) }, () => `${origin}/img/${pick(count)}.png`);
      for (const image of images) this.images.add(image);
      for (const link of links) if (link.includes('/missing/')) this.missing.add(link);
      this.pages.set(urlOf(page), { links, images, ills: random() < illPart ? 1 : 0 });
    }
  }
}

type StoredOptions = {
  readonly site: ModelSite;
  /** Data and results are below it. */
  readonly folder: string;
  /** Around the real store. */
  readonly wrap?: (store: Store) => Store;
  /** A report was acknowledged. */
  readonly onDone?: (url: string) => void;
  /** A page was handed out. */
  readonly onLease?: (url: string) => void;
  /** Its files are rotated when so many more reports were acknowledged. */
  readonly rotateEvery?: number;
};

/** Crawls until the crawl is finished; closes in order. */
export async function runStoredCrawl(options: StoredOptions): Promise<void> {
  const { folder, site, onLease = () => {}, rotateEvery = 0 } = options;
  const data = join(folder, 'data');
  mkdirSync(data, { recursive: true });
  const native = await openLmdbStore(join(data, 'store'));
  const store = options.wrap?.(native) ?? native;
  await upgrade(store);
  let end: { resolve: () => void; reject: (error: unknown) => void } | undefined;
  const ended = new Promise<void>((resolve, reject) => {
    end = { resolve, reject };
  });
  const onError = (error: unknown) => end?.reject(error);
  const commits = new GroupCommit({ store, everyMs: 1, onError });
  const said = new ResultStream<Crawl>();
  const results = new ResultQueue<Crawl>({
    store,
    commits,
    sinks: sinkKinds({ outFolder: join(folder, 'out') }),
    folder: join(folder, 'out'),
    waitingBytesMax: () => 1 << 26,
    events: said,
    onError,
  });
  const hostSecret = store.get('meta', secretKey) ?? Buffer.alloc(16, 7);
  commits.submit([{ table: 'meta', key: secretKey, value: hostSecret }]);
  const events = new EventStream();
  events.subscribe({ crawlEnded: () => end?.resolve() });
  const rooms = new FrontierRooms({
    store,
    commits,
    results,
    folder: data,
    hostSecret,
    spec: specOf({ attemptsMax: 5 }),
    grouping: 'host',
    leaseMarginMs: 60_000,
    leaseMs: 60_000,
    recentEntries: 64,
    bloomBytesMax: 1 << 26,
    waitingKeys: 16,
    patternBytesMax: 1 << 22,
    robotsBytesMax: 1 << 20,
    queuesMax: 1_000,
    tasksMax: 1_000_000,
    unsorted: { hostsMin: 0, perHost: 100, countMax: 4 },
    memory: { isTight: false },
    seedNames: { find: async (names) => new Map([...names].map((name) => [name, ['8.8.8.8']])) },
    env: {},
    events,
  });
  said.subscribe(rooms.lifeCycle);
  said.subscribe({ held: (_, reason) => onError(new Error(reason)) });
  const frontier = new Frontier(rooms);
  let doneCount = 0;
  const rotations: Promise<unknown>[] = [];
  const onDone = (url: string) => {
    options.onDone?.(url);
    if (rotateEvery === 0 || ++doneCount % rotateEvery !== 0) return;
    rotations.push(frontier.rotate('default').catch(onError));
  };
  const slave = new ModelSlave((lease) => {
    onLease(lease.task.url);
    answer(frontier, site, lease, onDone).catch(onError);
  });
  await rooms.restore();
  await frontier.seed({ crawl: 'default', seeds: [`${origin}/`], priority: 0 });
  frontier.give(slave);
  const crawl = frontier.crawls.named('default');
  rooms.settle();
  if (crawl.state === 'finished') end?.resolve();
  await ended;
  await Promise.all(rotations);
  await commits.flushed();
  await results.close();
  await rooms.close();
  await native.close();
}

class ModelSlave extends FakeSlave {
  readonly #take: (lease: Lease) => void;

  constructor(take: (lease: Lease) => void) {
    super('model', 8);
    this.#take = take;
  }

  override push(leases: readonly Lease[]): void {
    for (const lease of leases) setImmediate(() => this.#take(lease));
  }
}

async function answer(
  frontier: Frontier,
  site: ModelSite,
  lease: Lease,
  onDone: (url: string) => void,
): Promise<void> {
  const { task } = lease;
  const page = site.pages.get(task.url);
  if (page !== undefined && task.attempts < page.ills) {
    const error = { kind: 'connect', message: 'refused' } as const;
    // Soon: the test's clock is real.
    await frontier.release(lease, { error });
    return;
  }
  const found = page === undefined ? { status: 404 } : { links: page.links, images: page.images };
  const verdict = await frontier.report(lease, reportOf(task.url, found));
  if (verdict === 'done') onDone(task.url);
}

/** The faults of the files and the store of a crawl that has ended and was closed. */
export async function wrongWithEnd(folder: string, site: ModelSite): Promise<string[]> {
  const wrong: string[] = [];
  const lines = linesOf(folder, 'pages.jsonl').map((line) => JSON.parse(line) as ResultLine);
  const pages = lines.filter(({ images }) => images !== undefined).map(({ url }) => url);
  const others = lines.filter(({ images }) => images === undefined).map(({ url }) => url);
  const images = linesOf(folder, 'img_src.txt');
  wrong.push(...differences('page', pages, [...site.pages.keys()]));
  wrong.push(...differences('missing page', others, [...site.missing]));
  wrong.push(...differences('image', images, [...site.images]));
  const path = storeFile(join(folder, 'data/store'));
  const damage = checkStore(path);
  if (damage !== undefined) return [...wrong, `the store is damaged: ${damage}`];
  const store = await openLmdbStore(join(folder, 'data/store'));
  const value = store.get('crawls', crawlKey(1));
  const cursor = store.get('meta', cursorKey(1, 'files'));
  if (value === undefined || cursor === undefined) wrong.push('the crawl is not on record');
  else {
    const { state, counters } = decodeCrawl(value);
    const counted = {
      state,
      pages: counters.pages,
      images: counters.images,
      waiting: counters.waiting,
      failed: counters.failed,
    };
    const truth = {
      state: 'finished',
      pages: site.pages.size,
      images: site.images.size,
      waiting: 0,
      failed: site.missing.size,
    };
    if (JSON.stringify(counted) !== JSON.stringify(truth)) wrong.push(JSON.stringify(counted));
    const sizeOf = (name: string) => statSync(join(folder, 'out/default', name)).size;
    const { pages: length } = decodeCursor(cursor).mark as FileMarks;
    if (length !== sizeOf('pages.jsonl')) wrong.push('a file is not as long as recorded');
    const recorded = partsOf(store, 1, 'files').flatMap(({ part, date }) =>
      filesOfPart(part, date),
    );
    for (const { name, mark } of recorded) {
      if (sizeOf(name) !== mark.length) wrong.push(`${name} is not as long as recorded`);
    }
    const names = readdirSync(join(folder, 'out/default')).filter((name) => name.includes('-'));
    const known = recorded.map(({ name }) => name).sort();
    if (names.sort().join() !== known.join()) wrong.push(`parts ${names}, on record ${known}`);
    if (rotatingCrawls(store).size > 0) wrong.push('a rotation is on record');
  }
  for (const table of ['tasks', 'results'] as const) {
    const rows = store.range(table, { from: crawlKey(1), to: crawlKey(2) });
    if (rows.length > 0) wrong.push(`${rows.length} rows are left in ${table}`);
  }
  await store.close();
  return wrong;
}

type ResultLine = { readonly url: string; readonly images?: number };

/** Lines of a result file, and of its parts. */
export function linesOf(folder: string, file: string): string[] {
  const results = join(folder, 'out/default');
  if (!existsSync(results)) return [];
  const [stem = '', end = ''] = file.split('.');
  const names = readdirSync(results).filter((name) => name.startsWith(`${stem}-`));
  return [...names.filter((name) => name.endsWith(end)).sort(), file]
    .filter((name) => existsSync(join(results, name)))
    .flatMap((name) => readFileSync(join(results, name), 'utf8').split('\n').slice(0, -1));
}

function differences(what: string, found: readonly string[], truth: readonly string[]): string[] {
  const [isFound, isTrue] = [new Set(found), new Set(truth)];
  return [
    ...truth.filter((item) => !isFound.has(item)).map((item) => `lost ${what} ${item}`),
    ...found.filter((item) => !isTrue.has(item)).map((item) => `extra ${what} ${item}`),
    ...found.filter((item, i) => found.indexOf(item) !== i).map((item) => `twice ${what} ${item}`),
  ];
}

/** The files of a master that is killed after the intent of a renaming was on the disk. */
export async function intendRename(cluster: Cluster, to: string): Promise<void> {
  const store = await openLmdbStore(join(cluster.data, 'store'));
  const record = decodeCrawl(store.get('crawls', crawlKey(1)) ?? Buffer.alloc(0));
  const value = encodeCrawl({ ...record, renaming: to });
  await store.commit([{ table: 'crawls', key: crawlKey(1), value }]);
  await store.close();
}
