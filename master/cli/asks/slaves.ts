/** `slaves` and `drain`: the slaves of a master, and how one leaves. */
import type { MasterClient } from '../../../shared/client.ts';
import type { SlaveRow } from '../../../shared/protocol.ts';
import { visible } from '../../../shared/visible.ts';
import { duration, number } from '../../machine/progress.ts';
import type { Answer, AskMaker, Command, Values } from './asking.ts';
import { table } from './table.ts';

export type SlavesAsk =
  | { readonly verb: 'slaves' }
  | { readonly verb: 'drain'; readonly slave: string };

export function slavesCommands(
  { make }: AskMaker,
  take: (values: Values, ask: SlavesAsk) => void,
): Command[] {
  return [
    make('slaves', 'show the connected slaves: address, version, speed, errors, memory').action(
      (values: Values) => take(values, { verb: 'slaves' }),
    ),
    make('drain', 'let a slave finish what it has, and leave for good')
      .argument('<slave>', 'name of the slave, as `slaves` shows it; all slaves of that name leave')
      .action((slave: string, values: Values) => take(values, { verb: 'drain', slave })),
  ];
}

export async function askSlaves(master: MasterClient): Promise<Answer> {
  const slaves: SlaveRow[] = [];
  let after: number | undefined;
  do {
    const page = await master.request('slave.list', after === undefined ? {} : { after });
    slaves.push(...page.slaves);
    after = page.next;
  } while (after !== undefined);
  return { text: slavesText(slaves, Date.now()), answer: slaves };
}

export async function askDrain(master: MasterClient, slave: string): Promise<Answer> {
  const answer = await master.request('slave.drain', { slave });
  const lines = answer.slaves.map(
    ({ name, address, leases }) =>
      `slave ${name} (${address}) leaves when it has finished its ${number(leases)} leased URLs`,
  );
  return { text: lines.join('\n'), answer };
}

const heads = [
  'slave',
  'address',
  'version',
  'slots',
  'leased',
  'fetches/s',
  'errors',
  'memory',
  'joined',
];

function slavesText(slaves: readonly SlaveRow[], now: number): string {
  if (slaves.length === 0) return 'no slaves';
  const texts = table([heads, ...slaves.map((slave) => cellsOf(slave, now))]);
  const lines = [texts[0] ?? ''];
  for (const [i, { draining, takes, exec, proxies = [] }] of slaves.entries()) {
    const notes = [
      ...(takes === 'probes' ? ['robots.txt only'] : takes ? ['a program, pages only'] : []),
      ...(draining ? ['leaving'] : []),
    ];
    lines.push(`${texts[i + 1]}${notes.length > 0 ? `  (${notes.join(', ')})` : ''}`);
    if (exec !== undefined) lines.push(execText(exec));
    for (const { name, reason, forMs } of proxies) {
      const until = forMs > 0 ? `set aside for ${Math.ceil(forMs / 1000)} s` : 'will be retried';
      lines.push(`  proxy ${name} ${until}: ${reason}`);
    }
  }
  return lines.join('\n');
}

function execText({ slots, running, programs, scripts }: NonNullable<SlaveRow['exec']>): string {
  const kinds = [
    ...(programs.length > 0 ? [`programs ${programs.join(', ')}`] : []),
    ...(scripts.length > 0 ? [`scripts ${scripts.join(', ')}`] : []),
  ];
  return visible(`  commands ${running} of ${slots}: ${kinds.join('; ') || 'none at the moment'}`);
}

function cellsOf(slave: SlaveRow, now: number): string[] {
  const { name, address, version, slots, leases, fetchesPerS, errors, memoryBytes, since } = slave;
  return [
    name,
    address,
    version ?? '-',
    number(slots),
    number(leases),
    fetchesPerS.toFixed(fetchesPerS < 10 ? 1 : 0),
    number(errors),
    memoryBytes === undefined ? '-' : `${Math.round(memoryBytes / 2 ** 20)} MiB`,
    `${duration(Math.max(0, now - since))} ago`,
  ];
}
