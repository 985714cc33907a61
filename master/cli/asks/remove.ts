/** `remove`: ends a crawl and forgets it; with --files, deletes its result files, too. */
import type { MasterClient } from '../../../shared/client.ts';
import { crawlName } from '../crawl-options.ts';
import type { Answer, AskMaker, Command, Values } from './asking.ts';

export type RemoveAsk = {
  readonly verb: 'remove';
  readonly crawl: string;
  readonly files: boolean;
};

export function removeCommand(
  { make }: AskMaker,
  take: (values: Values, ask: RemoveAsk) => void,
): Command {
  return make('remove', 'remove a crawl and all that is known of it; its result files stay')
    .argument('<crawl>', 'name of the crawl, which is free again afterwards', crawlName)
    .option('--files', 'delete its result files, too', false)
    .action((crawl: string, values: Values) =>
      take(values, { verb: 'remove', crawl, files: values['files'] === true }),
    );
}

export async function askRemove(
  master: MasterClient,
  { crawl, files }: RemoveAsk,
): Promise<Answer> {
  const answer = await master.request('crawl.remove', { crawl, ...(files && { files }) });
  const { deleted = [], kept = [] } = answer;
  const lines = [`crawl ${crawl} is removed, and its name is free`];
  if (deleted.length > 0) lines.push(`deleted ${deleted.join(', ')}`);
  if (kept.length > 0) {
    lines.push(`not deleted, because they are not as the master left them: ${kept.join(', ')}`);
  }
  if (files && deleted.length + kept.length === 0) lines.push('it had no result files');
  return { text: lines.join('\n'), answer };
}
