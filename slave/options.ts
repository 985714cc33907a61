/** The slave's command line and environment, frozen into plain options. */
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import * as z from 'zod';
import { fieldFlags, joinFlags, joining, makeCommand } from '../shared/cli.ts';
import { ConfigError } from '../shared/errors.ts';
import { switched, whole } from '../shared/flags.ts';
import { logFields } from '../shared/log.ts';
import { peerNameSchema } from '../shared/protocol.ts';
import { version } from '../shared/version.ts';

const slaveSchema = z.object({
  slots: whole(1, 1000)
    .default(16)
    .describe('--slots <n>  maximum number of concurrent fetches per process'),
  processes: whole(1, 256)
    .default(1)
    .describe('--processes <n>  number of slave processes to start; use one per core'),
  robotsOnly: switched().describe(
    '--robots-only  fetch only robots.txt and sitemaps, for a crawl whose pages other programs fetch',
  ),
  page: z
    .string()
    .optional()
    .describe('--page <file>  module whose default export is called with each page; default: none'),
  name: z
    .string()
    .optional()
    .describe(
      '--name <name>  name of the slave in status and logs; default: host name and process id',
    ),
  /** Of the first connection; later the slave reconnects without a limit. */
  joinTimeout: whole(0, 86_400)
    .default(10)
    .describe('--join-timeout <s>  seconds to wait for the first connection to the master'),
  ...logFields,
});

const examples = `Examples:
  In the folder of a master on this machine:
    node slave.js

  On another machine, with slave.js and the master's orb-data/authkey copied to it, on 4 cores:
    node slave.js --master MASTER-HOST:6666 --authkey-file authkey --processes 4`;

export type SlaveOptions = ReturnType<typeof parseSlaveOptions>;

/** @throws ConfigError, or commander's own error, each one line. */
export function parseSlaveOptions(argv: readonly string[], env: NodeJS.ProcessEnv) {
  const program = makeCommand('node slave.js', env, examples)
    .description(
      'Orbweaver slave: fetches the pages that a master hands out and reports the results.',
    )
    .version(version)
    .allowExcessArguments(false)
    .action(() => {});
  const options = [...joinFlags('address of the master'), ...fieldFlags(slaveSchema.shape)];
  for (const option of options) program.addOption(option);
  program.parse(argv as string[]);
  const { robotsOnly, joinTimeout, ...values } = slaveSchema.parse(program.opts());
  const name = values.name ?? `${hostname().slice(0, 48)}-${process.pid}`;
  if (!peerNameSchema.safeParse(name).success) {
    throw new ConfigError('--name must have 1 to 64 printable characters');
  }
  return {
    ...values,
    master: joining(program.opts(), env),
    name,
    /** Absolute: its process may have another folder. */
    page: values.page === undefined ? undefined : resolve(values.page),
    /** `probes`: only robots.txt and sitemaps. */
    takes: robotsOnly ? ('probes' as const) : ('all' as const),
    joinTimeoutMs: joinTimeout * 1000,
  };
}
