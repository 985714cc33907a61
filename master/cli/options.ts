/** The master's command line, environment and config file, frozen into plain options. */
import type { Command } from 'commander';
import { makeCommand } from '../../shared/cli.ts';
import { ConfigError } from '../../shared/errors.ts';
import { version } from '../../shared/version.ts';
import { type AskOptions, subcommands } from './ask-options.ts';
import { withRangesBound } from './crawl-options.ts';
import { allServeFlags, folderFlags, type ServeOptions, serveOptions } from './serve-options.ts';

/** A subcommand on the data folder of a master that does not run. */
export type RepairOptions = {
  readonly kind: 'repair';
  readonly dataFolder: string;
  readonly outFolder: string;
  /** Go on though result files are missing. */
  readonly withoutResults: boolean;
};

/** Another program's command line: `selftest.js` reads it. */
export type SelftestOptions = { readonly kind: 'selftest' };

export type MasterOptions = ServeOptions | AskOptions | RepairOptions | SelftestOptions;

type Values = Record<string, unknown>;

/** @throws ConfigError, or commander's own error, each one line. */
export function parseMasterOptions(argv: readonly string[], env: NodeJS.ProcessEnv): MasterOptions {
  let options: MasterOptions | undefined;
  const program = makeCommand('node master.js', env)
    .description('Crawl master: holds the queues, hands out tasks, writes what was found.')
    .version(version)
    .argument('[seed...]', 'first URLs of the crawl; without any the master waits for `add`')
    .enablePositionalOptions();
  for (const option of allServeFlags()) program.addOption(option);
  program.action((seeds: string[]) => {
    options = serveOptions(program, seeds, env);
  });
  const take = (given: AskOptions | RepairOptions) => {
    options = given;
  };
  for (const command of subcommands(take, env)) program.addCommand(command);
  program.addCommand(repairCommand(take, env));
  program
    .command('selftest')
    .description('prove on this machine that nothing is lost, whatever is killed')
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .action(() => {
      options = { kind: 'selftest' };
    });
  program.hook('preAction', (_, action) => refuseMisplaced(program, action));
  program.parse(withRangesBound(argv));
  if (options === undefined) throw new ConfigError('nothing to do; see --help');
  return options;
}

/** What stands before a command is the master's, and would be lost. @throws ConfigError */
function refuseMisplaced(program: Command, action: Command): void {
  if (action === program) return;
  const [first] = program.options.filter(
    (option) => program.getOptionValueSource(option.attributeName()) === 'cli',
  );
  if (first === undefined) return;
  const name = action.name();
  throw new ConfigError(
    `${first.long} stands before "${name}"; what is meant for a command stands behind it: ` +
      `node master.js ${name} … ${first.long}`,
  );
}

function repairCommand(take: (options: RepairOptions) => void, env: NodeJS.ProcessEnv): Command {
  const command = makeCommand('repair', env).description(
    'make a new store of what can be read of a damaged one; the master must not run',
  );
  for (const option of folderFlags()) command.addOption(option);
  command.option(
    '--without-results',
    'go on though result files are missing; what they list may be fetched and written again',
    false,
  );
  return command.action((values: Values) =>
    take({
      kind: 'repair',
      dataFolder: String(values['data']),
      outFolder: String(values['out']),
      withoutResults: values['withoutResults'] === true,
    }),
  );
}
