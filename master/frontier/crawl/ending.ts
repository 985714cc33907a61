/**
 * Why a crawl ended, in one line for its operator, with what would change it. It is derived from
 * the crawl's numbers, so that it can be asked at any time after the end, too.
 */
import { amount } from '../../../shared/amount.ts';
import type { CrawlSpec } from '../../../shared/crawl.ts';
import type { CrawlEnding, SkipReason } from '../../../shared/protocol.ts';
import type { CrawlCounters, SeedRecord } from '../../store/records.ts';

type Ended = {
  readonly state: 'running' | 'paused' | 'finished' | 'cancelled';
  readonly spec: Pick<CrawlSpec, 'maxPages' | 'maxDepth'>;
  readonly counters: CrawlCounters;
  readonly seeds: SeedRecord;
  /** URLs in the task queue. */
  readonly waiting: number;
  /** Pages that were ever admitted. */
  readonly admitted: number;
};

/** Returns why it ended; undefined: it has not. */
export function endingOf(crawl: Ended): CrawlEnding | undefined {
  const { state, spec, counters, seeds, waiting, admitted } = crawl;
  if (state === 'cancelled') return { why: 'cancelled', text: 'it was cancelled' };
  if (state !== 'finished') return undefined;
  const isRefused = admitted === 0 && counters.pages === 0 && seeds.faults.length > 0;
  if ((seeds.admitted > 0 || isRefused) && seeds.answered === 0) {
    return { why: 'unanswered', text: `no seed was answered: ${faultsOf(seeds)}` };
  }
  if (spec.maxPages !== undefined && counters.pages >= spec.maxPages && waiting > 0) {
    const left = `${amount(waiting, 'URL')} left`;
    return { why: 'max-pages', text: `stopped at --max-pages ${spec.maxPages} with ${left}` };
  }
  if (counters.pages === 0 && seeds.faults.length > 0) {
    return { why: 'no-page', text: `no seed is a page: ${faultsOf(seeds)}` };
  }
  const skipped = Object.values(counters.skipped).reduce((sum, n) => sum + n, 0);
  if (seeds.admitted > 0 && admitted <= seeds.admitted && skipped > 0) {
    const text = `all links were skipped: ${commonest(counters.skipped, spec)}`;
    return { why: 'skipped', text };
  }
  return { why: 'finished', text: completeness(counters) };
}

/** Of a crawl where nothing is left to do. */
function completeness({ unchanged, lost = 0 }: CrawlCounters): string {
  const gaps: string[] = [];
  if (unchanged > 0) {
    gaps.push(`links of ${amount(unchanged, 'unchanged page')} were not read again`);
  }
  if (lost > 0) {
    const were = lost === 1 ? 'was' : 'were';
    gaps.push(`${amount(lost, 'URL')} that waited ${were} lost before a repair`);
  }
  if (gaps.length === 0) return 'every URL in scope was fetched';
  return ['every known URL was fetched', ...gaps].join('; ');
}

function faultsOf({ admitted, faults }: SeedRecord): string {
  const said = faults.map(({ url, why }) => `${url} ${why}`).join('; ');
  const more = admitted - faults.length;
  return more > 0 && faults.length > 0 ? `${said}; and ${amount(more, 'other')}` : said || 'none';
}

function commonest(
  skipped: CrawlCounters['skipped'],
  { maxDepth }: Pick<CrawlSpec, 'maxDepth'>,
): string {
  const [first] = Object.entries(skipped).sort(([, a], [, b]) => b - a);
  if (first === undefined) return '';
  const [reason, n] = first;
  return `${amount(n, 'link')} ${remedyOf(reason as SkipReason, n, maxDepth)}`;
}

/** The option that skips links for this reason, and how it would take them. */
function remedyOf(reason: SkipReason, links: number, maxDepth: number | undefined): string {
  const [lead, match, lie, are] =
    links === 1 ? ['leads', 'matches', 'lies', 'is'] : ['lead', 'match', 'lie', 'are'];
  switch (reason) {
    case 'host':
      return `${lead} to other hosts; use --scope domain or --scope any to follow them`;
    case 'include':
      return `${match} no --include`;
    case 'exclude':
      return `${match} an --exclude`;
    case 'depth':
      return `${lie} deeper than --max-depth ${maxDepth ?? 0}`;
    default:
      return `${are} skipped as traps; use --traps ${reason}=n with a higher n, or 0, to follow them`;
  }
}
