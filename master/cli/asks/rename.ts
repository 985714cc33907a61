/** `rename`: gives a crawl and the folder of its results another name. */
import type { MasterClient } from '../../../shared/client.ts';
import { crawlName } from '../crawl-options.ts';
import type { Answer, AskMaker, Command, Values } from './asking.ts';

export type RenameAsk = { readonly verb: 'rename'; readonly crawl: string; readonly to: string };

export function renameCommand(
  { make }: AskMaker,
  take: (values: Values, ask: RenameAsk) => void,
): Command {
  return make('rename', 'rename a crawl and the folder of its results')
    .argument('<crawl>', 'name of the crawl', crawlName)
    .argument(
      '<new-name>',
      'its new name, which no crawl and no folder of results may have',
      crawlName,
    )
    .action((crawl: string, to: string, values: Values) =>
      take(values, { verb: 'rename', crawl, to }),
    );
}

export async function askRename(master: MasterClient, { crawl, to }: RenameAsk): Promise<Answer> {
  const answer = await master.request('crawl.rename', { crawl, to });
  return { text: `crawl ${crawl} is now ${to}`, answer };
}
