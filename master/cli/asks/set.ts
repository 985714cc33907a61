/** `set`: changes options of a crawl that is there. */
import type { MasterClient } from '../../../shared/client.ts';
import { ConfigError } from '../../../shared/errors.ts';
import type { SkipReason } from '../../../shared/protocol.ts';
import type { Replies } from '../../../shared/replies.ts';
import { number, waitText } from '../../machine/progress.ts';
import { crawlName, type SpecPart } from '../crawl-options.ts';
import { changeText, setFlags, setPart } from '../set-options.ts';
import {
  type Answer,
  type AskMaker,
  type Command,
  refuseOpposites,
  type Values,
} from './asking.ts';

export type SetAsk = {
  readonly verb: 'set';
  readonly crawl: string;
  /** null: the default of that field. */
  readonly spec: SpecPart;
};

type Reply = Replies['crawl.set'];

export function setCommand(
  { make }: AskMaker,
  take: (values: Values, ask: SetAsk) => void,
): Command {
  const command = make('set', 'change options of a crawl; a limit that is raised lets it go on')
    .usage('[options] <crawl>')
    .argument('<crawl>', 'name of the crawl', crawlName);
  for (const option of setFlags()) command.addOption(option);
  refuseOpposites(command);
  command.addHelpText(
    'after',
    '\nOptions that are not given stay as they are; ORB_ variables do not set them. A list takes the\n' +
      'place of the one before. --no-NAME sets an option back to its default: --no-max-pages,\n' +
      '--no-exclude, --no-proxy.',
  );
  return command.action((crawl: string, values: Values) => {
    const spec = setPart(command);
    if (spec === undefined) {
      throw new ConfigError(
        `say what is to change: set ${crawl} --max-pages 10000; see set --help for all options`,
      );
    }
    take(values, { verb: 'set', crawl, spec });
  });
}

export async function askSet(master: MasterClient, { crawl, spec }: SetAsk): Promise<Answer> {
  const answer = await master.request('crawl.set', { crawl, spec });
  return { text: textOf(crawl, answer), answer };
}

function textOf(crawl: string, answer: Reply): string {
  const { changed, waiting, reopened, narrower, full, state } = answer;
  if (changed.length === 0) return `crawl ${crawl} has these options already`;
  const lines = [`crawl ${crawl}: ${changed.map(changeText).join(', ')}`];
  const wait = waitText(waiting);
  if (reopened) lines.push(`it had ended, and goes on: ${wait}`);
  else if (full) lines.push('it has as many pages already, so it ends');
  else if (state === 'finished') {
    const why = waiting === 0 ? 'no URL waits' : `it has its pages, and ${wait}; raise --max-pages`;
    lines.push(`it stays finished: ${why}`);
  }
  if (narrower && waiting > 0) {
    lines.push(`${wait}: those that are out of scope now are left out when their turn comes`);
  }
  if (changed.some(({ field }) => field === 'outputs')) {
    lines.push(`an output that is new begins with the next record; see sinks ${crawl}`);
  }
  lines.push(...skippedText(crawl, answer));
  return lines.join('\n');
}

/** Links of pages that are done are read again by another crawl alone. */
function skippedText(crawl: string, { skipped = {} }: Reply): string[] {
  const counts = Object.entries(skipped) as [SkipReason, number][];
  if (counts.length === 0) return [];
  const listed = counts.map(([reason, count]) => `${number(count)} as ${reason}`);
  return [
    `links of pages that are done are not found again; skipped so far: ${listed.join(', ')}`,
    `to find those, too, crawl again: recrawl ${crawl} --as NEW --refetch`,
  ];
}
