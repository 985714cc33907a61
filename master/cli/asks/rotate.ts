/** `rotate`: closes the result files of a crawl under dated names, and begins new ones. */
import { amount } from '../../../shared/amount.ts';
import type { MasterClient } from '../../../shared/client.ts';
import { crawlName } from '../crawl-options.ts';
import type { Answer, AskMaker, Command, Values } from './asking.ts';

export type RotateAsk = { readonly verb: 'rotate'; readonly crawl: string };

export function rotateCommand(
  { make }: AskMaker,
  take: (values: Values, ask: RotateAsk) => void,
): Command {
  return make('rotate', 'close the result files of a crawl under dated names, and start new ones')
    .argument('<crawl>', 'name of the crawl', crawlName)
    .action((crawl: string, values: Values) => take(values, { verb: 'rotate', crawl }));
}

export async function askRotate(master: MasterClient, { crawl }: RotateAsk): Promise<Answer> {
  const answer = await master.request('crawl.rotate', { crawl });
  const lines = answer.files.map(({ file, as, bytes, lines: count }) => {
    const had = count === undefined ? '' : `${amount(count, 'line')}, `;
    return `${file} is now ${as} (${had}${amount(bytes, 'byte')})`;
  });
  const none = `nothing to rotate: the result files of crawl ${crawl} are empty`;
  return { text: lines.length === 0 ? none : lines.join('\n'), answer };
}
