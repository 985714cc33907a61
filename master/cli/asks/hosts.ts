/** `hosts`: what the master knows of the hosts that have tasks, and what holds them back. */
import { whole } from '../../../shared/cli.ts';
import type { MasterClient } from '../../../shared/client.ts';
import { type HostRow, type HostSort, hostSorts } from '../../../shared/protocol.ts';
import { duration, number } from '../../machine/progress.ts';
import { crawlName } from '../crawl-options.ts';
import type { AskMaker, Command, Values } from './asking.ts';
import { Listing } from './listing.ts';
import { table } from './table.ts';

export type HostsAsk = {
  readonly verb: 'hosts';
  readonly crawl: string | undefined;
  readonly sort: HostSort;
  /** Of people's lists; undefined: no limit. */
  readonly limit: number | undefined;
};

const pageLimit = 1_000;
const shownDefault = 50;
const heads = [
  'host',
  'waiting',
  'under way',
  'delay',
  'from',
  'pace',
  'breaker',
  'robots.txt',
  'last answer',
  'failed',
];

export function hostsCommand(
  { make }: AskMaker,
  take: (values: Values, ask: HostsAsk) => void,
): Command {
  const command = make('hosts', 'show the hosts of a crawl, or of all: what waits there, and why')
    .argument('[crawl]', 'name of the crawl; default: all', crawlName)
    .option(
      '--limit <n>',
      `number of hosts to show; default: ${shownDefault}, with --json all`,
      whole(1, 1_000_000_000),
    );
  command.addOption(
    command
      .createOption('--sort <field>', 'order, the largest first; slow: what waits times the delay')
      .choices([...hostSorts])
      .default('waiting'),
  );
  return command.action((crawl: string | undefined, values: Values) =>
    take(values, {
      verb: 'hosts',
      crawl,
      sort: values['sort'] as HostSort,
      limit: values['limit'] as number | undefined,
    }),
  );
}

/** Prints the list, page by page. */
export async function askHosts(
  master: MasterClient,
  { crawl, sort, limit }: HostsAsk,
  isJson: boolean,
): Promise<void> {
  const countMax = limit ?? (isJson ? Number.POSITIVE_INFINITY : shownDefault);
  const listing = new Listing(isJson);
  const widths: number[] = [];
  let after: Uint8Array | undefined;
  do {
    const page = await master.request('host.list', {
      ...(crawl !== undefined && { crawl }),
      sort,
      limit: Math.min(pageLimit, countMax - listing.count),
      ...(after !== undefined && { after }),
    });
    const isFirst = listing.count === 0;
    const cells = page.hosts.map((row) => cellsOf(row, Date.now()));
    const texts = table(isFirst ? [heads, ...cells] : cells, widths);
    const title = isFirst && page.hosts.length > 0 ? `${texts.shift()}\n` : '';
    listing.add(
      page.hosts.map((answer, i) => ({ text: `${i === 0 ? title : ''}${texts[i]}`, answer })),
    );
    after = page.next;
  } while (after !== undefined && listing.count < countMax && listing.isWanted);
  listing.end('no hosts: nothing waits');
  if (after !== undefined && !isJson) console.log(`and more; list them with --limit`);
}

function cellsOf(row: HostRow, now: number): string[] {
  const { host, waiting, atLeast, underWay, delayMs, delayFrom, failed } = row;
  return [
    host,
    `${number(waiting)}${atLeast ? '+' : ''}`,
    number(underWay),
    delayMs === undefined ? '-' : `${number(delayMs)} ms`,
    delayFrom ?? '-',
    paceOf(row, now),
    breakerOf(row, now),
    robotsOf(row, now),
    lastOf(row, now),
    failed === undefined ? '-' : number(failed),
  ];
}

function paceOf({ blocked, parked, heldUntil, refusals }: HostRow, now: number): string {
  const parts = [
    ...(blocked ? ['blocked'] : []),
    ...(parked ? ['parked'] : []),
    ...(heldUntil === undefined ? [] : [`held for ${inTime(heldUntil, now)}`]),
    ...(refusals === undefined ? [] : [`refused ${refusals}x`]),
  ];
  return parts.join(', ') || 'ok';
}

function breakerOf({ breaker }: HostRow, now: number): string {
  if (breaker === undefined) return 'ok';
  const { state, until, reason } = breaker;
  const time = until === undefined ? '' : ` for ${inTime(until, now)}`;
  return `${state}${time}${reason === undefined ? '' : ` (${reason})`}`;
}

function robotsOf({ robots, parked }: HostRow, now: number): string {
  if (robots === undefined) return parked ? '-' : 'ignored';
  const { state, until, reason } = robots;
  const time = until === undefined ? '' : ` for ${inTime(until, now)}`;
  return `${state}${time}${reason === undefined ? '' : ` (${reason})`}`;
}

function lastOf({ last }: HostRow, now: number): string {
  if (last === undefined) return '-';
  const what = 'status' in last ? last.status : last.error;
  return `${what}, ${duration(Math.max(0, now - last.at))} ago`;
}

function inTime(until: number, now: number): string {
  return duration(Math.max(0, until - now));
}
