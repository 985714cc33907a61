/**
 * The operator's view of the work: a status block that repaints itself on a terminal, one log line
 * per interval otherwise, and a summary at a crawl's end.
 */
import { amount, grouped } from '../../shared/amount.ts';
import { masterCall } from '../../shared/calls.ts';
import { trapRules } from '../../shared/crawl.ts';
import type { Logger } from '../../shared/log.ts';
import type { CrawlStatus } from '../../shared/protocol.ts';
import { fitted, type Part, StatusBlock } from './status-block.ts';

/** The state that it shows, read each time. */
type Shown = {
  readonly crawls: Iterable<{ readonly isOpen: boolean; status(): CrawlStatus }>;
  readonly peers: { readonly slaveCount: number };
};

const repaintEveryMs = 500;
/** Crawls in the status block: it must fit on the terminal. */
const crawlsShownMax = 12;
/** Kinds of failures in a line. */
const kindsShownMax = 4;
/** Rates are averaged over about this long. */
const rateOverMs = 5_000;
/** Rates of crawls that are over, which are kept for one that goes on. */
const ratesSpare = 100;

export class Progress {
  readonly #log: Logger;
  readonly #rates = new Map<string, Rate>();
  readonly #repaints: boolean;
  readonly #block = new StatusBlock(process.stdout);
  readonly #onResize = () => this.#paint();
  #shown: Shown = { crawls: [], peers: { slaveCount: 0 } };
  #timer: NodeJS.Timeout | undefined;

  constructor(options: { log: Logger; repaints: boolean }) {
    this.#log = options.log;
    this.#repaints = options.repaints;
  }

