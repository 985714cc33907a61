/** `diff CRAWL1 CRAWL2`: pages that came, went and changed, of the result files alone. */
import { join } from 'node:path';
import { makeCommand } from '../../../shared/cli.ts';
import { visible } from '../../../shared/visible.ts';
import { type Change, changes, countsText, noChanges } from '../../inspect/page-diff.ts';
import { crawlName } from '../crawl-options.ts';
import { folderFlags } from '../serve-options.ts';
import type { Command, Values } from './asking.ts';
import { Listing } from './listing.ts';

/** A command that needs no master. */
export type DiffOptions = {
  readonly kind: 'diff';
  readonly before: string;
  readonly after: string;
  readonly outFolder: string;
  readonly json: boolean;
};

export function diffCommand(take: (options: DiffOptions) => void, env: NodeJS.ProcessEnv): Command {
  const command = makeCommand('diff', env)
    .description('list the pages that came, went and changed between two crawls')
    .argument('<crawl1>', 'name of the earlier crawl', crawlName)
    .argument('<crawl2>', 'name of the later crawl', crawlName)
    .option('--json', 'print the answer as JSON', false);
  for (const option of folderFlags()) if (option.long === '--out') command.addOption(option);
  return command.action((before: string, after: string, values: Values) =>
    take({
      kind: 'diff',
      before,
      after,
      outFolder: String(values['out']),
      json: values['json'] === true,
    }),
  );
}

/** Prints the list, and how many. @throws ConfigError the results cannot be read */
export async function diff({ before, after, outFolder, json }: DiffOptions): Promise<void> {
  const counts = { ...noChanges };
  const listing = new Listing(json);
  for await (const one of changes(join(outFolder, before), join(outFolder, after), counts)) {
    listing.add([{ text: textOf(one), answer: one }]);
    if (!listing.isWanted) return;
  }
  if (json) listing.end('');
  const { unknown } = counts;
  if (!json) console.log(countsText(counts));
  if (unknown === 0) return;
  console.error(
    `the content of ${unknown} more is not known: crawl with --digest, or with --archive warc`,
  );
}

function textOf({ change, url, why }: Change): string {
  return [change, url, why]
    .map((cell) => visible(cell ?? ''))
    .join('\t')
    .trimEnd();
}
