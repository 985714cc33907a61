/** The text of `status`: a table of crawls, lines about each, jobs, slaves. */

import { amount } from '../../../shared/amount.ts';
import { articleInstall } from '../../../shared/article.ts';
import type { JobsStatus } from '../../../shared/jobs.ts';
import type { CrawlStatus } from '../../../shared/protocol.ts';
import type { Replies } from '../../../shared/replies.ts';
import { visible } from '../../../shared/visible.ts';
import { countsText } from '../../inspect/page-diff.ts';
import { freeText } from '../../machine/disk-room.ts';
import { duration, number, slavesText } from '../../machine/progress.ts';
import { durationText } from '../duration.ts';
import { ruleLines } from '../rule-lines.ts';
import { byName } from './ledger.ts';
import { forText } from './sinks.ts';
import { table } from './table.ts';

/** `ended`: the number of crawls that are not listed. */
export type Listed = Omit<Replies['crawl.list'], 'next'> & { readonly ended: number };
type Session = Listed['sessions'][number];

export function statusText(list: Listed): string {
  const { crawls, removing, jobs, diskFull, ended } = list;
  const slaves = list.sessions.filter(({ role }) => role === 'slave');
  const head = ['crawl', 'state', 'pages', 'images', 'failed', 'buried', 'waiting', 'leased'];
  const rows = crawls.map((crawl) => [crawl.name, crawl.state, ...counts(crawl)]);
  const lines = rows.length === 0 ? [] : table([head, ...rows]);
  if (ended > 0) lines.push(`${number(ended)} ended; list them with --all`);
  if (lines.length === 0) lines.push('no crawls');
  if (diskFull !== undefined) {
    const free = visible(freeText(diskFull));
    lines.push(`the disk is full: ${free}; nothing goes on until there is room, and`);
    lines.push('commands that change something wait');
  }
  for (const crawl of crawls) {
    for (const text of crawlTexts(crawl, slaves.length > 0)) {
      lines.push(visible(`${crawl.name}: ${text}`));
    }
  }
  if (removing !== undefined) lines.push(removingText(removing));
  if (jobs !== undefined) lines.push(...jobsText(jobs));
  lines.push('', slavesText(slaves.length));
  for (const slave of slaves) lines.push(...slaveLines(slave));
  return lines.join('\n');
}

function crawlTexts(crawl: CrawlStatus, areSlaves: boolean): string[] {
  const { held, archive, downloads, ending, schedule, skipped, rates, blocked } = crawl;
  return [
    ...(held === undefined
      ? []
      : [`held: ${held}, then run: resume ${crawl.name} (or with --new-files; or cancel)`]),
    ...(crawl.failing ?? []).map(failingText),
    ...(archive === undefined ? [] : [archiveText(archive, areSlaves)]),
    ...(downloads === undefined ? [] : [downloadsText(downloads, areSlaves)]),
    ...(schedule === undefined ? [] : [scheduleText(schedule)]),
    ...repeatTexts(crawl),
    ...(rates === undefined ? [] : [ratesText(rates)]),
    ...(blocked === undefined ? [] : [blockedText(blocked)]),
    ...failureTexts(crawl),
    ...(ending === undefined ? [] : [ending.text]),
    ...(areSlaves ? lackTexts(crawl) : []),
    ...ruleLines(crawl),
    ...(Object.keys(skipped).length === 0 ? [] : [`links skipped: ${byName(skipped)}`]),
  ];
}

function failingText({ name, reason, ms }: NonNullable<CrawlStatus['failing']>[number]): string {
  const why = reason.startsWith(`${name}: `) ? reason : `${name}: ${reason}`;
  return `its results wait for ${why}; it is tried again${forText(ms)}`;
}

function blockedText({ hosts, waiting }: NonNullable<CrawlStatus['blocked']>): string {
  const are = hosts === 1 ? '1 host is' : `${number(hosts)} hosts are`;
  const wait = waiting === 1 ? '1 URL waits' : `${number(waiting)} URLs wait`;
  return `${are} blocked (${wait} there): run host with --unblock, see hosts`;
}

function failureTexts({ failed, statuses, errors, examples = {} }: CrawlStatus): string[] {
  const { status = 0, rule: _, ...others } = errors;
  // Older versions counted answers with a failure, but not by their status.
  const unknown = Object.values(statuses).reduce((left, count) => left - count, status);
  const counts = { ...others, ...statuses, ...(unknown > 0 && { status: unknown }) };
  const kinds = failed > 0 ? [`failed by kind: ${byName(counts)}`] : [];
  const texts = Object.entries(examples).map(([kind, text]) => {
    // Of a kind that was only tried again so far, no URL has failed.
    const what = kind in errors ? '  for example' : `${kind}, to be tried again:`;
    return `${what} ${text}`;
  });
  return [...kinds, ...texts];
}

