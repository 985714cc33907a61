/**
 * Crawls sites of known truth, one after the other, while processes are killed, restarted and
 * stopped, connections cut, the disk filled and the clock shifted. It compares all written results
 * with the truth: after each crawl, and all again when the programs have ended. Meanwhile it has
 * the ledger of the crawl recounted, again and again, and that of an earlier one after each start.
 *
 *     faults, crawls and items --time is over--> calm: the last crawl ends --> stop --> verdict
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { amount } from '../shared/amount.ts';
import { CommandError, ConnectionError } from '../shared/errors.ts';
import type { CrawlStatus } from '../shared/protocol.ts';
import { Cluster, patience } from './cluster.ts';
import { addPictures, downloadsSpec, type Store, verifyDownloads } from './downloads.ts';
import { itemsSpec, type Violation, verifyCrawl, verifyItems, verifyLedger } from './exact.ts';
import { Items } from './items.ts';
import { Jobs } from './jobs.ts';
import { FaultProxy } from './proxy.ts';
import { type Due, describe, type Fault, schedule } from './schedule.ts';
import { generateSite, randomOf, TestSite, type Truth } from './site.ts';
import { SmallDisk } from './small-disk.ts';
import { Tally } from './tally.ts';

type ChaosOptions = {
  readonly seed: number;
  readonly forMs: number;
  readonly slaves: number;
  /** Of one crawl, at most. */
  readonly pagesMax: number;
  /** Between two faults, on average. */
  readonly everyMs: number;
  /** Where `master.js` and `slave.js` are. */
  readonly programs: string;
  /** Ends the faults early. */
  readonly signal: AbortSignal;
  readonly print: (line: string) => void;
};

/** Delay of every answer of the sites. */
const siteDelayMs = 10;
const pollMs = 500;
const progressMs = 5_000;
/** Between two recounts of the crawl that runs. */
const ledgerMs = 1_000;
/** Without faults a crawl and the queue have to come to their end within this. */
const calmMs = 180_000;
const violationsShownMax = 50;
const diskDeathMs = 5_000;

type Crawl = {
  readonly name: string;
  readonly site: TestSite;
  readonly truth: Truth;
  /** It downloads images, and keeps them so. */
  readonly store: Store | undefined;
};

/** Runs the test. Returns true if nothing was lost, doubled or wrong; else it keeps the folder. */
export async function chaos(options: ChaosOptions): Promise<boolean> {
  const run = new Chaos(options);
  try {
    return await run.run();
  } finally {
    await run.close();
  }
}

class Chaos {
  readonly #options: ChaosOptions;
  readonly #folder = mkdtempSync(join(tmpdir(), 'orbweaver-chaos-'));
  readonly #disk: SmallDisk | undefined;
  readonly #out: string;
  readonly #proxy: FaultProxy;
  readonly #cluster: Cluster;
  readonly #items: Items;
  readonly #jobs: Jobs | undefined;
  readonly #tally = new Tally();
  readonly #random: () => number;
  readonly #done: { readonly crawl: Crawl; readonly status: CrawlStatus }[] = [];
  readonly #startedAt = performance.now();
  /** Aborted when there must be no more faults. */
  readonly #faults = new AbortController();
  /** The same when the last crawl has ended. */
  readonly #ended = new AbortController();
  #crawl: Crawl | undefined;
  #last: CrawlStatus | undefined;
  #calmDeadlineMs = Number.POSITIVE_INFINITY;
  #diskTimer: NodeJS.Timeout | undefined;

