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
  /** `files`: robots.txt only, and what else tells of a host. */
  readonly takes: 'all' | 'files';
  /** How long the first connection may take; afterwards the slave tries for ever. */
  readonly joinTimeoutMs: number;
  readonly jsonLogs: boolean;
  readonly logLevel: LogLevel;
};

/** @throws ConfigError, or commander's own error, each one line. */
export function parseSlaveOptions(argv: readonly string[], env: NodeJS.ProcessEnv): SlaveOptions {
  const program = makeCommand('node slave.js', env)
    .description('Crawl slave: fetches the pages that a master hands out, and reports them.')
    .version(version)
    .allowExcessArguments(false);
  for (const option of joinFlags('the master to work for')) program.addOption(option);
  program
    .addOption(
      flag('--slots <n>', 'fetches at once, of each process').default(16).argParser(whole(1, 1000)),
    )
    .addOption(
      flag('--processes <n>', 'processes with a connection each; one per core is right')
        .default(1)
        .argParser(whole(1, 256)),
    )
    .addOption(
      flag('--robots-only', 'fetch robots.txt for workers of other kinds, but no pages').default(
        false,
      ),
    )
    .addOption(flag('--name <name>', 'shown by the master; default: host name and process id'))
    .addOption(
      flag('--join-timeout <s>', 'seconds to wait for a master at the start')
        .default(10)
        .argParser(whole(0, 86_400)),
    )
    .addOption(flag('--json-logs', 'log lines as JSON').default(false))
    .addOption(
      flag('--log-level <level>', 'least important level that is logged')
        .choices(logLevels)
        .default('info'),
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