/** Abilities that the crawl needs and no connected slave has. */
function lackTexts(crawl: CrawlStatus): string[] {
  const older = 'those connected are of an older version';
  const lacks: [boolean | undefined, string][] = [
    [crawl.wantsRules, `that evaluates rules: ${older}`],
    [crawl.wantsLogin, `that logs in: ${older}`],
    [crawl.wantsArticles, `that finds articles: ${articleInstall} and start the slave again`],
    [crawl.wantsBrowser, 'with a browser: start one with --browser'],
  ];
  return lacks.filter(([isWanted]) => isWanted).map(([, text]) => `waits for a slave ${text}`);
}

function slaveLines({ name, leases, proxies = [], folders = [] }: Session): string[] {
  return [
    `  ${name}  ${leases} leased`,
    ...proxies.map(({ name: proxy, reason, forMs }) => {
      const until = forMs > 0 ? `set aside for ${Math.ceil(forMs / 1000)} s` : 'will be retried';
      return `    proxy ${proxy} ${until}: ${reason}`;
    }),
    ...folders.map(
      ({ folder, reason }) => `    cannot write to ${folder}: ${reason}; its images wait`,
    ),
  ];
}

function scheduleText({ sources, nextAt }: NonNullable<CrawlStatus['schedule']>): string {
  const are = sources === 1 ? 'is' : 'are';
  const at = new Date(nextAt).toISOString();
  return `${amount(sources, 'source')} of seeds ${are} asked on a schedule, next at ${at}`;
}

function repeatTexts({ repeats }: CrawlStatus): string[] {
  const { everyMs, nextAt, keep, since, changes } = repeats ?? {};
  const texts = since === undefined || changes === undefined ? [] : [sinceText(since, changes)];
  if (everyMs === undefined || nextAt === undefined) return texts;
  const kept = keep === undefined ? '' : `; ${amount(keep, 'crawl')} kept`;
  const at = new Date(nextAt).toISOString();
  return [`repeated every ${durationText(everyMs)}, next at ${at}${kept}`, ...texts];
}

function sinceText(since: string, changes: Parameters<typeof countsText>[0]): string {
  return `since ${since} ${countsText(changes)}`;
}

type Kept<Key extends 'archive' | 'downloads'> = NonNullable<CrawlStatus[Key]>;

function archiveText({ files, bytes, waits }: Kept<'archive'>, areSlaves: boolean): string {
  const size = `archive: ${(bytes / 1e6).toFixed(1)} MB in ${count(files, 'file')}`;
  return size + waitText(waits, areSlaves);
}

function downloadsText({ stored, bytes, waits }: Kept<'downloads'>, areSlaves: boolean): string {
  const size = `downloaded: ${count(stored, 'image')}, ${(bytes / 1e6).toFixed(1)} MB`;
  return size + waitText(waits, areSlaves);
}

/** Without slaves all waits, and there is none to be updated. */
function waitText(waits: string | undefined, areSlaves: boolean): string {
  return waits === undefined || !areSlaves ? '' : `; its URLs wait: ${waits}`;
}

function count(n: number, noun: string): string {
  return `${number(n)} ${noun}${n === 1 ? '' : 's'}`;
}

function jobsText({ waiting, running, waits, held }: JobsStatus): string[] {
  const lines = [`jobs: ${number(running)} running, ${number(waiting)} waiting`];
  if (waits !== undefined) lines.push(visible(`jobs: ${waits}`));
  if (held !== undefined) lines.push(visible(`jobs: none begins: ${held}`));
  return lines;
}

function removingText({ count, names }: NonNullable<Listed['removing']>): string {
  const more = count > 3 ? ` and ${number(count - 3)} more` : '';
  return `removed, rows are being erased: ${names.slice(0, 3).join(', ')}${more}`;
}

function ratesText({ pagesPerS, bytesPerS, etaMs }: NonNullable<CrawlStatus['rates']>): string {
  const left = etaMs === undefined ? '' : `, about ${duration(etaMs)} left`;
  const pages = pagesPerS.toFixed(pagesPerS < 10 ? 1 : 0);
  return `${pages} pages/s, ${(bytesPerS / 1e6).toFixed(2)} MB/s over the last minute${left}`;
}

function counts(crawl: CrawlStatus): string[] {
  const { pages, images, failed, buried: given, waiting, leased } = crawl;
  return [pages, images, failed, given, waiting, leased].map(number);
}
