/** The faults and findings of a run so far. */
import type { Violation } from './exact.ts';
import type { Fault } from './schedule.ts';

const lastFaultsMax = 8;

export class Tally {
  readonly #counts = {
    kills: 0,
    killedMasters: 0,
    restarts: 0,
    restartedMasters: 0,
    cuts: 0,
    stops: 0,
    full: 0,
    clocks: 0,
  };
  /** Violations, each once, however often they are seen. */
  readonly #violations = new Map<string, Violation>();
  /** The latest, as lines. */
  readonly lastFaults: string[] = [];
  crawls = 0;
  pages = 0;
  images = 0;
  /** Contents that were downloaded. */
  downloads = 0;
  /** Ledgers that were recounted. */
  recounts = 0;

  did(fault: Fault, line: string): void {
    const counts = this.#counts;
    switch (fault.kind) {
      case 'kill':
        counts.kills++;
        if (fault.who === 'slave') break;
        counts.killedMasters++;
        if (fault.shiftMs !== 0) counts.clocks++;
        break;
      case 'restart':
        counts.restarts++;
        if (fault.who === 'master') counts.restartedMasters++;
        break;
      case 'stop':
        counts.stops++;
        break;
      case 'cut':
        counts.cuts++;
        break;
      case 'full':
        counts.full++;
        break;
      default:
        fault satisfies never;
    }
    this.lastFaults.push(line);
    if (this.lastFaults.length > lastFaultsMax) this.lastFaults.shift();
  }

  crawled(pages: number, images: number, downloads = 0): void {
    this.crawls++;
    this.pages += pages;
    this.images += images;
    this.downloads += downloads;
  }

  /** Returns its number, from 1; undefined if it is known. */
  violation(violation: Violation): number | undefined {
    const key = `${violation.kind} ${violation.what}`;
    if (this.#violations.has(key)) return undefined;
    this.#violations.set(key, violation);
    return this.#violations.size;
  }

  get isClean(): boolean {
    return this.#violations.size === 0;
  }

  get lost(): number {
    return this.#count('lost');
  }

  get duplicated(): number {
    return this.#count('duplicated');
  }

  get wrong(): number {
    return this.#count('wrong');
  }

  /** Faults so far. */
  get text(): string {
    const { kills, killedMasters, restarts, restartedMasters } = this.#counts;
    const { cuts, stops, full, clocks } = this.#counts;
    return (
      `${kills} kills (${killedMasters} of the master), ` +
      `${restarts} restarts (${restartedMasters} of the master), ${cuts} cuts, ${stops} stops, ` +
      `${full} full disks, ${clocks} clock jumps`
    );
  }

  #count(kind: Violation['kind']): number {
    return [...this.#violations.values()].filter((violation) => violation.kind === kind).length;
  }
}
