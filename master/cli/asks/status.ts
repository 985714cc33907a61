/**
 * `status`: the crawls of a master and its slaves. Open crawls come first. Ended ones are listed
 * while they are few, or with --all; a filter lists what it matches.
 */
import { checked, listed } from '../../../shared/cli.ts';
import type { MasterClient } from '../../../shared/client.ts';
import { type CrawlState, crawlStates } from '../../../shared/crawl.ts';
import { CommandError } from '../../../shared/errors.ts';
import type { CrawlStatus, Replies } from '../../../shared/protocol.ts';
import { requestSchemas } from '../../../shared/requests.ts';
import { visible } from '../../../shared/visible.ts';
import { duration, number, slavesText } from '../../machine/progress.ts';
import { crawlName } from '../crawl-options.ts';
import type { Answer, AskMaker, Command, Values } from './asking.ts';
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
};

/** Ended crawls that are listed without being asked for. */
const endedShownMax = 20;
const pageLimit = 1_000;
const ledgerColumns = [
  ...(['admitted', 'waiting', 'pages', 'redirects', 'others', 'failed', 'excluded'] as const),
  ...(['buried', 'dropped', 'replayed'] as const),
] as const;
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
    .option('--ledger', 'show what became of every URL, by kind of task', false);
  command.addOption(
    command
      .createOption('--sort <field>', 'order of the crawls; open ones always come first')
      .choices([...sorts]),
  );
  return command.action((values: Values) =>
    take(values, {
      verb: 'status',
      crawl: values['crawl'] as string | undefined,
      states: values['state'] as StatusAsk['states'],
      sort: values['sort'] as Sort | undefined,
      all: values['all'] === true,
      ledger: values['ledger'] === true,
    }),
  );
}

type Listed = Omit<Replies['crawl.list'], 'next'>;

export async function askStatus(
  master: MasterClient,
  ask: StatusAsk,
  isJson: boolean,
): Promise<Answer> {
  const found = await crawlsOf(master, ask, isJson);
  const crawls = sorted(found.crawls, ask.sort);
  const { sessions, removing, counts: byState = {} } = found;
  const answer = { crawls, sessions, counts: byState, ...(removing && { removing }) };
  const text = ask.ledger ? ledgerText(crawls) : statusText({ ...answer, ended: found.ended });
  return { text, answer };
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

function statusText({
  crawls,
  sessions,
  removing,
  ended,
}: Listed & { readonly ended: number }): string {
  const slaves = sessions.filter(({ role }) => role === 'slave');
  const head = ['crawl', 'state', 'pages', 'images', 'failed', 'buried', 'waiting', 'leased'];
  const rows = crawls.map((crawl) => [crawl.name, crawl.state, ...counts(crawl)]);
  const lines = rows.length === 0 ? [] : table([head, ...rows]);
  if (ended > 0) lines.push(`${number(ended)} ended; list them with --all`);
  if (lines.length === 0) lines.push('no crawls');
  for (const crawl of crawls) {
    const { name, held, failed, skipped, rates, blocked, statuses, examples = {}, ending } = crawl;
    const { status: _, ...errors } = crawl.errors;
    if (held !== undefined) {
      lines.push(
        `${name}: held: ${held}, then run: resume ${name} (or with --new-files; or cancel)`,
      );
    }
    if (rates !== undefined) lines.push(`${name}: ${ratesText(rates)}`);
    if (blocked !== undefined) {
      const hosts = blocked.hosts === 1 ? '1 host is' : `${number(blocked.hosts)} hosts are`;
      const urls = blocked.waiting === 1 ? '1 URL waits' : `${number(blocked.waiting)} URLs wait`;
      lines.push(`${name}: ${hosts} blocked (${urls} there): run host with --unblock, see hosts`);
    }
    if (failed > 0) lines.push(`${name}: failed by kind: ${byName({ ...errors, ...statuses })}`);
    for (const text of Object.values(examples))
      lines.push(visible(`${name}:   for example ${text}`));
    if (ending !== undefined) lines.push(visible(`${name}: ${ending.text}`));
    if (Object.keys(skipped).length > 0) lines.push(`${name}: links skipped: ${byName(skipped)}`);
  }
  if (removing !== undefined) lines.push(removingText(removing));
  lines.push('', slavesText(slaves.length));
  for (const { name, leases, proxies = [] } of slaves) {
    lines.push(`  ${name}  ${leases} leased`);
    for (const { name: proxy, reason, forMs } of proxies) {
      const until = forMs > 0 ? `set aside for ${Math.ceil(forMs / 1000)} s` : 'will be retried';
      lines.push(`    proxy ${proxy} ${until}: ${reason}`);
    }
  }
  return lines.join('\n');
}

/** A row for each kind of task; `admitted` is the sum of what follows it, up to `dropped`. */
function ledgerText(crawls: readonly CrawlStatus[]): string {
  const head = ['crawl', 'kind', ...ledgerColumns];
  const rows = crawls.flatMap(({ name, ledger }) => {
    if (ledger === undefined) return [[name, 'not counted: of an older version, or repaired']];
    return Object.entries(ledger).map(([kind, row]) => {
      return [name, kind, ...ledgerColumns.map((column) => number(row[column]))];
    });
  });
  if (rows.length === 0) return 'no crawls';
  const lines = table([head, ...rows]);
  for (const { name, aliases, malformed, skipped } of crawls) {
    const beside = { aliases, ...skipped, malformed };
    const shown = Object.entries(beside).filter(([, count]) => count > 0);
    if (shown.length > 0) lines.push(`${name}: beside it: ${byName(Object.fromEntries(shown))}`);
  }
  return lines.join('\n');
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

/** The largest first. */
function byName(counts: Readonly<Record<string, number>>): string {
  const entries = Object.entries(counts).sort(([, a], [, b]) => b - a);
  return entries.map(([name, count]) => `${name} ${number(count)}`).join(', ');
}

function counts(crawl: CrawlStatus): string[] {
  const { pages, images, failed, buried: given, waiting, leased } = crawl;
  return [pages, images, failed, given, waiting, leased].map(number);
}
