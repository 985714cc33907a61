/**
 * `status`: the crawls of a master and its slaves. Open crawls come first. Ended ones are listed
 * while they are few, or with --all; a filter lists what it matches.
 */

import { amount } from '../../../shared/amount.ts';
import { articleInstall } from '../../../shared/article.ts';
import { checked, listed } from '../../../shared/cli.ts';
import type { MasterClient } from '../../../shared/client.ts';
import { type CrawlState, crawlStates } from '../../../shared/crawl.ts';
import { CommandError, ConfigError } from '../../../shared/errors.ts';
import type { JobsStatus } from '../../../shared/jobs.ts';
import type { CrawlStatus } from '../../../shared/protocol.ts';
import type { Replies } from '../../../shared/replies.ts';
import { requestSchemas } from '../../../shared/requests.ts';
import { visible } from '../../../shared/visible.ts';
import { countsText } from '../../inspect/page-diff.ts';
import { freeText } from '../../machine/disk-room.ts';
import { duration, number, slavesText } from '../../machine/progress.ts';
import { crawlName } from '../crawl-options.ts';
import { durationText } from '../duration.ts';
import { ruleLines } from '../rule-lines.ts';
import { folderFlags } from '../serve-options.ts';
import type { Answer, AskMaker, Command, Values } from './asking.ts';
import { type Folders, foldersOf } from './folders.ts';
import { byName, ledgerAnswer } from './ledger.ts';
import { forText } from './sinks.ts';
import { table } from './table.ts';

const sorts = ['name', 'pages', 'waiting', 'started'] as const;
type Sort = (typeof sorts)[number];

export type StatusAsk = {
  readonly verb: 'status';
  readonly crawl: string | undefined;
  readonly states: readonly CrawlState[] | undefined;
  readonly sort: Sort | undefined;
  readonly all: boolean;
  readonly ledger: boolean;
  /** Rows and lines are counted again. */
  readonly verify: boolean;
  /** These are read for the ledger; undefined: a master is asked. */
  readonly folders: Folders | undefined;
};

/** Ended crawls that are listed without being asked for. */
const endedShownMax = 20;
const pageLimit = 1_000;
const openStates = ['running', 'paused', 'held'] as const;
const endedStates = ['finished', 'cancelled'] as const;

const statesIn = checked(requestSchemas['crawl.list'].shape.states.unwrap(), (text) =>
  listed(text).map((state) => state as CrawlState),
);

export function statusCommand(
  { make }: AskMaker,
  take: (values: Values, ask: StatusAsk) => void,
): Command {
  const command = make('status', 'show crawls and connected slaves')
    .option('--crawl <name>', 'show only this crawl', crawlName)
    .option(
      '--state <states>',
      `show only crawls in these states: ${crawlStates.join(', ')}`,
      (text) => statesIn(text, undefined),
    )
    .option('--all', 'list all crawls that have ended, too', false)
    .option('--ledger', 'show what became of every URL, by kind of task', false)
    .option(
      '--verify',
      'with --ledger: count rows and lines again; exit code 1 if the ledger is wrong',
      false,
    );
  for (const option of folderFlags()) command.addOption(option);
  command.addOption(
    command
      .createOption('--sort <field>', 'order of the crawls; open ones always come first')
      .choices([...sorts]),
  );
  return command.action((values: Values) => {
    const ledger = values['ledger'] === true;
    const verify = values['verify'] === true;
    refuseWithoutLedger(command, ledger);
    take(values, {
      verb: 'status',
      crawl: values['crawl'] as string | undefined,
      states: values['state'] as StatusAsk['states'],
      sort: values['sort'] as Sort | undefined,
      all: values['all'] === true,
      ledger,
      verify,
      folders: ledger ? foldersOf(command) : undefined,
    });
  });
}

