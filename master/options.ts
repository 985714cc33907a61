/** The master's command line, environment and config file, frozen into plain options. */
import { join } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import {
  address,
  environmentAuthkey,
  flag,
  type Joining,
  joinFlags,
  joining,
  listed,
  makeCommand,
  readPem,
  whole,
} from '../shared/cli.ts';
import { parseAddress } from '../shared/client.ts';
import { type CrawlSpec, crawlNameSchema } from '../shared/crawl.ts';
import { type Certificate, makeCertificate } from '../shared/encryption.ts';
import { ConfigError } from '../shared/errors.ts';
import type { AuthDigest } from '../shared/handshake.ts';
import { type LogLevel, logLevels } from '../shared/log.ts';
import { limits } from '../shared/protocol.ts';
import { canonicalUrl } from '../shared/url.ts';
import { version } from '../shared/version.ts';
import { applyConfigFile } from './config-file.ts';
import { makeSpec, type SpecPart, specFlags, specPart, withRangesBound } from './crawl-options.ts';
import { type GroupingKind, groupings } from './frontier/grouping.ts';
import type { Recrawl } from './recrawl.ts';
import type { Timing } from './services.ts';

export type ServeOptions = {
  readonly kind: 'serve';
  readonly seeds: readonly string[];
  readonly host: string;
  readonly port: number;
  readonly dataFolder: string;
  readonly outFolder: string;
  readonly crawl: string;
  readonly spec: CrawlSpec;
  /** The key itself, from ORB_AUTHKEY; undefined: the one in `authkeyFile`. */
  readonly authkey: Buffer | undefined;
  /** Made at the first start when it is missing. */
  readonly authkeyFile: string;
  /** Which answers to the challenge are taken. */
  readonly authDigest: AuthDigest;
  /** Nobody is served in plain. */
  readonly tls: boolean;
  /** Shown to whoever asks for one. */
  readonly certificate: Certificate | undefined;
  readonly connections: number;
  readonly connectionsPerAddress: number;
  /** Declared queues with the items that each may have; Infinity: any number. */
  readonly queues: ReadonlyMap<string, number>;
  /** Answers to a Python program's put wait for the commit. */
  readonly durablePut: boolean;
  /** Which hosts share a delay and a concurrency. */
  readonly grouping: GroupingKind;
  readonly exitWhenDone: boolean;
  /** With less free on the disk, everything waits. */
  readonly diskReserveBytes: number;
  readonly recentUrls: number;
  readonly memoryBytes: number;
  readonly timing: Timing;
  readonly statusEveryMs: number;
  readonly jsonLogs: boolean;
  readonly logLevel: LogLevel;
};

/** A subcommand: asks a running master. */
export type AskOptions = {
  readonly kind: 'ask';
  readonly master: Joining;
  readonly json: boolean;
  readonly ask:
    | { verb: 'status' }
    | { verb: 'backup'; name: string }
    | { verb: 'pause' | 'resume' | 'cancel'; crawl: string }
    | {
        verb: 'add';
        crawl: string;
        seeds: readonly string[];
        priority: number;
        /** Options of a crawl that is made by this; the master's own flags fill the rest. */
        spec: SpecPart | undefined;
      }
    | ({ verb: 'recrawl' } & Recrawl)
    | { verb: 'buried'; crawl: string; replay: boolean; url: string | undefined };
};