  constructor(options: ChaosOptions) {
    this.#options = options;
    this.#random = randomOf(options.seed + 1);
    this.#disk = SmallDisk.mount(join(this.#folder, 'disk'));
    const root = this.#disk?.folder ?? this.#folder;
    const data = join(root, 'data');
    this.#out = join(root, 'out');
    mkdirSync(data, { recursive: true, mode: 0o700 });
    this.#proxy = new FaultProxy(() => this.#cluster.port);
    const address = () => this.#proxy.address;
    this.#jobs = Jobs.prepare(this.#folder, this.#out);
    this.#cluster = new Cluster({
      data,
      out: this.#out,
      logs: join(this.#folder, 'logs'),
      address,
      programs: options.programs,
      slaves: options.slaves,
      slaveOptions: this.#jobs?.options ?? [],
      onDied: (what) => this.#violation({ kind: 'wrong', what }),
    });
    this.#items = new Items(address, () => this.#cluster.authkey);
  }

  async run(): Promise<boolean> {
    const { seed, forMs, signal, print } = this.#options;
    print(`chaos for ${clock(forMs)}, seed ${seed}, in ${this.#folder}`);
    if (this.#disk === undefined) print('no full disks: this user must not mount a file system');
    if (this.#jobs === undefined) print('no jobs: they need Linux, and prlimit of util-linux');
    const progress = setInterval(() => print(this.#progress()), progressMs);
    const over = setTimeout(() => this.#faults.abort(), forMs);
    const end = () => this.#faults.abort();
    signal.addEventListener('abort', end, { once: true });
    try {
      await this.#proxy.listen();
      await this.#cluster.start();
      const { signal: faults } = this.#faults;
      const users = Promise.all([
        this.#items.put(faults),
        this.#items.take(),
        this.#jobs?.add(this.#cluster, faults),
      ]);
      const ledgers = this.#ledgers();
      await Promise.all([this.#doFaults(), this.#crawls()]);
      this.#ended.abort();
      await ledgers;
      // Calm now: all of them once more.
      for (const { crawl } of this.#done) await this.#verifyLedger(crawl.name);
      const deadlineMs = performance.now() + calmMs;
      for (const violation of await this.#items.finish(deadlineMs)) this.#violation(violation);
      await users;
      await this.#jobs?.finish(deadlineMs);
      for (const what of await this.#cluster.stop()) this.#violation({ kind: 'wrong', what });
      for (const violation of this.#jobs?.verify() ?? []) this.#violation(violation);
      // A stopped or disconnected program may have changed something after its crawl's end.
      for (const { crawl, status } of this.#done) this.#verify(crawl, status, true);
    } finally {
      clearInterval(progress);
      clearTimeout(over);
      signal.removeEventListener('abort', end);
    }
    return this.#verdict();
  }

  /** Ends everything that was started. */
  async close(): Promise<void> {
    this.#faults.abort();
    this.#ended.abort();
    clearTimeout(this.#diskTimer);
    await this.#cluster.close();
    await this.#proxy.close();
    await this.#crawl?.site.close();
    if (this.#tally.isClean) {
      this.#disk?.unmount();
      rmSync(this.#folder, { recursive: true, force: true });
    } else {
      this.#disk?.keep(join(this.#folder, 'kept'));
    }
  }

  // ---------------------------------------------------------------- faults

  async #doFaults(): Promise<void> {
    const { seed, everyMs } = this.#options;
    const { signal } = this.#faults;
    for (const due of schedule({ seed, everyMs, ...patience })) {
      await sleep(due.afterMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) break;
      this.#do(due);
    }
    this.#calmDeadlineMs = performance.now() + calmMs;
    this.#proxy.heal();
    this.#disk?.clear();
  }

  #do({ fault }: Due): void {
    if (this.#isDone(fault)) {
      this.#tally.did(fault, `${clock(performance.now() - this.#startedAt)} ${describe(fault)}`);
    }
  }

  /** Returns false if there was no target for the fault. */
  #isDone(fault: Fault): boolean {
    const cluster = this.#cluster;
    switch (fault.kind) {
      case 'kill':
        if (fault.who === 'slave') return cluster.killSlave(fault.pick);
        cluster.shiftMs = fault.shiftMs;
        return fault.who === 'master' ? cluster.killMaster() : cluster.killAll();
      case 'restart':
        if (fault.who === 'slave') return cluster.restartSlave(fault.pick);
        return cluster.restartMaster();
      case 'stop':
        if (fault.who === 'slave') return cluster.stopSlave(fault.pick, fault.ms);
        return cluster.stopMaster(fault.ms);
      case 'cut':
        return this.#proxy.apply(fault.cut, fault.pick);
      case 'full':
        if (!this.#disk?.fill(fault.spareBytes)) return false;
        // One that starts then may find out a little later.
        cluster.mayDieUntilMs = performance.now() + fault.ms + diskDeathMs;
        clearTimeout(this.#diskTimer);
        this.#diskTimer = setTimeout(() => this.#disk?.clear(), fault.ms);
        return true;
      default:
        return fault satisfies never;
    }
  }

  // ---------------------------------------------------------------- crawls

  async #crawls(): Promise<void> {
    for (let number = 1; !this.#faults.signal.aborted; number++) {
      const crawl = await this.#begin(number);
      const status = await this.#finished(crawl);
      if (status === undefined) return;
      const { pages, images } = this.#verify(crawl, status);
      this.#tally.crawled(pages, images, status.downloads?.stored);
      this.#done.push({ crawl, status });
      await crawl.site.close();
      this.#crawl = undefined;
    }
  }

  async #begin(number: number): Promise<Crawl> {
    const { seed, pagesMax } = this.#options;
    const count = Math.ceil(pagesMax * (0.3 + 0.7 * this.#random()));
    const resources = generateSite(seed + number, count);
    // Every second one downloads: by turns into files and into shards.
    const store = number % 2 === 0 ? undefined : number % 4 === 1 ? 'files' : 'tar';
    if (store !== undefined) addPictures(resources);
    const site = await TestSite.start(resources, { delayMs: siteDelayMs });
    const crawl = { name: `chaos-${number}`, site, truth: site.truth(), store } as const;
    this.#crawl = crawl;
    this.#last = undefined;
    while (true) {
      try {
        // An unanswered try may have created the crawl.
        const isThere = (await this.#status(crawl)) !== undefined;
        const fetch = { ...itemsSpec.fetch, ...(store && downloadsSpec(store)) };
        const spec = { attemptsMax: 100, perHost: 24, ...itemsSpec, fetch };
        const body = { crawl: crawl.name, seeds: [site.url], priority: 0 };
        await this.#cluster.ask('crawl.add', { ...body, ...(isThere ? {} : { spec }) }, 0);
        return crawl;
      } catch (error) {
        if (this.#isTooLate(error)) throw error;
        await sleep(pollMs);
      }
    }
  }

  /** Returns the master's status of the crawl when it is done; undefined if it never is. */
  async #finished(crawl: Crawl): Promise<CrawlStatus | undefined> {
    while (true) {
      await sleep(pollMs);
      try {
        const status = await this.#status(crawl);
        if (status?.state === 'finished') return status;
        this.#last = status ?? this.#last;
      } catch (error) {
        if (this.#isTooLate(error)) throw error;
      }
      if (performance.now() < this.#calmDeadlineMs) continue;
      const what = `crawl ${crawl.name} does not end: ${JSON.stringify(this.#last)}`;
      this.#violation({ kind: 'lost', what });
      return undefined;
    }
  }

  async #status(crawl: Crawl): Promise<CrawlStatus | undefined> {
    const { crawls } = await this.#cluster.ask('crawl.list', {}, 0);
    return crawls.find(({ name }) => name === crawl.name);
  }

  /** Is the error not an effect of a fault, or is the time over? */
  #isTooLate(error: unknown): boolean {
    const isUsual = error instanceof ConnectionError || error instanceof CommandError;
    return !isUsual || performance.now() > this.#calmDeadlineMs;
  }

  // ---------------------------------------------------------------- ledgers

  /** Recounts the crawl that runs, and after each start of a master one that has ended. */
  async #ledgers(): Promise<void> {
    const { signal } = this.#ended;
    let starts = 0;
    while (!signal.aborted) {
      await sleep(ledgerMs, undefined, { signal }).catch(() => {});
      const { starts: now } = this.#cluster;
      const [ended] = this.#done.slice(-1);
      const names = [this.#crawl?.name, now === starts ? undefined : ended?.crawl.name];
      starts = now;
      for (const name of names) if (name !== undefined) await this.#verifyLedger(name);
    }
  }

  async #verifyLedger(name: string): Promise<void> {
    try {
      const { crawls } = await this.#cluster.ask('crawl.list', { crawl: name }, 0);
      const check = await this.#cluster.ask('crawl.verify', { crawl: name }, 0);
      this.#tally.recounts++;
      for (const status of crawls) {
        for (const violation of verifyLedger(status, check)) this.#violation(violation);
      }
    } catch (error) {
      // A fault hit the master, or the crawl is not there yet.
      const isUsual = error instanceof ConnectionError || error instanceof CommandError;
      if (!isUsual) throw error;
    }
  }

  // ---------------------------------------------------------------- what is said

  /** `isOver`: the programs have ended. */
  #verify(crawl: Crawl, status: CrawlStatus, isOver = false): { pages: number; images: number } {
    const folder = join(this.#out, crawl.name);
    const { violations, pages, images } = verifyCrawl(folder, crawl.truth, status);
    const { truth, store } = crawl;
    const kept = store ? verifyDownloads(folder, truth, { store, status, isOver }) : [];
    for (const { kind, what } of [...violations, ...verifyItems(folder, truth), ...kept]) {
      this.#violation({ kind, what: `${crawl.name}: ${what}` });
    }
    return { pages, images };
  }

  #violation(violation: Violation): void {
    const number = this.#tally.violation(violation);
    if (number === undefined || number > violationsShownMax) return;
    const { print } = this.#options;
    print(`${violation.kind.toUpperCase()} ${violation.what}`);
    for (const line of this.#tally.lastFaults) print(`    before: ${line}`);
  }

  #progress(): string {
    const of = this.#crawl?.truth.pages.length ?? 0;
    const now = this.#crawl
      ? `${this.#crawl.name} ${this.#last?.pages ?? 0} of ${of} ${of === 1 ? 'page' : 'pages'}`
      : 'between crawls';
    return `${clock(performance.now() - this.#startedAt)}  ${now}  ${this.#tally.text}`;
  }

  #verdict(): boolean {
    const { print, seed, forMs, slaves, pagesMax, everyMs } = this.#options;
    const { isClean, lost, duplicated, wrong, crawls, pages, images, downloads, recounts } =
      this.#tally;
    print(
      `${amount(crawls, 'crawl')}, ${amount(pages, 'page')}, ${amount(images, 'image')}, ` +
        `${amount(downloads, 'download')}, ${amount(this.#items.count, 'queue item')}, ${amount(this.#jobs?.count ?? 0, 'job')}, ` +
        `${amount(recounts, 'ledger')} recounted; ` +
        this.#tally.text,
    );
    print(`lost=${lost} duplicated=${duplicated}${wrong > 0 ? ` wrong=${wrong}` : ''}`);
    if (!isClean) {
      print(`the state is kept in ${this.#folder}; the same sites and faults again:`);
      const more = `--slaves ${slaves} --pages ${pagesMax} --every ${everyMs}`;
      print(`  node master.js selftest --chaos --seed ${seed} --for ${forMs / 1000} ${more}`);
    }
    return isClean;
  }
}

/** Minutes and seconds. */
function clock(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}