/** @throws ConfigError an option that only the ledger has */
function refuseWithoutLedger(command: Command, ledger: boolean): void {
  if (ledger) return;
  for (const name of ['verify', 'data', 'out']) {
    if (command.getOptionValueSource(name) !== 'cli') continue;
    throw new ConfigError(`--${name} of status is for the ledger: give --ledger, too`);
  }
}

type Listed = Omit<Replies['crawl.list'], 'next'>;

export async function askStatus(
  master: MasterClient,
  ask: StatusAsk,
  isJson: boolean,
): Promise<Answer> {
  const found = await crawlsOf(master, ask, isJson);
  const crawls = sorted(found.crawls, ask.sort);
  const { sessions, removing, jobs, diskFull, counts: byState = {} } = found;
  const more = {
    ...(removing && { removing }),
    ...(jobs && { jobs }),
    ...(diskFull && { diskFull }),
  };
  const answer = { crawls, sessions, counts: byState, ...more };
  if (!ask.ledger) return { text: statusText({ ...answer, ended: found.ended }), answer };
  const verify = (crawl: string) => master.request('crawl.verify', { crawl });
  return await ledgerAnswer(crawls, answer, ask.verify ? verify : undefined);
}

/** `ended`: those that are not listed. */
async function crawlsOf(
  master: MasterClient,
  { crawl, states, all }: StatusAsk,
  isJson: boolean,
): Promise<Listed & { readonly ended: number }> {
  try {
    if (crawl !== undefined)
      return { ...(await master.request('crawl.list', { crawl })), ended: 0 };
    if (states !== undefined) return { ...(await paged(master, states)), ended: 0 };
    const open = await paged(master, openStates);
    const { finished = 0, cancelled = 0 } = open.counts ?? {};
    const isShown = all || isJson || finished + cancelled <= endedShownMax;
    if (!isShown) return { ...open, ended: finished + cancelled };
    const rest = await paged(master, endedStates);
    const names = new Set(rest.crawls.map(({ name }) => name));
    // One may have ended between the two.
    const crawls = [...open.crawls.filter(({ name }) => !names.has(name)), ...rest.crawls];
    return { ...rest, crawls, ended: 0 };
  } catch (error) {
    const isOlder = error instanceof CommandError && error.code === 'E_BAD_REQUEST';
    if (!isOlder) throw error;
    // A master that knows none of these fields lists all.
    const list = await master.request('crawl.list', {});
    const isWanted = ({ name, state }: CrawlStatus) =>
      (crawl === undefined || name === crawl) && (states === undefined || states.includes(state));
    return { ...list, crawls: list.crawls.filter(isWanted), ended: 0 };
  }
}

async function paged(master: MasterClient, states: readonly CrawlState[]): Promise<Listed> {
  const crawls = new Map<string, CrawlStatus>();
  let after: Uint8Array | undefined;
  while (true) {
    const { next, ...list } = await master.request('crawl.list', {
      states: [...states],
      limit: pageLimit,
      ...(after !== undefined && { after }),
    });
    for (const crawl of list.crawls) crawls.set(crawl.name, crawl);
    after = next;
    if (after === undefined) return { ...list, crawls: [...crawls.values()] };
  }
}