  start(everyMs: number, shown: Shown): void {
    this.#shown = shown;
    if (this.#repaints) process.stdout.on('resize', this.#onResize);
    const show = () => (this.#repaints ? this.#paint() : this.#logLines());
    // Without a first sample, the first line would have no rate.
    for (const crawl of this.#open) this.#rate(crawl);
    this.#timer = setInterval(show, this.#repaints ? repaintEveryMs : everyMs);
  }

  /** Writes a line above the status block. */
  above(line: string): void {
    this.#block.clear();
    process.stdout.write(line);
    this.show();
  }

  stop(): void {
    clearInterval(this.#timer);
    process.stdout.off('resize', this.#onResize);
    this.hide();
    this.#timer = undefined;
  }

  /** Takes the block off the terminal until it is painted again. */
  hide(): void {
    this.#block.clear();
  }

  /** Paints the block at once. */
  show(): void {
    if (this.#repaints && this.#timer) this.#paint();
  }

  #paint(): void {
    const open = this.#open;
    const width = this.#block.width - 2;
    const shown = open.slice(0, crawlsShownMax);
    const lines = shown.map((crawl) => `  ${fitted(this.#describe(crawl), width)}`);
    if (open.length > lines.length) lines.push(`  and ${number(open.length - lines.length)} more`);
    this.#block.paint([headOf(open.length, this.#shown.peers.slaveCount), ...lines]);
  }

  #logLines(): void {
    const { slaveCount: slaves } = this.#shown.peers;
    for (const crawl of this.#open) {
      this.#log.info({ slaves }, fitted(this.#describe(crawl), Number.POSITIVE_INFINITY));
    }
  }

  get #open(): CrawlStatus[] {
    const open = [...this.#shown.crawls].filter(({ isOpen }) => isOpen);
    for (const name of this.#rates.keys()) {
      if (this.#rates.size > open.length + ratesSpare) this.#rates.delete(name);
    }
    return open.map((crawl) => crawl.status());
  }

  /** A narrow terminal shows the parts of the lowest ranks. */
  #describe(crawl: CrawlStatus): Part[] {
    const rate = this.#rate(crawl);
    const parts: Part[] = [
      { text: `${crawl.name}: ${amount(crawl.pages, 'page')}`, rank: 0 },
      { text: amount(crawl.images, 'image'), rank: 6 },
      { text: `${number(crawl.failed)} failed`, rank: 3, more: troublesOf(crawl) },
      { text: `${number(crawl.waiting)} waiting`, rank: 2 },
    ];
    if (rate !== undefined) parts.push({ text: `${rate.toFixed(rate < 10 ? 1 : 0)}/s`, rank: 4 });
    if (crawl.state !== 'running') parts.push({ text: crawl.state, rank: 1 });
    // An estimate is honest only while the queue shrinks: a growing one may bring any number.
    else if (this.#rates.get(crawl.name)?.isShrinking(crawl.waiting) && rate) {
      const left = `about ${duration((crawl.waiting / rate) * 1000)} left`;
      parts.push({ text: left, rank: 5 });
    }
    return parts;
  }

  #rate({ name, pages, others, failed }: CrawlStatus): number | undefined {
    let rate = this.#rates.get(name);
    if (rate === undefined) {
      rate = new Rate();
      this.#rates.set(name, rate);
    }
    return rate.perSecond(pages + others + failed, performance.now());
  }
}

/** Failures by kind, the most frequent first, those with a status by its number; of kinds that
 *  were only tried again so far, an example. */
function troublesOf({ errors, statuses, examples = {} }: CrawlStatus): string {
  const { status: _, ...others } = errors;
  const counts = [...Object.entries(statuses), ...Object.entries(others)].sort(
    ([, a], [, b]) => b - a,
  );
  const tried = Object.entries(examples).filter(([kind]) => !(kind in errors));
  return [
    ...counts.slice(0, kindsShownMax).map(([name, count]) => `${name}: ${number(count)}`),
    ...tried.slice(0, 1).map(([kind, text]) => `${kind}, trying again: ${text}`),
  ].join(', ');
}

/** The state of the master, in one line. */
function headOf(openCount: number, slaves: number): string {
  if (openCount === 0) {
    return `${slavesText(slaves)}, no crawl running; add one: ${masterCall} add <url>`;
  }
  return slaves === 0 ? 'waiting for slaves to join' : `${slavesText(slaves)} at work`;
}

/** Returns the log line about a finished or cancelled crawl. */
export function summary(crawl: CrawlStatus, tookMs: number, folder: string): string {
  const buried = crawl.buried > 0 ? ` (${number(crawl.buried)} buried: see \`buried\`)` : '';
  const excluded = crawl.excluded > 0 ? `, ${number(crawl.excluded)} excluded` : '';
  const same = crawl.unchanged > 0 ? ` (${number(crawl.unchanged)} unchanged)` : '';
  const traps = trapRules.reduce((sum, rule) => sum + (crawl.skipped[rule] ?? 0), 0);
  // Links out of scope are expected; links in traps are worth a mention.
  const trapped = traps > 0 ? `, ${amount(traps, 'link')} skipped as traps` : '';
  const end = crawl.state === 'cancelled' ? 'was cancelled' : 'is done';
  const why = crawl.ending?.why === 'cancelled' ? '' : `; ${crawl.ending?.text ?? ''}`;
  const items = crawl.rules === undefined ? [] : [`${folder}/items.jsonl`];
  const files = [`${folder}/pages.jsonl`, ...items].join(', ');
  return (
    `crawl ${crawl.name} ${end} after ${duration(tookMs)}: ${amount(crawl.pages, 'page')}${same}, ` +
    `${amount(crawl.images, 'image')}, ${number(crawl.failed)} failed${buried}${excluded}${trapped}` +
    `${why}; see ${files} and ${folder}/img_src.txt`
  );
}

export function slavesText(count: number): string {
  if (count === 0) return 'no slaves';
  return amount(count, 'slave');
}

export function number(value: number): string {
  return grouped(value);
}

/** `1 URL waits` */
export function waitText(count: number): string {
  return `${amount(count, 'URL')} ${count === 1 ? 'waits' : 'wait'}`;
}

export function duration(ms: number): string {
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

class Rate {
  #samples: { at: number; value: number }[] = [];
  #waiting: number[] = [];

  /** undefined: this is the first value. */
  perSecond(value: number, now: number): number | undefined {
    this.#samples.push({ at: now, value });
    const kept = this.#samples.findIndex(({ at }) => now - at <= rateOverMs);
    this.#samples = this.#samples.slice(Math.max(0, Math.min(kept, this.#samples.length - 2)));
    const first = this.#samples[0];
    if (first === undefined || now === first.at) return undefined;
    return ((value - first.value) * 1000) / (now - first.at);
  }

  isShrinking(waiting: number): boolean {
    this.#waiting = [...this.#waiting.slice(-9), waiting];
    const first = this.#waiting[0] ?? 0;
    return this.#waiting.length >= 4 && this.#waiting.every((value) => value <= first);
  }
}
