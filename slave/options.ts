/** The slave's command line and environment, frozen into plain options. */
import { hostname } from 'node:os';
import { flag, type Joining, joinFlags, joining, makeCommand, whole } from '../shared/cli.ts';
import { ConfigError } from '../shared/errors.ts';
import { type LogLevel, logLevels } from '../shared/log.ts';
import { peerNameSchema } from '../shared/protocol.ts';
import { version } from '../shared/version.ts';

export type SlaveOptions = {
  readonly master: Joining;
  readonly slots: number;
  readonly processes: number;
  readonly name: string;
  /** `files`: only robots.txt and sitemaps. */
  readonly takes: 'all' | 'files';
  /** Time limit of the first connection; later the slave reconnects without a limit. */
  readonly joinTimeoutMs: number;
  readonly jsonLogs: boolean;
  readonly logLevel: LogLevel;
};

/** @throws ConfigError, or commander's own error, each one line. */
export function parseSlaveOptions(argv: readonly string[], env: NodeJS.ProcessEnv): SlaveOptions {
  const program = makeCommand('node slave.js', env)
    .description(
      'Orbweaver slave: fetches the pages that a master hands out and reports the results.',
    )
    .version(version)
    .allowExcessArguments(false);
  for (const option of joinFlags('address of the master')) program.addOption(option);
  program
    .addOption(
      flag('--slots <n>', 'maximum number of concurrent fetches per process')
        .default(16)
        .argParser(whole(1, 1000)),
    )
    .addOption(
      flag('--processes <n>', 'number of slave processes to start; use one per core')
        .default(1)
        .argParser(whole(1, 256)),
    )
    .addOption(
      flag(
        '--robots-only',
        'fetch only robots.txt and sitemaps, for a crawl whose pages other programs fetch',
      ).default(false),
    )
    .addOption(
      flag(
        '--name <name>',
        'name of the slave in status and logs; default: host name and process id',
      ),
    )
    .addOption(
      flag('--join-timeout <s>', 'seconds to wait for the first connection to the master')
        .default(10)
        .argParser(whole(0, 86_400)),
    )
    .addOption(flag('--json-logs', 'write log lines as JSON').default(false))
    .addOption(
      flag('--log-level <level>', 'lowest log level to print').choices(logLevels).default('info'),
    )
    .action(() => {});
  program.parse(argv as string[]);
  const values: Record<string, unknown> = program.opts();
  const name = String(values['name'] ?? `${hostname().slice(0, 48)}-${process.pid}`);
  if (!peerNameSchema.safeParse(name).success) {
    throw new ConfigError('--name must have 1 to 64 printable characters');
  }
  return {
    master: joining(values, env),
    slots: Number(values['slots']),
    processes: Number(values['processes']),
    name,
    takes: values['robotsOnly'] === true ? 'files' : 'all',
    joinTimeoutMs: Number(values['joinTimeout']) * 1000,
    jsonLogs: values['jsonLogs'] === true,
    logLevel: values['logLevel'] as LogLevel,
  };
}