/** A subcommand on the data folder of a master that does not run. */
export type RepairOptions = {
  readonly kind: 'repair';
  readonly dataFolder: string;
  readonly outFolder: string;
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
  for (const option of serveFlags()) program.addOption(option);
  for (const option of timingFlags()) program.addOption(option);
  for (const option of specFlags()) program.addOption(option);
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

function serveFlags(): Option[] {
  return [
    flag('--listen <[host]:port>', 'where slaves connect; no host: every address')
      .default(':6666')
      .argParser(address),
    ...folderFlags(),
    flag('--crawl <name>', 'name of the crawl of the seeds')
      .default('default')
      .argParser(crawlName),
    new Option(
      '--authkey-file <file>',
      'shared secret, made when missing (or ORB_AUTHKEY); default: <data>/authkey',
    ).env('ORB_AUTHKEY_FILE'),
    flag('--auth-digest <which>', 'any; sha256 refuses the MD5 of Python up to 3.11')
      .choices(['any', 'sha256'])
      .default('any'),
    flag('--tls', 'refuse peers that do not encrypt (stock Python does not)').default(false),
    flag('--tls-cert <file>', 'certificate (PEM) for peers with --tls-ca; default: none'),
    flag('--tls-key <file>', 'its private key (PEM); default: none'),
    flag('--connections <n>', 'connections at once').default(10_000).argParser(whole(1, 100_000)),
    flag('--connections-per-address <n>', 'of them with the key, from one address (IPv6: a /64)')
      .default(2_000)
      .argParser(whole(1, 100_000)),
    flag(
      '--queues <name[:max],…>',
      'plain queues, at most so many items in each; default: none',
    ).argParser(queues),
    flag('--durable-put', 'answer a put of a Python program after its commit').default(false),
    flag('--politeness-group <kind>', 'what shares delay and concurrency: host, domain, or ip')
      .choices(groupings)
      .default('host'),
    flag('--config <file>', 'YAML or JSON file of options by their long names'),
    flag('--exit-when-done', 'leave with 0 when every crawl is finished').default(false),
    flag('--disk-reserve <mb>', 'free space on the disk, in MB, below which everything waits')
      .default(256)
      .argParser(whole(1, 1_000_000)),
    flag('--memory-limit <MB>', "what the master may take of memory, without the kernel's cache")
      .default(1024)
      .argParser(whole(256, 1 << 20)),
    flag('--recent-urls <n>', 'known URLs kept in memory for speed, 16 bytes each')
      .default(1 << 18)
      .argParser(whole(1024, 1 << 28)),
    flag('--status-every <s>', 'seconds between status lines when there is no terminal')
      .default(10)
      .argParser(whole(1, 86_400)),
    flag('--json-logs', 'log lines as JSON').default(false),
    flag('--log-level <level>', 'least important level that is logged')
      .choices(logLevels)
      .default('info'),
  ];
}

function folderFlags(): Option[] {
  return [
    flag('--data <folder>', 'state: store, authkey, lock').default('./orb-data'),
    flag('--out <folder>', 'results: <out>/<crawl>/pages.jsonl and img_src.txt').default(
      './crawl-data',
    ),
  ];
}

function repairCommand(take: (options: RepairOptions) => void, env: NodeJS.ProcessEnv): Command {
  const command = makeCommand('repair', env).description(
    'make a new store of what can be read of a damaged one; the master must not run',
  );
  for (const option of folderFlags()) command.addOption(option);
  return command.action((values: Values) =>
    take({
      kind: 'repair',
      dataFolder: String(values['data']),
      outFolder: String(values['out']),
    }),
  );
}

/** For tests and odd networks: the patience that `hello` announces, in seconds. [B-4] */
function timingFlags(): Option[] {
  return [
    flag('--lease <s>', 'a lease ends this long after it was given or extended')
      .default(limits.leaseMs / 1000)
      .argParser(seconds),
    flag('--heartbeat <s>', 'a side that has sent nothing for this long sends ping')
      .default(limits.heartbeatMs / 1000)
      .argParser(seconds),
    flag('--silence <s>', 'a side that has heard nothing for this long closes')
      .default(limits.silenceMs / 1000)
      .argParser(seconds),
    flag('--handshake <s>', 'from accept to the end of hello')
      .default(limits.handshakeMs / 1000)
      .argParser(seconds),
  ].map((option) => option.hideHelp());
}

function serveOptions(program: Command, seeds: string[], env: NodeJS.ProcessEnv): ServeOptions {
  const config = program.opts()['config'];
  if (typeof config === 'string') applyConfigFile(program, config);
  const values: Values = program.opts();
  // What the environment says comes before the config file.
  const isKeyFile =
    values['authkeyFile'] !== undefined &&
    (program.getOptionValueSource('authkeyFile') !== 'config' || env['ORB_AUTHKEY'] === undefined);
  const { host, port } = parseAddress(String(values['listen']));
  return {
    kind: 'serve',
    seeds: seeds.map((seed, i) => seedUrl(seed, i === 0)),
    host,
    port,
    dataFolder: String(values['data']),
    outFolder: String(values['out']),
    crawl: String(values['crawl']),
    spec: makeSpec(values),
    authkey: isKeyFile ? undefined : environmentAuthkey(env),
    authkeyFile: String(values['authkeyFile'] ?? join(String(values['data']), 'authkey')),
    authDigest: values['authDigest'] as AuthDigest,
    tls: values['tls'] === true,
    certificate: certificate(values),
    connections: Number(values['connections']),
    connectionsPerAddress: Number(values['connectionsPerAddress']),
    queues: (values['queues'] ?? new Map()) as ReadonlyMap<string, number>,
    durablePut: values['durablePut'] === true,
    grouping: values['politenessGroup'] as GroupingKind,
    exitWhenDone: values['exitWhenDone'] === true,
    diskReserveBytes: Number(values['diskReserve']) * 1e6,
    recentUrls: Number(values['recentUrls']),
    memoryBytes: Number(values['memoryLimit']) * 2 ** 20,
    timing: timing(values),
    statusEveryMs: Number(values['statusEvery']) * 1000,
    jsonLogs: values['jsonLogs'] === true,
    logLevel: values['logLevel'] as LogLevel,
  };
}

/** @throws ConfigError */
function certificate(values: Values): Certificate | undefined {
  const { tlsCert, tlsKey } = values as { tlsCert?: string; tlsKey?: string };
  if (tlsCert === undefined && tlsKey === undefined) return undefined;
  if (tlsCert === undefined || tlsKey === undefined) {
    throw new ConfigError('--tls-cert and --tls-key go together: the certificate and its key');
  }
  return makeCertificate(readPem(tlsCert), readPem(tlsKey));
}

/** @throws ConfigError limits that would close every session. */
function timing(values: Values): Timing {
  const ms = (name: string) => Math.round(Number(values[name]) * 1000);
  const heartbeatMs = ms('heartbeat');
  const silenceMs = ms('silence');
  if (silenceMs < 2 * heartbeatMs) {
    throw new ConfigError('--silence must be at least twice --heartbeat: a ping may be late');
  }
  return { leaseMs: ms('lease'), heartbeatMs, silenceMs, handshakeMs: ms('handshake') };
}

function subcommands(take: (ask: AskOptions) => void, env: NodeJS.ProcessEnv): Command[] {
  const make = (name: string, description: string) => {
    const command = makeCommand(name, env).description(description);
    for (const option of joinFlags('the running master')) command.addOption(option);
    return command.option('--json', 'print JSON', false);
  };
  const common = (values: Values) => ({
    kind: 'ask' as const,
    master: joining(values, env),
    json: values['json'] === true,
  });
  const simple = (verb: 'pause' | 'resume' | 'cancel', description: string) =>
    make(verb, description)
      .argument('<crawl>', 'its name', crawlName)
      .action((crawl: string, values: Values) => take({ ...common(values), ask: { verb, crawl } }));
  const add = make('add', 'add seeds to a crawl; makes it if there is none of that name')
    .argument('<seed...>', 'URLs')
    .option('--crawl <name>', 'which crawl', crawlName, 'default')
    .option('--priority <n>', 'from -1000 to 1000; links inherit it', priority, 0);
  for (const option of specFlags()) add.addOption(option);
  add.addHelpText('after', ungiven("the master's"));
  add.action((seeds: string[], values: Values) => {
    const ask = {
      verb: 'add' as const,
      crawl: String(values['crawl']),
      seeds: seeds.map((seed) => seedUrl(seed, false)),
      priority: Number(values['priority']),
      spec: givenSpec(add),
    };
    take({ ...common(values), ask });
  });
  const again = make('recrawl', 'crawl again what an earlier crawl fetched, if it changed')
    .argument('<crawl>', 'name of the earlier crawl, whose options it has', crawlName)
    .requiredOption('--as <name>', 'name of the new crawl', crawlName)
    .option('--pages <file>', 'what it fetched; default: ./crawl-data/<crawl>/pages.jsonl');
  for (const option of specFlags()) again.addOption(option);
  again.addHelpText('after', ungiven("the earlier crawl's"));
  again.action((like: string, values: Values) => {
    const file = String(values['pages'] ?? join('crawl-data', like, 'pages.jsonl'));
    const crawl = String(values['as']);
    take({
      ...common(values),
      ask: { verb: 'recrawl', like, crawl, file, spec: givenSpec(again) },
    });
  });
  return [
    add,
    again,
    make('status', 'show crawls and connected slaves').action((values: Values) =>
      take({ ...common(values), ask: { verb: 'status' } }),
    ),
    simple('pause', 'stop handing out tasks of a crawl'),
    simple('resume', 'go on with a paused crawl'),
    simple('cancel', 'end a crawl for good; its files stay'),
    make('backup', 'copy state and results, while the master works, to <data>/backups/<name>')
      .argument('<name>', 'of the backup', crawlName)
      .action((name: string, values: Values) =>
        take({ ...common(values), ask: { verb: 'backup', name } }),
      ),
    make('buried', 'list the URLs that were given up, or fetch them again')
      .argument('<crawl>', 'its name', crawlName)
      .option('--replay', 'put them back into the task queue', false)
      .option('--url <url>', 'only this one')
      .action((crawl: string, values: Values) =>
        take({
          ...common(values),
          ask: {
            verb: 'buried',
            crawl,
            replay: values['replay'] === true,
            url: values['url'] as string | undefined,
          },
        }),
      ),
  ];
}

function ungiven(whose: string): string {
  return `\nOptions of the crawl that are not given here are ${whose},\nwhatever is in the environment.`;
}

/** What the operator gave of the spec with the command itself: the environment of a container and
 *  the defaults are the master's. */
function givenSpec(command: Command): SpecPart | undefined {
  const given = Object.entries(command.opts() as Values).filter(
    ([name]) => command.getOptionValueSource(name) === 'cli',
  );
  const values = Object.fromEntries(given);
  makeSpec(values); // refused here rather than by the master
  const part = specPart(values);
  return Object.keys(part).length > 0 ? part : undefined;
}

/** `isFirst`: it stands where a command could. */
function seedUrl(text: string, isFirst: boolean): string {
  const url = canonicalUrl(text);
  if (url === undefined && isFirst && /^[a-z-]+$/i.test(text)) {
    throw new ConfigError(
      `"${text}" is neither a URL nor a command; see --help, and write URLs in full: https://example.com/`,
    );
  }
  if (url === undefined) {
    const guess = canonicalUrl(`https://${text}`) && !text.includes('://') ? text : 'example.com/';
    throw new ConfigError(
      `the seed "${text}" is not an http or https URL; write it in full: https://${guess}`,
    );
  }
  return url.href;
}

function crawlName(text: string): string {
  if (!crawlNameSchema.safeParse(text).success) {
    throw new InvalidArgumentError(
      'It must be 1 to 64 letters, digits, dots, dashes or underscores.',
    );
  }
  return text;
}

function queues(text: string): Map<string, number> {
  const entries = listed(text).map((part): [string, number] => {
    const [, name = '', max] = /^([A-Za-z_]\w{0,63})(?::([1-9]\d{0,9}))?$/.exec(part) ?? [];
    if (name === '') {
      throw new InvalidArgumentError('It must be names with or without a maximum: a,b:1000.');
    }
    return [name, max === undefined ? Number.POSITIVE_INFINITY : Number(max)];
  });
  return new Map(entries);
}

function seconds(text: string): number {
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= 0.1 && value <= 86_400)) {
    throw new InvalidArgumentError('It must be a number of seconds from 0.1 to 86400.');
  }
  return value;
}

function priority(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || Math.abs(value) > 1000) {
    throw new InvalidArgumentError('It must be a whole number from -1000 to 1000.');
  }
  return value;
}
