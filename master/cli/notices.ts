/** The master's log lines for its operator, except for the progress of crawls. */
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { amount } from '../../shared/amount.ts';
import { slaveCall } from '../../shared/calls.ts';
import { addressText } from '../../shared/client.ts';
import { type CrawlSpec, crawlSpecSchema } from '../../shared/crawl.ts';
import { ConfigError, messageOf, type OrbError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/log.ts';
import { isLoopback } from '../../shared/url.ts';
import { version } from '../../shared/version.ts';
import { visible } from '../../shared/visible.ts';
import type { CrawlView } from '../frontier/crawl/crawl-view.ts';
import { nativeChars, nativePatterns } from '../frontier/crawl/patterns.ts';
import type { SeedsFound } from '../frontier/crawl/seed-hosts.ts';
import type { CrawlChange, FrontierListener } from '../frontier/frontier-events.ts';
import { type FreeSpace, freeText, megabytes } from '../machine/disk-room.ts';
import { summary, waitText } from '../machine/progress.ts';
import { shellWord } from '../machine/shell-word.ts';
import type { Made } from '../repair/backup.ts';
import type { Compacted } from '../repair/compact.ts';
import { fileNames } from '../sinks/files.ts';
import type { ResultListener } from '../sinks/result-events.ts';
import type { ClosedTarget, Resumed } from '../sinks/sink.ts';
import { otherFlags } from './crawl-options.ts';
import { gapText } from './record-gap.ts';
import { followWarnings, ruleLines, ruleWarnings } from './rule-lines.ts';
import type { ServeOptions } from './serve-options.ts';
import { changeText, sortedFlags } from './set-options.ts';

/** Lines about refusals, over all addresses: an attacker may have any number of addresses. */
const refusalsPerMinute = 60;

export class Notices implements FrontierListener, ResultListener<CrawlView> {
  readonly #log: Logger;
  readonly #options: ServeOptions;
  readonly #now: () => number;
  readonly #hostname: string;
  #minuteSince = Number.NEGATIVE_INFINITY;
  #logged = 0;
  #unlogged = 0;

  /** `now` returns ms; `own` is the name of this machine. */
  constructor(
    log: Logger,
    options: ServeOptions,
    now: () => number = () => performance.now(),
    own = hostname(),
  ) {
    this.#log = log;
    this.#options = options;
    this.#now = now;
    this.#hostname = own;
  }

  listening(port: number, isNewKey: boolean): void {
    const { dataFolder, host, authkeyFile, authkey, tls } = this.#options;
    this.#log.info(
      { data: dataFolder, pid: process.pid },
      `orbweaver ${version} listens on ${addressText(host || '*', port)}`,
    );
    const reachable = host && host !== '0.0.0.0' && host !== '::' ? host : nameFor(this.#hostname);
    const join = `${slaveCall} --master ${addressText(reachable, port)}${tls ? ' --tls' : ''}`;
    if (isNewKey) {
      this.#log.info(`created the authkey file ${authkeyFile}: copy it to the slaves' machines`);
    }
    const key = authkey
      ? ', and the same ORB_AUTHKEY'
      : ` --authkey-file ${shellWord(authkeyFile)}`;
    this.#log.info(`start a slave with: ${join}${key}`);
  }

  /** A start changes no options of a crawl but a page limit that is higher; `spec`: those of this
   *  start. */
  otherSpec({ name, spec: stored }: CrawlView, spec: CrawlSpec): void {
    // An older version stored no value for an option that it did not have.
    const kept = crawlSpecSchema.safeParse(stored).data ?? stored;
    const others = otherFlags(kept, spec, this.#options.given);
    if (others.length === 0) return;
    const { can, cannot } = sortedFlags(others);
    const how = [
      ...(can.length > 0 ? [`to change them, run \`set ${name} ${can.join(' … ')} …\``] : []),
      ...(cannot.length > 0 ? [`${cannot.join(', ')} cannot change: choose another --crawl`] : []),
    ];
    this.#log.warn(
      { crawl: name, ignored: others },
      `the crawl keeps the options that it has; ${how.join('; ')}`,
    );
  }

  /** An unfinished crawl of an earlier start. `hasSeeds`: the operator asks for another one. */
  alsoThere({ name, isAside, counters, state, held }: CrawlView, hasSeeds: boolean): void {
    const { crawl } = this.#options;
    const waiting = waitText(counters.waiting);
    if (isAside) {
      this.#log.info(
        `crawl ${name} is left alone (--only): ${waiting}; it goes on with \`resume ${name}\`, or ` +
          'at a start without --only',
      );
    } else if (hasSeeds && state === 'running' && held === undefined) {
      this.#log.info(
        `crawl ${name} is not finished and goes on beside ${crawl}: ${waiting}; to leave it alone, ` +
          'start with --only',
      );
    }
  }

  finishedBefore({ name, counters }: CrawlView, folder: string): void {
    // The operator may have moved the files; if not, say that they are gone.
    const missing = existsSync(join(folder, fileNames.pages)) ? '' : ' (no longer there)';
    this.#log.info(
      `crawl ${name} is finished already: ${amount(counters.pages, 'page')} in ${folder}${missing}; ` +
        'to crawl again, choose another --crawl',
    );
  }

  crawlMade(crawl: CrawlView, seeds: readonly string[]): void {
    if (crawl.spec.ignoreRobots) this.ignoresRobots(crawl);
    this.#hintAtContact(crawl, seeds);
  }

  /** A seed redirects to another host of its site. */
  seedFollowed({ name }: CrawlView, { from, to }: { from: string; to: string }): void {
    this.#log.info(
      { crawl: name },
      `crawl ${name}: the seed ${from} redirects to ${to}: its host joins the scope`,
    );
  }

  seedFaulted({ name }: CrawlView, { url, why }: { url: string; why: string }): void {
    this.#log.warn({ crawl: name }, `crawl ${name}: the seed ${url} ${why}`);
  }

  crawlEnded(crawl: CrawlView): void {
    const folder = join(this.#options.outFolder, crawl.name);
    const text = summary(crawl.status(), crawl.openMs, folder);
    if (crawl.ending?.why === 'unanswered') this.#log.warn({ crawl: crawl.name }, text);
    else this.#log.info(text);
    this.#rulesEnded(crawl);
  }

  /** The counts of each rule; one that never matched is likely wrong. */
  #rulesEnded(crawl: CrawlView): void {
    const { name, spec, counters } = crawl;
    const { rules } = crawl.status();
    for (const line of ruleLines({ ...(rules && { rules }) })) {
      this.#log.info({ crawl: name }, `crawl ${name}: ${visible(line)}`);
    }
    const { items = {}, follow = [] } = spec.fetch;
    const warnings = ruleWarnings(items, rules, counters.unchanged);
    for (const line of [...warnings, ...followWarnings(follow, rules)]) {
      this.#log.warn({ crawl: name }, `crawl ${name}: ${visible(line)}`);
    }
  }

  crawlChanged(crawl: CrawlView, { changed, isReopened }: CrawlChange): void {
    const { name, counters } = crawl;
    const said = changed.map(changeText).join(', ');
    const goesOn = isReopened ? `; it goes on: ${waitText(counters.waiting)}` : '';
    this.#log.info({ crawl: name }, `crawl ${name}: ${said}${goesOn}`);
    const isNow = changed.some(({ field, to }) => field === 'ignoreRobots' && to === true);
    if (isNow) this.ignoresRobots(crawl);
  }

  crawlRenamed({ name }: CrawlView, from: string): void {
    this.#log.info({ crawl: name }, `crawl ${from} is now ${name}`);
  }

  crawlRotated({ name }: CrawlView, closed: readonly ClosedTarget[]): void {
    const files = closed.map(({ file, as }) => `${file} is now ${as}`).join(', ');
    this.#log.info({ crawl: name }, `crawl ${name}: ${files}`);
  }

  crawlRemoved({ name }: CrawlView): void {
    this.#log.info({ crawl: name }, `crawl ${name} was removed; its rows are being erased`);
  }

  /** The result files of the crawl are not as the master left them; or, `isPassing`, too much waits
   *  for one of its sinks. */
  crawlHeld({ name }: CrawlView, reason: string, isPassing = false): void {
    if (isPassing) {
      const until = 'it goes on by itself when half of what waits is written';
      this.#log.warn({ crawl: name }, `crawl ${name} is held: ${reason}; ${until}`);
      return;
    }
    const { only, crawl } = this.#options;
    // With --only another crawl is left alone: that it waits, too, is no fault of this run.
    this.#log[only && name !== crawl ? 'info' : 'error'](
      { crawl: name },
      `crawl ${name} is held: ${reason}, then run \`resume ${name}\`; or run \`resume ${name} ` +
        `--new-files\` or \`cancel ${name}\`; until then it fetches nothing and loses nothing`,
    );
  }

  /** Without `how`, it goes on by itself, and `available` has said so. */
  crawlReleased({ name }: CrawlView, how?: Resumed): void {
    if (how === undefined) return;
    const { begun, cutBytes } = how;
    for (const { file, bytes, lines, movedTo, records } of begun) {
      if (records !== undefined) {
        this.#log.warn({ crawl: name }, `crawl ${name}: ${file} ${gapText(records)}`);
        continue;
      }
      const had =
        lines === undefined
          ? amount(bytes, 'byte')
          : `${amount(lines, 'line')}, ${amount(bytes, 'byte')}`;
      const aside = movedTo === undefined ? '' : `, moved to ${movedTo}`;
      this.#log.warn(
        { crawl: name },
        `crawl ${name} starts a new ${file}; the old file: ${had}${aside}`,
      );
    }
    const cut = cutBytes > 0 ? `; cut ${amount(cutBytes, 'byte')} after its last line` : '';
    this.#log.info({ crawl: name }, `crawl ${name} is no longer held${cut}`);
  }

  /** An output that was replaced or given up, or whose crawl was, while it could not be written. */
  missed({ name }: CrawlView, sink: string, records: number): void {
    this.#log.warn(
      { crawl: name, sink, records },
      `crawl ${name}: ${sink} does not get the last ${amount(records, 'record')}, which waited for it`,
    );
  }

  /** The master ends while an output cannot be written. */
  left({ name }: CrawlView, sink: string, records: number): void {
    this.#log.warn(
      { crawl: name, sink, records },
      `crawl ${name}: ${amount(records, 'record')} still ${records === 1 ? 'waits' : 'wait'} for ` +
        `${sink}; the next start writes them`,
    );
  }

  /** A crawl that was given up, and whose files are not as the master left them. */
  dropped({ name }: CrawlView, records: number): void {
    this.#log.warn(
      { crawl: name, records },
      `dropped unwritten results of the cancelled crawl ${name}: ${amount(records, 'record')}`,
    );
  }

  unavailable({ name }: CrawlView, sink: string, reason: string): void {
    this.#log.warn(
      { crawl: name, sink },
      `crawl ${name}: its results wait for ${sink} (${reason}); it is tried again`,
    );
  }

  available({ name }: CrawlView, sink: string): void {
    this.#log.info({ crawl: name, sink }, `crawl ${name}: ${sink} takes its results again`);
  }

  leavesHeld(ms: number): void {
    this.#log.warn(
      `only held crawls are left: exiting with code 2 in ${ms / 1000} s, unless one of them is ` +
        'resumed or cancelled',
    );
  }

  /** Of a crawl that was created when such patterns were still accepted. */
  slowPatterns({ name, spec }: CrawlView): void {
    for (const pattern of nativePatterns(spec)) {
      this.#log.warn(
        `crawl ${name} keeps a pattern that new crawls may not have; it is matched against the ` +
          `first ${nativeChars} characters of a URL only: ${pattern}`,
      );
    }
  }

  ignoresRobots({ name }: CrawlView): void {
    this.#log.warn(
      `crawl ${name} IGNORES robots.txt (--ignore-robots) and fetches URLs that sites disallow; ` +
        'use this only for sites that you own',
    );
  }

  /** Site owners block crawlers whose operator they cannot reach. */
  #hintAtContact({ name, spec }: CrawlView, seeds: readonly string[]): void {
    const agents = [spec.fetch.userAgent, ...spec.fetch.otherUserAgents];
    if (agents.some((agent) => /[@+]|:\/\//.test(agent)) || !seeds.some(isElsewhere)) return;
    this.#log.info(
      `crawl ${name} names no contact: add --contact https://you.example/bot (or a mail ` +
        'address), so that site owners can reach you',
    );
  }

  /** The seeds' hosts at private addresses, and those that cannot be resolved. */
  seedsFound({ name }: CrawlView, { unresolved, inside }: SeedsFound): void {
    if (unresolved.length > 0) {
      this.#log.warn(
        `crawl ${name}: cannot resolve ${some(unresolved)}: slaves may connect only to its public ` +
          'addresses; to open private ones, create a crawl with --allow-private',
      );
    }
    const opened = inside.map(({ hostname, blocks }) => `${hostname} at ${blocks.join(' and ')}`);
    if (opened.length > 0) {
      this.#log.info(`crawl ${name}: seeds at private addresses: ${some(opened)}`);
    }
  }

  /** `times`: how often its address was refused so far. A flood of refusals fills no disk. */
  refused(peer: string, error: OrbError, times: number): void {
    if (!this.#mayLog(times)) return;
    const fields = { peer, code: error.code, ...(times > 3 && { times }) };
    this.#log.warn(fields, `connection closed: ${messageOf(error)}`);
  }

  /** A pickle that holds something that is not allowed. `times` as above. */
  refusedPickle(peer: string, error: OrbError, times: number): void {
    if (!this.#mayLog(times)) return;
    this.#log.warn({ peer, ...(times > 3 && { times }) }, `pickle refused: ${messageOf(error)}`);
  }

  /** The first refusals of an address are logged, then one each time that their number doubles. */
  #mayLog(times: number): boolean {
    const isPowerOfTwo = (times & (times - 1)) === 0;
    if (times > 3 && !isPowerOfTwo) return false;
    if (this.#now() - this.#minuteSince >= 60_000) this.#beginMinute();
    const isLogged = this.#logged < refusalsPerMinute;
    if (isLogged) this.#logged++;
    else this.#unlogged++;
    return isLogged;
  }

  #beginMinute(): void {
    const count = this.#unlogged;
    this.#minuteSince = this.#now();
    this.#logged = this.#unlogged = 0;
    if (count > 0) this.#log.warn({ count }, 'further refusals were not logged');
  }

  diskFull(shortage: FreeSpace): void {
    const reserve = `, --disk-reserve is ${megabytes(this.#options.diskReserveBytes)}; free some space`;
    const what = shortage.freeFiles === undefined ? reserve : '; remove some files';
    this.#log.error(
      `the disk is full: ${freeText(shortage)}${what}: until then nothing is fetched or acknowledged`,
    );
  }

  diskFree(): void {
    this.#log.info('there is room on the disk again: resuming');
  }

  backedUp({ folder, bytes }: Made): void {
    this.#log.info(`backed up ${(bytes / 1e6).toFixed(1)} MB to ${folder}`);
  }

  backupFailed(name: string, why: string): void {
    this.#log.error(`the backup ${name} failed, and nothing of it is left: ${why}`);
  }

  archiveTaken(crawl: string, file: string, next: string): void {
    this.#log.error(
      `crawl ${crawl}: its archive file ${file} is gone, or another program has changed it; the ` +
        `archive goes on in ${next}`,
    );
  }

  indexMade(crawl: string, index: string): void {
    this.#log.warn(
      `crawl ${crawl}: its archive index ${index} was gone, or another program had changed it; it ` +
        'has been made again of the WARC file',
    );
  }

  indexFailed(crawl: string, index: string, error: unknown): void {
    const isForGood = error instanceof ConfigError;
    this.#log.error(
      `crawl ${crawl}: its archive index ${index} cannot be written: ${messageOf(error)}` +
        `${isForGood ? '' : '; its answers are kept, and it is made again of them when it can'}`,
    );
  }

  compacted(sizes: Compacted): void {
    this.#log.info(compactedText(sizes));
  }

  workerJoined(worker: string): void {
    this.#log.info({ worker }, 'Python worker joined');
  }

  workerLeft(worker: string, released: number): void {
    this.#log.info({ worker, released }, 'Python worker left');
  }

  slaveJoined(slave: string, peer: string): void {
    this.#log.info({ slave, peer }, 'slave joined');
  }

  slaveLeft(slave: string, released: number): void {
    this.#log.info({ slave, released }, 'slave left');
  }

  memoryShort(usedBytes: number): void {
    const MiB = Math.round(usedBytes / 2 ** 20);
    this.#log.warn({ MiB }, 'memory is short, so peers wait; raise --memory-limit if this lasts');
  }
}

export function compactedText({ before, after }: Compacted): string {
  const mb = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;
  return `compacted the store: ${mb(before)} before, ${mb(after)} after`;
}

/** Returns the first texts, in one line. */
function some(texts: readonly string[]): string {
  const first = texts.slice(0, 5).join(', ');
  return texts.length > 5 ? `${first} and ${texts.length - 5} more` : first;
}

/** The name of a machine for others. That of a container is an id by default, which names nothing
 *  outside it. Source: docker run --hostname. */
function nameFor(own: string): string {
  return /^[0-9a-f]{12}$/.test(own) ? 'host' : own;
}

/** Is the seed on another machine? */
function isElsewhere(seed: string): boolean {
  return URL.canParse(seed) && !isLoopback(new URL(seed).hostname);
}