function sorted(crawls: readonly CrawlStatus[], sort: Sort | undefined): CrawlStatus[] {
  const by: Record<Sort, (a: CrawlStatus, b: CrawlStatus) => number> = {
    name: (a, b) => (a.name < b.name ? -1 : 1),
    pages: (a, b) => b.pages - a.pages,
    waiting: (a, b) => b.waiting - a.waiting,
    started: (a, b) => (b.startedAt ?? 0) - (a.startedAt ?? 0),
  };
  const isOpen = ({ state }: CrawlStatus) => (openStates as readonly string[]).includes(state);
  return crawls.toSorted((a, b) => {
    return Number(isOpen(b)) - Number(isOpen(a)) || (sort === undefined ? 0 : by[sort](a, b));
  });
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

function statusText({
  crawls,
  sessions,
  removing,
  jobs,
  diskFull,
  ended,
}: Listed & { readonly ended: number }): string {
  const slaves = sessions.filter(({ role }) => role === 'slave');
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
    const { name, held, failed, skipped, rates, blocked, statuses, examples = {} } = crawl;
    const { archive, downloads, ending, schedule } = crawl;
    const { status: _, rule: __, ...errors } = crawl.errors;
    if (held !== undefined) {
      lines.push(
        `${name}: held: ${held}, then run: resume ${name} (or with --new-files; or cancel)`,
      );
    }
    for (const { name: sink, reason, ms } of crawl.failing ?? []) {
      const why = reason.startsWith(`${sink}: `) ? reason : `${sink}: ${reason}`;
      lines.push(visible(`${name}: its results wait for ${why}; it is tried again${forText(ms)}`));
    }
    const areSlaves = slaves.length > 0;
    if (archive !== undefined) lines.push(`${name}: ${archiveText(archive, areSlaves)}`);
    if (downloads !== undefined) lines.push(`${name}: ${downloadsText(downloads, areSlaves)}`);
    if (schedule !== undefined) lines.push(`${name}: ${scheduleText(schedule)}`);
    for (const text of repeatTexts(crawl)) lines.push(`${name}: ${text}`);
    if (rates !== undefined) lines.push(`${name}: ${ratesText(rates)}`);
    if (blocked !== undefined) {
      const hosts = blocked.hosts === 1 ? '1 host is' : `${number(blocked.hosts)} hosts are`;
      const urls = blocked.waiting === 1 ? '1 URL waits' : `${number(blocked.waiting)} URLs wait`;
      lines.push(`${name}: ${hosts} blocked (${urls} there): run host with --unblock, see hosts`);
    }
    if (failed > 0) lines.push(`${name}: failed by kind: ${byName({ ...errors, ...statuses })}`);
    for (const [kind, text] of Object.entries(examples)) {
      // Of a kind that was only tried again so far, no URL has failed.
      const what = kind in crawl.errors ? '  for example' : `${kind}, to be tried again:`;
      lines.push(visible(`${name}: ${what} ${text}`));
    }
    if (ending !== undefined) lines.push(visible(`${name}: ${ending.text}`));
    if (crawl.wantsRules && areSlaves) {
      lines.push(
        `${name}: waits for a slave that evaluates rules: those connected are of an older version`,
      );
    }
    if (crawl.wantsLogin && areSlaves) {
      lines.push(
        `${name}: waits for a slave that logs in: those connected are of an older version`,
      );
    }
    if (crawl.wantsArticles && areSlaves) {
      lines.push(
        `${name}: waits for a slave that finds articles: ${articleInstall} and start the slave again`,
      );
    }
    if (crawl.wantsBrowser && areSlaves) {
      lines.push(`${name}: waits for a slave with a browser: start one with --browser`);
    }
    for (const text of ruleLines(crawl)) lines.push(visible(`${name}: ${text}`));
    if (Object.keys(skipped).length > 0) lines.push(`${name}: links skipped: ${byName(skipped)}`);
  }
  if (removing !== undefined) lines.push(removingText(removing));
  if (jobs !== undefined) lines.push(...jobsText(jobs));
  lines.push('', slavesText(slaves.length));
  for (const { name, leases, proxies = [], folders = [] } of slaves) {
    lines.push(`  ${name}  ${leases} leased`);
    for (const { name: proxy, reason, forMs } of proxies) {
      const until = forMs > 0 ? `set aside for ${Math.ceil(forMs / 1000)} s` : 'will be retried';
      lines.push(`    proxy ${proxy} ${until}: ${reason}`);
    }
    for (const { folder, reason } of folders) {
      lines.push(`    cannot write to ${folder}: ${reason}; its images wait`);
    }
  }
  return lines.join('\n');
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
