/** The master's command line, environment and config file, frozen into plain options. */
import type { Command } from 'commander';
import { masterCall, slaveCall, slaveFiles } from '../../shared/calls.ts';
import { makeCommand } from '../../shared/cli.ts';
import { ConfigError } from '../../shared/errors.ts';
import { version } from '../../shared/version.ts';
import { type AskOptions, subcommands } from './ask-options.ts';
import { type DiffOptions, diffCommand } from './asks/diff.ts';
import { type ExtractOptions, extractCommand } from './asks/extract.ts';
import { type GalleryOptions, galleryCommand } from './asks/gallery.ts';
import { withRangesBound } from './crawl-options.ts';
import { allServeFlags, folderFlags, type ServeOptions, serveOptions } from './serve-options.ts';
import { type TryOptions, tryCommands } from './try.ts';

/** The subcommand that repairs the data folder while no master runs. */
type RepairOptions = {
  readonly kind: 'repair';
  readonly dataFolder: string;
  readonly outFolder: string;
  /** Repair even if result files are missing. */
  readonly withoutResults: boolean;
};

/** The subcommand that compacts the store while no master runs. */
type CompactOptions = {
  readonly kind: 'compact';
  readonly dataFolder: string;
  readonly outFolder: string;
};

/** Another program's command line: `selftest.js` reads it. */
type SelftestOptions = { readonly kind: 'selftest' };

type MasterOptions =
  | ServeOptions
  | AskOptions
  | RepairOptions
  | CompactOptions
  | TryOptions
  | ExtractOptions
  | DiffOptions
  | GalleryOptions
  | SelftestOptions;

type Values = Record<string, unknown>;

const examples = `Examples:
  Crawl a site from this machine, at most 3 links deep:
    ${masterCall} https://site/ --slaves 2 --max-depth 3 --exit-when-done

  Crawl it from several machines: start the master on one, and a slave on each.
  Copy ${slaveFiles} to them:
    ${masterCall} https://site/ --max-depth 3 --exit-when-done
    ${slaveCall} --master MASTER-HOST:6666 --authkey-file authkey

  Press Ctrl-C to stop; run the same command again to go on.
  List the failed URLs, also when the master has ended:
    ${masterCall} failed default`;

/** @throws ConfigError, or commander's own error, each one line. */
export function parseMasterOptions(argv: readonly string[], env: NodeJS.ProcessEnv): MasterOptions {
  let options: MasterOptions | undefined;
  const program = makeCommand(masterCall, env, examples)
    .description(
      'Orbweaver master: keeps the queues, hands out tasks to slaves and writes the results.',
    )
    .version(version)
    .argument(
      '[seed...]',
      'URLs to start from, or a crawl file (YAML or JSON); without any, the master waits for `add`',
    )
    .enablePositionalOptions();
  for (const option of allServeFlags()) program.addOption(option);
  program.action((seeds: string[]) => {
    options = serveOptions(program, seeds, env);
  });
  const take: Take = (given) => {
    options = given;
  };
  // Hundreds of flags, which a crawl need not make before it starts.
  if (argv.slice(2).some((text) => mayBeCommand.test(text))) addCommands(program, take, env);
  program.hook('preAction', (_, action) => refuseMisplaced(program, action));
  program.parse(withRangesBound(argv));
  if (options === undefined) throw new ConfigError('no command was given; see --help');
  return options;
}

type Take = (options: Exclude<MasterOptions, ServeOptions>) => void;

/** Does it look like the name of a command, or ask for the names? Seeds and files have a dot, a
 *  colon or a slash. */
const mayBeCommand = /^[a-z]+$|^--?h/;

function addCommands(program: Command, take: Take, env: NodeJS.ProcessEnv): void {
  for (const command of subcommands(take, env)) program.addCommand(command);
  for (const command of tryCommands(take, env)) program.addCommand(command);
  program.addCommand(extractCommand(take, env));
  program.addCommand(diffCommand(take, env));
  program.addCommand(galleryCommand(take, env));
  program.addCommand(repairCommand(take, env));
  program.addCommand(compactCommand(take, env));
  program
    .command('selftest')
    .description('test on this machine that no page is lost when processes are killed')
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .action(() => take({ kind: 'selftest' }));
}

/** Options before a command belong to the master, and would be ignored. @throws ConfigError */
function refuseMisplaced(program: Command, action: Command): void {
  if (action === program) return;
  const [first] = program.options.filter(
    (option) => program.getOptionValueSource(option.attributeName()) === 'cli',
  );
  if (first === undefined) return;
  const name = action.name();
  throw new ConfigError(
    `${first.long} stands before "${name}"; put the options of a command behind it: ` +
      `${masterCall} ${name} … ${first.long}`,
  );
}

function repairCommand(take: (options: RepairOptions) => void, env: NodeJS.ProcessEnv): Command {
  const command = makeCommand('repair', env).description(
    'rebuild a damaged store from all that can still be read; stop the master first',
  );
  for (const option of folderFlags()) command.addOption(option);
  command.option(
    '--without-results',
    'repair even if result files are missing; their pages may be fetched and written again',
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

function compactCommand(take: (options: CompactOptions) => void, env: NodeJS.ProcessEnv): Command {
  const command = makeCommand('compact', env).description(
    'give back the disk space that the store no longer uses; stop the master first',
  );
  for (const option of folderFlags()) command.addOption(option);
  return command.action((values: Values) =>
    take({
      kind: 'compact',
      dataFolder: String(values['data']),
      outFolder: String(values['out']),
    }),
  );
}
