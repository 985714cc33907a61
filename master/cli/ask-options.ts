/** The subcommands that send a request to a running master, and their flags. */
import type { Command } from 'commander';
import { joinFlags, joining, makeCommand, several, whole } from '../../shared/cli.ts';
import type { CrawlSpec } from '../../shared/crawl.ts';
import { ConfigError } from '../../shared/errors.ts';
import { type AskMaker, type Common, givenOptions, type Values } from './asks/asking.ts';
import { type ExecAsk, execCommands } from './asks/exec.ts';
import { type FailedAsk, failedCommand } from './asks/failed.ts';
import { type HostAsk, hostCommand } from './asks/host.ts';
import { type HostsAsk, hostsCommand } from './asks/hosts.ts';
import { type JobsAsk, jobsCommand } from './asks/jobs.ts';
import { type RemoveAsk, removeCommand } from './asks/remove.ts';
import { type RenameAsk, renameCommand } from './asks/rename.ts';
import { type RotateAsk, rotateCommand } from './asks/rotate.ts';
import { type SetAsk, setCommand } from './asks/set.ts';
import { type SinksAsk, sinksCommand } from './asks/sinks.ts';
import { type SlavesAsk, slavesCommands } from './asks/slaves.ts';
import { type StatusAsk, statusCommand } from './asks/status.ts';
import { type WhyAsk, whyCommand } from './asks/why.ts';
import { withCrawlFile } from './crawl-file.ts';
import {
  crawlName,
  makeSpec,
  type SpecPart,
  seedUrl,
  specFlags,
  specPart,
} from './crawl-options.ts';
import type { Recrawl } from './recrawl.ts';
import { refuseMastersOwn } from './seed-gathering.ts';
import type { SeedList } from './seed-list.ts';

/** A subcommand that sends a request to a running master. */
export type AskOptions = Common & {
  readonly ask:
    | { verb: 'backup'; name: string }
    | { verb: 'pause' | 'cancel'; crawl: string }
    | { verb: 'resume'; crawl: string; newFiles: boolean }
    | {
        verb: 'add';
        crawl: string;
        seeds: readonly string[];
        /** Files of further seeds. */
        seedFiles: readonly string[];
        /** Those of a crawl file. */
        list: SeedList;
        /** How its sources are asked. */
        asked: CrawlSpec;
        priority: number;
        /** Options of the new crawl; the master's own flags supply the rest. */
        spec: SpecPart | undefined;
        crawlFile: string | undefined;
      }
    | ({ verb: 'recrawl' } & Recrawl)
    | { verb: 'buried'; crawl: string; replay: boolean; url: string | undefined }
    | RemoveAsk
    | RenameAsk
    | SetAsk
    | RotateAsk
    | SinksAsk
    | FailedAsk
    | StatusAsk
    | HostsAsk
    | HostAsk
    | SlavesAsk
    | WhyAsk
    | ExecAsk
    | JobsAsk;
};

type Take = (values: Values, ask: AskOptions['ask']) => void;

/** In the order in which help lists them. */
export function subcommands(take: (ask: AskOptions) => void, env: NodeJS.ProcessEnv): Command[] {
  const maker: AskMaker = {
    make: (name, description) => {
      const command = makeCommand(name, env).description(description);
      for (const option of joinFlags('address of the running master')) command.addOption(option);
      return command.option('--json', 'print the answer as JSON', false);
    },
  };
  const asked: Take = (values, ask) =>
    take({ kind: 'ask', master: joining(values, env), json: values['json'] === true, ask });
  /** Of a command that may need no master: it is looked for when it is asked. */
  const askedLater: Take = (values, ask) =>
    take({
      kind: 'ask',
      json: values['json'] === true,
      ask,
      get master() {
        return joining(values, env);
      },
    });
  return [
    addCommand(maker, asked),
    recrawlCommand(maker, asked),
    statusCommand(maker, askedLater),
    stateCommand(
      maker,
      asked,
      'pause',
      'pause a crawl: hand out no more tasks until it is resumed',
    ),
    resumeCommand(maker, asked),
    stateCommand(maker, asked, 'cancel', 'end a crawl permanently; its result files stay'),
    backupCommand(maker, asked),
    buriedCommand(maker, asked),
    removeCommand(maker, asked),
    renameCommand(maker, asked),
    setCommand(maker, asked),
    rotateCommand(maker, asked),
    sinksCommand(maker, asked),
    hostsCommand(maker, asked),
    hostCommand(maker, asked),
    ...slavesCommands(maker, asked),
    failedCommand(maker, askedLater),
    whyCommand(maker, askedLater),
    ...execCommands(maker, asked),
    jobsCommand(maker, asked),
  ];
}

