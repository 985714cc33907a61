/**
 * `status`: the crawls of a master and its slaves. Open crawls come first. Ended ones are listed
 * while they are few, or with --all; a filter lists what it matches.
 */

import { checked, listed } from '../../../shared/cli.ts';
import type { MasterClient } from '../../../shared/client.ts';
import { type CrawlState, crawlStates } from '../../../shared/crawl.ts';
import { CommandError, ConfigError } from '../../../shared/errors.ts';
import type { CrawlStatus } from '../../../shared/protocol.ts';
import { requestSchemas } from '../../../shared/requests.ts';
import { crawlName } from '../crawl-options.ts';
import { folderFlags } from '../serve-options.ts';
import type { Answer, AskMaker, Command, Values } from './asking.ts';
import { type Folders, foldersOf } from './folders.ts';
import { ledgerAnswer } from './ledger.ts';
import { type Listed, statusText } from './status-text.ts';

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

async function crawlsOf(
  master: MasterClient,
  { crawl, states, all }: StatusAsk,
  isJson: boolean,
): Promise<Listed> {
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

async function paged(
  master: MasterClient,
  states: readonly CrawlState[],
): Promise<Omit<Listed, 'ended'>> {
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
