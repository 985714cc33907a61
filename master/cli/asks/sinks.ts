/** `sinks`: where the results of a crawl go, and what waits for each; gives an output up. */
import { amount } from '../../../shared/amount.ts';
import type { MasterClient } from '../../../shared/client.ts';
import { visible } from '../../../shared/visible.ts';
import { duration } from '../../machine/progress.ts';
import { crawlName } from '../crawl-options.ts';
import type { Answer, AskMaker, Command, Values } from './asking.ts';
import { table } from './table.ts';

export type SinksAsk = {
  readonly verb: 'sinks';
  readonly crawl: string;
  readonly drop: string | undefined;
};

export function sinksCommand(
  { make }: AskMaker,
  take: (values: Values, ask: SinksAsk) => void,
): Command {
  return make('sinks', 'list the outputs of a crawl and what waits for each, or give one up')
    .argument('<crawl>', 'name of the crawl', crawlName)
    .option('--drop <name>', 'output to give up, with the results that wait for it')
    .action((crawl: string, values: Values) => {
      const { drop } = values;
      take(values, { verb: 'sinks', crawl, drop: drop === undefined ? undefined : String(drop) });
    });
}

/** For how long it could not be written. An older master does not say it. */
export function forText(ms: number | undefined): string {
  return ms === undefined ? '' : `, for ${duration(ms)} so far`;
}

export async function askSinks(master: MasterClient, { crawl, drop }: SinksAsk): Promise<Answer> {
  const answer = await master.request('crawl.sinks', { crawl, ...(drop && { drop }) });
  const rows = answer.sinks.map(({ name, state, records, bytes, target, reason, ms }) => [
    name,
    state,
    records === 0 ? 'nothing waits' : `${amount(records, 'record')} behind`,
    records === 0 ? '' : amount(bytes, 'byte'),
    visible(reason === undefined ? target : `${reason}${forText(ms)}`),
  ]);
  const lines = table([['sink', 'state', 'lag', '', 'target'], ...rows]);
  if (drop !== undefined) lines.unshift(`output ${drop} of crawl ${crawl} is given up`);
  return { text: lines.join('\n'), answer };
}