function addCommand({ make }: AskMaker, take: Take): Command {
  const add = make('add', 'add seeds to a crawl; create the crawl if it does not exist')
    .argument('[seed...]', 'URLs to start from, or a crawl file (YAML or JSON)')
    .option(
      '--seeds <file>',
      'file of seeds, one URL per line, or - for standard input (repeatable); default: none',
      several,
    )
    .option('--crawl <name>', 'name of the crawl', crawlName, 'default')
    .option(
      '--priority <n>',
      'priority of the seeds, from -1000 to 1000; links inherit it',
      whole(-1000, 1000),
      0,
    );
  for (const option of specFlags()) add.addOption(option);
  add.addHelpText('after', ungiven("the master's"));
  return add.action((args: string[]) => {
    const given = withCrawlFile(add, args, 'cli');
    refuseMastersOwn(given);
    const values: Values = add.opts();
    const seedFiles = (values['seeds'] as string[] | undefined) ?? [];
    if (given.seeds.length + given.list.parts.length + seedFiles.length === 0) {
      throw new ConfigError('no seed was given: add https://example.com/, or --seeds FILE');
    }
    take(values, {
      verb: 'add',
      crawl: String(values['crawl']),
      seeds: given.seeds.map((seed) => seedUrl(seed, false)),
      seedFiles,
      list: given.list,
      asked: makeSpec(values),
      priority: Number(values['priority']),
      spec: givenSpec(add),
      crawlFile: values['crawlFile'] as string | undefined,
    });
  });
}

function recrawlCommand({ make }: AskMaker, take: Take): Command {
  const again = make(
    'recrawl',
    'start a new crawl of the pages of an earlier one, fetching only pages that changed',
  )
    .argument(
      '<crawl>',
      'name of the earlier crawl; the new crawl takes over its options',
      crawlName,
    )
    .requiredOption('--as <name>', 'name of the new crawl', crawlName)
    .option(
      '--pages <file>',
      'pages.jsonl of the earlier crawl (repeatable); default: all in ./crawl-data/<crawl>',
      several,
    )
    .option(
      '--refetch',
      'fetch unchanged pages, too, to find links on them that the earlier crawl skipped',
      false,
    );
  for (const option of specFlags()) again.addOption(option);
  again.addHelpText('after', ungiven("the earlier crawl's"));
  return again.action((like: string, values: Values) =>
    take(values, {
      verb: 'recrawl',
      like,
      crawl: String(values['as']),
      files: values['pages'] as string[] | undefined,
      spec: givenSpec(again),
      refetch: values['refetch'] === true,
    }),
  );
}

/** A command that changes the state of a crawl, and has no options of its own. */
function stateCommand(
  { make }: AskMaker,
  take: Take,
  verb: 'pause' | 'cancel',
  description: string,
): Command {
  return make(verb, description)
    .argument('<crawl>', 'name of the crawl', crawlName)
    .action((crawl: string, values: Values) => take(values, { verb, crawl }));
}

function resumeCommand({ make }: AskMaker, take: Take): Command {
  return make('resume', 'resume a crawl that is paused or held')
    .argument('<crawl>', 'name of the crawl', crawlName)
    .option(
      '--new-files',
      'start new result files in place of those that are missing or changed',
      false,
    )
    .action((crawl: string, values: Values) =>
      take(values, { verb: 'resume', crawl, newFiles: values['newFiles'] === true }),
    );
}

function backupCommand({ make }: AskMaker, take: Take): Command {
  return make('backup', 'copy state and results to <data>/backups/<name> while the master runs')
    .argument('<name>', 'name of the backup', crawlName)
    .action((name: string, values: Values) => take(values, { verb: 'backup', name }));
}

function buriedCommand({ make }: AskMaker, take: Take): Command {
  return make('buried', 'list the URLs that were given up after failures, or retry them')
    .argument('<crawl>', 'name of the crawl', crawlName)
    .option('--replay', 'put the URLs back into the task queue', false)
    .option('--url <url>', 'list or retry only this URL')
    .action((crawl: string, values: Values) =>
      take(values, {
        verb: 'buried',
        crawl,
        replay: values['replay'] === true,
        url: values['url'] as string | undefined,
      }),
    );
}

function ungiven(whose: string): string {
  return `\nCrawl options that are not given are ${whose}; ORB_ variables do not set them.`;
}

/** The part of the spec that the operator gave as flags of this command. The environment of a
 *  container and the defaults are the master's. */
function givenSpec(command: Command): SpecPart | undefined {
  const values = givenOptions(command);
  makeSpec(values); // so that a bad spec is refused before the master is asked
  const part = specPart(values);
  return Object.keys(part).length > 0 ? part : undefined;
}
