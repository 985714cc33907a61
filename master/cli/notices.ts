/** What the master tells its operator, beside the progress of crawls: lines of the log. */
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { addressText } from '../../shared/client.ts';
import { type CrawlSpec, crawlSpecSchema } from '../../shared/crawl.ts';
import { messageOf, type OrbError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/log.ts';
import { isLoopback } from '../../shared/url.ts';
import { version } from '../../shared/version.ts';
import type { Crawl } from '../frontier/crawl/crawl.ts';
import { nativeChars, nativePatterns } from '../frontier/crawl/patterns.ts';
import type { SeedsFound } from '../frontier/crawl/seed-hosts.ts';
import { megabytes, type Shortage } from '../machine/disk-room.ts';
import { fileNames } from '../sinks/files.ts';
import type { Resumed } from '../sinks/result-queue.ts';
import type { ServeOptions } from './serve-options.ts';

/** Lines about refusals, whatever the addresses are: there are more of these than one can count. */
const refusalsPerMinute = 60;

export class Notices {
  readonly #log: Logger;
  readonly #options: ServeOptions;
  readonly #now: () => number;
  #minuteSince = Number.NEGATIVE_INFINITY;
  #told = 0;
  #untold = 0;

  /** `now` gives ms. */
  constructor(log: Logger, options: ServeOptions, now: () => number = () => performance.now()) {
    this.#log = log;
    this.#options = options;
    this.#now = now;
  }

  listening(port: number, isNewKey: boolean): void {
    const { dataFolder, host, authkeyFile, authkey } = this.#options;
    this.#log.info(
      { data: dataFolder, pid: process.pid },
      `orbweaver ${version} listens on ${addressText(host || '*', port)}`,
    );
    const reachable = host && host !== '0.0.0.0' && host !== '::' ? host : hostname();
    const join = `node slave.js --master ${addressText(reachable, port)}`;
    if (isNewKey) {
      this.#log.info(`made the authkey ${authkeyFile}: copy that file to the slaves' machines`);
    }
    const key = authkey ? ', and the same ORB_AUTHKEY' : ` --authkey-file ${authkeyFile}`;
    this.#log.info(`join a slave with: ${join}${key}`);
  }

  /** A crawl keeps the options that it was made with. */
  otherSpec({ name, spec: stored }: Crawl, spec: CrawlSpec): void {
    // An older version stored no value for an option that it did not have.
    const kept = crawlSpecSchema.safeParse(stored).data ?? stored;
    const fields = Object.keys({ ...kept, ...spec }) as (keyof CrawlSpec)[];
    const others = fields.filter((field) => !isDeepStrictEqual(kept[field], spec[field]));
    if (others.length === 0) return;
    this.#log.warn(
      { crawl: name, ignored: others },
      'the crawl goes on with the options it was made with',
    );
  }

  finishedBefore({ name, counters }: Crawl, folder: string): void {
    // They may be moved when it is done; whoever has not done so should know.
    const missing = existsSync(join(folder, fileNames.pages))
      ? ''
      : ', which are not there any more';
    this.#log.info(
      `crawl ${name} was finished before: ${counters.pages} pages in ${folder}${missing}; ` +
        'to crawl again, give another --crawl',
    );
  }

  /** Its files are not what it left. */
  held({ name }: Crawl, reason: string): void {
    this.#log.error(
      { crawl: name },
      `crawl ${name} is held: ${reason}, then \`resume ${name}\`; or \`resume ${name} ` +
        `--new-files\`, or \`cancel ${name}\`; until then nothing of it is fetched or lost`,
    );
  }

  resumed({ name }: Crawl, { begun, cutBytes }: Resumed): void {
    for (const { file, bytes, lines, movedTo } of begun) {
      const had = lines === undefined ? `${bytes} bytes` : `${lines} lines, ${bytes} bytes`;
      const aside = movedTo === undefined ? '' : `; what stood there is now ${movedTo}`;
      this.#log.warn(
        { crawl: name },
        `${file} of crawl ${name} begins anew; before: ${had}${aside}`,
      );
    }
    const cut = cutBytes > 0 ? `; ${cutBytes} bytes behind its lines were cut` : '';
    this.#log.info({ crawl: name }, `crawl ${name} is held no more${cut}`);
  }

  /** A cancelled crawl whose files are not what it left. */
  dropped({ name }: Crawl, rows: number): void {
    this.#log.warn({ crawl: name, rows }, `findings of crawl ${name} were not written any more`);
  }

  leavesHeld(ms: number): void {
    this.#log.warn(
      `only crawls that are held are left: leaving with code 2 in ${ms / 1000} s, unless one of ` +
        'them is resumed or cancelled',
    );
  }

  /** Of a crawl that was made when such patterns were still taken. */
  slowPatterns({ name, spec }: Crawl): void {
    for (const pattern of nativePatterns(spec)) {
      this.#log.warn(
        `crawl ${name} keeps a pattern that new crawls may not have, and asks it about the first ` +
          `${nativeChars} characters of a URL: ${pattern}`,
      );
    }
  }

  ignoresRobots({ name }: Crawl): void {
    this.#log.warn(
      `crawl ${name} IGNORES robots.txt (--ignore-robots): it fetches what sites ask crawlers ` +
        'not to; only do that to sites that are yours',
    );
  }

  /** Owners of sites turn away whom they cannot ask. */
  hintAtContact({ name, spec }: Crawl, seeds: readonly string[]): void {
    const agents = [spec.fetch.userAgent, ...spec.fetch.otherUserAgents];
    if (agents.some((agent) => /[@+]|:\/\//.test(agent)) || !seeds.some(isElsewhere)) return;
    this.#log.info(
      `crawl ${name} tells nobody whose it is: --contact https://you.example/bot (or a mail ` +
        'address) lets the owners of sites reach you',
    );
  }

  /** Where the hosts of seeds are, if that is not public, and which are nowhere. */
  seedsFound({ name }: Crawl, { unresolved, inside }: SeedsFound): void {
    if (unresolved.length > 0) {
      this.#log.warn(
        `crawl ${name}: cannot resolve ${some(unresolved)}: slaves may use public addresses for it ` +
          'only, and the ranges of --allow-private',
      );
    }
    const opened = inside.map(({ hostname, blocks }) => `${hostname} at ${blocks.join(' and ')}`);
    if (opened.length > 0) {
      this.#log.info(`crawl ${name}: seeds at private addresses: ${some(opened)}`);
    }
  }

  /** `times`: so often was its address refused by now. A flood of them fills no disk. */
  refused(peer: string, error: OrbError, times: number): void {
    if (!this.#mayTell(times)) return;
    const fields = { peer, code: error.code, ...(times > 3 && { times }) };
    this.#log.warn(fields, `connection ended: ${messageOf(error)}`);
  }

  /** A pickle that holds what is not allowed. `times` as above. */
  refusedPickle(peer: string, error: OrbError, times: number): void {
    if (!this.#mayTell(times)) return;
    this.#log.warn({ peer, ...(times > 3 && { times }) }, `pickle refused: ${messageOf(error)}`);
  }

  /** The first refusals of an address are told, then each time that they have doubled. */
  #mayTell(times: number): boolean {
    const isPowerOfTwo = (times & (times - 1)) === 0;
    if (times > 3 && !isPowerOfTwo) return false;
    if (this.#now() - this.#minuteSince >= 60_000) this.#beginMinute();
    const isTold = this.#told < refusalsPerMinute;
    if (isTold) this.#told++;
    else this.#untold++;
    return isTold;
  }

  #beginMinute(): void {
    const count = this.#untold;
    this.#minuteSince = this.#now();
    this.#told = this.#untold = 0;
    if (count > 0) this.#log.warn({ count }, 'more was refused than is told here');
  }

  diskFull({ folder, freeBytes }: Shortage): void {
    this.#log.error(
      `the disk is full: ${megabytes(freeBytes)} MB are free under ${folder}, --disk-reserve is ` +
        `${megabytes(this.#options.diskReserveBytes)}; nothing is fetched or acknowledged until ` +
        'there is room',
    );
  }

  memoryShort(usedBytes: number): void {
    const MiB = Math.round(usedBytes / 2 ** 20);
    this.#log.warn({ MiB }, 'memory is short: peers wait; see --memory-limit');
  }
}

/** The first ones, in one line. */
function some(texts: readonly string[]): string {
  const first = texts.slice(0, 5).join(', ');
  return texts.length > 5 ? `${first} and ${texts.length - 5} more` : first;
}

/** A seed of another machine. */
function isElsewhere(seed: string): boolean {
  return URL.canParse(seed) && !isLoopback(new URL(seed).hostname);
}
